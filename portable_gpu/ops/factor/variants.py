"""The variants of factorisations and triangular solves, and the plan of the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TypeVar

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import Element
from portable_gpu.ops.factor import cpu, estimates
from portable_gpu.ops.factor.copies import CopyProblem, copy_plan, copy_spec
from portable_gpu.ops.factor.cpu import CpuPolicy, cpu_cholesky_plan, cpu_lanes_plan, cpu_solve_plan
from portable_gpu.ops.factor.estimates import BlockSizes
from portable_gpu.ops.factor.packed import lanes, pack_plan, zeros_plan, zeros_spec
from portable_gpu.ops.factor.packed_steps import PackedSubPlans
from portable_gpu.ops.factor.plan import (
    TiledProblem,
    cholesky_plan,
    cholesky_spec,
    solve_plan,
    solve_spec,
    tiles_plan,
    tiles_spec,
    vector_plan,
    vector_spec,
)
from portable_gpu.ops.factor.policy import TILE, CholeskyPolicy, SolvePolicy
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.factor.ragged import RaggedMatrices, ragged_cholesky, ragged_solve
from portable_gpu.ops.factor.recursive import SubPlans, cholesky_steps, inverse_steps, solve_steps
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.variants import make_plan as make_product
from portable_gpu.ops.gemm.variants import variants as products
from portable_gpu.ops.variant import Variant, best_of, bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Part, Plan, Step, Steps
from portable_gpu.targets import Target
from portable_gpu.tuning.table import PolicyRow, TuningTable

#: Columns of the largest solve for which there is a variant for vectors.
FEW = 4
_P = TypeVar("_P", CholeskyProblem, SolveProblem, GemmProblem)


def make_cholesky(engine: Engine, problem: CholeskyProblem) -> Plan:
    """Plan a factorisation; operands: A unless L overwrites it, L, the report."""
    return bind_best(engine, cholesky_variants(problem, engine.target, engine.table))


def make_solve(engine: Engine, problem: SolveProblem, source: Operand | None) -> Plan:
    """Plan a solve; operands: L, B if there is a ``source``, and X."""
    return bind_best(engine, solve_variants(problem, engine.target, engine.table, source))


def make_inverse(engine: Engine, problem: SolveProblem) -> Plan:
    """Plan the inverse X of a lower triangle L; operands: L and X."""
    p, sizes = problem, BlockSizes.of(engine.target, problem.elem)
    start = CopyProblem(p.n, p.n, p.batch, p.l, p.b, inverse=sizes.solved)
    steps = Steps(inverse_steps(p, parts(engine, sizes)))
    return Steps([Step(copy_plan(engine, start), (0, 1)), Step(steps, (0, 1))])


def cholesky_variants(
    problem: CholeskyProblem, target: Target, table: TuningTable, sizes: BlockSizes | None = None
) -> list[Variant]:
    """List the variants: one work-group per matrix, tiles in one launch, recursion by halves."""
    p, sizes = problem, sizes or BlockSizes.of(target, problem.elem)
    if target.is_cpu and p.n <= sizes.small:
        return [_cholesky_on_cpu(p, target)]
    result = []
    if p.n <= sizes.small:
        policy = CholeskyPolicy.for_size(p.n, target, p.elem)
        result.append(
            Variant(
                name="small",
                estimate=estimates.small_seconds(p, policy.group_size, policy.together, target),
                launches=1,
                why=f"a work-group holds {policy.size} columns in registers",
                texts=lambda: [cholesky_spec(p, policy, target)],
                bind=lambda engine: cholesky_plan(engine, p, policy),
                row=PolicyRow(policy, "CholeskyPolicy.for_size"),
                details={"group size": policy.group_size},
            )
        )
    if sizes.tiled:
        result.append(_tiles(TiledProblem(p), target))
    if p.n > sizes.block:
        result.append(
            Variant(
                name="by halves",
                estimate=estimates.cholesky_seconds(p, sizes, target),
                launches=estimates.launch_count(p, sizes),
                why="products do most of the work",
                texts=lambda: _cholesky_texts(p, sizes, target, table),
                bind=partial(_cholesky_by_halves, problem=p, sizes=sizes),
                details={"block": sizes.block},
            )
        )
    return result


def solve_variants(
    problem: SolveProblem,
    target: Target,
    table: TuningTable,
    source: Operand | None = None,
    sizes: BlockSizes | None = None,
) -> list[Variant]:
    """List the variants: one launch for small triangles, tiles in one launch, recursion by halves.

    Zeros on the diagonal are detected by the kernel of small solves, else by a launch before.
    """
    p, sizes = problem, sizes or BlockSizes.of(target, problem.elem)
    if p.reports:
        silent = solve_variants(replace(p, reports=""), target, table, source, sizes)
        small = not target.is_cpu and p.n <= sizes.small_solve
        own_check = [_small_solve(p, source, target)] if small else []
        return own_check + [
            _with_zero_check(variant, p, source, target)
            for variant in silent
            if not small or variant.path != "small"
        ]
    if target.is_cpu and p.n <= sizes.small_solve:
        return [_solve_on_cpu(p, target, source)]
    result = []
    if p.n <= sizes.small_solve:
        result.append(_small_solve(p, source, target))
    if sizes.tiled:
        result.append(_tiled_solve(_tiles, p, source, target))
    if sizes.tiled and p.m <= FEW:
        result.append(_tiled_solve(_vectors, p, source, target))
    if p.n > sizes.solved:
        result.append(
            Variant(
                name="by halves",
                estimate=estimates.solve_seconds(p, sizes, target),
                launches=estimates.launch_count(p, sizes) + (source is not None),
                why="products do most of the work",
                texts=lambda: _solve_texts(p, sizes, source, target, table),
                bind=partial(_solve_by_halves, problem=p, sizes=sizes, source=source),
                details={"block": sizes.solved},
            )
        )
    return result


def _cholesky_on_cpu(p: CholeskyProblem, target: Target) -> Variant:
    """One launch: each lane of a vector has a matrix, or matrices are factorised in turn."""
    policy = CpuPolicy.default(target, p.elem)
    lanes = cpu.by_lanes(p, policy)
    return Variant(
        name="side by side" if lanes else "small",
        estimate=estimates.small_seconds(p, 1, 1, target),
        launches=1,
        why=(
            "a small matrix for each lane of a vector fits the first cache"
            if lanes
            else f"a triangle of {p.n} columns fits half of the second cache"
        ),
        texts=lambda: [(cpu.lanes_spec if lanes else cpu.cholesky_spec)(p, policy, target)],
        bind=lambda engine: (cpu_lanes_plan if lanes else cpu_cholesky_plan)(engine, p, policy),
        row=PolicyRow(policy, "CpuPolicy.default"),
        details={"block": policy.block},
    )


def _small_solve(p: SolveProblem, source: Operand | None, target: Target) -> Variant:
    """One launch, which reads B from ``source``."""
    forwards, reversed_source, starts = _as_forward_solve(p, source)
    starts += (0,) if p.reports else ()
    policy = SolvePolicy.for_size(p.n, p.m, target, p.elem)
    return Variant(
        name="small",
        estimate=estimates.small_seconds(p, policy.group_size, policy.together, target),
        launches=1,
        why=f"local memory holds {policy.rows} columns of L",
        texts=lambda: [solve_spec(forwards, policy, target, source=reversed_source)],
        bind=lambda engine: _with_offsets(
            solve_plan(engine, forwards, policy, reversed_source), starts
        ),
        row=PolicyRow(policy, "SolvePolicy.for_size"),
        details={"group size": policy.group_size},
    )


def _with_zero_check(
    variant: Variant, p: SolveProblem, source: Operand | None, target: Target
) -> Variant:
    """Return a variant that first checks the diagonals for zeros by another launch."""
    operands = (0, 1) if source is None else (0, 1, 2)

    def bind(engine: Engine) -> Plan:
        zeros = zeros_plan(engine, p.n, p.batch, p.l, "dense")
        return Steps([Step(zeros, (0, len(operands))), Step(variant.bind(engine), operands)])

    return replace(
        variant,
        launches=1 + variant.launches,
        texts=lambda: [
            zeros_spec(p.batch, p.l, target, "dense", lanes(p.n, target)),
            *variant.texts(),
        ],
        bind=bind,
    )


def _solve_on_cpu(p: SolveProblem, target: Target, source: Operand | None) -> Variant:
    """One launch, which reads B from ``source``."""
    policy = CpuPolicy.default(target, p.elem)
    forwards, reversed_source, starts = _as_forward_solve(p, source)
    return Variant(
        name="small",
        estimate=estimates.small_seconds(p, 1, 1, target),
        launches=1,
        why=f"a triangle of {p.n} columns fits half of the second cache",
        texts=lambda: [cpu.solve_spec(forwards, policy, target, reversed_source)],
        bind=lambda engine: _with_offsets(
            cpu_solve_plan(engine, forwards, policy, reversed_source), starts
        ),
        row=PolicyRow(policy, "CpuPolicy.default"),
        details={"block": policy.block},
    )


def _tiles(problem: TiledProblem, target: Target, starts: tuple[int, ...] = ()) -> Variant:
    """One launch for all tiles; ``starts``: the offsets of the operands, in elements."""
    return Variant(
        name="tiles",
        estimate=estimates.tiles_seconds(problem.whole, problem.whole.flop, target),
        launches=1,
        why="a work-group for each tile; groups wait for the tiles that they need",
        texts=lambda: [tiles_spec(problem, target)],
        bind=lambda engine: _with_offsets(tiles_plan(engine, problem), starts),
        details={"tile": TILE},
    )


def _vectors(problem: TiledProblem, target: Target, starts: tuple[int, ...] = ()) -> Variant:
    """One launch for few columns; ``starts``: see :func:`_tiles`."""
    return Variant(
        name="vectors",
        estimate=estimates.vectors_seconds(problem.whole, problem.m, target),
        launches=1,
        why="a work-group for each 64 rows of a column; groups wait for the rows that they need",
        texts=lambda: [vector_spec(problem, target)],
        bind=lambda engine: _with_offsets(vector_plan(engine, problem), starts),
        details={"rows": TILE},
    )


def _with_offsets(plan: Plan, starts: tuple[int, ...]) -> Plan:
    """Add offsets, in elements, to the operands of a plan."""
    if not any(starts):
        return plan
    return Steps([Step(plan, tuple(Part(at, start) for at, start in enumerate(starts)))])


def _tiled_solve(
    variant: Callable[[TiledProblem, Target, tuple[int, ...]], Variant],
    p: SolveProblem,
    source: Operand | None,
    target: Target,
) -> Variant:
    forwards, reversed_source, starts = _as_forward_solve(p, source)
    return variant(TiledProblem(forwards, reversed_source), target, starts)


def _as_forward_solve(
    p: SolveProblem, source: Operand | None
) -> tuple[SolveProblem, Operand | None, tuple[int, ...]]:
    """Rewrite as a solve with a lower triangle: the problem, B, and the operands' offsets."""
    forwards, lower, rows = p.forwards()
    if source is None:
        return forwards, None, (lower, rows)
    if p.lower:
        return forwards, source, (lower, 0, rows)
    return forwards, replace(source, row=-source.row), (lower, (p.n - 1) * source.row, rows)


