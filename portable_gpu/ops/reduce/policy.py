"""How reductions use a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from portable_gpu.dtypes import Element
from portable_gpu.powers_of_two import is_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy, Range


@dataclass(frozen=True)
class ReducePolicy(Policy):
    """How reductions use a device.

    Attributes:
        group_size: Work-items of a group (1 on a CPU).
        vector_bytes: Bytes of a vector load.
        unroll: Independent vectors of a work-item in flight.
        groups_per_unit: Most work-groups for each compute unit.
        work_per_group: Bytes that are worth a work-group of their own.
        column_bytes: Bytes of neighbouring columns that a work-item folds.
        column_lanes: Work-items of a group side by side along the columns; more where rows are few.
    """

    group_size: Annotated[int, Range(1, 1024)]
    vector_bytes: Annotated[int, Range(1, 256)]
    unroll: Annotated[int, Range(1, 32)]
    groups_per_unit: Annotated[int, Range(1, 1024)]
    work_per_group: Annotated[int, Range(1, 1 << 30)]
    column_bytes: Annotated[int, Range(1, 1 << 16)]
    column_lanes: Annotated[int, Range(1, 1024)]

    @classmethod
    def default(cls, target: Target, elem: Element) -> ReducePolicy:
        """CPU: whole vectors, few large groups.  GPU: 128-bit loads, groups of 256."""
        if target.is_cpu:
            return cls(1, target.vector_bytes, 4, 4, 1 << 17, 4096, 1)
        size = max(target.subgroup_size, min(256, target.max_work_group_size))
        return cls(size, 16, 2, 8, 1 << 14, 16, target.subgroup_size)

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """Group sizes, vectors and unrolling around the default."""
        own = cls.default(target, elem)
        return {
            "group_size": (1,) if target.is_cpu else (64, 128, 256, 512, 1024),
            "vector_bytes": (16, 32, 64) if target.is_cpu else (4, 8, 16),
            "unroll": (1, 2, 4, 8),
            "groups_per_unit": (1, 2, 4, 8, 16),
            "work_per_group": (1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18),
            "column_bytes": (own.column_bytes // 2, own.column_bytes, 2 * own.column_bytes),
            "column_lanes": (1,) if target.is_cpu else (16, 32, 64),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`Policy.edges`."""
        rows = self.group_size * max(1, self.vector_bytes // itemsize) * self.unroll
        return rows, self.column_bytes // itemsize * self.column_lanes, 1

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        size, lanes = self.group_size, self.column_lanes
        return {
            "group_size is within the device's limit": 1 <= size <= target.max_work_group_size,
            "group_size is a power of two": is_power_of_two(size),
            "group_size is a multiple of the sub-group": size % target.subgroup_size == 0,
            "group_size is 1 on the CPU path": size == 1 or not target.is_cpu,
            "column_lanes divides group_size": lanes >= 1 and size % lanes == 0,
            "vector_bytes is a power of two": is_power_of_two(self.vector_bytes),
            "local memory holds an accumulator of 64 bytes for each work-item": (
                target.is_cpu or 64 * size <= target.local_mem_size
            ),
        }
