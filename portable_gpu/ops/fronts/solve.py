"""The steps of solves by the panels of a factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.fronts.cpu import front_policy
from portable_gpu.ops.fronts.device import DeviceFronts, FrontsPlan
from portable_gpu.ops.fronts.stages import group_size
from portable_gpu.ops.fronts.substitution import backward_stage, forward_stage, takes_stages
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Step, Temporary
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target

Lists = Sequence[np.ndarray[Any, np.dtype[np.int32]]]
Place = int | Temporary
_SIZE, _RUN = 64, 64
#: Columns of B that a work-item of a CPU takes.
_STRIP = 16


def forward_steps(
    device: DeviceFronts,
    stages: Sequence[Lists],
    rows: int,
    count: int,
    factor: int,
    x: Place,
    left: int | None = None,
) -> list[Step]:
    """``X = L^-1 B`` in place.

    Args:
        device: The fronts.
        stages: Of each the lists of fronts, each of which is gone through in order.
        rows: How many rows all contributions take.
        count: Columns of B.
        factor, x: The panels and B: n x count by rows, in the permuted numbering.
        left: The contributions, where they are an operand.
    """
    steps: list[Step] = []
    place = _contributions(device, rows, count) if left is None else left
    for lists in stages:
        if takes_stages(device.engine.target, device.elem):
            steps += forward_stage(device, np.concatenate(lists), count, factor, x, place)
        else:
            steps.append(_step("forward", device, lists, place, count, factor, x))
    return steps


def backward_steps(
    device: DeviceFronts,
    stages: Sequence[Lists],
    rows: int,
    count: int,
    factor: int,
    x: Place,
    left: int | None = None,
) -> list[Step]:
    """``X = L^-H Y`` in place; arguments as of :func:`forward_steps`."""
    steps: list[Step] = []
    place = _contributions(device, rows, count) if left is None else left
    for lists in reversed(stages):
        if takes_stages(device.engine.target, device.elem):
            steps += backward_stage(device, np.concatenate(lists), count, factor, x)
        else:
            steps.append(_step("backward", device, lists, place, count, factor, x))
    return steps


def _contributions(device: DeviceFronts, rows: int, count: int) -> Temporary:
    itemsize = device.elem.itemsize
    return Temporary("contributions", max(1, rows * count) * itemsize, itemsize)


def _step(
    name: str,
    device: DeviceFronts,
    lists: Lists,
    left: Place,
    count: int,
    factor: int,
    x: Place,
) -> Step:
    elem, target = device.elem, device.engine.target
    operands, places = ["factor", "x", "contributions"], (factor, x, left)
    text = solve_text(name, elem, target)
    which = np.concatenate(lists).astype(np.int32)
    if target.is_cpu:
        share = _STRIP if count > _STRIP or len(lists) > 1 else max(1, -(-count // 2))
        start = np.cumsum([0, *map(len, lists)]).astype(np.int32)
        plan = FrontsPlan(
            device, text, name, {"lists": len(lists), "count": count, "share": share}, operands,
            len(lists) * -(-count // share), 1, {"which": which, "list_start": start},
        )  # fmt: skip
    else:
        plan = FrontsPlan(
            device, text, name, {"first_of": 0, "count": count}, operands, len(which), _SIZE,
            {"which": which},
        )  # fmt: skip
    return Step(plan, places)


class PermutePlan(OneLaunch):
    """Rows into the permuted numbering, or back; operands: b and x."""

    def __init__(
        self,
        engine: Engine,
        perm: Any,
        n: int,
        count: int,
        elem: Element,
        b: Operand,
        back: bool,
    ) -> None:
        """Build the kernel; ``perm`` is a buffer, ``elem`` is x's."""
        self._perm = perm
        target = engine.target
        size = group_size(target)
        run = _RUN * 16 if target.is_cpu else 1
        groups = -(-n * count // (run * size))
        self.bytes = 2 * n * count * b.elem.itemsize
        self._launch = engine.programs.launch(
            permute_text(elem, b.elem, target, back),
            "permute",
            {"n": n, "count": count, "b_row": b.row, "b_col": b.col, "run": run},
            ["perm", "b", "x"],
            ["b_offset", "x_offset"],
            (groups * size,),
            (size,),
        )

    def _buffers(self, state: QueueState, operands: Sequence[Any]) -> Sequence[Any]:
        return super()._buffers(state, (self._perm, *operands))


class TakePlan(OneLaunch):
    """``to[k] = from[index[k]]``, converted; operands: from and to.

    Of a negative number its complement is the index, and the element's conjugate is taken; an index
    that is no place stands for a zero.
    """

    def __init__(
        self, engine: Engine, index: np.ndarray[Any, Any], most: int, source: Element, to: Element
    ) -> None:
        """Build the kernel, and bring the indices; `from` has ``most`` elements."""
        target = engine.target
        size, run = group_size(target), _RUN * 16 if target.is_cpu else 1
        groups = -(-len(index) // (run * size))
        self._index = engine.bring(index.astype(np.int64))
        self.kept_bytes = 8 * len(index)
        self.bytes = len(index) * (8 + source.itemsize + to.itemsize)
        self._launch = engine.programs.launch(
            take_text(source, to, target),
            "take",
            {"count": len(index), "most": most, "run": run},
            ["index", "from", "to"],
            ["from_offset", "to_offset"],
            (groups * size,),
            (size,),
        )

    def _buffers(self, state: QueueState, operands: Sequence[Any]) -> Sequence[Any]:
        return super()._buffers(state, (self._index, *operands))


def take_text(source: Element, to: Element, target: Target) -> Specialization:
    """The kernel that takes elements by their indices."""
    return specialize("fronts/take", target, source=source, to_=to, size=group_size(target))


def solve_text(name: str, elem: Element, target: Target) -> Specialization:
    """The kernel of a direction: ``forward`` or ``backward``."""
    if target.is_cpu:
        policy = front_policy(target, elem)
        return specialize("fronts/cpu_solve", target, e=elem, policy=policy, direction=name)
    return specialize(f"fronts/{name}", target, e=elem, size=_SIZE)


def permute_text(elem: Element, other: Element, target: Target, back: bool) -> Specialization:
    """The kernel that moves rows between x, of ``elem``, and b, of ``other``."""
    size = group_size(target)
    return specialize("fronts/permute", target, e=elem, other=other, size=size, back=back)