def _cholesky_by_halves(engine: Engine, problem: CholeskyProblem, sizes: BlockSizes) -> Plan:
    """Plan a factorisation by halves; operands: A unless L replaces it, L, and the report."""
    p = replace(problem, a=problem.l, in_place=True)
    if problem.in_place:
        return Steps(cholesky_steps(p, parts(engine, sizes)))
    copy = copy_plan(engine, _triangle(problem))
    steps = cholesky_steps(p, parts(engine, sizes))
    return Steps([Step(copy, (0, 1)), Step(Steps(steps), (1, 2))])


def _solve_by_halves(
    engine: Engine, problem: SolveProblem, sizes: BlockSizes, source: Operand | None
) -> Plan:
    """Plan a solve by halves; operands: L, B unless X overwrites it, and X."""
    if source is None:
        return Steps(solve_steps(problem, parts(engine, sizes)))
    copy = copy_plan(engine, _moved(problem, source))
    steps = solve_steps(problem, parts(engine, sizes))
    return Steps([Step(copy, (1, 2)), Step(Steps(steps), (0, 2))])


def parts(engine: Engine, sizes: BlockSizes) -> SubPlans:
    """Return the factory of sub-plans on an engine, each of which is made once."""
    target, table = engine.target, engine.table

    def cholesky(p: CholeskyProblem) -> Plan:
        return engine.plan(
            ("part", p), lambda: bind_best(engine, cholesky_variants(p, target, table, sizes))
        )

    def solve(p: SolveProblem) -> Plan:
        return engine.plan(
            ("part", p), lambda: bind_best(engine, solve_variants(p, target, table, None, sizes))
        )

    return SubPlans(
        cholesky=cholesky,
        solve=solve,
        product=lambda p: engine.plan(("part", p), lambda: make_product(engine, p)),
        block=sizes.block,
        solved=sizes.solved,
    )


