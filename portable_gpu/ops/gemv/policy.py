"""How the gemv kernels use a device: two policies, each with a formula for any device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from portable_gpu.dtypes import Element
from portable_gpu.powers_of_two import is_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Range, TunedPolicy


def real_bytes(elem: Element) -> int:
    """Return the bytes of a real number of a sum.

    Floats of 16 bits are summed as float, and integers in at least 32 bits.
    """
    if elem.floating:
        return 8 if elem.real == "double" else 4
    return max(4, elem.itemsize)


def _vector(target: Target, elem: Element) -> int:
    """Return the elements of a full vector: of a register of sums on a CPU, else of 128 bits."""
    if target.is_cpu:
        return max(1, min(16, target.vector_bytes // real_bytes(elem)) // elem.components)
    return max(1, min(8, 16 // elem.itemsize))


@dataclass(frozen=True)
class RowPolicy(TunedPolicy):
    """``dot_rows``, ``long_rows`` and ``cpu_rows``: A is contiguous along the summed axis.

    The numbers are upper bounds; a narrow, short or misaligned matrix lowers them.

    Attributes:
        group_size: Work-items of a group (1 on a CPU).
        long_group_size: The same for ``long_rows``, where all of them share a row.
        vector: Elements of a load.
        lanes: Work-items that share a row, at most a sub-group (``dot_rows``).
        rows: Rows that a work-item sums together, sharing each load of x.
        unroll: Vectors of a row in flight (CPU).
        groups_per_unit: The number of work-groups for each compute unit to which sums are divided:
            on a GPU the least number, and on a CPU the largest.
        grain: The least bytes of A for each work-group (CPU).
    """

    group_size: Annotated[int, Range(1, 1024)]
    long_group_size: Annotated[int, Range(1, 1024)]
    vector: Annotated[int, Range(1, 16)]
    lanes: Annotated[int, Range(1, 1024)]
    rows: Annotated[int, Range(1, 32)]
    unroll: Annotated[int, Range(1, 32)]
    groups_per_unit: Annotated[int, Range(1, 1024)]
    grain: Annotated[int, Range(1, 1 << 30)]

    @classmethod
    def default(cls, target: Target, elem: Element) -> RowPolicy:
        """CPU: as many rows as hide a multiply-add's latency.  GPU: 128-bit loads, 4 rows."""
        if target.is_cpu:
            return cls(
                group_size=1, long_group_size=1, vector=_vector(target, elem), lanes=1,
                rows=8 // elem.components, unroll=1, groups_per_unit=8, grain=1 << 16,
            )  # fmt: skip
        size, long_size = (
            max(target.subgroup_size, min(most, target.max_work_group_size)) for most in (128, 256)
        )
        rows = 4 if real_bytes(elem) * elem.components <= 8 else 2
        return cls(
            group_size=size, long_group_size=long_size, vector=_vector(target, elem),
            lanes=target.subgroup_size, rows=rows, unroll=1, groups_per_unit=4, grain=1 << 14,
        )  # fmt: skip

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """Return the values that the tuner tries, by the names of fields."""
        full = _vector(target, elem)
        sizes = tuple(s for s in (64, 128, 256, 512) if s % target.subgroup_size == 0)
        size = target.subgroup_size
        return {
            "group_size": (1,) if target.is_cpu else sizes,
            "long_group_size": (1,) if target.is_cpu else sizes,
            "vector": tuple(sorted({max(1, full // 2), full})),
            "lanes": (1,) if target.is_cpu else (max(1, size // 4), max(1, size // 2), size),
            "rows": (1, 2, 4, 8, 16) if target.is_cpu else (1, 2, 4),
            "unroll": (1, 2, 4) if target.is_cpu else (1,),
            "groups_per_unit": (4, 8, 32) if target.is_cpu else (2, 4, 8),
            "grain": (1 << 15, 1 << 16, 1 << 19) if target.is_cpu else (1 << 14,),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`TunedPolicy.edges`."""
        rows = self.group_size // self.lanes * self.rows
        return rows, self.lanes * self.vector * self.unroll, 1

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        groups = self.group_size, self.long_group_size
        sums = max(groups) * self.rows * elem.components * real_bytes(elem)
        sizes = *groups, self.vector, self.lanes, self.rows, self.unroll
        return {
            "sizes are powers of two": is_power_of_two(*sizes),
            "groups are within the device's limit": max(groups) <= target.max_work_group_size,
            "groups are multiples of the sub-group": not any(
                size % target.subgroup_size for size in groups
            ),
            "groups are 1 on the CPU path": max(groups) == 1 or not target.is_cpu,
            "lanes are within a sub-group": self.lanes <= target.subgroup_size,
            "rows * unroll is at most 128": self.rows * self.unroll <= 128,
            "a vector has at most 16 components": self.vector * elem.components <= 16,
            "local memory holds the sums": target.is_cpu or 2 * sums <= target.local_mem_size,
        }


@dataclass(frozen=True)
class ColumnPolicy(TunedPolicy):
    """``axpy_columns`` and ``cpu_columns``: A is contiguous along the outputs.

    Attributes:
        group_size: Work-items of a group (1 on a CPU).
        vector: Elements of a load.
        lanes: Work-items of a group side by side along the outputs.
        rows: Rows of A in flight.
        unroll: Vectors of sums in registers, to which a vector of each row is added (CPU).
        block_bytes: Bytes of the sums of a block of outputs, which stay in L1 (CPU).
        groups_per_unit: The number of work-groups for each compute unit to which sums are divided:
            on a GPU the least number, and on a CPU the largest.
        grain: The least bytes of A for each work-group (CPU).
    """

    group_size: Annotated[int, Range(1, 1024)]
    vector: Annotated[int, Range(1, 16)]
    lanes: Annotated[int, Range(1, 1024)]
    rows: Annotated[int, Range(1, 32)]
    unroll: Annotated[int, Range(1, 32)]
    block_bytes: Annotated[int, Range(0, 1 << 18)]
    groups_per_unit: Annotated[int, Range(1, 1024)]
    grain: Annotated[int, Range(1, 1 << 30)]

    @classmethod
    def default(cls, target: Target, elem: Element) -> ColumnPolicy:
        """CPU: panels of 8 rows, sums in an L1 cache.  GPU: 128-bit loads, 8 rows."""
        if target.is_cpu:
            return cls(
                group_size=1, vector=_vector(target, elem), lanes=1, rows=8,
                unroll=4 // elem.components, block_bytes=1 << 15, groups_per_unit=4, grain=1 << 16,
            )  # fmt: skip
        size = max(target.subgroup_size, min(256, target.max_work_group_size))
        return cls(
            group_size=size, vector=_vector(target, elem), lanes=min(16, size), rows=8, unroll=1,
            block_bytes=0, groups_per_unit=4, grain=1 << 14,
        )  # fmt: skip

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """Return the values that the tuner tries, by the names of fields."""
        full = _vector(target, elem)
        sizes = tuple(s for s in (64, 128, 256, 512) if s % target.subgroup_size == 0)
        return {
            "group_size": (1,) if target.is_cpu else sizes,
            "vector": tuple(sorted({max(1, full // 2), full})),
            "lanes": (1,) if target.is_cpu else (8, 16, 32),
            "rows": (4, 8, 16) if target.is_cpu else (2, 4, 8),
            "unroll": (2, 4, 8) if target.is_cpu else (1,),
            "block_bytes": (1 << 13, 1 << 14, 1 << 15) if target.is_cpu else (0,),
            "groups_per_unit": (4, 8, 32) if target.is_cpu else (2, 4, 8),
            "grain": (1 << 15, 1 << 16, 1 << 19) if target.is_cpu else (1 << 14,),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`TunedPolicy.edges`."""
        rows = self.lanes * self.vector * self.unroll
        return rows, self.group_size // self.lanes * self.rows, 1

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        item = elem.components * real_bytes(elem)
        sums = self.group_size * self.vector * item
        block = self.vector * self.unroll * item
        sizes = self.group_size, self.vector, self.lanes, self.rows, self.unroll
        return {
            "sizes are powers of two": is_power_of_two(*sizes),
            "group_size is within the device's limit": self.group_size
            <= target.max_work_group_size,
            "group_size is a multiple of the sub-group": self.group_size % target.subgroup_size
            == 0,
            "group_size is 1 on the CPU path": self.group_size == 1 or not target.is_cpu,
            "lanes are within the group": self.lanes <= self.group_size,
            "rows * unroll is at most 128": self.rows * self.unroll <= 128,
            "a vector has at most 16 components": self.vector * elem.components <= 16,
            "local memory holds the sums": target.is_cpu or sums <= target.local_mem_size,
            "a CPU's block holds a step": not target.is_cpu or self.block_bytes >= block,
        }
