"""Fronts on a CPU: one launch for subtrees; several work-items for each front above them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from portable_gpu.codegen.parameters import operand, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.caches import L2_BYTES
from portable_gpu.ops.factor.cpu import CpuPolicy
from portable_gpu.ops.fronts.device import (
    ARENA,
    FACTOR,
    PIVOT_STATUS,
    VALUES,
    DeviceFronts,
    FrontsPlan,
)
from portable_gpu.ops.fronts.kernels import (
    COUNTERS,
    fronts_tables,
    scratch,
    tables,
    written,
)
from portable_gpu.ops.fronts.table import Fronts
from portable_gpu.ops.gemm.packed.policy import registers
from portable_gpu.runtime.plan import Step
from portable_gpu.targets import Target

_Int32 = np.ndarray[Any, np.dtype[np.int32]]
_Int64 = np.ndarray[Any, np.dtype[np.int64]]

#: The approximate width of a panel, after which the trailing triangle is updated.
_BLOCK = 128
#: Work-items per compute unit of an assembly.
_ITEMS = 4


def front_policy(target: Target, elem: Element) -> CpuPolicy:
    """Choose tiles that fill the vector registers; the width of a strip is a multiple of theirs."""
    vector = CpuPolicy.default(target, elem).vector
    wide = registers(target) == 32
    vectors = 2 if wide and elem.itemsize // elem.components == 4 else 3
    strip = vectors * vector // elem.components
    max_rows = (8 if wide else 4) // elem.components
    rows = max(r for r in range(1, max_rows + 1) if strip % r == 0)
    return CpuPolicy(vector, rows, vectors, strip * max(1, _BLOCK // strip))


def strip_start(q: Any, strip: int) -> Any:
    """Compute the start of strip q of a triangle: see ``cl_kernels/fronts/_strips``."""
    return strip * (strip * q * (q + 1) // 2 + q)


class _Scratch:
    """The memory of a work-item that factorises fronts.

    Attributes:
        triangle: Elements of the largest front.
        places: Elements that hold one number for each column of the largest front.
        size: Elements in all.
        place: The position of each column in a front's first row.
    """

    def __init__(
        self, columns: _Int64, rows: _Int64, peak: int, policy: CpuPolicy, elem: Element
    ) -> None:
        strip, multiple = policy.strip(elem), policy.rows
        max_size = int((-(-columns // multiple) * multiple + rows).max(initial=0))
        strips, line = -(-max_size // strip), 64 // elem.itemsize
        self.triangle = _round_up(strip_start(strips, strip), line)
        self.places = _round_up(max_size + strip, line)
        self.size = self.triangle + 2 * self.places + _round_up(peak, line)
        column = np.arange(strips * strip)
        place = strip_start(column // strip, strip) + column % strip
        self.place = place.astype(np.int32)


class SubtreesPlan(FrontsPlan):
    """Factorise whole subtrees; operands: values, factor, arena and pivot status.

    Attributes:
        fronts, flops: The numbers of the fronts, and the operations of each.
    """

    def __init__(
        self,
        device: DeviceFronts,
        subtrees: _Int32,
        stack: _Int64,
        peak: int,
        in_order: bool = False,
    ) -> None:
        """Build the kernel.

        Args:
            device: The fronts.
            subtrees: The first front and the end of each subtree, in the order of their processing.
            stack: The position of each front's update on a work-item's stack; -1: in the arena.
            peak: Elements of the stack.
            in_order: Whether one work-item processes all subtrees, since they depend on each other.
        """
        elem, target, fronts = device.elem, device.engine.target, device.fronts
        self.fronts = np.concatenate([np.arange(low, end) for low, end in subtrees])
        columns, below = fronts.columns[self.fronts], fronts.rows[self.fronts]
        self.flops = work(columns, below) * elem.components**2
        shape = _Scratch(columns, below, peak, front_policy(target, elem), elem)
        groups = _threads(len(subtrees), target, in_order)
        super().__init__(
            device, subtrees_spec(elem, target), "subtrees",
            {
                "size": shape.size, "triangle": shape.triangle, "places": shape.places,
                "count": len(subtrees),
            },
            ["values", "factor", "arena", "failures"], groups, 1,
            {"subtree": subtrees.astype(np.int32), "stack": stack, "place": shape.place},
            scratch=groups * shape.size * elem.itemsize, flop=int(self.flops.sum()),
            counters=2,
        )  # fmt: skip

    def step(self) -> Step:
        """Return the step that runs this plan."""
        return Step(self, (VALUES, FACTOR, ARENA, PIVOT_STATUS))


def subtrees_scratch(
    fronts: Fronts,
    subtrees: Sequence[Sequence[int]],
    peak: int,
    target: Target,
    elem: Element,
    in_order: bool,
) -> int:
    """Compute the scratch bytes of all work-items of a :class:`SubtreesPlan`."""
    inside = np.concatenate([np.arange(low, end) for low, end in subtrees])
    policy = front_policy(target, elem)
    shape = _Scratch(fronts.columns[inside], fronts.rows[inside], peak, policy, elem)
    return _threads(len(subtrees), target, in_order) * shape.size * elem.itemsize


def _threads(subtrees: int, target: Target, in_order: bool) -> int:
    return 1 if in_order else min(subtrees, target.compute_units)


def assembly_step(device: DeviceFronts, s: int) -> Step:
    """Return the step that assembles a front: its panel, and its update in the arena."""
    count = _ITEMS * device.engine.target.compute_units
    plan = FrontsPlan(
        device, assemble_spec(device.elem, device.engine.target), "assemble",
        {"s": s, "count": count}, ["values", "factor", "arena"], count, 1,
    )  # fmt: skip
    return Step(plan, (VALUES, FACTOR, ARENA))


def work(columns: _Int64, rows: _Int64) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Compute the multiplications and additions of fronts: the squares of the column counts."""
    c, m = columns.astype(float), (columns + rows).astype(float)

    def squares(k: Any) -> Any:
        return k * (k + 1) * (2 * k + 1) / 6

    flop: np.ndarray[Any, np.dtype[np.float64]] = squares(m) - squares(m - c)
    return flop


def subtrees_spec(elem: Element, target: Target) -> Specialization:
    """Render the kernel of subtrees."""
    policy = front_policy(target, elem)
    policy.check(target, elem)
    strips = max(1, L2_BYTES // 2 // (policy.block * policy.strip(elem) * elem.itemsize))
    parameters = [
        *scratch(elem),
        COUNTERS,
        *tables("int", "subtree"),
        *tables("long", "stack"),
        *tables("int", "place"),
        *fronts_tables(),
        *scalars("long", "size", "triangle", "places", "count"),
        *written(elem, "values", "factor", "arena"),
        *operand("long", "failures", writes=True, restrict=False),
    ]
    kernels = {"subtrees": parameters}
    return specialize(
        "fronts/cpu_subtrees", target, kernels, e=elem, policy=policy, K=policy.block, NB=strips
    )


def assemble_spec(elem: Element, target: Target) -> Specialization:
    """Render the kernel that assembles one front."""
    parameters = [
        *fronts_tables(),
        *scalars("long", "s", "count"),
        *written(elem, "values", "factor", "arena"),
    ]
    return specialize("fronts/cpu_assemble", target, {"assemble": parameters}, e=elem)


def _round_up(n: int, line: int) -> int:
    return -(-n // line) * line
