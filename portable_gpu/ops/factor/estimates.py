"""Estimates of the times of the variants of factorisations and solves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from portable_gpu.dtypes import Element
from portable_gpu.ops.factor.cpu import CpuPolicy
from portable_gpu.ops.factor.policy import (
    TILE,
    SolvePolicy,
    largest,
    on_matrix_units,
    tile_registers,
)
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.factor.recursive import half
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, multiply_adds, overlapped
from portable_gpu.tuning.figures import Figures

Problem = CholeskyProblem | SolveProblem


@dataclass(frozen=True)
class BlockSizes:
    """The sizes that decide which variants there are, in columns of L.

    Attributes:
        small: Columns of the largest factorisation by one work-group.
        small_solve: Columns of the largest triangle in local memory.
        tiled: Whether groups may wait for each other, so that one launch can compute all tiles.
        block: Columns of the largest factorisation that is not halved.
        solved: Columns of the largest solve that is not halved.
    """

    small: int
    small_solve: int
    tiled: bool
    block: int
    solved: int

    @classmethod
    def of(cls, target: Target, elem: Element) -> BlockSizes:
        """Return the sizes for a target."""
        if target.is_cpu:
            block = CpuPolicy.default(target, elem).block
            return cls(block, block, False, block, block)
        small, solve = largest(target, elem), SolvePolicy.default(target, elem).rows
        if not target.forward_progress or target.resident_registers < tile_registers(elem):
            return cls(small, solve, False, small, solve)
        costs = FactorCosts.of("factor", target)
        return cls(small, solve, True, costs.block, costs.solved)


@dataclass(frozen=True)
class FactorCosts(Figures):
    """The costs of factorisations and solves.

    Attributes:
        step: Seconds for a column of a matrix that one group holds.
        resident: Work-items of a compute unit that run at a time.
        tile: For ``cholesky``, ``solve`` and ``vector``: the seconds that each tile of L's diagonal
            adds to the longest chain of tiles that wait for each other.
        efficiency: For each of these: the rate relative to that of the best tiles of products.
        matrix: The factor by which matrix units are faster, for float64.
        products: The rate of the products of recursive variants, relative to the best tiles.
        matrix_products: The factor by which matrix units make these faster, for float64.
        block, solved: See :class:`BlockSizes`.
    """

    step: float
    resident: int
    tile: dict[str, float]
    efficiency: dict[str, float]
    matrix: float
    products: float
    matrix_products: float
    block: int
    solved: int


def small(p: Problem, group_size: int, together: int, target: Target) -> float:
    """Seconds of a launch of work-groups that have ``together`` small matrices each."""
    device, costs = DeviceCosts.of("device", target), FactorCosts.of("factor", target)
    waves = max(1.0, p.count / together * group_size / (costs.resident * target.compute_units))
    moving = p.bytes / (device.bandwidth * target.compute_units)
    return overlapped(waves * p.n * costs.step, moving)


def tiles(p: Problem, target: Target) -> float:
    """Seconds of one launch for all tiles: the chain along the diagonal overlaps the products."""
    return tiles_of(p.flop, p, target)


def vectors(p: Problem, m: int, target: Target) -> float:
    """Seconds of one launch for few columns: the chain of blocks overlaps reading L."""
    device, costs = DeviceCosts.of("device", target), FactorCosts.of("factor", target)
    chain = -(-p.n // TILE) * costs.tile["vector"] * max(1.0, p.count / target.compute_units)
    moving = p.count * m * p.n * p.n / 2 * p.elem.itemsize
    return overlapped(chain, moving / (device.bandwidth * target.compute_units))


def tiles_of(flop: float, p: Problem, target: Target) -> float:
    """Seconds of one launch for all tiles, with ``flop`` operations in all."""
    costs = FactorCosts.of("factor", target)
    kind = "cholesky" if isinstance(p, CholeskyProblem) else "solve"
    chain = -(-p.n // TILE) * costs.tile[kind] * max(1.0, p.count / target.compute_units)
    rate = costs.efficiency[kind] * (costs.matrix if on_matrix_units(p.elem, target) else 1.0)
    return overlapped(chain, _computing(flop, p, target, rate))


def launches(p: Problem, sizes: BlockSizes) -> int:
    """The number of launches of the recursive variant."""
    if isinstance(p, SolveProblem):
        return 2 * -(-p.n // sizes.solved) - 1
    if p.n <= sizes.block:
        return 1
    n1 = half(p.n, sizes.block)
    parts = launches(replace(p, n=n1), sizes) + launches(replace(p, n=p.n - n1), sizes)
    return parts + 2 * -(-n1 // sizes.solved)


def cholesky_by_halves(p: CholeskyProblem, sizes: BlockSizes, target: Target) -> float:
    """Seconds of a factorisation by halves, without the launches."""
    if p.n <= sizes.block:
        return _leaf(p, sizes, target)
    n1 = half(p.n, sizes.block)
    n2 = p.n - n1
    between = SolveProblem(n=n1, m=n2, batch=p.batch, l=p.l, b=p.l)
    return (
        cholesky_by_halves(replace(p, n=n1), sizes, target)
        + solve_by_halves(between, sizes, target)
        + products(p.count * n2 * n2 * n1, p, target)
        + cholesky_by_halves(replace(p, n=n2), sizes, target)
    )


def solve_by_halves(p: SolveProblem, sizes: BlockSizes, target: Target) -> float:
    """Seconds of a solve by halves, without the launches."""
    if p.n <= sizes.solved:
        return _leaf(p, sizes, target)
    n1 = half(p.n, sizes.solved)
    return (
        solve_by_halves(replace(p, n=n1), sizes, target)
        + products(2 * p.count * (p.n - n1) * n1 * p.m, p, target)
        + solve_by_halves(replace(p, n=p.n - n1), sizes, target)
    )


def _leaf(p: Problem, sizes: BlockSizes, target: Target) -> float:
    return tiles(p, target) if sizes.tiled else small(p, 256, 1, target)


def products(flop: int, p: Problem, target: Target) -> float:
    """Seconds of products of ``flop`` operations, or four times as many for complex elements."""
    costs = FactorCosts.of("factor", target)
    faster = costs.matrix_products if on_matrix_units(p.elem, target) else 1.0
    factor = 4 if p.elem.complex else 1
    return _computing(factor * flop, p, target, costs.products * faster)


def _computing(flop: float, p: Problem, target: Target, efficiency: float) -> float:
    device = DeviceCosts.of("device", target)
    products = flop / (8 if p.elem.complex else 2) * multiply_adds(p.elem)
    return products / (target.compute_units * device.multiply_adds * efficiency)
