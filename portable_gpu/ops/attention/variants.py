"""Every way to compute attention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from portable_gpu.ops.attention import gradient, matrix, tiles
from portable_gpu.ops.attention.check import gradient_works, works
from portable_gpu.ops.attention.gradient import Side, gradient_on_matrix_units
from portable_gpu.ops.attention.plan import (
    AttentionProblem,
    attention_by_rows,
    backward_specialization,
    gradient_by_rows,
    specialization,
)
from portable_gpu.ops.attention.policy import AnyPolicy
from portable_gpu.ops.variant import Variant
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, multiply_adds
from portable_gpu.tuning.figures import Figures
from portable_gpu.tuning.table import PolicyRow, TuningTable


@dataclass(frozen=True)
class AttentionCosts(Figures):
    """Rates of the products in attention, relative to those of float32 in the best tiles of gemm.

    Attributes:
        rows: The rate with a work-item for each row.
        tiles, tiles_backward: The rates of register tiles, and of gradients in them.
        mma, wgmma: The rates of 16-bit floats on matrix units, by warps and by warpgroups.
    """

    rows: float
    tiles: float
    tiles_backward: float
    mma: float
    wgmma: float


_WHY = {
    "mma": "warps have blocks of 16 queries on matrix units, and go over tiles of keys once",
    "wgmma": "warpgroups have 64 queries on matrix units, and go over tiles of keys once",
}

#: The beginning of these sentences for gradients.
_OWN = {"mma": "warps have blocks of 16", "wgmma": "warpgroups have 64"}


def variants(problem: AttentionProblem, target: Target, table: TuningTable) -> list[Variant]:
    """Every way to compute a problem whose result has elements."""
    ways = [_by_rows(problem, target)]
    if tiles.takes(problem, target):
        ways.append(_by_tiles(problem, target))
    return [*ways, *_by_matrix_units(problem, target, table)]


def _seconds(problem: AttentionProblem, target: Target, rate: float) -> float:
    products = problem.flop // 2 * multiply_adds(problem.elem) // (1 + problem.is_causal)
    speed = DeviceCosts.of("device", target).multiply_adds * target.compute_units
    return products / (rate * speed)


def _by_rows(problem: AttentionProblem, target: Target) -> Variant:
    return Variant(
        name="rows",
        kind="attention_rows",
        estimate=_seconds(problem, target, AttentionCosts.of("attention", target).rows),
        launches=1,
        why="each work-item has rows of queries, and goes over the keys once",
        texts=lambda: [specialization(problem, target)],
        bind=lambda engine: attention_by_rows(engine, problem),
        details={"flop": problem.flop, "bytes": problem.bytes},
    )


def _by_tiles(problem: AttentionProblem, target: Target) -> Variant:
    p = problem
    rate = AttentionCosts.of("attention", target).tiles * (p.dq + p.dv) / sum(tiles.extents(p))
    return Variant(
        name="tiles",
        kind="attention_tiles",
        estimate=_seconds(p, target, rate),
        launches=1,
        why="groups have tiles of queries in local memory, and go over tiles of keys once",
        texts=lambda: [tiles.specialization(p, target)],
        bind=lambda engine: tiles.attention_by_tiles(engine, p),
        details={
            "local bytes": tiles.local_bytes(p, None, *tiles.partition(p, target, None)),
            "flop": p.flop, "bytes": p.bytes,
        },
    )  # fmt: skip


def _gradient_by_tiles(p: AttentionProblem, side: Side, target: Target) -> Variant:
    costs = AttentionCosts.of("attention", target)
    rate = costs.tiles_backward * (p.dq + p.dv) / sum(tiles.extents(p))
    products = 2 if side == "q" else 3
    return Variant(
        name="tiles",
        kind="attention_backward_tiles",
        estimate=products * _seconds(p, target, rate),
        launches=1,
        why="groups have tiles of own rows in local memory, and go over tiles of the others once",
        texts=lambda: [tiles.gradient_specialization(p, target, side)],
        bind=lambda engine: tiles.gradient_by_tiles(engine, p, side),
        details={
            "flop": products * p.flop,
            "local bytes": tiles.local_bytes(p, side, *tiles.partition(p, target, side)),
        },
    )


def _by_matrix_units(
    problem: AttentionProblem, target: Target, table: TuningTable
) -> Iterator[Variant]:
    if not matrix.takes(problem, target):
        return
    for row in matrix.policies_of(problem, target, table):
        yield _of_policy(problem, target, row)


def _of_policy(p: AttentionProblem, target: Target, row: PolicyRow[Any]) -> Variant:
    policy: AnyPolicy = row.policy
    path, extents = matrix.kernel_of(policy), matrix.extents(p, policy)
    costs = AttentionCosts.of("attention", target)
    rate = costs.mma if path == "mma" else costs.wgmma
    rounding = sum(extents) / (p.dq + p.dv)  # of extents, up to those of the tiles
    return Variant(
        name=path,
        kind=f"attention_{path}",
        estimate=_seconds(p, target, rate / rounding),
        launches=1,
        why=_WHY[path],
        texts=lambda: [matrix.specialization(p, target, policy)],
        bind=lambda engine: matrix.attention_on_matrix_units(engine, p, policy),
        works=lambda engine: works(engine, p, policy),
        row=row,
        details={
            "group size": policy.group_size,
            "groups": p.batch * p.heads * -(-p.queries // policy.queries),
            "registers": matrix.registers(p, policy),
            "local bytes": policy.local_bytes(*extents),
            "flop": p.flop, "bytes": p.bytes,
        },
    )  # fmt: skip


def backward_variants(
    problem: AttentionProblem, side: Side, target: Target, table: TuningTable
) -> list[Variant]:
    """Every way to compute the gradients of one side that has rows."""
    costs = AttentionCosts.of("attention", target)
    products = 2 if side == "q" else 3
    rows = Variant(
        name="rows",
        kind="attention_backward_rows",
        estimate=products * _seconds(problem, target, costs.rows),
        launches=1,
        why="each work-item has a row of its side, and goes over the others once",
        texts=lambda: [backward_specialization(problem, target, side)],
        bind=lambda engine: gradient_by_rows(engine, problem, side),
    )
    ways = [rows]
    if tiles.takes(problem, target, side):
        ways.append(_gradient_by_tiles(problem, side, target))
    if gradient.takes(problem, target, side):
        policies = gradient.policies_of(problem, side, target, table)
        ways += [_backward_of_policy(problem, side, target, row) for row in policies]
    return ways


def _backward_of_policy(
    p: AttentionProblem, side: Side, target: Target, row: PolicyRow[Any]
) -> Variant:
    policy: gradient.AnyGradientPolicy = row.policy
    extents = sum(gradient.extents(p, policy))
    path = gradient.kernel_of(policy).partition("_")[0]
    costs = AttentionCosts.of("attention", target)
    rate = (costs.mma if path == "mma" else costs.wgmma) * (p.dq + p.dv) / extents
    return Variant(
        name=path,
        kind=f"attention_backward_{path}",
        estimate=(2 if side == "q" else 3) * _seconds(p, target, rate),
        launches=1,
        why=f"{_OWN[path]} of own rows on matrix units, and go over tiles of the others once",
        texts=lambda: [gradient.specialization(p, target, side, policy)],
        bind=lambda engine: gradient_on_matrix_units(engine, p, side, policy),
        works=lambda engine: gradient_works(engine, p, side, policy),
        row=row,
        details={
            "group size": policy.group_size,
            "registers": gradient.registers(p, side, policy),
            "local bytes": policy.local_bytes(extents, side),
        },
    )
