"""Sizes of the packed gemm: register tiles, and blocking for the caches.

Source: Goto & van de Geijn, *Anatomy of high-performance matrix multiplication*, TOMS 34(3),
2008; Van Zee & van de Geijn, *BLIS*, TOMS 41(3), 2015 (names MR, NR).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from portable_gpu.dtypes import Element
from portable_gpu.ops.caches import L1_BYTES, L2_BYTES
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Range, TunedPolicy


@dataclass(frozen=True)
class PackedPolicy(TunedPolicy):
    """Sizes of the packed gemm.

    Attributes:
        vector: Lanes of a vector.
        item_m: Rows of a register tile (MR).
        item_n: Columns of a register tile (NR), a multiple of ``vector``.
        depth: Steps along k between two visits of a tile (kc).
        block_m: Panels of A that stay in the L2 cache.
        chunk: Steps of a panel that one work-item packs.
    """

    vector: Annotated[int, Range(2, 16)]
    item_m: Annotated[int, Range(1, 32)]
    item_n: Annotated[int, Range(2, 256)]
    depth: Annotated[int, Range(8, 1 << 14)]
    block_m: Annotated[int, Range(1, 4096)]
    chunk: Annotated[int, Range(4, 1 << 16)]

    @classmethod
    def default(cls, target: Target, elem: Element) -> PackedPolicy:
        """Fill the vector registers with sums, and most of L2 with a block of A."""
        lane = elem.itemsize // elem.components
        vector = min(16, max(2, target.vector_bytes // lane))
        if registers(target) == 32:
            item_m, vectors = (6, 2) if elem.complex else (12, 2)
        else:
            item_m, vectors = (6, 1) if elem.complex else (6, 2)
        return cls.of_tile(vector, item_m, vectors, elem)

    @classmethod
    def of_tile(cls, vector: int, item_m: int, vectors: int, elem: Element) -> PackedPolicy:
        """The policy of a register tile: the cache blocks follow from it."""
        item_n = vectors * vector
        depth = L1_BYTES // 2 // (item_n * elem.itemsize)
        if depth < 256:  # too wide a panel of B to stay in L1: both come from L2, and stay long
            step = (item_m + item_n) * elem.itemsize  # of a panel of A and one of B
            depth = min(1024, max(64, L2_BYTES * 3 // 16 // step // 64 * 64))
        block_m = max(1, L2_BYTES * 3 // 4 // (item_m * elem.itemsize * depth))
        return cls(vector, item_m, item_n, depth, block_m, chunk=256)

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """Tiles of other shapes, and deeper or shallower blocks."""
        base = cls.default(target, elem)
        return {
            "vector": (base.vector, max(2, base.vector // 2)),
            "item_m": (4, 6, 8, 12, 14),
            "item_n": tuple(base.vector * vectors for vectors in (1, 2, 3, 4)),
            "depth": (256, 384, 512, 1024, 2048),
            "block_m": (4, 8, 16, 32),
            "chunk": (128, 256, 512),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`TunedPolicy.edges`."""
        return self.item_m, self.item_n, self.depth

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """The conditions on which the kernels rely."""
        sums = self.item_m * self.item_n // self.vector * elem.components
        return {
            "vector is 2, 4, 8 or 16": self.vector in (2, 4, 8, 16),
            "item_n is a multiple of vector": self.item_n % self.vector == 0,
            "chunk is a multiple of 4": self.chunk % 4 == 0,
            f"sums fit {registers(target)} vector registers": sums < 2 * registers(target),
        }

    def fit(self, m: int, n: int, k: int, elem: Element) -> PackedPolicy:
        """The policy with the register tile that wastes least on a product of m x n over k.

        Only three tiles are considered, because each needs a program: the policy's own, and, for
        few rows or columns, two others.
        """
        sums = self.item_m * self.item_n // self.vector
        shapes = {(self.item_m, self.item_n // self.vector)}
        small = m <= 8 * self.item_m or n <= 8 * self.item_n
        if small:
            shapes |= {shape for shape in ((4, 3), (8, 1)) if shape[0] * shape[1] <= sums}

        def cost(shape: tuple[int, int]) -> float:
            # A tile costs its multiply-adds (8 keep two pipes full), and some loads.
            rows, vectors = shape
            tiles = -(-m // rows) * -(-n // (vectors * self.vector))
            # B comes from memory once for each row of tiles, if it is too large for the cache.
            load = 3 if small and n * k * elem.itemsize > L2_BYTES else 1
            return tiles * (max(8, rows * vectors) + 0.25 * rows + load * vectors)

        best = min(sorted(shapes), key=cost)
        if best == (self.item_m, self.item_n // self.vector):
            return self
        return self.of_tile(self.vector, *best, elem)


def registers(target: Target) -> int:
    """Vector registers: 32 with 512-bit vectors, else 16 assumed (Arm has 32 of 128 bits)."""
    return 32 if target.vector_bytes >= 64 else 16
