"""The tuning policy of the elementwise kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from portable_gpu.dtypes import Element
from portable_gpu.powers_of_two import is_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Range, TunedPolicy

#: The largest vector, in bytes, that a compiler without inlining passes correctly to built-ins.
_PASSED = 32


@dataclass(frozen=True)
class ElementwisePolicy(TunedPolicy):
    """The tuning policy of the elementwise kernels.

    Attributes:
        group_size: The number of work-items in a group (1 on a CPU).
        vector_bytes: The size of a vector: on a GPU of a load, on a CPU of a computed value.
        unroll: The number of vectors that a work-item computes (GPU).
        groups_per_unit: The largest number of work-groups for each compute unit (CPU).
        work_per_group: The smallest number of bytes of a work-group (CPU).
    """

    group_size: Annotated[int, Range(1, 1024)]
    vector_bytes: Annotated[int, Range(1, 64)]
    unroll: Annotated[int, Range(1, 16)]
    groups_per_unit: Annotated[int, Range(1, 1024)]
    work_per_group: Annotated[int, Range(1, 1 << 30)]

    @classmethod
    def default(cls, target: Target, elem: Element) -> ElementwisePolicy:
        """Few large groups and whole vectors on a CPU; groups of 256 and 128-bit loads on a GPU."""
        if target.is_cpu:
            max_bytes = 64 if target.builtins_inline else _PASSED
            return cls(1, min(target.vector_bytes, max_bytes), 1, 4, 1 << 16)
        size = max(target.subgroup_size, min(256, target.max_work_group_size))
        return cls(size, 16, 4, 1, 1)

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """Group sizes, vectors and unrolling around the default."""
        if target.is_cpu:
            max_bytes = 64 if target.builtins_inline else _PASSED
            return {
                "vector_bytes": tuple(v for v in (16, 32, 64) if v <= max_bytes),
                "groups_per_unit": (1, 2, 4, 8, 16),
                "work_per_group": (1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18),
            }
        sizes = tuple(s for s in (64, 128, 256, 512) if s % target.subgroup_size == 0)
        return {"group_size": sizes, "vector_bytes": (4, 8, 16), "unroll": (1, 2, 4, 8)}

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`TunedPolicy.edges`; the edges are those of a tile of one row."""
        vector = max(1, self.vector_bytes // itemsize)
        return self.unroll, self.group_size * vector * self.unroll, 1

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        size = self.group_size
        return {
            "sizes are powers of two": is_power_of_two(size, self.vector_bytes, self.unroll),
            "group_size is within the device's limit": size <= target.max_work_group_size,
            "group_size is a multiple of the sub-group": size % target.subgroup_size == 0,
            "group_size is 1 on the CPU path": size == 1 or not target.is_cpu,
            "vectors pass through built-ins": (
                not target.is_cpu or target.builtins_inline or self.vector_bytes <= _PASSED
            ),
        }
