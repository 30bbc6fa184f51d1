"""How the gemv kernels use a device: one policy for each kernel, with a formula for any device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from portable_gpu.dtypes import Element
from portable_gpu.powers_of_two import is_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy, Range


def real_bytes(elem: Element) -> int:
    """Bytes of one real of a sum: float for 16-bit floats, 32 bits at least for integers."""
    if elem.floating:
        return 8 if elem.real == "double" else 4
    return max(4, elem.itemsize)


def _vector(target: Target, elem: Element) -> int:
    """Elements of a full vector: a register of sums on a CPU, else a 128-bit load."""
    if target.is_cpu:
        return max(1, min(16, target.vector_bytes // real_bytes(elem)) // elem.components)
    return max(1, min(8, 16 // elem.itemsize))


@dataclass(frozen=True)
class RowPolicy(Policy):
    """``dot_rows``, ``long_rows`` and ``cpu_rows``: A is contiguous along the summed axis.

    The numbers are upper bounds; a narrow, short or misaligned matrix lowers them.

    Attributes:
        group_size: Work-items of a group (1 on a CPU).
        long_group_size: The same for ``long_rows``, where all of them share a row.
        vector: Elements of a load.
        lanes: Work-items that share a row, at most a sub-group (``dot_rows``).
        rows: Rows that a work-item sums together, sharing each load of x.
        unroll: Vectors of a row in flight (CPU).
        groups_per_unit: The least number of work-groups for each compute unit.
        grain: Bytes of A that are worth a work-group of their own.
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
            return cls(1, 1, _vector(target, elem), 1, 8 // elem.components, 1, 8, 1 << 16)
        size, long_size = (
            max(target.subgroup_size, min(most, target.max_work_group_size)) for most in (128, 256)
        )
        rows = 4 if real_bytes(elem) * elem.components <= 8 else 2
        lanes = target.subgroup_size
        return cls(size, long_size, _vector(target, elem), lanes, rows, 1, 4, 1 << 14)

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """Loads, rows, and how many groups there are."""
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
            "grain": (1 << 15, 1 << 16, 1 << 19) if target.is_cpu else (1 << 13, 1 << 14, 1 << 16),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`Policy.edges`."""
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
class ColumnPolicy(Policy):
    """``axpy_columns`` and ``cpu_columns``: A is contiguous along the outputs.

    Attributes:
        group_size: Work-items of a group (1 on a CPU).
        vector: Elements of a load.
        lanes: Work-items of a group side by side along the outputs.
        rows: Rows of A in flight.
        unroll: Vectors of sums in registers, to which a vector of each row is added (CPU).
        block_bytes: Bytes of the sums of a block of outputs, which stay in L1 (CPU).
        groups_per_unit: The least number of work-groups for each compute unit.
        grain: Bytes of A that are worth a work-group of their own.
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
            return cls(1, _vector(target, elem), 1, 8, 4 // elem.components, 1 << 15, 4, 1 << 16)
        size = max(target.subgroup_size, min(256, target.max_work_group_size))
        return cls(size, _vector(target, elem), min(16, size), 8, 1, 0, 4, 1 << 14)

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """Loads, rows in flight, and the shape of a work-group."""
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
            "grain": (1 << 15, 1 << 16, 1 << 19) if target.is_cpu else (1 << 13, 1 << 14, 1 << 16),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`Policy.edges`."""
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
