"""Products on matrix units: operands repacked where they must be, then tiles of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any, Literal

import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.gemm.choice import GemmChoice, split_length
from portable_gpu.ops.gemm.matrix_format import Format, Side, format_of, strides
from portable_gpu.ops.gemm.matrix_policy import LINE, MatrixPolicy
from portable_gpu.ops.gemm.operands import (
    BUFFER,
    INT,
    LONG,
    batch_parameters,
    parameters,
    scalar_type,
)
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.split_k import SplitSpace
from portable_gpu.runtime.engine import Engine, QueueState
from portable_gpu.runtime.program import Launch
from portable_gpu.targets import Target


@dataclass(frozen=True)
class Lines:
    """How a tile of an operand comes to local memory (``_lines`` or ``_chunks`` of ``cl_kernels``).

    Attributes:
        name: ``a`` or ``b``.
        elem: The element in memory.
        extent: Rows of A (columns of B) of the tile.
        across: Whether k runs across the lines, not along them.
        copiers: Work-items that copy it.
        offset_type: C type that offsets inside a tile fit.
    """

    name: Side
    elem: Element
    extent: int
    across: bool
    copiers: int
    offset_type: Literal["int", "long"]

    @property
    def type(self) -> str:
        """C type of an element."""
        return f"{self.elem.name}_t"

    @property
    def width(self) -> int:
        """Elements of one copy."""
        return 16 // self.elem.itemsize

    @property
    def depth(self) -> int:
        """Steps of k in a tile."""
        return LINE // self.elem.itemsize

    @property
    def bytes(self) -> int:
        """Local memory of a tile."""
        return LINE * self.extent

    @property
    def copies(self) -> int:
        """Copies of a work-item."""
        return self.extent // self.step

    @property
    def step(self) -> int:
        """Lines from one copy of a work-item to its next."""
        return self.copiers // 8

    @property
    def block(self) -> int:
        """Rows of A (columns of B) of one load: adjacent ones, where k runs across the lines."""
        return gcd(self.width, self.copies) if self.across else 1

    @property
    def steps(self) -> int:
        """Loads, one for each step of k, that the chunks of a block are put together from."""
        return self.width if self.across else 1

    @property
    def s_stride(self) -> str:
        """The stride from one row of A (column of B) on, by its kernel argument's suffix."""
        return "row" if self.name == "a" else "col"

    @property
    def k_stride(self) -> str:
        """The stride from one step of k on."""
        return "col" if self.name == "a" else "row"


