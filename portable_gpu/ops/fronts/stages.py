"""The steps of a stage: fronts whose children are all factorised."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.factor.estimates import BlockSizes
from portable_gpu.ops.factor.variants import parts
from portable_gpu.ops.fronts.cpu import assembly_step
from portable_gpu.ops.fronts.device import PIVOT_STATUS, REPORT, DeviceFronts
from portable_gpu.ops.fronts.group import group_steps
from portable_gpu.ops.fronts.kernels import tables
from portable_gpu.ops.fronts.large import front_steps
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.plan import Step
from portable_gpu.targets import Target

_Which = np.ndarray[Any, np.dtype[np.int32]]
_SIZE = 64


def stage_steps(device: DeviceFronts, which: _Which) -> list[Step]:
    """Return the steps that assemble and factorise fronts, none an ancestor of another.

    Operands: see :mod:`portable_gpu.ops.fronts.device`.
    """
    engine = device.engine
    if not engine.target.is_cpu:
        return group_steps(device, which)
    made = parts(engine, BlockSizes.of(engine.target, device.elem))
    steps = []
    for s in which.tolist():
        steps += [assembly_step(device, s), *front_steps(made, device, s)]
    return steps


def last_step(device: DeviceFronts) -> Step:
    """Return the step that finds the first column that failed."""
    engine, size = device.engine, group_size(device.engine.target)
    plan = OneLaunch(
        engine, first_failure_spec(engine.target), "first_failure", {"count": len(device.fronts)},
        ["failures", "report"], (size,), (size,), tables={"fronts": device.tables[0]},
    )  # fmt: skip
    return Step(plan, (PIVOT_STATUS, REPORT))


def first_failure_spec(target: Target) -> Specialization:
    """Render the kernel that finds the first column that failed."""
    parameters = [
        *tables("long", "fronts", "failures"),
        buffer("long", "report", writes=True, restrict=False),
        *scalars("long", "count", "failures_offset", "report_offset"),
    ]
    kernels = {"first_failure": parameters}
    return specialize("fronts/first_failure", target, kernels, size=group_size(target))


def group_size(target: Target) -> int:
    """Return the work-items of a group of the kernels without local memory."""
    return 1 if target.is_cpu else _SIZE
