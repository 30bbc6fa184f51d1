"""How a product is cut for matrix units: a policy for each of their main loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

from portable_gpu.dtypes import Element
from portable_gpu.errors import PolicyError
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy, Range

#: Bytes of a line of local memory: the matrix unit's widest swizzle.
LINE = 128
_WARPGROUP = 128
_MOST_BOXED = (1 << 31) - 4096  # the copy engine counts in 32 bits, and whole steps of each piece
_STEP = 64  # of k: a line of 16-bit floats
_OTHER_REGISTERS = 88  # of a work-item, without its sums
#: Work-items of a wavefront.
LANES = 64
#: Registers that the sums of a wavefront may take: with more, two of them do not fit a SIMD of any
#: generation without spills (as clang 19 compiles them).
_MOST_SUMS = 96


@dataclass(frozen=True)
class WgmmaPolicy(Policy):
    """How ``cl_kernels/gemm/wgmma.cl.mako`` cuts a product.

    Attributes:
        consumers: Warpgroups that multiply; one more copies, or one warp (``bulk``).
        blocks: Blocks of 64 rows of C that each of them sums in registers.
        tile_n: Columns of C of a group.
        stages: Steps of k in local memory at a time.
        band: Tile rows that are walked together, for the cache's sake.
        flush: Steps of k, of 128 bytes of each piece, after which the matrix unit's sums, which
            truncate, are added to registers, which round; 0 for never.
        bulk: Whether the copy engine brings the operands, box by box, and not work-items, 16 bytes
            by 16 bytes.
    """

    consumers: Annotated[int, Range(1, 7)]
    blocks: Annotated[int, Range(1, 8)]
    tile_n: Annotated[int, Range(16, 256)]
    stages: Annotated[int, Range(3, 64)]
    band: Annotated[int, Range(1, 1024)] = 8
    flush: Annotated[int, Range(0, 1024)] = 0
    bulk: bool = True

    @property
    def tile_m(self) -> int:
        """Rows of C of a group."""
        return 64 * self.blocks * self.consumers

    @property
    def group_size(self) -> int:
        """Work-items of a group."""
        return _WARPGROUP * self.consumers + self.copiers

    @property
    def copiers(self) -> int:
        """Work-items that copy lines, or tell the copy engine to."""
        return 32 if self.bulk else _WARPGROUP

    def suited(self, target: Target, longest: float) -> WgmmaPolicy:
        """This policy, with copies by work-items if the copy engine cannot make them."""
        bulk = self.bulk and target.tensor_maps and longest <= _MOST_BOXED
        return self if bulk == self.bulk else replace(self, bulk=bulk)

    def check_pieces(self, parts: int) -> None:
        """Raise PolicyError unless the stages are at least two whole steps of ``parts`` pieces.

        With others the kernel would wait for ever.
        """
        if self.stages % parts or self.stages < 2 * parts:
            raise PolicyError(
                f"{self} has {self.stages} stages; values of {parts} pieces take a multiple of "
                f"{parts}, {2 * parts} at least"
            )

    @property
    def sums(self) -> int:
        """Registers of a work-item's sums."""
        return self.blocks * self.tile_n // 2 * (2 if self.flush else 1)

    @property
    def registers(self) -> int:
        """Registers that a work-item may take."""
        return min(255, 65536 // (_WARPGROUP * (self.consumers + 1)) // 8 * 8)  # whole warpgroups

    @property
    def has_room_for_a(self) -> bool:
        """Whether A may go through registers: else ptxas lets one instruction wait for another."""
        return self.sums + 32 + 8 * self.blocks <= self.registers

    def local_bytes(self, elem: Element) -> int:
        """Local memory of a group, whatever the element."""
        return self.stages * (LINE * (self.tile_m + self.tile_n) + 16)

    @property
    def part_room(self) -> tuple[int, int]:
        """Sums of each work-item, in chunks of 8, that the stages of A and those of B hold."""
        chunk = 8 * 4 * _WARPGROUP * self.consumers
        of_a, of_b = (self.stages * LINE * x // chunk for x in (self.tile_m, self.tile_n))
        return of_a, of_b

    @property
    def scratch_bytes(self) -> int:
        """Local memory for the way of C's rows, where they begin off the grid of pairs."""
        return 4 * self.consumers * 16 * 40 * 4

    def groups(self, target: Target) -> int:
        """The most groups to launch: those that run at a time, for they take tile after tile."""
        by_memory = target.local_mem_per_unit // (self.stages * LINE * (self.tile_m + self.tile_n))
        by_registers = 65536 // (min(168, self.sums + _OTHER_REGISTERS) * self.group_size)
        return target.compute_units * max(1, min(by_memory, by_registers))

    @classmethod
    def default(cls, target: Target, elem: Element) -> WgmmaPolicy:
        """The policy of large products."""
        return cls.for_shape_class("large").suited(target, 1)

    @classmethod
    def for_shape_class(cls, shape_class: str, parts: int = 1) -> WgmmaPolicy:
        """The default of one of :func:`classes_of`.

        Args:
            shape_class: Its name.
            parts: Pieces that values are split into; sums are then as accurate as float32's.
        """
        consumers, tile_n, stages = _CLASSES[shape_class]
        if parts == 1:
            return cls(consumers, 1, tile_n, stages, band=16)
        return cls(consumers, 1, tile_n, 6, flush=1 if parts > 2 else 2)

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """The values that the tuner tries (not of ``flush``: that is accuracy, not speed)."""
        return {
            "consumers": (1, 2, 3),
            "blocks": (1, 2),
            "tile_n": (16, 32, 64, 96, 128, 160, 192, 224, 256),
            "stages": (3, 4, 5, 6, 8),
            "band": (4, 8, 16),
            "bulk": (False, True),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`Policy.edges`."""
        return self.tile_m, self.tile_n, _STEP

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """Every condition that the kernel relies on."""
        sums, share = self.sums, self.registers
        local = self.local_bytes(elem)
        return {
            "the target's matrix units are fed by warpgroups": target.matrix_units == "wgmma",
            "tile_n is a multiple of 16": self.tile_n % 16 == 0,  # what a pass of copies brings
            "the target's copy engine can be told of tensors": not self.bulk or target.tensor_maps,
            "boxes have at most 256 lines": not self.bulk or max(self.tile_m, self.tile_n) <= 256,
            f"the sums ({sums} registers) leave 24 of {share}": sums + 24 <= share,
            f"local memory ({local} bytes) is at most {target.static_local_mem}": (
                local <= target.static_local_mem
            ),
            "the stages hold the sums of a part of k": (
                8 * sum(self.part_room) >= self.blocks * self.tile_n // 2
            ),
        }


@dataclass(frozen=True)
class MmaPolicy(Policy):
    """How ``cl_kernels/gemm/mma.cl.mako`` cuts a product.

    Attributes:
        warps_m, warps_n: Warps of a group along the rows and the columns of its tile.
        blocks, pairs: Squares of 16 x 16 of C that each sums, along rows and columns.
        stages: Steps of k in local memory at a time.
        band: Tile rows that are walked together, for the cache's sake.
    """

    warps_m: Annotated[int, Range(1, 32)]
    warps_n: Annotated[int, Range(1, 32)]
    blocks: Annotated[int, Range(1, 8)]
    pairs: Annotated[int, Range(1, 16)]
    stages: Annotated[int, Range(3, 64)]
    band: Annotated[int, Range(1, 1024)] = 8

    flush = 0

    @property
    def tile_m(self) -> int:
        """Rows of C of a group."""
        return 16 * self.blocks * self.warps_m

    @property
    def tile_n(self) -> int:
        """Columns of C of a group."""
        return 16 * self.pairs * self.warps_n

    @property
    def group_size(self) -> int:
        """Work-items of a group."""
        return 32 * self.warps_m * self.warps_n

    @property
    def copiers(self) -> int:
        """Work-items that copy lines: all."""
        return self.group_size

    def local_bytes(self, elem: Element) -> int:
        """Local memory of a group, whatever the element."""
        return self.stages * (LINE * (self.tile_m + self.tile_n) + 16)

    @property
    def scratch_bytes(self) -> int:
        """Local memory for the way of C's rows, where they begin off the grid of pairs."""
        return self.group_size // 32 * 16 * 18 * 8

    def groups(self, target: Target) -> int:
        """The most groups to launch: any number, one for each tile."""
        return 1 << 31

    @classmethod
    def default(cls, target: Target, elem: Element) -> MmaPolicy:
        """The policy of large products."""
        return cls.for_shape_class("large")

    @classmethod
    def for_shape_class(cls, shape_class: str, parts: int = 1) -> MmaPolicy:
        """The default of one of :data:`MMA_CLASSES`; values are not split."""
        assert parts == 1
        return cls(*_MMA_CLASSES[shape_class])

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """The values that the tuner tries; :meth:`limits` drops those that do not fit."""
        return {
            "warps_m": (1, 2, 4),
            "warps_n": (1, 2, 4),
            "blocks": (2, 4),
            "pairs": (1, 2, 4),
            "stages": (3, 4, 5, 6),
            "band": (4, 8, 16),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`Policy.edges`."""
        return self.tile_m, self.tile_n, _STEP

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """Every condition that the kernel relies on."""
        sums = 16 * self.blocks * self.pairs
        local, lines = self.local_bytes(elem), self.copiers // 8
        return {
            "the target has matrix units": target.matrix_units != "",
            "blocks is even": self.blocks % 2 == 0,
            f"a group ({self.group_size}) has at most {target.max_work_group_size} work-items": (
                self.group_size <= target.max_work_group_size
            ),
            f"copies of {lines} lines are whole swizzles, of 8": lines % 8 == 0,
            f"copies of {lines} lines divide tile_m and tile_n": (
                self.tile_m % lines == 0 and self.tile_n % lines == 0
            ),
            f"the sums ({sums} registers) leave half of {target.registers}": (
                sums <= target.registers // 2 + 1
            ),
            f"local memory ({local} bytes) is at most {target.static_local_mem}": (
                local <= target.static_local_mem
            ),
        }


@dataclass(frozen=True)
class MfmaPolicy(Policy):
    """How ``cl_kernels/gemm/mfma.cl.mako`` cuts a product.

    Attributes:
        waves_m, waves_n: Wavefronts of a group along the rows and the columns of its tile.
        wave_m, wave_n: The part of C that each sums, in whole squares of the instruction.
        buffers: 2 for a second pair of tiles in local memory, which saves a barrier a step.
        band: Tile rows that are walked together, for the cache's sake.
    """

    waves_m: Annotated[int, Range(1, 32)]
    waves_n: Annotated[int, Range(1, 32)]
    wave_m: Annotated[int, Range(32, 256)]
    wave_n: Annotated[int, Range(32, 256)]
    buffers: Annotated[int, Range(1, 2)]
    band: Annotated[int, Range(1, 1024)] = 8

    flush = 0

    @property
    def tile_m(self) -> int:
        """Rows of C of a group."""
        return self.waves_m * self.wave_m

    @property
    def tile_n(self) -> int:
        """Columns of C of a group."""
        return self.waves_n * self.wave_n

    @property
    def group_size(self) -> int:
        """Work-items of a group."""
        return LANES * self.waves_m * self.waves_n

    @property
    def copiers(self) -> int:
        """Work-items that copy lines: all."""
        return self.group_size

    def local_bytes(self, elem: Element) -> int:
        """Local memory of a group, whatever the element."""
        return self.buffers * LINE * (self.tile_m + self.tile_n)

    def groups(self, target: Target) -> int:
        """The most groups to launch: any number, one for each tile."""
        return 1 << 31

    @classmethod
    def default(cls, target: Target, elem: Element) -> MfmaPolicy:
        """The policy of large products: the largest tile whose sums fit."""
        every = (cls.for_shape_class(name) for name in MFMA_CLASSES)
        return next(policy for policy in every if all(policy.limits(target, elem).values()))

    @classmethod
    def for_shape_class(cls, shape_class: str, parts: int = 1) -> MfmaPolicy:
        """The default of one of :data:`MFMA_CLASSES`; values are not split."""
        assert parts == 1
        return cls(*_MFMA_CLASSES[shape_class])

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """The values that the tuner tries; :meth:`limits` drops those that do not fit."""
        return {
            "waves_m": (1, 2, 4),
            "waves_n": (1, 2, 4),
            "wave_m": (32, 64, 96, 128),
            "wave_n": (32, 64, 96, 128),
            "buffers": (1, 2),
            "band": (4, 8, 16),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`Policy.edges`."""
        return self.tile_m, self.tile_n, _STEP

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """Every condition that the kernel relies on."""
        sums = self.wave_m * self.wave_n // LANES * (2 if elem.real == "double" else 1)
        local, rows = self.local_bytes(elem), self.copiers * 16 // LINE
        return {
            "the target's matrix units are fed by wavefronts": target.matrix_units == "mfma",
            "wave_m and wave_n are multiples of 32": self.wave_m % 32 == self.wave_n % 32 == 0,
            f"a group ({self.group_size}) has at most {target.max_work_group_size} work-items": (
                self.group_size <= target.max_work_group_size
            ),
            f"copies of {rows} rows divide tile_m and tile_n": (
                self.tile_m % rows == 0 and self.tile_n % rows == 0
            ),
            f"the sums ({sums} registers) are at most {_MOST_SUMS}": sums <= _MOST_SUMS,
            f"local memory ({local} bytes) is at most {target.static_local_mem}": (
                local <= target.static_local_mem
            ),
        }


MatrixPolicy: TypeAlias = WgmmaPolicy | MmaPolicy | MfmaPolicy


def is_odd(policy: MatrixPolicy) -> bool:
    """Whether tiles of warpgroups have columns for no whole lines across k, of 64 columns."""
    return isinstance(policy, WgmmaPolicy) and policy.tile_n % 64 != 0


#: Consumers, tile_n and stages; and the sizes of MmaPolicy and MfmaPolicy, of the kinds of product
#: that have policies of their own.  Few tiles wait for memory: what one group has under way counts.
_CLASSES = {
    "large": (2, 256, 4),
    "wide": (2, 192, 4),
    "broad": (3, 192, 4),
    "tall": (3, 128, 4),
    "medium": (2, 128, 6),
    "small": (1, 128, 8),
    "tiny": (1, 64, 6),
    "narrow": (1, 32, 8),
    "slim": (1, 16, 8),
    "128x240": (2, 240, 4),
    "128x208": (2, 208, 4),
    "128x176": (2, 176, 5),
    "128x160": (2, 160, 5),
    "128x144": (2, 144, 5),
    "128x96": (2, 96, 7),
    "192x64": (3, 64, 6),
    "64x80": (1, 80, 10),
}
_MMA_CLASSES = {
    "large": (2, 4, 4, 2, 4),
    "medium": (2, 4, 2, 2, 4),
    "small": (2, 2, 2, 2, 4),
    "tiny": (1, 2, 2, 1, 6),
}
_MFMA_CLASSES = {
    "large": (2, 2, 64, 64, 1),
    "medium": (2, 2, 32, 64, 1),
    "small": (2, 2, 32, 32, 2),
}
#: Those kinds.
WGMMA_CLASSES = tuple(_CLASSES)
MMA_CLASSES = tuple(_MMA_CLASSES)
MFMA_CLASSES = tuple(_MFMA_CLASSES)
#: Of values in pieces.
_PIECES_CLASSES = ("medium", "small", "tiny")
#: Of each main loop: how its policies are made, and the kinds of product that have their own.
POLICIES: dict[str, tuple[type[MatrixPolicy], tuple[str, ...]]] = {
    "wgmma": (WgmmaPolicy, WGMMA_CLASSES),
    "mma": (MmaPolicy, MMA_CLASSES),
    "mfma": (MfmaPolicy, MFMA_CLASSES),
}


def classes_of(kernel: str, parts: int) -> tuple[str, ...]:
    """The kinds of product that have policies of their own on a main loop.

    Args:
        kernel: The main loop.
        parts: Pieces that values are split into.
    """
    return POLICIES[kernel][1] if parts == 1 else _PIECES_CLASSES