def _cholesky_texts(
    problem: CholeskyProblem, sizes: BlockSizes, target: Target, table: TuningTable
) -> Sequence[Specialization]:
    p = replace(problem, a=problem.l, in_place=True)
    copies = [] if problem.in_place else [copy_spec(_triangle(problem), target)]
    return [*copies, *_collected_texts(partial(cholesky_steps, p), sizes, target, table)]


def _solve_texts(
    problem: SolveProblem,
    sizes: BlockSizes,
    source: Operand | None,
    target: Target,
    table: TuningTable,
) -> Sequence[Specialization]:
    copies = [] if source is None else [copy_spec(_moved(problem, source), target)]
    return [*copies, *_collected_texts(partial(solve_steps, problem), sizes, target, table)]


def _collected_texts(
    steps: Callable[[SubPlans], list[Step]], sizes: BlockSizes, target: Target, table: TuningTable
) -> list[Specialization]:
    """Return the texts of steps without repetition, in the order of their last launches."""
    texts: dict[str, Specialization] = {}
    nothing = Steps([])

    def collecting(variants: Callable[[_P], list[Variant]]) -> Callable[[_P], Plan]:
        @cache
        def rendered(problem: _P) -> Sequence[Specialization]:
            return best_of(variants(problem), target).texts()

        def collect(problem: _P) -> Plan:
            for spec in rendered(problem):
                texts.pop(spec.key, None)
                texts[spec.key] = spec
            return nothing

        return collect

    def cholesky(p: CholeskyProblem) -> list[Variant]:
        return cholesky_variants(p, target, table, sizes)

    def solve(p: SolveProblem) -> list[Variant]:
        return solve_variants(p, target, table, None, sizes)

    def product(p: GemmProblem) -> list[Variant]:
        return products(p, target, table)

    steps(
        SubPlans(
            cholesky=collecting(cholesky),
            solve=collecting(solve),
            product=collecting(product),
            block=sizes.block,
            solved=sizes.solved,
        )
    )
    return list(texts.values())


