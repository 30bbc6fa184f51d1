"""How the kernels of rows use a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from portable_gpu.dtypes import Element
from portable_gpu.ops.caches import L2_BYTES
from portable_gpu.powers_of_two import is_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy, Range


@dataclass(frozen=True)
class RowsPolicy(Policy):
    """``rows`` and ``cpu_rows``.

    Attributes:
        group_size: Work-items of a group (1 on a CPU).
        long_group_size: The same where a group has one long row.
        vector: Elements of a vector of a CPU.
        load_bytes: Bytes of a load of a GPU.
        kept: Elements that a work-item keeps in registers (GPUs).
        unroll: Vectors of a step of a row that is read twice.
        side_by_side: Work-items of neighbouring rows, where neighbours have neighbouring rows.
        cached_bytes: The longest row that is read from the cache for each phase (CPUs).
        groups_per_unit: The least number of work-groups for each compute unit.
        grain: Bytes that are worth a work-group of their own (CPUs).
    """

    group_size: Annotated[int, Range(1, 1024)]
    long_group_size: Annotated[int, Range(1, 1024)]
    vector: Annotated[int, Range(1, 16)]
    load_bytes: Annotated[int, Range(1, 64)]
    kept: Annotated[int, Range(1, 64)]
    unroll: Annotated[int, Range(1, 8)]
    side_by_side: Annotated[int, Range(1, 1024)]
    cached_bytes: Annotated[int, Range(0, 1 << 18)]
    groups_per_unit: Annotated[int, Range(1, 1024)]
    grain: Annotated[int, Range(1, 1 << 30)]

    @classmethod
    def default(cls, target: Target, elem: Element) -> RowsPolicy:
        """CPU: full vectors, rows in the second cache.  GPU: 16-byte loads, 32 elements kept."""
        if target.is_cpu:
            width = target.vector_bytes // (8 if elem.real == "double" else 4)
            return cls(
                group_size=1, long_group_size=1, vector=max(1, min(16, width)), load_bytes=16,
                kept=1, unroll=4, side_by_side=1, cached_bytes=L2_BYTES // 4, groups_per_unit=8,
                grain=1 << 15,
            )  # fmt: skip
        size = max(target.subgroup_size, min(128, target.max_work_group_size))
        max_size = max(target.subgroup_size, min(512, target.max_work_group_size))
        elements = 16 if elem.real == "double" else 32
        return cls(
            group_size=size, long_group_size=max_size, vector=1, load_bytes=16, kept=elements,
            unroll=4, side_by_side=min(32, size), cached_bytes=0, groups_per_unit=4, grain=1 << 15,
        )  # fmt: skip

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        groups = self.group_size, self.long_group_size
        return {
            "sizes are powers of two": is_power_of_two(
                *groups, self.vector, self.load_bytes, self.kept, self.unroll, self.side_by_side
            ),
            "groups are within the device's limit": max(groups) <= target.max_work_group_size,
            "groups are multiples of the sub-group": target.is_cpu
            or not any(size % target.subgroup_size for size in groups),
            "groups are 1 on the CPU path": max(groups) == 1 or not target.is_cpu,
            "neighbouring rows are within the group": self.side_by_side <= self.group_size,
        }
