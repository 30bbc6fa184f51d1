"""The kernels that compute passes on a kind of target, behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, TypeAlias

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.ops.fft import cpu, group
from portable_gpu.ops.fft.grouping import fills_unit, group_plan
from portable_gpu.ops.fft.passes import Pass, moved
from portable_gpu.ops.fft.policy import CpuFftPolicy, GroupFftPolicy
from portable_gpu.ops.fft.problem import Line
from portable_gpu.ops.fft.ways import Way
from portable_gpu.runtime.plan import Plan
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, overlapped

FftPolicy: TypeAlias = CpuFftPolicy | GroupFftPolicy
#: Of the rate of products in registers, what butterflies in scratch reach.
_EFFICIENCY = 0.3
#: How much longer it takes to bring numbers that lie along the transform, or anyhow.
_LAYOUTS = {"across": 1.0, "along": 1.15, "any": 4.0}
#: Bytes that memory hands out at once to a GPU.
_SECTOR = 32
#: Bytes of local memory that a compute unit of a GPU moves for each multiply-add it could do.
_LOCAL_BYTES = 1.0


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
        orders: Whether it has the forms ``ordered`` and ``turned``, of cosine transforms.
    """

    name: str
    policy: type[FftPolicy]
    text: Callable[[Sequence[Pass], Any, Target], Specialization]
    plan: Callable[..., Plan]
    seconds: Callable[[Sequence[Pass], Any, Target, DeviceCosts], float]
    more_ways: Callable[[Sequence[Way], Line], list[Way]]
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
    numbers in two passes of 4096 take 118 us each, of which memory takes 67).
    """
    (run,) = runs
    plan = group_plan(run, policy, target)
    each = group.groups(run, plan)
    units = min(each, target.compute_units)
    numbers = each * plan.slots * plan.length * (2 if plan.chirp else 1)
    itemsize = run.real.itemsize
    moving = 0.0
    for rows, across in ((run.source, plan.source_across), (run.target, plan.target_across)):
        size = rows.side.components * itemsize
        step, beside = (rows.lane, plan.slots * run.planes) if across else (rows.row, rows.rows)
        together = min(beside, run.lanes) if across else beside
        used = size * together if abs(step) == 1 else size
        waste = -(-used // _SECTOR) * _SECTOR / used
        moving += waste * size * rows.rows * run.count
    butterflies = numbers * 2.5 * log2(max(2, plan.length)) / (_rate(run, costs) * units)
    trips = len(plan.stages) - 1 + plan.staged_source + plan.staged_target
    exchanged = numbers * 4 * itemsize * trips / (_LOCAL_BYTES * costs.multiply_adds * units)
    computing, moving = butterflies + exchanged, moving / (costs.bandwidth * units)
    if fills_unit(plan, run, target):
        return computing + moving
    return overlapped(computing, moving)


_CPU = PassKernels(
    "fft/cpu", CpuFftPolicy, cpu.text, cpu.CpuPassPlan, _cpu_seconds, cpu.with_joined, True
)
_GROUP = PassKernels(
    "fft/group",
    GroupFftPolicy,
    group.text,
    group.GroupPassPlan,
    _group_seconds,
    lambda found, _: [*found],
    False,
)
