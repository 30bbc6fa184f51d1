"""The kernels that compute passes, for CPUs and for GPUs, with one interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Any, TypeAlias

# A template imports butterflies; imports must not start within a call (test_codegen.py).
import portable_gpu.ops.fft.butterflies  # noqa: F401
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.ops.fft import cpu, group, joined
from portable_gpu.ops.fft.decompositions import Decomposition
from portable_gpu.ops.fft.grouping import (
    group_shapes,
    groups,
    is_fused_by_group,
    limits_unit_to_one_group,
    uses_half_the_registers,
)
from portable_gpu.ops.fft.passes import Pass, moved
from portable_gpu.ops.fft.policy import CpuFftPolicy, GroupFftPolicy
from portable_gpu.ops.fft.problem import Line
from portable_gpu.ops.fft.shape import GroupShape
from portable_gpu.ops.fft.tables import largest_prime
from portable_gpu.powers_of_two import is_power_of_two
from portable_gpu.runtime.plan import Plan
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, overlapped
from portable_gpu.tuning.figures import Figures

FftPolicy: TypeAlias = CpuFftPolicy | GroupFftPolicy


@dataclass(frozen=True)
class CpuPassCosts(Figures):
    """The costs of a pass on a CPU.

    Attributes:
        efficiency: The rate of butterflies in scratch memory, relative to that of products in
            registers.
        orientations: The relative time of moving numbers, by their orientation.
    """

    efficiency: float
    orientations: Mapping[str, float]


@dataclass(frozen=True)
class PassCosts(Figures):
    """The costs of a pass on a GPU.

    Attributes:
        straddles: The part of a sector that adjacent numbers take in addition if they do not start
            at a sector.
        short_run: The relative time of accessing columns of a sector or less.
        local_bytes: Bytes of local memory that a compute unit moves in the time of a multiply-add.
    """

    straddles: float
    short_run: float
    local_bytes: float


@dataclass(frozen=True)
class JoinedCosts(Figures):
    """The costs of two passes in one launch.

    Attributes:
        cache: The bandwidth of the cache that all units share, relative to that of memory.
        alone: The factor of that bandwidth if a compute unit holds only one group.
    """

    cache: float
    alone: float


@dataclass(frozen=True)
class PassKernels:
    """The kernels of one kind of device for one pass, or for two in one launch.

    Attributes:
        name: The name of the kernel in tables of policies.
        policy: The class of its policy.
        specialization: Renders the text for the passes of a launch, and of launches that
            share it.
        plan: Makes a plan from an engine, passes, a policy, two tables, and the passes of launches
            that share the text.
        seconds: Estimates the seconds of passes, without the launch.
        with_fused_passes: Adds the decompositions in which passes share a launch.
        fused_axes: Lists decompositions that transform two axes by fewer launches.
        between: Whether the array between two passes of a launch is an operand.
        orders: Whether it has the forms ``ordered`` and ``rotated`` of cosine transforms.
    """

    name: str
    policy: type[FftPolicy]
    specialization: Callable[
        [Sequence[Pass], Any, Target, Sequence[Sequence[Pass]]], Specialization
    ]
    plan: Callable[..., Plan]
    seconds: Callable[[Sequence[Pass], Any, Target, DeviceCosts], float]
    with_fused_passes: Callable[[Sequence[Decomposition], Line, Any, Target], list[Decomposition]]
    fused_axes: Callable[[Line, Line, Any, Target, Iterator[str]], list[Decomposition]]
    between: bool
    orders: bool


def pass_kernels(target: Target) -> PassKernels:
    """Return the kernels for a target."""
    return _CPU if target.is_cpu else _GROUP


def _rate(pass_: Pass, costs: DeviceCosts) -> float:
    return costs.multiply_adds * (2 if pass_.real.itemsize < 8 else 1) / 2


def _cpu_seconds(
    passes: Sequence[Pass], policy: CpuFftPolicy, target: Target, costs: DeviceCosts
) -> float:
    """Estimate passes on a CPU: a compute unit has whole strips, or both passes of whole lines."""
    last = passes[-1]
    parts = cpu.strips(last, policy) if len(passes) == 1 else last.count // last.lanes
    units = min(parts, target.compute_units)
    computing = sum(
        cpu.strips(pass_, policy) * policy.vector * pass_.n * (2.5 * log2(pass_.n + 1) + 4)
        for pass_ in passes
    )
    figures = CpuPassCosts.of("fft on CPUs", target)
    ends = passes[0].source, last.target
    wait = sum(figures.orientations[side.rendered.layout] for side in ends) / 2
    return overlapped(
        computing / (_rate(last, costs) * figures.efficiency * units),
        wait * moved(passes) / (costs.bandwidth * units),
    )


def _group_seconds(
    passes: Sequence[Pass], policy: GroupFftPolicy, target: Target, costs: DeviceCosts
) -> float:
    """Estimate passes on a GPU: memory moves whole sectors, and stages exchange by local memory.

    Other groups compute while one waits for memory, unless a group fills a compute unit.  The
    numbers between two passes of a launch are read from the cache.
    """
    plans = group_shapes(passes, policy, target)
    if len(passes) == 1:
        computing, read, written = _group_parts(passes[0], plans[0], target, costs)
        if _waits(plans[0], passes[0], target):
            rounds = max(1.0, groups(passes[0], plans[0]) / target.compute_units)
            return (computing + read + written) * ceil(rounds) / rounds
        return overlapped(computing, read + written)
    (first, read, kept), (second, reread, written) = (
        _group_parts(pass_, plan, target, costs) for pass_, plan in zip(passes, plans, strict=True)
    )
    figures = JoinedCosts.of("joined", target)
    alone = not is_fused_by_group(passes, plans) and any(
        limits_unit_to_one_group(plan, pass_, target)
        for plan, pass_ in zip(plans, passes, strict=True)
    )
    cached = (read + kept + reread + written) / figures.cache / (figures.alone if alone else 1)
    return overlapped(first + second, overlapped(read + written, cached))


def _waits(plan: GroupShape, pass_: Pass, target: Target) -> bool:
    """Whether a compute unit holds a single group, so that the latency of memory is not hidden.

    The group fills the unit; or it has odd radices, which take more registers.
    """
    several = groups(pass_, plan) > target.compute_units
    odd = not is_power_of_two(*(stage.radix for stage in plan.stages))
    return uses_half_the_registers(plan, pass_, target) or (
        odd and several and limits_unit_to_one_group(plan, pass_, target)
    )


def _each(radix: int) -> float:
    """Multiply-adds of a butterfly per number: a large prime takes half of those of the sum."""
    prime = largest_prime(radix)
    return 2.5 * log2(max(2, radix)) if prime <= 13 else (prime - 1) ** 2 / prime


def _group_parts(
    pass_: Pass, plan: GroupShape, target: Target, costs: DeviceCosts
) -> tuple[float, float, float]:
    """Seconds of computing, of reading and of writing, each without the others."""
    figures, sector = PassCosts.of("fft passes", target), target.sector_bytes
    count = groups(pass_, plan)
    units = min(count, target.compute_units)
    numbers = count * plan.slots * plan.length * (2 if plan.back else 1)
    itemsize = pass_.real.itemsize
    moving = []
    for rows, across in ((pass_.source, plan.source_across), (pass_.target, plan.target_across)):
        size = rows.rendered.reals * itemsize
        step, together = rows.row // rows.unit, rows.rows
        if across:
            step, together = rows.lane, min(plan.slots * pass_.planes, pass_.lanes)
        used = size * together if abs(step) == 1 else size
        sectors = -(-used // sector) * sector
        waste = sectors / used * (figures.short_run if across and sectors == sector else 1)
        if across and rows.row * size % sector:
            waste += figures.straddles * sector / used
        tables = 2 * itemsize if rows.factor == "lanes" else 0
        moved = waste * (size + tables) * rows.rows * pass_.count
        moving.append(moved / (costs.bandwidth * units))
    operations = sum(_each(stage.radix) for stage in plan.stages)
    butterflies = numbers * operations / (_rate(pass_, costs) * units)
    trips = len(plan.stages) - 1 + plan.staged_source + plan.staged_target
    exchanged = numbers * 4 * itemsize * trips / (figures.local_bytes * costs.multiply_adds * units)
    return butterflies + exchanged, moving[0], moving[1]


_CPU = PassKernels(
    name="fft/cpu", policy=CpuFftPolicy, specialization=cpu.specialization, plan=cpu.cpu_pass_plan,
    seconds=_cpu_seconds,
    with_fused_passes=lambda found, line, *_: cpu.with_fused_passes(found, line),
    fused_axes=lambda *_: [], between=False, orders=True,
)  # fmt: skip
_GROUP = PassKernels(
    name="fft/group", policy=GroupFftPolicy,
    specialization=lambda passes, policy, target, _: group.specialization(passes, policy, target),
    plan=lambda engine, passes, policy, factors, _: group.group_pass_plan(
        engine, passes, policy, factors
    ),
    seconds=_group_seconds, with_fused_passes=joined.fused_passes, fused_axes=joined.fused_axes,
    between=True, orders=False,
)  # fmt: skip
