"""The kernels that compute passes on a kind of target, behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Any, TypeAlias

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.ops.fft import cpu, group, joined
from portable_gpu.ops.fft.grouping import fills_unit, group_plans, groups, has_own_parts, is_alone
from portable_gpu.ops.fft.passes import Pass, moved
from portable_gpu.ops.fft.policy import CpuFftPolicy, GroupFftPolicy
from portable_gpu.ops.fft.problem import Line
from portable_gpu.ops.fft.shape import GroupPlan
from portable_gpu.ops.fft.tables import largest_prime
from portable_gpu.ops.fft.ways import Way
from portable_gpu.powers_of_two import is_power_of_two
from portable_gpu.runtime.plan import Plan
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import Costs, DeviceCosts, overlapped

FftPolicy: TypeAlias = CpuFftPolicy | GroupFftPolicy
#: Of the rate of products in registers, what butterflies in scratch reach.
_EFFICIENCY = 0.3
#: How much longer it takes to bring numbers that lie along the transform, or anyhow.
_LAYOUTS = {"across": 1.0, "along": 1.15, "any": 4.0}
#: Bytes that memory hands out at once to a GPU.
_SECTOR = 32
#: And how many of them more a run takes that begins anywhere in one, of what neighbours share.
#: H200: 2049 columns of 4096 complex64 in 82 us, in runs of 32 bytes; half of 4096 of them in 62.
_STRADDLES = 0.5
#: What runs of columns of a sector or less cost memory: see tools/column_copies.py.
_SHORT_RUN = 1.2
#: Bytes of local memory that a compute unit of a GPU moves for each multiply-add it could do.
_LOCAL_BYTES = 1.0


@dataclass(frozen=True)
class JoinedCosts(Costs):
    """Of two passes in one launch.

    Attributes:
        cache: The rate at which groups reach the cache that all units share, in that of memory.
        alone: What of it is left where a compute unit has room for one group.
    """

    cache: float
    alone: float


@dataclass(frozen=True)
class PassKernels:
    """How passes are computed: one by a launch, or the two of a line.

    Attributes:
        name: Of the kernel, as policies know it.
        policy: Class of its policy.
        text: Its specialization for passes.
        plan: Class of its plan: of an engine, passes, a policy and factors of both sides.
        seconds: Its estimate for passes, without the launch.
        more_ways: Ways, and others that it has besides.
        joined_axes: Ways that make two lines of an array in fewer launches than one of each.
        between: Whether a launch of two passes is told where what lies between them is.
        orders: Whether it has the forms ``ordered`` and ``turned``, of cosine transforms.
    """

    name: str
    policy: type[FftPolicy]
    text: Callable[[Sequence[Pass], Any, Target], Specialization]
    plan: Callable[..., Plan]
    seconds: Callable[[Sequence[Pass], Any, Target, DeviceCosts], float]
    more_ways: Callable[[Sequence[Way], Line, Any, Target], list[Way]]
    joined_axes: Callable[[Line, Line, Any, Target, Iterator[str]], list[Way]]
    between: bool
    orders: bool


def pass_kernels(target: Target) -> PassKernels:
    """Those for a target."""
    return _CPU if target.is_cpu else _GROUP


def _rate(run: Pass, costs: DeviceCosts) -> float:
    return costs.multiply_adds * (2 if run.real.itemsize < 8 else 1) / 2


def _cpu_seconds(
    runs: Sequence[Pass], policy: CpuFftPolicy, target: Target, costs: DeviceCosts
) -> float:
    """Strips are computed whole; one compute unit has each, or all of both passes of a line."""
    last = runs[-1]
    parts = cpu.strips(last, policy) if len(runs) == 1 else last.count // last.lanes
    units = min(parts, target.compute_units)
    computing = sum(
        cpu.strips(run, policy) * policy.vector * run.n * (2.5 * log2(run.n + 1) + 4)
        for run in runs
    )
    wait = sum(_LAYOUTS[side.side.layout] for side in (runs[0].source, last.target)) / 2
    return overlapped(
        computing / (_rate(last, costs) * _EFFICIENCY * units),
        wait * moved(runs) / (costs.bandwidth * units),
    )


def _group_seconds(
    runs: Sequence[Pass], policy: GroupFftPolicy, target: Target, costs: DeviceCosts
) -> float:
    """Whole sectors are moved, numbers go through local memory between two stages.

    Other groups compute while one waits for memory, unless it fills a compute unit (H200: 2^24
    numbers in two passes of 4096 take 118 us each, of which memory takes 67).  What lies between
    two passes of a launch goes through the cache.
    """
    plans = group_plans(runs, policy, target)
    if len(runs) == 1:
        computing, read, written = _group_parts(runs[0], plans[0], target, costs)
        if _waits(plans[0], runs[0], target):
            rounds = max(1.0, groups(runs[0], plans[0]) / target.compute_units)
            return (computing + read + written) * ceil(rounds) / rounds
        return overlapped(computing, read + written)
    (one, read, kept), (two, again, written) = (
        _group_parts(run, plan, target, costs) for run, plan in zip(runs, plans, strict=True)
    )
    figures = JoinedCosts.of("joined", target)
    alone = not has_own_parts(runs, plans) and any(
        is_alone(plan, run, target) for plan, run in zip(plans, runs, strict=True)
    )
    cached = (read + kept + again + written) / figures.cache / (figures.alone if alone else 1)
    return overlapped(one + two, overlapped(read + written, cached))


def _waits(plan: GroupPlan, run: Pass, target: Target) -> bool:
    """Whether nobody computes while a group waits for memory.

    It fills a compute unit; or it leaves no room, by odd radices, which take more registers.  H200,
    us, as estimated if others computed, and measured: complex64 3628800 = 1680 x 2160 46 and 82,
    complex128 1848000 = 1320 x 1400 53 and 111; complex64 4194304 = 2048 x 2048 56 and 55.
    """
    several = groups(run, plan) > target.compute_units
    odd = not is_power_of_two(*(stage.radix for stage in plan.stages))
    return fills_unit(plan, run, target) or (odd and several and is_alone(plan, run, target))


def _each(radix: int) -> float:
    """Multiply-adds of a butterfly, for each number: large primes take half of the direct sum."""
    prime = largest_prime(radix)
    return 2.5 * log2(max(2, radix)) if prime <= 13 else (prime - 1) ** 2 / prime


def _group_parts(
    run: Pass, plan: GroupPlan, target: Target, costs: DeviceCosts
) -> tuple[float, float, float]:
    """Seconds of computing, of reading and of writing, each by itself."""
    count = groups(run, plan)
    units = min(count, target.compute_units)
    numbers = count * plan.slots * plan.length * (2 if plan.back else 1)
    itemsize = run.real.itemsize
    moving = []
    for rows, across in ((run.source, plan.source_across), (run.target, plan.target_across)):
        size = rows.side.reals * itemsize
        step, together = rows.row // rows.unit, rows.rows
        if across:
            step, together = rows.lane, min(plan.slots * run.planes, run.lanes)
        used = size * together if abs(step) == 1 else size
        sectors = -(-used // _SECTOR) * _SECTOR
        waste = sectors / used * (_SHORT_RUN if across and sectors == _SECTOR else 1)
        if across and rows.row * size % _SECTOR:
            waste += _STRADDLES * _SECTOR / used
        tables = 2 * itemsize if rows.factor == "lanes" else 0
        moved = waste * (size + tables) * rows.rows * run.count
        moving.append(moved / (costs.bandwidth * units))
    each = sum(_each(stage.radix) for stage in plan.stages)
    butterflies = numbers * each / (_rate(run, costs) * units)
    trips = len(plan.stages) - 1 + plan.staged_source + plan.staged_target
    exchanged = numbers * 4 * itemsize * trips / (_LOCAL_BYTES * costs.multiply_adds * units)
    return butterflies + exchanged, moving[0], moving[1]


_CPU = PassKernels(
    "fft/cpu",
    CpuFftPolicy,
    cpu.text,
    cpu.CpuPassPlan,
    _cpu_seconds,
    lambda found, line, *_: cpu.with_joined(found, line),
    lambda *_: [],
    False,
    True,
)
_GROUP = PassKernels(
    "fft/group",
    GroupFftPolicy,
    group.text,
    group.GroupPassPlan,
    _group_seconds,
    joined.of_one_line,
    joined.of_two_axes,
    True,
    False,
)
