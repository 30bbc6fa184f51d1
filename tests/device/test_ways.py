"""Every way to force a product computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from reference import assert_within, product_bound, wider

from portable_gpu.ops.gemm.path import GemmPath
from portable_gpu.ops.gemm.paths import contiguous, make_path
from portable_gpu.ops.gemm.ways import name_of, ways
from portable_gpu.runtime.engine import Engine

# m, n, k: less than a tile, tiles and tails, a split k, a vector, few columns of many rows.
SHAPES = [(5, 7, 3), (70, 130, 33), (40, 24, 2100), (1, 90, 40), (200, 8, 64)]


def multiplied(engine: Engine, path: GemmPath, a: Any, b: Any, shape: tuple[int, ...]) -> Any:
    """C, which is full of NaN before."""
    c = np.full(shape, np.nan, a.dtype)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(engine.context, flags, hostbuf=x) for x in (a, b, c)]
    path.enqueue(1.0, 0.0, engine.state(), buffers, (0, 0, 0))
    cl.enqueue_copy(engine.queue, c, buffers[2])
    return c


def check(
    engine: Engine, m: int, n: int, k: int, trans: str, dtype: str, batch: tuple[int, ...] = ()
) -> None:
    rng = np.random.default_rng(1)
    a = rng.uniform(-1, 1, (*batch, m, k)).astype(dtype)
    b = rng.uniform(-1, 1, (*batch, k, n)).astype(dtype)
    stored = [
        x if t == "N" else np.ascontiguousarray(np.swapaxes(x, -1, -2))
        for x, t in zip((a, b), trans, strict=True)
    ]
    problem = contiguous(m, n, k, dtype, batch, *trans)
    expected, bound = wider(a) @ wider(b), product_bound(a, b, np.float32)
    found = {way.name: way for way in ways(engine, problem)}
    if engine.target.is_cpu:  # elsewhere k may be split otherwise
        assert name_of(make_path(engine, problem)) in found
    for name, way in found.items():
        path = way.bind()
        assert name_of(path) == name
        got = multiplied(engine, path, *stored, (*batch, m, n))
        assert_within(got, expected, bound)


@pytest.mark.parametrize(
    ("shape", "trans"), zip(SHAPES, ("NN", "TT", "TN", "NT", "TT"), strict=True), ids=str
)
def test_every_way_is_right(unoptimised: Engine, shape: tuple[int, int, int], trans: str) -> None:
    check(unoptimised, *shape, trans, "float32")


def test_batches(engine: Engine) -> None:
    check(engine, 20, 33, 17, "NT", "float32", (9,))


def test_conversion_leaves_no_operand_in_place(engine: Engine) -> None:
    check(engine, 33, 65, 40, "TN", "float16")


def test_there_is_more_than_one_way(engine: Engine) -> None:
    names = [way.name for way in ways(engine, contiguous(64, 64, 64, "float32"))]
    assert len(set(names)) == len(names) > 3
    vector = [way.name for way in ways(engine, contiguous(64, 1, 64, "float32"))]
    assert "gemv" in vector
