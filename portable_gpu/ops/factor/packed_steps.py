"""Factorisations, solves and products on packed triangles, by dense sub-plans and products.

Cholesky is right-looking: the columns of a panel, down to the last row, are unpacked into a dense
workspace, factorised and solved there, packed again, and the trailing triangle is updated::

    +--+.                    columns of the panel                  -> dense, factorised
    |##+--+.                 trailing update:
    |##|  :  .                  rectangles of block rows           by products, in place
    |##+--+--+.                 diagonal blocks                    products by a workspace

The tiles of one block row are too few for a device with many compute units.  There several block
rows are multiplied into a dense slab, which is added to them.

A solve uses the rectangles in place, one block row after another, and the diagonal blocks from a
dense copy.  With many columns on a device with many compute units, panels are unpacked instead, so
that products are larger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from portable_gpu.dtypes import Element
from portable_gpu.ops.factor.packed import (
    BLOCK,
    PackProblem,
    WithoutBeta,
    aligned,
    block_rows,
    dense,
    rectangle,
)
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.factor.recursive import SubPlans, cholesky_steps, solve_steps
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.runtime.plan import Part, Plan, Step, Temporary
from portable_gpu.targets import Target

Place = int | Temporary | Part


@dataclass(frozen=True)
class PackedPartition:
    """The partition of the work on packed triangles.

    Attributes:
        panel: Columns of a panel; a multiple of :data:`BLOCK`.
        slab: Rows that are multiplied at once into a dense workspace; 0: one block row at a time,
            in place.
        panels: Whether solves unpack panels.
    """

    panel: int
    slab: int
    panels: bool

    @classmethod
    def of(cls, n: int, m: int, target: Target) -> PackedPartition:
        """Return panels of one block on a CPU, else of an eighth of n, at most four blocks.

        On a CPU, solves within wider panels take longer (docs/experiments/linalg.md).  On a GPU,
        the rows of a slab are those of a panel, at least two blocks; neither was tuned on a GPU.

        Args:
            n: Rows of the triangles.
            m: Columns of the other operand of a solve.
            target: The device.
        """
        if target.is_cpu:
            return cls(BLOCK, 0, False)
        panel = max(BLOCK, min(4 * BLOCK, n // 8 // BLOCK * BLOCK))
        return cls(panel, max(2 * BLOCK, panel), m > 32)


@dataclass(frozen=True)
class PackedSubPlans:
    """The factory of sub-plans for packed triangles, each of which is made once.

    Attributes:
        parts: The factory of dense sub-plans.
        pack: Plans copies between packed and dense storage.
        zeros: Plans the check of diagonals for zeros.
    """

    parts: SubPlans
    pack: Callable[[PackProblem], Plan]
    zeros: Callable[[int, tuple[int, ...], Operand], Plan]


@dataclass(frozen=True)
class PackedProblem:
    """A stack of packed triangles, and the precision of products.

    Attributes:
        n: Rows of a triangle, at least 1.
        batch: Extents of the batch axes.
        packed: The triangles.
        precision, aligned: See :class:`CholeskyProblem`.
    """

    n: int
    batch: tuple[int, ...]
    packed: Operand
    precision: str = "ieee"
    aligned: bool = True

    @property
    def elem(self) -> Element:
        """The element type."""
        return self.packed.elem

    def product(
        self, m: int, n: int, k: int, a: Operand, b: Operand, c: Operand, reads: bool = True
    ) -> GemmProblem:
        """Return a product with the batch axes of the triangles."""
        return GemmProblem(
            m=m, n=n, k=k, batch=self.batch, a=a, b=b, c=c, compute=self.elem, reads_c=reads,
            precision=self.precision, aligned=self.aligned,
        )  # fmt: skip

    def temporary(self, name: str, rows: int, columns: int) -> tuple[Temporary, Operand]:
        """Return a temporary with a dense matrix by rows for each distinct triangle."""
        distinct = self.distinct
        size = self.elem.itemsize
        matrices = dense(self.elem, (rows, columns), distinct)
        steps = [
            0 if broadcast else step
            for broadcast, step in zip(self.broadcast, matrices.batch, strict=True)
        ]
        nbytes = prod(distinct) * rows * columns * size
        return Temporary(name, nbytes, size), replace(matrices, batch=tuple(steps))

    @property
    def broadcast(self) -> list[bool]:
        """Whether the triangles broadcast along each batch axis."""
        return [step == 0 for step in self.packed.batch]

    @property
    def distinct(self) -> tuple[int, ...]:
        """The extents of the batch axes, 1 for those along which triangles broadcast."""
        pairs = zip(self.batch, self.broadcast, strict=True)
        return tuple(1 if is_broadcast else extent for extent, is_broadcast in pairs)

    def move(
        self,
        operation: str,
        other: Operand,
        rows: tuple[int, int],
        cols: tuple[int, int],
        diagonal: bool = False,
    ) -> PackProblem:
        """Return a copy between triangles and dense matrices; arguments: :class:`PackProblem`."""
        return PackProblem(
            n=self.n, batch=self.distinct, packed=self.packed, dense=other, rows=rows, cols=cols,
            operation=operation, diagonal=diagonal,
        )  # fmt: skip


@dataclass(frozen=True)
class RankKOperand:
    """The matrix X of a rank-k update ``X X^T`` or ``X X^H``.

    Attributes:
        operand: X; its rows correspond to those of the triangle from some row on.
        place: The index of the operand, or a temporary.
        start: The offset of X there, in elements.
        k: Its columns.
        conj: Whether it is multiplied by its conjugate transpose.
    """

    operand: Operand
    place: int | Temporary
    start: int
    k: int
    conj: bool

    def rows(self, first: int) -> Part:
        """Return the operand from a row on."""
        return Part(self.place, self.start + first * self.operand.row)

    @property
    def conjugate_transpose(self) -> Operand:
        """The second factor of the product: its (conjugate) transpose."""
        conj = self.operand.elem.complex and self.operand.conj != self.conj
        return replace(transposed(self.operand), conj=conj)


def cholesky_packed(
    p: PackedProblem, parts: PackedSubPlans, partition: PackedPartition
) -> list[Step]:
    """The steps of factorisations in place; operands: the triangles and the report."""
    steps: list[Step] = []
    n = p.n
    width = partition.panel if n > partition.panel else -(-n // 4) * 4
    panel, x = p.temporary("panel", n, width)
    for c0 in range(0, n, partition.panel):
        c1 = min(c0 + partition.panel, n)
        w = c1 - c0
        rows, cols = (c0, n), (c0, c1)
        steps.append(Step(parts.pack(p.move("unpack", x, rows, cols)), (0, panel)))
        block = CholeskyProblem(
            n=w, batch=p.batch, a=x, l=x, in_place=True, precision=p.precision, aligned=p.aligned
        )
        steps.extend(placed(cholesky_steps(block, parts.parts, c0), (panel, 1)))
        if c1 < n:
            solve = SolveProblem(
                n=w, m=n - c1, batch=p.batch, l=conjugate(x), b=transposed(x),
                precision=p.precision, aligned=p.aligned,
            )  # fmt: skip
            steps.extend(placed(solve_steps(solve, parts.parts), (panel, Part(panel, w * x.row))))
            below = RankKOperand(x, panel, w * x.row, w, conj=True)
            steps.extend(product_steps(p, below, c1, 0, parts, partition, (-1.0, 1.0)))
        steps.append(Step(parts.pack(p.move("pack", x, rows, cols)), (panel, 0)))
    return steps


def product_steps(
    p: PackedProblem,
    x: RankKOperand,
    first: int,
    target: int,
    parts: PackedSubPlans,
    partition: PackedPartition,
    scalars: tuple[float, float] | None,
    reads: bool = True,
) -> list[Step]:
    """The steps of ``C = alpha X X^H + beta C`` for the triangle from row ``first`` on.

    Args:
        p: C's whole triangle.
        x: X, whose first row is that of row ``first``.
        first: A multiple of :data:`BLOCK`.
        target: The index of C among the operands.
        parts, partition: The factory of sub-plans, and the partition.
        scalars: alpha and beta; ``None``: those of the call.
        reads: Whether beta is not 0.
    """
    takes, given = scalars is None, scalars or ()
    add = "add" if reads else "pack"
    steps: list[Step] = []

    def multiply(problem: GemmProblem, *places: Place) -> None:
        plan = parts.parts.product(problem)
        if not problem.reads_c:
            plan = WithoutBeta(plan)
        steps.append(Step(plan, places, takes_scalars=takes, scalars=given))

    def put(problem: PackProblem, place: Place) -> None:
        steps.append(Step(parts.pack(problem), (place, target), takes, given))

    if partition.slab:
        slab, d = p.temporary("slab", min(partition.slab, p.n - first), -(-p.n // 4) * 4)
        for s0 in range(first, p.n, partition.slab):
            s1 = min(s0 + partition.slab, p.n)
            m, left_columns = s1 - s0, s0 - first
            a = x.rows(left_columns)
            if left_columns:
                product = p.product(
                    m, left_columns, x.k, x.operand, x.conjugate_transpose, d, False
                )
                multiply(product, a, x.rows(0), slab)
            square = p.product(m, m, x.k, x.operand, x.conjugate_transpose, d, False)
            multiply(replace(square, triangle="lower"), a, a, Part(slab, left_columns))
            put(p.move(add, d, (s0, s1), (first, s1)), slab)
        return steps
    for r0, r1 in block_rows(p.n, first):
        if r0 > first:
            c, start = rectangle(p.packed, r0, first)
            product = p.product(
                r1 - r0, r0 - first, x.k, x.operand, x.conjugate_transpose, c, reads
            )
            multiply(product, x.rows(r0 - first), x.rows(0), Part(target, start))
    blocks, d = p.temporary("blocks", p.n - first, BLOCK)
    whole = (p.n - first) // BLOCK
    if whole:
        block = p.product(BLOCK, BLOCK, x.k, x.operand, x.conjugate_transpose, d, False)
        multiply(_stacked(block, whole), x.rows(0), x.rows(0), blocks)
    rest = p.n - first - whole * BLOCK
    if rest:
        block = p.product(rest, rest, x.k, x.operand, x.conjugate_transpose, d, False)
        a = x.rows(whole * BLOCK)
        multiply(block, a, a, Part(blocks, whole * BLOCK * BLOCK))
    put(p.move(add, d, (first, p.n), (0, BLOCK), diagonal=True), blocks)
    return steps


def _stacked(block: GemmProblem, count: int) -> GemmProblem:
    """Return the products of diagonal blocks, which are stacked in the dense workspace."""
    if count == 1:
        return block

    def stack(operand: Operand, step: int) -> Operand:
        start = operand.aligned_bytes
        return aligned(replace(operand, batch=(*operand.batch, BLOCK * step)), start)

    a, b, c = stack(block.a, block.a.row), stack(block.b, block.b.col), stack(block.c, block.c.row)
    return replace(block, batch=(*block.batch, count), a=a, b=b, c=c)


@dataclass(frozen=True)
class PackedSolve:
    """``X = op(L)^-1 B`` in place of B.

    Attributes:
        triangle: L, with the batch axes of B.
        m: Columns of B, at least 1.
        b: B.
        transposed, conj: Whether ``op`` transposes, and conjugates.
        unit: Whether the diagonal of L is assumed to be ones.
    """

    triangle: PackedProblem
    m: int
    b: Operand
    transposed: bool = False
    conj: bool = False
    unit: bool = False

    @property
    def flop(self) -> int:
        """Floating-point operations."""
        t = self.triangle
        return prod(t.batch) * t.n * t.n * self.m * (4 if t.elem.complex else 1)


def zeros_step(p: PackedProblem, parts: PackedSubPlans, report: int) -> Step:
    """The step that checks the diagonals for zeros; no triangle may broadcast."""
    return Step(parts.zeros(p.n, p.batch, p.packed), (0, report))


def solve_packed(p: PackedSolve, parts: PackedSubPlans, partition: PackedPartition) -> list[Step]:
    """The steps of a solve; operands: the triangles and B."""
    by_panels = partition.panels and p.triangle.n > BLOCK
    return _by_panels(p, parts, partition) if by_panels else _by_block_rows(p, parts)


def _by_block_rows(p: PackedSolve, parts: PackedSubPlans) -> list[Step]:
    t, b = p.triangle, p.b
    blocks, x = t.temporary("blocks", t.n, BLOCK)
    unpack = parts.pack(t.move("unpack", x, (0, t.n), (0, BLOCK), diagonal=True))
    steps = [Step(unpack, (0, blocks))]
    rows = block_rows(t.n)
    for r0, r1 in reversed(rows) if p.transposed else rows:
        h = r1 - r0
        here = Part(1, r0 * b.row)
        solve = placed(_dense_solve(p, h, x, parts), (Part(blocks, r0 * BLOCK), here))
        if p.transposed:
            steps.extend(solve)
        if r0:
            l, start = rectangle(t.packed, r0)  # noqa: E741
            l = _op(p, l)  # noqa: E741
            m, k, solved, updated = (r0, h, here, 1) if p.transposed else (h, r0, 1, here)
            product = parts.parts.product(t.product(m, p.m, k, l, b, b))
            steps.append(Step(product, (Part(0, start), solved, updated), scalars=(-1.0, 1.0)))
        if not p.transposed:
            steps.extend(solve)
    return steps


def _by_panels(p: PackedSolve, parts: PackedSubPlans, partition: PackedPartition) -> list[Step]:
    t, b = p.triangle, p.b
    panel, x = t.temporary("panel", t.n, partition.panel)
    steps: list[Step] = []
    columns = [(c, min(c + partition.panel, t.n)) for c in range(0, t.n, partition.panel)]
    for c0, c1 in reversed(columns) if p.transposed else columns:
        w, rest = c1 - c0, t.n - c1
        here, below = Part(1, c0 * b.row), Part(1, c1 * b.row)
        steps.append(Step(parts.pack(t.move("unpack", x, (c0, t.n), (c0, c1))), (0, panel)))
        solve = placed(_dense_solve(p, w, x, parts), (panel, here))
        if not p.transposed:
            steps.extend(solve)
        if rest:
            if p.transposed:
                m, k, solved, updated = w, rest, below, here
            else:
                m, k, solved, updated = rest, w, here, below
            product = parts.parts.product(t.product(m, p.m, k, _op(p, x), b, b))
            places = (Part(panel, w * x.row), solved, updated)
            steps.append(Step(product, places, scalars=(-1.0, 1.0)))
        if p.transposed:
            steps.extend(solve)
    return steps


def _dense_solve(p: PackedSolve, n: int, x: Operand, parts: PackedSubPlans) -> list[Step]:
    t = p.triangle
    problem = SolveProblem(
        n=n, m=p.m, batch=t.batch, l=_op(p, x), b=p.b, lower=not p.transposed, unit=p.unit,
        precision=t.precision, aligned=t.aligned,
    )  # fmt: skip
    return solve_steps(problem, parts.parts)


def _op(p: PackedSolve, operand: Operand) -> Operand:
    result = transposed(operand) if p.transposed else operand
    return replace(result, conj=p.conj and operand.elem.complex)


def placed(steps: Sequence[Step], places: Sequence[Place]) -> list[Step]:
    """Return steps with their operands replaced by those of ``places``, or by parts of these."""
    return [replace(x, operands=tuple(_placed(o, places) for o in x.operands)) for x in steps]


def _placed(operand: Place, places: Sequence[Place]) -> Place:
    index, start = (operand.of, operand.start) if isinstance(operand, Part) else (operand, 0)
    if isinstance(index, Temporary):
        return operand
    place = places[index]
    if isinstance(place, Part):
        return Part(place.of, place.start + start)
    return Part(place, start) if start else place


def transposed(operand: Operand) -> Operand:
    """Return an operand with rows and columns exchanged."""
    return replace(operand, row=operand.col, col=operand.row)


def conjugate(operand: Operand) -> Operand:
    """Return an operand with its elements conjugated."""
    return replace(operand, conj=operand.elem.complex and not operand.conj)
