"""Extents of streamed tiles."""

from __future__ import annotations

import mmap
import random
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portable_gpu.errors import ArgumentError
from portable_gpu.multi.streaming import convolution
from portable_gpu.multi.streaming.storage import TiledOperand, _chunks_of
from portable_gpu.multi.streaming.tiles import (
    block_extents,
    grid,
    inner_extent,
    product_tiles,
    reduction_tile,
)
from portable_gpu.ops.conv.shapes import Options, geometry


def test_the_tiles_of_products_take_at_most_the_limit_and_more_than_a_third() -> None:
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(3000):
        m, n, k = (int(2 ** rng.uniform(0, 17)) for _ in range(3))
        a, b, c = ((2, 2, 4), (4, 4, 4), (8, 8, 8), (4, 8, 8))[rng.integers(4)]
        limit = int(2 ** rng.uniform(10, 34))
        try:
            rows, columns, inner = product_tiles((m, n, k), (a, b, c), limit)
        except ArgumentError:
            refused += 1
            assert limit < 2 * (64 * 64 * (a + b) + 64 * 64 * c)
            continue
        nbytes = 2 * (rows * inner * a + inner * columns * b + rows * columns * c)
        assert nbytes <= limit
        assert 1 <= rows <= m
        assert 1 <= columns <= n
        assert 1 <= inner <= k
        whole = (rows, columns, inner) == (m, n, k)
        if limit > 1 << 22:
            assert whole or 3 * nbytes > limit, (m, n, k, limit, rows, columns, inner)
    assert 0 < refused < 1500


def test_the_inner_extent_of_tiles_on_cpus_is_as_large_as_the_limit_admits() -> None:
    for k, nbytes, most, expected in (
        (3072, (6144, 6144), 36 << 20, 3072),
        (8192, (4096, 4096), 16 << 20, 2048),
        (10_000, (4096, 8192), 16 << 20, 1264),  # eight equal parts, of at most 1360
        (0, (4096, 4096), 16 << 20, 1),
    ):
        inner = inner_extent(k, nbytes, most)
        assert inner == expected
        assert inner * sum(nbytes) <= most


def test_blocks_have_at_most_the_asked_elements_and_cover_the_array() -> None:
    rng = np.random.default_rng(1)
    for _ in range(500):
        ndim = int(rng.integers(0, 4))
        shape = [int(n) for n in rng.integers(1, 9, ndim)]
        chunks = [int(n) for n in rng.integers(1, 5, ndim)]
        maximum = int(rng.integers(1, 200))
        order = [int(axis) for axis in rng.permutation(ndim)]
        extents = block_extents(shape, maximum, chunks, order)
        assert extents is not None
        assert prod(extents) <= maximum
        seen = np.zeros(shape, int)
        for index in grid(shape, extents):
            seen[index] += 1
        assert np.all(seen == 1)
        if prod(chunks) <= maximum:
            whole = [n % c == 0 or n == s for n, c, s in zip(extents, chunks, shape, strict=True)]
            assert all(whole)


def test_new_chunks_divide_tiles() -> None:
    rng = np.random.default_rng(2)
    for _ in range(500):
        shape = [int(2 ** rng.uniform(0, 15)) for _ in range(2)]
        tile = [min(n, int(rng.integers(1, 200)) * 64) for n in shape]
        for chunk, extent, whole in zip(_chunks_of(shape, 4, tile), tile, shape, strict=True):
            assert 1 <= chunk <= extent
            assert extent == whole or extent % chunk == 0


def test_a_memmap_of_a_file_that_was_truncated_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(10000))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    with (tmp_path / "x.npy").open("r+b") as file:
        file.truncate(5000)
    with pytest.raises(ArgumentError, match=r"x maps 80128 bytes of a file that has 5000"):
        TiledOperand(x, "x")


def test_tiles_of_convolutions_leave_workspace() -> None:
    """Two tiles and the workspace take at most the limit; a CPU's has the windows of a tile."""
    draw = random.Random(0)
    with_windows = 0
    for _ in range(300):
        n, c, k, r, s = (draw.randint(1, 6) for _ in range(5))
        h, w = draw.randint(r, 40), draw.randint(s, 40)
        x, weight = np.empty((n, c, h, w), np.float32), np.empty((k, c, r, s), np.float32)
        g = geometry(Options(2, 1, 0, 1, 1), x.shape, weight.shape, None, ("x", "w", "y"))
        rows = convolution._RowsOfImages(g, 1, ((0, 0), (0, 0)))
        small = [TiledOperand(weight, "weight")]
        limit, on_cpu = 2 ** draw.randint(8, 19), draw.random() < 0.8
        try:
            tile = convolution._tile(rows, TiledOperand(x, "input"), small, limit, on_cpu)
        except ArgumentError:
            continue
        p, q = h - r + 1, w - s + 1
        read = c * (h if tile.rows == p else tile.rows + r - 1) * w
        tiles = 8 * (tile.images * (read + k * tile.rows * q) + weight.size)
        assert 1 <= tile.images <= n
        assert 1 <= tile.rows <= p
        assert tile.images == 1 or tile.rows == p
        assert tile.workspace >= limit // 8
        assert tiles + tile.workspace <= limit
        of_row = 4 * c * r * s * q
        of_one_row = 8 * (c * r * w + k * q + weight.size) + of_row + weight.nbytes
        if on_cpu and c > 1 and of_one_row <= limit * 7 // 8:
            assert tile.workspace >= of_row * tile.rows + weight.nbytes
            with_windows += tile.rows > 1
    assert with_windows > 40


