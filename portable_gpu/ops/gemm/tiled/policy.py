"""GemmPolicy: the tile sizes, and formulas for them for devices without measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from portable_gpu.codegen.operators import SCALAR_BYTES
from portable_gpu.dtypes import Element
from portable_gpu.powers_of_two import floor_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Range, TunedPolicy


@dataclass(frozen=True)
class GemmPolicy(TunedPolicy):
    """The tiles of ``cl_kernels/gemm/gemm.cl.mako``.

    The usual optimisations of a product are points of this space: tiles in local memory have
    ``item_m = item_n = 1``, 1-D tiles in registers ``item_n = 1``; then follow ``vector``,
    ``prefetch``, ``buffers = 2`` and ``prefetch_local``.

    Attributes:
        tile_m, tile_n: The part of C that a work-group computes.
        tile_k: Steps of k between two barriers.
        item_m, item_n: The part of this tile that a work-item sums in registers.
        lanes_m, lanes_n: The arrangement of neighbouring work-items, usually a sub-group.
        vector: Elements of the widest load; loads are narrower if memory is not aligned for it.
        buffers: 2 for a second pair of panels in local memory, which saves a barrier in each step.
        prefetch: Whether the next panels are loaded to registers while these are multiplied.
        prefetch_local: Whether the next fragments are loaded from local memory while these are
            multiplied, also of the next panel; this needs two buffers.
        unroll: Steps of k in straight code; more of them hide latency and need registers.
        interleave: Whether adjacent work-items have adjacent columns; otherwise each work-item has
            vectors of adjacent columns.
        band: The number of tile rows in a band; tiles are numbered band by band, so that tiles that
            run at the same time share operands in the cache.
    """

    tile_m: Annotated[int, Range(1, 1024)]
    tile_n: Annotated[int, Range(1, 1024)]
    tile_k: Annotated[int, Range(1, 256)]
    item_m: Annotated[int, Range(1, 64)]
    item_n: Annotated[int, Range(1, 64)]
    lanes_m: Annotated[int, Range(1, 1024)]
    lanes_n: Annotated[int, Range(1, 1024)]
    vector: Annotated[int, Range(1, 4)] = 1
    buffers: Annotated[int, Range(1, 2)] = 1
    prefetch: bool = False
    prefetch_local: bool = False
    unroll: Annotated[int, Range(1, 64)] = 1
    interleave: bool = False
    band: Annotated[int, Range(1, 1024)] = 8

    @property
    def group_size(self) -> int:
        """Work-items of a group."""
        return self.tile_m * self.tile_n // (self.item_m * self.item_n)

    def local_bytes(self, elem: Element) -> int:
        """Local memory of a group, padding included."""
        panels = self.buffers * self.tile_k * (self.tile_m + self.tile_n + 2 * self.vector)
        return panels * value_bytes(elem)

    def registers(self, elem: Element) -> int:
        """Estimate the registers of a work-item: sums, fragments, loaded values, and the rest."""
        moved = (self.tile_m + self.tile_n) * self.tile_k // self.group_size
        values = self.item_m * self.item_n + self.item_m + self.item_n + moved
        return values * value_words(elem) + _OTHER_REGISTERS

    def resident(self, target: Target, elem: Element) -> int:
        """Estimate the number of groups that a compute unit of four SIMDs runs at the same time."""
        file = 4 * target.subgroup_size * 2 * target.resident_registers
        return max(1, file // (self.registers(elem) * self.group_size))

    def at_edges(self, target: Target, elem: Element, k: int, splits: int) -> GemmPolicy:
        """Return the policy for a kernel that checks the end of k, or adds parts of k.

        Both need registers.  If the sums already take half of them, the compiler finds no good
        order of multiply-adds.  Then panels have half the depth, and need half the registers.
        """
        at_edge = splits > 1 or k % self.tile_k != 0
        shallow = replace(self, tile_k=self.tile_k // 2)
        fits = self.tile_k > 1 and all(shallow.limits(target, elem).values())
        return shallow if at_edge and self.is_tight(target, elem) and fits else self

    def is_tight(self, target: Target, elem: Element) -> bool:
        """Whether the sums alone take half of a work-item's registers."""
        return 2 * self.item_m * self.item_n * value_words(elem) >= target.registers

    @classmethod
    def default(cls, target: Target, elem: Element) -> GemmPolicy:
        """The policy of large products: registers set the item's tile, the group is square."""
        words = value_words(elem)
        budget = target.registers // (3 * words)
        item_n = floor_power_of_two(max(1, int(budget**0.5)))
        item_m = floor_power_of_two(max(1, min(8, budget // item_n)))
        return cls._fit(target, elem, 256, item_m, min(8, item_n))

    @classmethod
    def for_shape_class(cls, target: Target, elem: Element, shape_class: str) -> GemmPolicy:
        """Return the default policy of one of :data:`SHAPE_CLASSES`."""
        large = cls.default(target, elem)
        item_m, item_n = large.item_m, large.item_n
        if shape_class == "wide":
            return cls._fit(target, elem, 128, item_m, item_n)
        if shape_class == "medium":
            return cls._fit(target, elem, 64, item_m, item_n)
        if shape_class == "small":
            return cls._fit(target, elem, 128, item_m, max(1, item_n // 2))
        if shape_class == "tiny":
            return cls._fit(target, elem, 64, min(4, item_m), min(4, item_n))
        if shape_class == "flat":
            return cls._fit(target, elem, 128, 2, item_n, flat_m=16)
        return large

    @classmethod
    def _fit(
        cls, target: Target, elem: Element, group: int, item_m: int, item_n: int, flat_m: int = 0
    ) -> GemmPolicy:
        """Return the policy with the widest group and the deepest panels that fit the target."""
        group = floor_power_of_two(min(group, target.max_work_group_size))
        lanes = min(group, floor_power_of_two(max(1, target.subgroup_size)))
        rows = flat_m // item_m if flat_m else floor_power_of_two(max(1, round((group * 2) ** 0.5)))
        rows = min(rows, group)
        if not flat_m and rows * item_m > group // rows * item_n:
            rows //= 2
        # Rows of C that are as long as possible, for the stores.
        lanes_n = min(group // rows, lanes)
        lanes_m = lanes // lanes_n
        wide = 1 if elem.complex else max(1, min(4, 16 // value_bytes(elem)))
        tile_m, tile_n = rows * item_m, group // rows * item_n
        least_k = max(2, group // min(tile_m, tile_n))  # every work-item moves something
        # Deep panels are faster only where they are narrow.
        deep = 16 if tile_m * tile_n * value_words(elem) <= 64 * 64 else 8
        tile_k = max(least_k, deep // value_words(elem))
        sums, fragments = item_m * item_n * value_words(elem), (item_m + item_n) * value_words(elem)
        policy = cls(
            tile_m=tile_m,
            tile_n=tile_n,
            tile_k=tile_k,
            item_m=item_m,
            item_n=item_n,
            lanes_m=lanes_m,
            lanes_n=lanes_n,
            vector=wide,
            prefetch=True,
            # Straight code is faster where the tile of a work-item is small.
            unroll=1 if sums >= 64 else max(1, 8 // value_words(elem)),
        )
        while policy.tile_k > least_k and (
            policy.registers(elem) > target.resident_registers
            or policy.local_bytes(elem) > target.local_mem_size
        ):
            policy = replace(policy, tile_k=policy.tile_k // 2)
        fits = policy.registers(elem) + fragments <= target.resident_registers
        ahead = policy.unroll == 1 and fits and not elem.complex
        double = replace(policy, buffers=2, prefetch_local=ahead)
        has_memory = 3 * double.local_bytes(elem) <= target.local_mem_per_unit
        return (
            double if has_memory and double.local_bytes(elem) <= target.local_mem_size else policy
        )

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """The values that the tuner tries; :meth:`limits` drops those that do not fit."""
        return {
            "tile_m": (16, 32, 64, 128, 256),
            "tile_n": (16, 32, 64, 128, 256),
            "tile_k": (4, 8, 16, 32),
            "item_m": (1, 2, 4, 8, 16),
            "item_n": (1, 2, 4, 8, 16),
            "lanes_m": tuple(1 << i for i in range(target.subgroup_size.bit_length())),
            "lanes_n": tuple(1 << i for i in range(target.subgroup_size.bit_length())),
            "vector": (1,) if elem.complex else (1, 2, 4),
            "buffers": (1, 2),
            "prefetch": (False, True),
            "prefetch_local": (False, True),
            "unroll": (1, 2, 4, 8, 16),
            "band": (1, 4, 8, 16),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`TunedPolicy.edges`."""
        return self.tile_m, self.tile_n, self.tile_k

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """Every condition that the kernel relies on."""
        group = self.group_size
        sums = self.item_m * self.item_n * value_words(elem)
        return {
            "straight code has at most 4096 multiply-adds": (
                self.unroll * self.item_m * self.item_n <= 4096
            ),
            "vector is 1, 2 or 4": self.vector in (1, 2, 4),
            "vector is 1 for complex elements": self.vector == 1 or not elem.complex,
            "lanes_m * item_m divides tile_m": self.tile_m % (self.lanes_m * self.item_m) == 0,
            "lanes_n * item_n divides tile_n": self.tile_n % (self.lanes_n * self.item_n) == 0,
            f"a group ({group}) has at most {target.max_work_group_size} work-items": (
                group <= target.max_work_group_size
            ),
            "the group's size divides tile_m * tile_k": self.tile_m * self.tile_k % group == 0,
            "the group's size divides tile_n * tile_k": self.tile_n * self.tile_k % group == 0,
            "vector divides tile_m, tile_n and tile_k": all(
                tile % self.vector == 0 for tile in (self.tile_m, self.tile_n, self.tile_k)
            ),
            "prefetch_local takes two buffers and an even tile_k": (
                not self.prefetch_local or (self.buffers == 2 and self.tile_k % 2 == 0)
            ),
            f"local memory ({self.local_bytes(elem)} bytes) is at most {target.local_mem_size}": (
                self.local_bytes(elem) <= target.local_mem_size
            ),
            f"the sums ({sums} registers) leave a third of {target.registers}": (
                3 * sums <= 2 * target.registers
            ),
        }


#: The kinds of product that have policies of their own, by the size of their tiles.
SHAPE_CLASSES = ("large", "wide", "medium", "small", "flat", "tiny")


def value_bytes(elem: Element) -> int:
    """Bytes of one element in local memory and registers."""
    return elem.components * SCALAR_BYTES[elem.real]


def value_words(elem: Element) -> int:
    """32-bit registers of one value."""
    return max(1, value_bytes(elem) // 4)


#: Registers of a work-item for addresses and counters.
_OTHER_REGISTERS = 32