class MatrixGemm:
    """A product bound to shapes and strides, ready to launch.

    Attributes:
        problem: What is computed (perhaps the transpose of what was asked for).
        choice: By which path and policy, and why.
    """

    def __init__(self, engine: Engine, problem: GemmProblem, choice: GemmChoice) -> None:
        """Build the kernels of a choice.

        Raises:
            PolicyError: The choice's policy does not fit the device.
            BuildError: The driver refused a kernel.
        """
        policy = choice.policy
        assert isinstance(policy, MatrixPolicy)
        policy.check(engine.target, problem.compute)
        if choice.transposed:
            problem = problem.transpose()
        self.problem, self.choice = problem, choice
        plan = arrange(problem, policy, engine.target, choice.splits)
        self._repacks = {side: repack.launch(engine) for side, repack in plan.repacks.items()}
        self._starts, self._repacked_bytes = plan.starts, plan.nbytes
        p, splits = plan.problem, choice.splits
        tiles_m, tiles_n = -(-p.m // policy.tile_m), -(-p.n // policy.tile_n)
        units = p.batch_size * splits * tiles_m * tiles_n
        length = split_length(p.k, splits, plan.depth)
        head: list[Any] = [(LONG, value) for value in (p.m, p.n, p.k, length, 0)]
        head += [(INT, value) for value in (tiles_m, tiles_n, splits, units)]
        out = [*parameters(p.c), *(x for extra in p.extras for x in parameters(extra))]
        out += [scalar_type(p), scalar_type(p)]
        split: list[Any] = []
        self._space: SplitSpace | None = None
        if splits > 1:
            area = policy.tile_m * policy.tile_n
            self._space = SplitSpace.of(units // splits, splits, area, p.compute)
            split = [BUFFER, BUFFER]
        groups = min(units, policy.groups(engine.target)) if splits == 1 else units
        self._product = engine.programs.launch(
            plan.spec,
            "gemm",
            [*head, *split, *parameters(p.a), *parameters(p.b), *out, *batch_parameters(p)],
            (groups * policy.group_size,),
            (policy.group_size,),
        )

    def enqueue(
        self,
        alpha: Any,
        beta: Any,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event:
        """Enqueue the product; see :meth:`SimtGemm.enqueue`."""
        a, b, *out = buffers
        at_a, at_b, *at_out = offsets
        if self.choice.transposed:
            a, b, at_a, at_b = b, a, at_b, at_a
        queue, sources = state.queue, {"a": (a, at_a), "b": (b, at_b)}
        if self._repacks:
            workspace = state.workspace(self._repacked_bytes)
            events = []
            for side, repack in self._repacks.items():
                buffer, offset = sources[side]
                start = self._starts[side]
                events.append(repack(queue, (buffer, workspace), (offset, start), wait_for))
                sources[side] = workspace, start
            wait_for = None if state.in_order else [*(wait_for or ()), *events]
        (a, at_a), (b, at_b) = sources["a"], sources["b"]
        buffers, scalars = (a, b, *out), (at_a, at_b, *at_out, alpha, beta)
        if self._space is not None:
            buffers = (*self._space.allocate(state), *buffers)
        return self._product(queue, buffers, scalars, wait_for)


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
        form: Format,
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
        spec = specialize(
            "gemm/repack",
            target,
            operand=source,
            elem=form.elem,
            parts=form.parts,
            rounded=form.kind == "tf32",
            copied=form.kind != "tf32" and form.across(operand, side, extent, problem.k) == across,
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
        head: list[Any] = [(LONG, value) for value in (self.rows, self.k, self.pitch)]
        head += [(INT, columns), *parameters(self.source), BUFFER, LONG]
        return engine.programs.launch(
            self.spec,
            "repack",
            [*head, *((LONG, extent) for extent in self.batch)],
            (256 * columns * -(-self.rows // 64), prod(self.batch)),
            (256, 1),
        )


@dataclass(frozen=True)
class Arrangement:
    """A problem as the matrix unit gets it: each operand as it lies, or repacked.

    Attributes:
        problem: Over the operands that the unit reads.
        depth: Elements of k of a step.
        repacks: The first passes, by operand.
        starts: Where in the workspace they write, in elements.
        nbytes: Bytes of that workspace.
        spec: The kernel of the product.
    """

    problem: GemmProblem
    depth: int
    repacks: dict[Side, Repack]
    starts: dict[Side, int]
    nbytes: int
    spec: Specialization


def arrange(
    problem: GemmProblem, policy: MatrixPolicy, target: Target, splits: int = 1
) -> Arrangement:
    """Arrange a problem that :func:`format_of` has a format for."""
    form = format_of(problem, target)
    assert form is not None
    repacks: dict[Side, Repack] = {}
    starts: dict[Side, int] = {}
    elements = 0
    operands = {"a": problem.a, "b": problem.b}
    lines = {}
    sides: tuple[tuple[Side, int, int], ...] = (
        ("a", problem.m, policy.tile_m),
        ("b", problem.n, policy.tile_n),
    )
    for side, extent, tile in sides:
        across, repacked = form.layout(problem, side)
        if repacked:
            repack = repacks[side] = Repack.of(problem, side, extent, form, across, target)
            operands[side] = repack.result(problem.batch)
            starts[side] = elements
            elements += repack.elements
        far = max(abs(x) for x in strides(operands[side], side)) * max(tile, form.depth)
        lines[side] = Lines(
            side, form.elem, tile, bool(across), policy.copiers, "int" if far < 1 << 30 else "long"
        )
    arranged = replace(problem, a=operands["a"], b=operands["b"])
    types = {side: f"const {operands[side].elem.name}_t" for side in ("a", "b")}
    types["c"] = f"{problem.c.elem.name}_t"
    types |= {f"e{i}": f"const {e.elem.name}_t" for i, e in enumerate(problem.extras)}
    spec = specialize(
        f"gemm/{form.kernel}",
        target,
        problem=arranged,
        policy=policy,
        a=lines["a"],
        b=lines["b"],
        kind=form.kind,
        instruction=form.instruction,
        parts=form.parts,
        products=form.products,
        flush=policy.flush,
        split=splits > 1,
        tail=problem.k % form.depth != 0,
        pair=_pairs(problem),
        wide=_stores_wide(problem),
        types=types,
    )
    nbytes = elements * form.elem.itemsize
    return Arrangement(arranged, form.depth, repacks, starts, nbytes, spec)


def _pairs(problem: GemmProblem) -> str:
    """Where C's elements may be stored two at a time: along its ``rows``, ``columns``, or not."""
    c = problem.c
    if c.aligned_bytes % (2 * c.elem.itemsize) or c.elem.complex:
        return ""
    if c.col == 1 and problem.n % 2 == 0:
        return "rows"
    double = c.elem.real == "double"  # whose kernel has two rows of a column side by side
    return "columns" if double and c.row == 1 and problem.m % 2 == 0 else ""


def _stores_wide(problem: GemmProblem) -> bool:
    """Whether C's elements of 16 or 32 bits may be stored in 16 bytes, and no array is read."""
    c = problem.c
    fits = c.col == 1 and c.aligned_bytes == 16 and problem.n * c.elem.itemsize % 16 == 0
    return fits and c.elem.itemsize <= 4 and not problem.reads_c and not problem.extras


def specializations_of(
    problem: GemmProblem, choice: GemmChoice, target: Target
) -> list[Specialization]:
    """The texts of a choice, for a problem as it is asked for."""
    assert isinstance(choice.policy, MatrixPolicy)
    problem = problem.transpose() if choice.transposed else problem
    plan = arrange(problem, choice.policy, target, choice.splits)
    return [*(repack.spec for repack in plan.repacks.values()), plan.spec]