def test_tiles_of_reductions_have_fewer_partial_results_than_elements(tmp_path: Path) -> None:
    """The other axes are cut if the first one is reduced, unless pieces of the file get short."""
    for shape, reduced, most, expected in (
        ((16, 1 << 20), {0}, 1 << 20, (16, 1 << 16)),
        ((16, 1 << 20), {1}, 1 << 20, (1, 1 << 20)),
        ((16, 1 << 20), {0, 1}, 1 << 20, (1, 1 << 20)),
        ((16, 1 << 20), {0}, 1 << 10, (1, 1 << 10)),  # pieces of 256 bytes
        ((1 << 10, 1 << 10), {0}, 1 << 16, (64, 1 << 10)),
        ((8, 4, 1 << 18), {0, 1}, 1 << 20, (8, 4, 1 << 15)),
        ((4, 1 << 18, 8), {0, 2}, 1 << 18, (4, 1 << 13, 8)),  # in place of 8 for each result
        ((4, 1 << 18, 2), {0, 2}, 1 << 18, (4, 1 << 15, 2)),
    ):
        x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, shape)
        tile = reduction_tile(TiledOperand(x, "x"), frozenset(reduced), most)
        assert tile == expected, (shape, reduced, most)
        transposed = reduction_tile(
            TiledOperand(x.T, "x"), frozenset(len(shape) - 1 - axis for axis in reduced), most
        )
        assert transposed == expected[::-1]


def test_tiles_of_reductions_have_whole_chunks() -> None:
    class Chunked:
        shape, dtype = (16, 1 << 20), np.dtype(np.float32)

        def __init__(self, *chunks: int) -> None:
            self.chunks = chunks

        def __getitem__(self, index: Any) -> Any:
            raise NotImplementedError

    for chunks, expected in (
        ((16, 1 << 12), (16, 1 << 16)),
        ((1, 1 << 20), (1, 1 << 20)),  # a chunk is a row, and is read once
        ((4, 3000), (16, 63000)),
    ):
        tile = reduction_tile(TiledOperand(Chunked(*chunks), "x"), frozenset({0}), 1 << 20)
        assert tile == expected


def test_the_pages_of_each_row_of_a_tile_are_requested() -> None:
    """Also of tiles with more axes and other strides; none of tiles of too many rows."""
    asked: set[int] = set()

    class Pages(mmap.mmap):
        def madvise(self, _option: int, start: int = 0, length: int | None = None) -> None:
            assert start % mmap.PAGESIZE == 0
            assert length is not None
            asked.update(range(start // mmap.PAGESIZE, -(-(start + length) // mmap.PAGESIZE)))

    pages = Pages(-1, 40 * 30 * 700 * 4)
    whole = np.frombuffer(pages, np.float32)
    begin = whole.ctypes.data
    cube = whole.reshape(40, 30, 700)
    for values, index in [
        (cube, np.s_[3:9, 5:8, 100:300]),
        (cube, np.s_[3:9, :, :]),
        (cube[::-1, ::2], np.s_[1:4, 2:5, 600:700]),
        (cube.transpose(1, 2, 0), np.s_[7:9, 600:700, 2:4]),
        (whole, np.s_[5000:90000]),
    ]:
        asked.clear()
        TiledOperand(values, "a").prefetch(index if isinstance(index, tuple) else (index,))
        tile = values[index]
        places = np.full(tile.shape, tile.ctypes.data - begin)
        for axis, stride in enumerate(tile.strides):
            steps = stride * np.arange(tile.shape[axis])
            places += steps.reshape([-1 if at == axis else 1 for at in range(tile.ndim)])
        needed = {*(places // mmap.PAGESIZE).ravel().tolist()}
        # A row of the transposed tile is not contiguous: all pages that it spans are requested.
        assert asked == needed if tile.strides[-1] == 4 else asked > needed
    asked.clear()
    TiledOperand(whole.reshape(-1, 100), "a").prefetch((slice(0, 8000), slice(0, 10)))
    assert not asked
