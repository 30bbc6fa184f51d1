"""The tile sizes of products on matrix units: a policy for each main loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

from portable_gpu.dtypes import Element
from portable_gpu.errors import PolicyError
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Range, TunedPolicy

#: Bytes of a line of local memory: the span of the matrix unit's widest swizzle.
LINE = 128
_WARPGROUP = 128
#: The largest extent that the copy engine can address.  Its coordinates are signed 32-bit integers,
#: and the last step of each piece may start or end beyond the extent.
_MAX_BOXED_EXTENT = (1 << 31) - 4096
_STEP = 64  # a step of k: the elements of a line of 16-bit floats
_OTHER_REGISTERS = 88  # registers of a work-item in addition to its sums
#: Work-items of a wavefront.
LANES = 64
#: The maximum of registers for the sums of a wavefront.  With more sums, two wavefronts do not fit
#: one SIMD without spills, on any generation (compiled by clang 19).
_MAX_SUM_REGISTERS = 96


@dataclass(frozen=True)
class WgmmaPolicy(TunedPolicy):
    """The tiles of ``cl_kernels/gemm/wgmma.cl.mako``.

    Attributes:
        consumers: The number of warpgroups that multiply.  A group also has a producer, which
            copies the operands: another warpgroup, or one warp if ``bulk``.
        blocks: The number of blocks of 64 rows of C whose sums a consumer has in registers.
        tile_n: Columns of C of a group.
        stages: The number of steps of k that are in local memory at the same time.
        band: The number of tile rows in a band; tiles are numbered band by band, so that tiles that
            run at the same time share operands in the cache.
        flush: The matrix unit truncates its sums.  After this number of steps of k (128 bytes of
            each piece) they are added to sums in registers, which are rounded; 0: never.
        bulk: Whether the copy engine copies the operands in boxes.  Otherwise work-items copy them
            in chunks of 16 bytes.
        producers: The number of warpgroups that copy, unless the copy engine does.
    """

    consumers: Annotated[int, Range(1, 7)]
    blocks: Annotated[int, Range(1, 8)]
    tile_n: Annotated[int, Range(16, 256)]
    stages: Annotated[int, Range(3, 64)]
    band: Annotated[int, Range(1, 1024)] = 8
    flush: Annotated[int, Range(0, 1024)] = 0
    bulk: bool = True
    producers: Annotated[int, Range(1, 2)] = 1

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
        """Work-items of the producer."""
        return 32 if self.bulk else _WARPGROUP * self.producers

    def with_supported_copies(self, target: Target, longest: float) -> WgmmaPolicy:
        """This policy, with copies by work-items if the copy engine cannot make them.

        Args:
            target: The target.
            longest: The largest extent of an operand.
        """
        bulk = self.bulk and target.tensor_maps and longest <= _MAX_BOXED_EXTENT
        return self if bulk == self.bulk else replace(self, bulk=bulk)

    def check_pieces(self, parts: int) -> None:
        """Raise PolicyError unless the stages are two or more whole steps of k.

        A step takes one stage for each of the ``parts`` pieces of a value.  With another number of
        stages the kernel would never end.
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
        """The maximum of registers of a work-item; one warp that copies counts as a warpgroup."""
        warpgroups = self.consumers + (1 if self.bulk else self.producers)
        return min(255, 65536 // (_WARPGROUP * warpgroups) // 8 * 8)

    @property
    def has_registers_for_a(self) -> bool:
        """Whether enough registers are left to read A through registers.

        With fewer, ptxas makes each wgmma instruction wait for the previous one.
        """
        return self.sums + 32 + 8 * self.blocks <= self.registers

    def local_bytes(self, elem: Element) -> int:
        """Local memory of a group; it is the same for all elements."""
        return self.stages * (LINE * (self.tile_m + self.tile_n) + 16)

    @property
    def part_capacity(self) -> tuple[int, int]:
        """The capacity of A's and of B's stages, in chunks of 8 sums of each work-item.

        When groups share the steps of a tile, they read each other's sums through this memory.
        """
        chunk = 8 * 4 * _WARPGROUP * self.consumers
        of_a, of_b = (self.stages * LINE * x // chunk for x in (self.tile_m, self.tile_n))
        return of_a, of_b

    @property
    def scratch_bytes(self) -> int:
        """Local memory through which warps store rows of C that are not aligned."""
        return 4 * self.consumers * 16 * 40 * 4

    def groups(self, target: Target) -> int:
        """The maximum number of groups: all that run at the same time.

        Groups are persistent: each computes one tile after another.
        """
        by_memory = target.local_mem_per_unit // (self.stages * LINE * (self.tile_m + self.tile_n))
        by_registers = 65536 // (min(168, self.sums + _OTHER_REGISTERS) * self.group_size)
        return target.compute_units * max(1, min(by_memory, by_registers))

    @classmethod
    def default(cls, target: Target, elem: Element) -> WgmmaPolicy:
        """The policy of large products."""
        return cls.for_shape_class("large").with_supported_copies(target, 1)

    @classmethod
    def for_shape_class(cls, shape_class: str, parts: int = 1) -> WgmmaPolicy:
        """The default policy of a shape class.

        Args:
            shape_class: One of :func:`classes_of`.
            parts: Pieces that values are split into.  If there are several, ``flush`` is such that
                sums are as accurate as in float32.
        """
        consumers, blocks, tile_n, stages = _WGMMA_CLASSES[shape_class]
        if parts == 1:
            return cls(consumers, blocks, tile_n, stages, band=16)
        return cls(consumers, blocks, tile_n, 6, flush=1 if parts > 2 else 2)

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """The values that the tuner tries; ``flush`` affects the accuracy and is not tuned."""
        return {
            "consumers": (1, 2, 3),
            "blocks": (1, 2),
            "tile_n": (16, 32, 64, 96, 128, 160, 192, 224, 256),
            "stages": (3, 4, 5, 6, 8),
            "band": (4, 8, 16),
            "bulk": (False, True),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`TunedPolicy.edges`."""
        return self.tile_m, self.tile_n, _STEP

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """Every condition that the kernel relies on."""
        sums, share = self.sums, self.registers
        local = self.local_bytes(elem)
        return {
            "the target's matrix units are fed by warpgroups": target.matrix_units == "wgmma",
            "tile_n is a multiple of the lines of a pass of copies, 16 at least": (
                self.tile_n % (16 if self.bulk else 16 * self.producers) == 0
            ),
            "the target's copy engine supports tensor maps": not self.bulk or target.tensor_maps,
            "boxes have at most 256 lines": not self.bulk or max(self.tile_m, self.tile_n) <= 256,
            f"the sums ({sums} registers) leave 24 of {share}": sums + 24 <= share,
            f"local memory ({local} bytes) is at most {target.static_local_mem}": (
                local <= target.static_local_mem
            ),
            "the sums of a tile fit the local memory of the stages": (
                8 * sum(self.part_capacity) >= self.blocks * self.tile_n // 2
            ),
        }


@dataclass(frozen=True)
class MmaPolicy(TunedPolicy):
    """The tiles of ``cl_kernels/gemm/mma.cl.mako``.

    Attributes:
        warps_m, warps_n: Warps of a group along the rows and the columns of its tile.
        blocks, pairs: The squares of 16 x 16 of C that a warp sums, along rows and columns.
        stages: The number of steps of k that are in local memory at the same time.
        band: See :class:`WgmmaPolicy`.
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

    @property
    def sums(self) -> int:
        """Registers of a work-item's sums."""
        return 16 * self.blocks * self.pairs

    def local_bytes(self, elem: Element) -> int:
        """Local memory of a group; it is the same for all elements."""
        return self.stages * (LINE * (self.tile_m + self.tile_n) + 16)

    @property
    def scratch_bytes(self) -> int:
        """Local memory through which warps store rows of C that are not aligned."""
        return self.group_size // 32 * 16 * 18 * 8

    def groups(self, target: Target) -> int:
        """The maximum number of groups: there is no limit, because each computes one tile."""
        return 1 << 31

    @classmethod
    def default(cls, target: Target, elem: Element) -> MmaPolicy:
        """The policy of large products."""
        return cls.for_shape_class("large")

    @classmethod
    def for_shape_class(cls, shape_class: str, parts: int = 1) -> MmaPolicy:
        """The default policy of one of :data:`MMA_CLASSES`; values are not split."""
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
        """See :meth:`TunedPolicy.edges`."""
        return self.tile_m, self.tile_n, _STEP

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """Every condition that the kernel relies on."""
        sums = self.sums
        local, lines = self.local_bytes(elem), self.copiers // 8
        return {
            "the target has matrix units": target.matrix_units != "",
            "blocks is even": self.blocks % 2 == 0,
            f"a group ({self.group_size}) has at most {target.max_work_group_size} work-items": (
                self.group_size <= target.max_work_group_size
            ),
            f"a pass copies {lines} lines, a multiple of the swizzle's 8": lines % 8 == 0,
            f"passes of {lines} lines divide tile_m and tile_n": (
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
class MfmaPolicy(TunedPolicy):
    """The tiles of ``cl_kernels/gemm/mfma.cl.mako``.

    Attributes:
        waves_m, waves_n: Wavefronts of a group along the rows and the columns of its tile.
        wave_m, wave_n: The rows and columns of C that a wavefront sums: multiples of the side of
            the instruction's square.
        buffers: 2 for a second pair of tiles in local memory, which saves a barrier in each step.
        band: See :class:`WgmmaPolicy`.
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
        """Local memory of a group; it is the same for all elements."""
        return self.buffers * LINE * (self.tile_m + self.tile_n)

    def groups(self, target: Target) -> int:
        """The maximum number of groups: there is no limit, because each computes one tile."""
        return 1 << 31

    @classmethod
    def default(cls, target: Target, elem: Element) -> MfmaPolicy:
        """The policy of large products: the largest tile whose sums fit."""
        every = (cls.for_shape_class(name) for name in MFMA_CLASSES)
        return next(policy for policy in every if all(policy.limits(target, elem).values()))

    @classmethod
    def for_shape_class(cls, shape_class: str, parts: int = 1) -> MfmaPolicy:
        """The default policy of one of :data:`MFMA_CLASSES`; values are not split."""
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
        """See :meth:`TunedPolicy.edges`."""
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
            f"passes of {rows} rows divide tile_m and tile_n": (
                self.tile_m % rows == 0 and self.tile_n % rows == 0
            ),
            f"the sums ({sums} registers) are at most {_MAX_SUM_REGISTERS}": (
                sums <= _MAX_SUM_REGISTERS
            ),
            f"local memory ({local} bytes) is at most {target.static_local_mem}": (
                local <= target.static_local_mem
            ),
        }


MatrixPolicy: TypeAlias = WgmmaPolicy | MmaPolicy | MfmaPolicy


def requires_k_along_b(policy: MatrixPolicy) -> bool:
    """Whether k must run along the lines of B.

    If k runs across them, a line has 64 columns, and ``tile_n`` must be a multiple of 64.
    """
    return isinstance(policy, WgmmaPolicy) and policy.tile_n % 64 != 0


#: The default policies by shape class: consumers, blocks, tile_n and stages.  With few tiles,
#: products wait for memory, so their policies have more stages, to keep more copies in flight.
_WGMMA_CLASSES = {
    "large": (2, 1, 256, 4),
    "wide": (2, 1, 192, 4),
    "broad": (3, 1, 192, 4),
    "tall": (3, 1, 128, 4),
    "medium": (2, 1, 128, 6),
    "small": (1, 1, 128, 8),
    "tiny": (1, 1, 64, 6),
    "narrow": (1, 1, 32, 8),
    "slim": (1, 1, 16, 8),
    "128x240": (2, 1, 240, 4),
    "128x208": (2, 1, 208, 4),
    "128x176": (2, 1, 176, 5),
    "128x160": (2, 1, 160, 5),
    "128x144": (2, 1, 144, 5),
    "128x96": (2, 1, 96, 7),
    "192x64": (3, 1, 64, 6),
    "64x80": (1, 1, 80, 10),
    "64x192": (1, 1, 192, 4),
    "256x64": (2, 2, 64, 4),
}
#: The default policies by shape class: the fields of :class:`MmaPolicy`.
_MMA_CLASSES = {
    "large": (2, 4, 4, 2, 4),
    "medium": (2, 4, 2, 2, 4),
    "small": (2, 2, 2, 2, 4),
    "tiny": (1, 2, 2, 1, 6),
}
#: The default policies by shape class: the fields of :class:`MfmaPolicy`.
_MFMA_CLASSES = {
    "large": (2, 2, 64, 64, 1),
    "medium": (2, 2, 32, 64, 1),
    "small": (2, 2, 32, 32, 2),
}
WGMMA_CLASSES = tuple(_WGMMA_CLASSES)
#: The shape classes that were timed for operands with readers only.
CLASSES_OF_READERS = ("64x192", "256x64")
MMA_CLASSES = tuple(_MMA_CLASSES)
MFMA_CLASSES = tuple(_MFMA_CLASSES)
#: The shape classes of products whose values are split into pieces.
_PIECES_CLASSES = ("medium", "small", "tiny")
#: For each main loop its type of policy, and its shape classes.
POLICIES: dict[str, tuple[type[MatrixPolicy], tuple[str, ...]]] = {
    "wgmma": (WgmmaPolicy, WGMMA_CLASSES),
    "mma": (MmaPolicy, MMA_CLASSES),
    "mfma": (MfmaPolicy, MFMA_CLASSES),
}


def classes_of(kernel: str, parts: int) -> tuple[str, ...]:
    """The shape classes of a main loop; each has a policy.

    Args:
        kernel: The main loop.
        parts: Pieces that values are split into.
    """
    return POLICIES[kernel][1] if parts == 1 else _PIECES_CLASSES