def _triangle(p: CholeskyProblem) -> CopyProblem:
    return CopyProblem(p.n, p.n, p.batch, p.a, p.l, triangle=True)


def _moved(p: SolveProblem, source: Operand) -> CopyProblem:
    return CopyProblem(p.n, p.m, p.batch, source, p.b)


def packed_parts(engine: Engine, elem: Element) -> PackedSubPlans:
    """Return the factory of sub-plans for packed triangles, each of which is made once."""

    def zeros(n: int, batch: tuple[int, ...], packed: Operand) -> Plan:
        key = ("zeros", n, batch, packed)
        return engine.plan(key, lambda: zeros_plan(engine, n, batch, packed))

    return PackedSubPlans(
        parts=parts(engine, BlockSizes.of(engine.target, elem)),
        pack=lambda p: engine.plan(("pack", p), lambda: pack_plan(engine, p)),
        zeros=zeros,
    )


def make_ragged_cholesky(
    engine: Engine, a: RaggedMatrices, lower: bool, precision: str
) -> list[Step]:
    """The steps of factorisations of different sizes in place."""
    sizes = BlockSizes.of(engine.target, a.elem)
    return ragged_cholesky(engine, parts(engine, sizes), sizes.small, a, lower, precision)


def make_ragged_solve(
    engine: Engine,
    a: RaggedMatrices,
    b: RaggedMatrices,
    lower: bool,
    transposed: bool,
    conj: bool,
    unit: bool,
    precision: str,
) -> list[Step]:
    """The steps of solves of different sizes in place of B."""
    sizes = BlockSizes.of(engine.target, a.elem)
    return ragged_solve(
        engine, parts(engine, sizes), sizes.small_solve, a, b, lower, transposed, conj, unit,
        precision,
    )  # fmt: skip
