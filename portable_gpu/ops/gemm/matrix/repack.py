"""The first pass that repacks operands which matrix units cannot read as stored, or only slowly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import BF16, Element
from portable_gpu.ops.gemm import operands
from portable_gpu.ops.gemm.matrix.format import MatrixFormat, Side, strides
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target


@dataclass(frozen=True)
class Repack:
    """A first pass that repacks an operand.

    Attributes:
        spec: The kernel.
        side: The operand.
        across: Whether k runs across the lines that are written, not along them.
        source: The operand as it is stored; its rows become lines.
        rows, k: The number of its rows, and their length.
        batch: The extents of the batch axes; ``()`` if all products have the same operand.
        elem: The element type that is written.
        parts, pitch: The number of pieces of a written line, and the elements of each, a multiple
            of the elements of a line of local memory.
    """

    spec: Specialization
    side: Side
    across: bool
    source: Operand
    rows: int
    k: int
    batch: tuple[int, ...]
    elem: Element
    parts: int
    pitch: int

    @classmethod
    def of(
        cls,
        problem: GemmProblem,
        side: Side,
        extent: int,
        form: MatrixFormat,
        across: bool,
        target: Target,
    ) -> Repack:
        """Return the first pass of one operand of a problem."""
        operand = problem.a if side == "a" else problem.b
        row, col = strides(operand, side)
        rows, k = extent, problem.k
        if across:
            row, col, rows, k = col, row, k, rows
        batch = problem.batch if any(operand.batch) else ()
        source = replace(operand, row=row, col=col, batch=operand.batch if batch else ())
        copied = (
            form.kind != "tf32" and form.copied_across(operand, side, extent, problem.k) == across
        )
        spec = _spec(source, form.elem, form.parts, form.kind == "tf32", copied, target)
        pitch = -(-k // form.depth) * form.depth
        return cls(
            spec=spec, side=side, across=across, source=source, rows=rows, k=k, batch=batch,
            elem=form.elem, parts=form.parts, pitch=pitch,
        )  # fmt: skip

    @classmethod
    def into_pieces(
        cls,
        source: Operand,
        rows: int,
        k: int,
        batch: tuple[int, ...],
        parts: int,
        pitch: int,
        target: Target,
    ) -> Repack:
        """The pass that stores float32 rows in pieces of bfloat16, for readers of pieces.

        Args:
            source: The rows, which become lines.
            rows, k: The number of rows, and their length.
            batch: Extents of the batch axes.
            parts: Pieces of a value.
            pitch: Elements of each piece of a line, at least ``k``; those after ``k`` become zero.
            target: The device.
        """
        spec = _spec(source, BF16, parts, False, False, target)
        return cls(
            spec=spec, side="a", across=False, source=source, rows=rows, k=k, batch=batch,
            elem=BF16, parts=parts, pitch=pitch,
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes that are written."""
        return self.elements * self.elem.itemsize

    @property
    def moved(self) -> int:
        """Bytes that are read and written."""
        return prod(self.batch) * self.rows * self.k * self.source.elem.itemsize + self.nbytes

    @property
    def elements(self) -> int:
        """The number of elements that are written."""
        return prod(self.batch) * self.rows * self.parts * self.pitch

    def result(self, batch: tuple[int, ...]) -> Operand:
        """Return the repacked operand, in a problem with these batch axes."""
        line = self.parts * self.pitch
        steps = tuple(self.rows * line * prod(batch[d + 1 :]) for d in range(len(batch)))
        row, col = (line, 1) if (self.side == "a") != self.across else (1, line)
        return Operand(self.elem, row, col, steps if self.batch else (0,) * len(batch), False, 16)

    def plan(self, engine: Engine) -> OneLaunch:
        """Return the plan of the pass.  Operands: the source, and what is written."""
        columns = -(-self.pitch // 64)
        constants = {"rows": self.rows, "k": self.k, "pitch": self.pitch, "columns": columns}
        constants |= operands.strides({"from": self.source}) | operands.extents(self.batch)
        grid = (256 * columns * -(-self.rows // 64), prod(self.batch))
        return OneLaunch(
            engine, self.spec, "repack", constants, ["from", "to"], grid, (256, 1),
            nbytes=self.moved,
        )  # fmt: skip


def _spec(
    source: Operand, elem: Element, parts: int, rounded: bool, copied: bool, target: Target
) -> Specialization:
    """The kernel; the arguments are those of the template."""
    rank = len(source.batch)
    parameters = [
        *scalars("long", "rows", "k", "pitch"),
        *scalars("int", "columns"),
        *operands.matrix_parameters("from", source.elem, rank),
        buffer("bits_t", "to", writes=True),
        *scalars("long", "to_offset"),
        *operands.batch_parameters(rank),
    ]
    return specialize(
        "gemm/repack",
        target,
        {"repack": parameters},
        operand=source,
        elem=elem,
        pieces=parts,
        rounded=rounded,
        copied=copied,
        rows_adjacent=abs(source.row) < abs(source.col),
    )
