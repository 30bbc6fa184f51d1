"""The steps of a stage: fronts whose children are all done."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.factor.candidates import parts
from portable_gpu.ops.factor.estimates import Sizes
from portable_gpu.ops.factor.launch import OneLaunch
from portable_gpu.ops.fronts.cpu import assembly_step
from portable_gpu.ops.fronts.device import FACTOR, REPORT, DeviceFronts, FrontsPlan
from portable_gpu.ops.fronts.large import large_steps
from portable_gpu.runtime.plan import Step, Temporary
from portable_gpu.targets import Target

_Which = np.ndarray[Any, np.dtype[np.int32]]
_SIZE = 64


def stage_steps(device: DeviceFronts, which: _Which, values: int | Temporary) -> list[Step]:
    """The steps that assemble and factorise some fronts, none an ancestor of another.

    Args:
        device: The fronts; :mod:`portable_gpu.ops.fronts.device` says what the operands are.
        which: Those that are to be made.
        values: The matrix's values, in L's dtype.
    """
    engine = device.engine
    if engine.target.is_cpu:
        sizes = Sizes.of(engine.target, device.elem)
        steps = []
        for s in which.tolist():
            steps.append(assembly_step(device, s, values))
            steps += large_steps(device, s, parts(engine, sizes), engine.precision)
        return steps
    text = front_text(device.elem, device.engine.target)
    plan = FrontsPlan(
        device, text, "front", {"first_of": 0}, ["values", "factor", "arena", "report"],
        len(which), group_size(device.engine.target), {"which": which.astype(np.int32)},
    )  # fmt: skip
    return [Step(plan, (values, FACTOR, device.arena, device.told))]


def last_step(device: DeviceFronts) -> Step:
    """The step that finds the first column that failed."""
    return Step(_FirstFailure(device), (device.told, REPORT))


class _FirstFailure(OneLaunch):
    """Operands: what the fronts told, and the report."""

    def __init__(self, device: DeviceFronts) -> None:
        size = group_size(device.engine.target)
        self._table = device.tables[0]
        self._launch = device.engine.programs.launch(
            specialize("fronts/first_failure", device.engine.target, size=size),
            "first_failure",
            {"count": len(device.fronts)},
            ["fronts", "told", "report"],
            ["told_offset", "report_offset"],
            (size,),
            (size,),
        )

    def _buffers(self, state: Any, operands: Any) -> Any:
        return super()._buffers(state, (self._table, *operands))


def front_text(elem: Element, target: Target) -> Specialization:
    """The kernel for fronts of any size."""
    return specialize("fronts/front", target, e=elem, size=group_size(target))


def group_size(target: Target) -> int:
    """Work-items of a group of the plain kernels."""
    return 1 if target.is_cpu else _SIZE
