"""The first pass of operands that matrix units cannot take as they lie, or not fast."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.gemm import operands
from portable_gpu.ops.gemm.matrix.format import MatrixFormat, Side, strides
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.program import Launch
from portable_gpu.targets import Target


@dataclass(frozen=True)
class Repack:
    """The first pass of an operand that the matrix unit cannot take as it lies.

    Attributes:
        spec: The kernel.
        side: Which operand.
        across: Whether k runs across the lines that are written, not along them.
        source: Where from; its rows become lines.
        rows, k: Its rows, and their length.
        batch: Extents of the batch axes, ``()`` where the operand is the same for all products.
        elem: What is written.
        parts, pitch: Parts of a written line, and elements of each: whole lines of the unit's.
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
        """The first pass of one side of a problem."""
        operand = problem.a if side == "a" else problem.b
        row, col = strides(operand, side)
        rows, k = extent, problem.k
        if across:
            row, col, rows, k = col, row, k, rows
        batch = problem.batch if any(operand.batch) else ()
        source = replace(operand, row=row, col=col, batch=operand.batch if batch else ())
        rank = len(source.batch)
        parameters = [
            *scalars("long", "rows", "k", "pitch"),
            *scalars("int", "columns"),
            *operands.matrix_parameters("from", source.elem, rank),
            buffer("bits_t", "to", writes=True),
            *scalars("long", "to_offset"),
            *operands.batch_parameters(rank),
        ]
        spec = specialize(
            "gemm/repack",
            target,
            {"repack": parameters},
            operand=source,
            elem=form.elem,
            parts=form.parts,
            rounded=form.kind == "tf32",
            copied=form.kind != "tf32"
            and form.copied_across(operand, side, extent, problem.k) == across,
            rows_adjacent=abs(row) < abs(col),
        )
        pitch = -(-k // form.depth) * form.depth
        return cls(spec, side, across, source, rows, k, batch, form.elem, form.parts, pitch)

    @property
    def elements(self) -> int:
        """Elements that are written."""
        return prod(self.batch) * self.rows * self.parts * self.pitch

    def result(self, batch: tuple[int, ...]) -> Operand:
        """The operand that comes of it, in a problem with these batch axes."""
        line = self.parts * self.pitch
        steps = tuple(self.rows * line * prod(batch[d + 1 :]) for d in range(len(batch)))
        row, col = (line, 1) if (self.side == "a") != self.across else (1, line)
        return Operand(self.elem, row, col, steps if self.batch else (0,) * len(batch), False, 16)

    def launch(self, engine: Engine) -> Launch:
        """The launch, which leaves source, offset, destination and its offset open."""
        columns = -(-self.pitch // 64)
        constants = {"rows": self.rows, "k": self.k, "pitch": self.pitch, "columns": columns}
        constants |= operands.strides({"from": self.source}) | operands.extents(self.batch)
        return engine.programs.launch(
            self.spec,
            "repack",
            constants,
            ["from", "to"],
            ["from_offset", "to_offset"],
            (256 * columns * -(-self.rows // 64), prod(self.batch)),
            (256, 1),
        )
