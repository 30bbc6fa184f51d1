"""Products along rows whose pitch sends all groups to one memory channel: each begins elsewhere.

tests/host/test_stagger.py says where they begin.  Here small whole numbers, whose sums are exact,
are multiplied as on a device of class gcn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sampling import compile_fast, in_pairs, needs

from portable_gpu import Engine, gemm, gemv
from portable_gpu.dtypes import element
from portable_gpu.ops.gemm import GemmPolicy, Tiling
from portable_gpu.ops.gemm.binding import bind
from portable_gpu.ops.gemm.tiled.plan import TiledPlan
from portable_gpu.runtime.call import Call

PITCH = 1024  # 4 KiB of float32
VECTORS = GemmPolicy(32, 32, 8, 4, 4, 4, 4, vector=4)
POLICIES = {
    "vectors": VECTORS,
    "prefetch": GemmPolicy(32, 32, 8, 4, 4, 4, 4, vector=4, prefetch=True),
    "two buffers": GemmPolicy(32, 32, 8, 4, 4, 4, 4, vector=4, buffers=2, prefetch_local=True),
}


@pytest.fixture(scope="module")
def staggered(engine: Engine) -> Iterator[Engine]:
    """An engine whose groups begin at different places."""
    with pytest.MonkeyPatch.context() as patch:
        compile_fast(patch, engine, exchanges=False)
        yield Engine(queue=engine.queue, device_class="gcn")


def rows(count: int, length: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    """Rows of whole numbers, PITCH elements apart; elements between them are NaN."""
    whole = np.full((count, PITCH), np.nan, dtype)
    numbers = np.random.default_rng(seed).integers(-8, 9, (count, length))
    whole[:, :length] = numbers
    return whole[:, :length]


def multiply(engine: Engine, a: Any, b: Any, choice: Tiling) -> Any:
    """A product by a given path, into memory that held NaN."""
    c = np.full((a.shape[0], b.shape[1]), np.nan, a.dtype)
    call = Call((a, b, c), engine, None)
    views = call.input(a, "a"), call.input(b, "b"), call.output(c.shape, c.dtype, c)
    problem = bind(
        engine.target, *views, trans_a="N", trans_b="N", stages=(), extras=[], multiplies=True,
        reads_c=False,
    )  # fmt: skip
    path = TiledPlan(engine, problem, choice)
    call.run(path, views, (1, 0))
    return c


@pytest.mark.parametrize(
    ("k", "name", "path", "upright"),
    in_pairs((1024, 1000, 301, 136), list(POLICIES), ("tiled", "split-k"), (False, True)),
)
def test_tiles(staggered: Engine, name: str, k: int, path: str, upright: bool) -> None:
    POLICIES[name].check(staggered.target, element(np.float32))
    a, b = rows(150, k), rows(70, k, 1).T
    if upright:  # only A's rows begin at one channel
        b = np.ascontiguousarray(b)
    choice = Tiling(path, POLICIES[name], splits=2 if path == "split-k" else 1)
    np.testing.assert_array_equal(multiply(staggered, a, b, choice), a @ b)


@pytest.mark.tiny
def test_tiny(staggered: Engine) -> None:
    choice = Tiling("tiled", GemmPolicy(4, 8, 4, 2, 4, 2, 1, vector=4))
    a, b = rows(9, 138), rows(10, 138, 1).T
    np.testing.assert_array_equal(multiply(staggered, a, b, choice), a @ b)
    a, x = rows(12, 600), rows(1, 600, 1)[0]
    np.testing.assert_array_equal(gemv(a, x, engine=staggered), a @ x)


@pytest.mark.path
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_public_calls(staggered: Engine, dtype: Any) -> None:
    needs(staggered, dtype)
    a, b = rows(150, 1000, dtype=dtype), rows(70, 1000, 1, dtype)
    expected = a @ b.T
    np.testing.assert_array_equal(gemm(a, b, trans_b="T", engine=staggered), expected)
    for n in (1024, 1000, 767, 300):
        a, x = rows(300, n, dtype=dtype), rows(1, n, 1, dtype)[0]
        np.testing.assert_array_equal(gemv(a, x, engine=staggered), a @ x)
        np.testing.assert_array_equal(gemv(a[::-1], x, engine=staggered), a[::-1] @ x)


def test_the_same_bits_again(staggered: Engine) -> None:
    a = np.random.default_rng(0).standard_normal((300, PITCH)).astype(np.float32)
    first, again = (gemm(a, a, trans_b="T", engine=staggered) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    first, again = (gemv(a, a[0], engine=staggered) for _ in range(2))
    np.testing.assert_array_equal(first, again)
