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
            return cls(small=block, small_solve=block, tiled=False, block=block, solved=block)
        small, solve = largest(target, elem), SolvePolicy.default(target, elem).rows
        if not target.forward_progress or target.resident_registers < tile_registers(elem):
            return cls(small=small, small_solve=solve, tiled=False, block=small, solved=solve)
        costs = FactorCosts.of("factor", target)
        return cls(
            small=small, small_solve=solve, tiled=True, block=costs.block, solved=costs.solved
        )


@dataclass(frozen=True)
class FactorCosts(Figures):
    """The costs of factorisations and solves.

    Attributes:
        step: The seconds for each column of a matrix that one group factorises.
        resident: Work-items of a compute unit that run at a time.
        tile: For ``cholesky``, ``solve`` and ``vector``: the seconds that each tile of L's diagonal
            adds to the longest chain of tiles that wait for each other.
        efficiency: For each of these kernels, the rate of its products relative to that of the
            best tiles of matrix products.
        matrix: The factor by which matrix units are faster, for float64.
        products: The rate of the products of recursive variants, relative to the best tiles.
        matrix_products: The factor by which matrix units make such products faster, for float64.
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


def small_seconds(p: Problem, group_size: int, together: int, target: Target) -> float:
    """Return the seconds of a launch of work-groups that have ``together`` small matrices each."""
    device, costs = DeviceCosts.of("device", target), FactorCosts.of("factor", target)
    waves = max(1.0, p.count / together * group_size / (costs.resident * target.compute_units))
    memory_seconds = p.bytes / (device.bandwidth * target.compute_units)
    return overlapped(waves * p.n * costs.step, memory_seconds)


def vectors_seconds(p: Problem, m: int, target: Target) -> float:
    """Return the seconds of one launch for few columns.

    The chain of blocks along the diagonal overlaps the loads of L.
    """
    device, costs = DeviceCosts.of("device", target), FactorCosts.of("factor", target)
    chain = -(-p.n // TILE) * costs.tile["vector"] * max(1.0, p.count / target.compute_units)
    memory_bytes = p.count * m * p.n * p.n / 2 * p.elem.itemsize  # L, read for each column of B
    return overlapped(chain, memory_bytes / (device.bandwidth * target.compute_units))


def tiles_seconds(p: Problem, flop: float, target: Target) -> float:
    """Return the seconds of one launch for all tiles, with ``flop`` operations in all.

    The chain of tiles along the diagonal overlaps the products.
    """
    costs = FactorCosts.of("factor", target)
    kind = "cholesky" if isinstance(p, CholeskyProblem) else "solve"
    chain = -(-p.n // TILE) * costs.tile[kind] * max(1.0, p.count / target.compute_units)
    rate = costs.efficiency[kind] * (costs.matrix if on_matrix_units(p.elem, target) else 1.0)
    return overlapped(chain, _arithmetic_seconds(flop, p, target, rate))


def launch_count(p: Problem, sizes: BlockSizes) -> int:
    """Return the number of launches of the recursive variant."""
    if isinstance(p, SolveProblem):
        return 2 * -(-p.n // sizes.solved) - 1
    if p.n <= sizes.block:
        return 1
    n1 = half(p.n, sizes.block)
    parts = launch_count(replace(p, n=n1), sizes) + launch_count(replace(p, n=p.n - n1), sizes)
    return parts + 2 * -(-n1 // sizes.solved)


def cholesky_seconds(p: CholeskyProblem, sizes: BlockSizes, target: Target) -> float:
    """Return the seconds of the kernels of a factorisation by halves, without launch times."""
    if p.n <= sizes.block:
        return _leaf_seconds(p, sizes, target)
    n1 = half(p.n, sizes.block)
    n2 = p.n - n1
    between = SolveProblem(n=n1, m=n2, batch=p.batch, l=p.l, b=p.l)
    return (
        cholesky_seconds(replace(p, n=n1), sizes, target)
        + solve_seconds(between, sizes, target)
        + products_seconds(p.count * n2 * n2 * n1, p, target)
        + cholesky_seconds(replace(p, n=n2), sizes, target)
    )


def solve_seconds(p: SolveProblem, sizes: BlockSizes, target: Target) -> float:
    """Return the seconds of the kernels of a solve by halves, without launch times."""
    if p.n <= sizes.solved:
        return _leaf_seconds(p, sizes, target)
    n1 = half(p.n, sizes.solved)
    return (
        solve_seconds(replace(p, n=n1), sizes, target)
        + products_seconds(2 * p.count * (p.n - n1) * n1 * p.m, p, target)
        + solve_seconds(replace(p, n=p.n - n1), sizes, target)
    )


def _leaf_seconds(p: Problem, sizes: BlockSizes, target: Target) -> float:
    """Return the seconds of a problem that is not halved."""
    return tiles_seconds(p, p.flop, target) if sizes.tiled else small_seconds(p, 256, 1, target)


def products_seconds(flop: int, p: Problem, target: Target) -> float:
    """Return the seconds of products of ``flop`` operations; four times ``flop`` if complex."""
    costs = FactorCosts.of("factor", target)
    faster = costs.matrix_products if on_matrix_units(p.elem, target) else 1.0
    factor = 4 if p.elem.complex else 1
    return _arithmetic_seconds(factor * flop, p, target, costs.products * faster)


def _arithmetic_seconds(flop: float, p: Problem, target: Target, efficiency: float) -> float:
    """Return the seconds of ``flop`` at a part ``efficiency`` of the rate of the device."""
    device = DeviceCosts.of("device", target)
    products = flop / (8 if p.elem.complex else 2) * multiply_adds(p.elem)
    return products / (target.compute_units * device.multiply_adds * efficiency)
