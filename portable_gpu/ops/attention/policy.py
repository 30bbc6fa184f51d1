"""How attention of 16-bit floats is divided for matrix units: a policy for each kernel.

In parameters, ``dq`` is the number of elements of a query or key, and ``dv`` that of a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from portable_gpu.dtypes import Element
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy, Range

# Registers of a work-item of each kernel for fragments, addresses, maxima and sums of rows; and, if
# there is a mask, for its addresses and values.  ptxas 13.0 confirms them.
_WARPS, _WARPS_MASK = 80, 16
_WARPGROUPS, _WARPGROUPS_MASK = 32, 28
_MOST_REGISTERS = 255  # of a work-item
_ALL_REGISTERS = 1 << 16  # of a multiprocessor
_WARPGROUP = 128


@dataclass(frozen=True)
class AttentionPolicy(Policy):
    """How ``cl_kernels/attention/mma.cl.mako`` divides the work.

    Attributes:
        warps: Warps of a group.
        blocks: Blocks of 16 queries of a warp.
        keys: Keys of a tile.
    """

    warps: Annotated[int, Range(1, 8)]
    blocks: Annotated[int, Range(1, 2)]
    keys: Annotated[int, Range(16, 128)]

    @property
    def queries(self) -> int:
        """Queries of a group."""
        return 16 * self.blocks * self.warps

    @property
    def group_size(self) -> int:
        """Work-items of a group."""
        return 32 * self.warps

    @property
    def most_registers(self) -> int:
        """The registers that a work-item may have."""
        return _MOST_REGISTERS

    def registers(self, dq: int, dv: int, masked: bool) -> int:
        """Estimate the registers of a work-item, without those for its queries."""
        others = _WARPS + (_WARPS_MASK if masked else 0)
        return self.blocks * (dv + self.keys) // 2 + others

    def keeps_queries(self, dq: int, dv: int, masked: bool) -> bool:
        """Whether a warp has registers for its queries; otherwise each tile loads them again."""
        return self.registers(dq, dv, masked) + self.blocks * dq // 4 <= self.most_registers

    def local_bytes(self, dq: int, dv: int) -> int:
        """Local memory of a group."""
        return 2 * (self.queries * dq + self.keys * (dq + dv))

    @classmethod
    def default(cls, target: Target, elem: Element) -> AttentionPolicy:
        """The policy of many queries of 64 elements."""
        return cls.for_shape_class("narrow")

    @classmethod
    def for_shape_class(cls, shape_class: str) -> AttentionPolicy:
        """The default of one of :data:`SHAPE_CLASSES`."""
        return cls(*SHAPE_CLASSES[shape_class])

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        return {
            "the target's warps have matrix units": target.matrix_units in ("mma", "wgmma"),
            "keys is a multiple of 16": self.keys % 16 == 0,
            "the group is within the device's limit": self.group_size <= target.max_work_group_size,
        }


@dataclass(frozen=True)
class WarpgroupPolicy(Policy):
    """How ``cl_kernels/attention/wgmma.cl.mako`` divides the work.

    Attributes:
        warpgroups: Warpgroups of a group, of 64 queries each.
        keys: Keys of a tile.
        stages: Tiles of keys, and of values, in local memory at a time.
    """

    warpgroups: Annotated[int, Range(1, 3)]
    keys: Annotated[int, Range(16, 256)]
    stages: Annotated[int, Range(2, 8)]

    blocks = 1  # a warp has one block of 16 queries

    @property
    def queries(self) -> int:
        """Queries of a group."""
        return 64 * self.warpgroups

    @property
    def group_size(self) -> int:
        """Work-items of a group."""
        return _WARPGROUP * self.warpgroups

    def registers(self, dq: int, dv: int, masked: bool) -> int:
        """Estimate the registers of a work-item: for sums, scores, powers and other values."""
        others = _WARPGROUPS + (_WARPGROUPS_MASK if masked else 0)
        return (dv + self.keys) // 2 + self.keys // 4 + others

    @property
    def most_registers(self) -> int:
        """The registers that a work-item may have."""
        return min(_MOST_REGISTERS, _ALL_REGISTERS // self.group_size // 8 * 8)

    def local_bytes(self, dq: int, dv: int) -> int:
        """Local memory of a group."""
        tiles = 2 * (self.queries * dq + self.stages * self.keys * (dq + dv))
        return tiles + 8 * (1 + 4 * self.stages)

    @classmethod
    def default(cls, target: Target, elem: Element) -> WarpgroupPolicy:
        """The policy of many queries."""
        return cls.for_shape_class("narrow")

    @classmethod
    def for_shape_class(cls, shape_class: str) -> WarpgroupPolicy:
        """The default of one of :data:`WARPGROUP_CLASSES`."""
        return cls(*WARPGROUP_CLASSES[shape_class])

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        return {
            "the target's matrix units are fed by warpgroups": target.matrix_units == "wgmma",
            "keys is a multiple of 16": self.keys % 16 == 0,
            "local memory holds tiles": self.local_bytes(128, 128) <= target.static_local_mem,
            "the group is within the device's limit": self.group_size <= target.max_work_group_size,
        }


AnyPolicy: TypeAlias = AttentionPolicy | WarpgroupPolicy

#: The policies of the kinds of problem: ``warps``, ``blocks`` and ``keys``.  A problem is narrow if
#: both dq and dv are at most 128, and else wide (at most 256).  It has few groups if those of the
#: policy for many would be fewer than the compute units.
SHAPE_CLASSES = {
    "narrow": (4, 2, 64), "narrow, few": (4, 1, 64), "wide": (4, 1, 64), "wide, few": (4, 1, 64),
}  # fmt: skip
#: The same for warpgroups: ``warpgroups``, ``keys`` and ``stages``.  A problem is narrow if both dq
#: and dv are at most 64, and else wide (at most 128).
WARPGROUP_CLASSES = {
    "narrow": (1, 128, 2), "narrow, few": (1, 128, 2), "wide": (2, 128, 2), "wide, few": (1, 80, 2),
}  # fmt: skip
