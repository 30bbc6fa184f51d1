"""The steps of solves by the panels of a factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.factor.launch import OneLaunch
from portable_gpu.ops.fronts.device import DeviceFronts, FrontsPlan
from portable_gpu.ops.fronts.stages import group_size
from portable_gpu.ops.fronts.substitution import backward_stage, forward_stage, takes_stages
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Step, Temporary
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target

_Which = np.ndarray[Any, np.dtype[np.int32]]
_RUN = 64


def forward_steps(
    device: DeviceFronts,
    stages: Sequence[_Which],
    rows: int,
    count: int,
    factor: int,
    x: int | Temporary,
) -> list[Step]:
    """``X = L^-1 B`` in place.

    Args:
        device: The fronts.
        stages: Of the factorisation.
        rows: How many rows all of them take.
        count: Columns of B.
        factor, x: The panels and B: n x count by rows, in the permuted numbering.
    """
    elem = device.elem
    contributions = Temporary("contributions", max(1, rows * count) * elem.itemsize, elem.itemsize)
    if takes_stages(device.engine.target, elem):
        parts = [forward_stage(device, one, count, factor, x, contributions) for one in stages]
        return [step for part in parts for step in part]
    text = solve_text("forward", elem, device.engine.target)
    steps = []
    for which in stages:
        plan = FrontsPlan(
            device, text, "forward", {"first_of": 0, "count": count},
            ["factor", "x", "contributions"], len(which), group_size(device.engine.target),
            {"which": which.astype(np.int32)},
        )  # fmt: skip
        steps.append(Step(plan, (factor, x, contributions)))
    return steps


def backward_steps(
    device: DeviceFronts, stages: Sequence[_Which], count: int, factor: int, x: int | Temporary
) -> list[Step]:
    """``X = L^-H Y`` in place; arguments as of :func:`forward_steps`."""
    if takes_stages(device.engine.target, device.elem):
        parts = [backward_stage(device, one, count, factor, x) for one in reversed(stages)]
        return [step for part in parts for step in part]
    text = solve_text("backward", device.elem, device.engine.target)
    steps = []
    for which in reversed(stages):
        plan = FrontsPlan(
            device, text, "backward", {"first_of": 0, "count": count}, ["factor", "x"],
            len(which), group_size(device.engine.target), {"which": which.astype(np.int32)},
        )  # fmt: skip
        steps.append(Step(plan, (factor, x)))
    return steps


class PermutePlan(OneLaunch):
    """Rows into the permuted numbering, or back; operands: b and x."""

    def __init__(
        self, engine: Engine, perm: Any, n: int, count: int, b: Operand, back: bool
    ) -> None:
        """Build the kernel; ``perm`` is a buffer."""
        self._perm = perm
        target = engine.target
        size = group_size(target)
        run = _RUN * 16 if target.is_cpu else 1
        groups = -(-n * count // (run * size))
        self.bytes = 2 * n * count * b.elem.itemsize
        self._launch = engine.programs.launch(
            permute_text(b.elem, target, back),
            "permute",
            {"n": n, "count": count, "b_row": b.row, "b_col": b.col, "run": run},
            ["perm", "b", "x"],
            ["b_offset", "x_offset"],
            (groups * size,),
            (size,),
        )

    def _buffers(self, state: QueueState, operands: Sequence[Any]) -> Sequence[Any]:
        return super()._buffers(state, (self._perm, *operands))


def solve_text(name: str, elem: Element, target: Target) -> Specialization:
    """The kernel of a direction: ``forward`` or ``backward``."""
    return specialize(f"fronts/{name}", target, e=elem, size=group_size(target))


def permute_text(elem: Element, target: Target, back: bool) -> Specialization:
    """The kernel that moves rows."""
    return specialize("fronts/permute", target, e=elem, size=group_size(target), back=back)
