"""Products whose operands have readers, against readers written out element by element.

The class is forced, so that the kernel of tiles runs on a CPU too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from readers import dense, windows
from sampling import compile_fast

from portable_gpu import Engine
from portable_gpu.dtypes import element
from portable_gpu.ops.gemm import GemmPolicy, Tiling
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.reader import Gather
from portable_gpu.ops.gemm.tiled.plan import TiledPlan

SINGLE = np.dtype(np.float32)
POLICY = GemmPolicy(16, 32, 8, 4, 4, 4, 4, vector=4, prefetch=True)


@pytest.fixture(scope="module")
def tiled(engine: Engine) -> Iterator[Engine]:
    """An engine whose products are computed by tiles."""
    with pytest.MonkeyPatch.context() as patch:
        compile_fast(patch, engine, exchanges=False)
        yield Engine(queue=engine.queue, device_class="gcn")


def triangle(n: int) -> Gather:
    """The reader of a lower triangle that is stored by columns, without its zeros."""

    def table() -> np.ndarray[Any, Any]:
        k = np.arange(n)
        return np.stack([k * (2 * n - k - 1) // 2, -k], axis=1).astype(np.int32)

    return Gather("row", (n,), (1,), (1,), (n,), table, n)


def multiply(engine: Engine, p: GemmProblem, tiling: Tiling, a: Any, b: Any, size: int) -> Any:
    """The memory of C, which held NaN."""
    c = np.full(size, np.nan, SINGLE)
    buffers = [cla.to_device(engine.queue, x) for x in (a, b, c)]
    path = TiledPlan(engine, p, tiling)
    state = engine.state()
    path.enqueue(state, [x.data for x in buffers], (0, 0, 0), (1.0, 0.0))
    state.finish()
    return buffers[2].get()


@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize(
    ("left", "right"),
    [((2, False, 4), None), ((3, False, 1), (0, False, 1)), ((0, True, 1), (2, True, 1))],
    ids=["windows", "transposed weights", "images as steps"],
)
def test_windows(tiled: Engine, left: Any, right: Any, splits: int) -> None:
    rng = np.random.default_rng(left[0] + splits)
    reader, a, k = windows(rng, "row", *left)
    rows = dense(reader, a, k)
    m = len(rows)
    first = Operand(element(SINGLE), 0, 0, (), aligned_bytes=16, reader=reader)
    if right is None:
        n = 24
        b = rng.integers(-8, 9, (k, n)).astype(SINGLE)
        cols, second = b.T, Operand(element(SINGLE), n, 1, (), aligned_bytes=16)
    else:
        other, b, deep = windows(rng, "col", *right)
        k = min(k, deep)
        rows, cols = rows[:, :k], dense(other, b, k)
        n, second = len(cols), Operand(element(SINGLE), 0, 0, (), aligned_bytes=4, reader=other)
    c = Operand(element(SINGLE), n, 1, (), aligned_bytes=4)
    p = GemmProblem(m, n, k, (), first, second, c, element(SINGLE))
    tiling = Tiling("tiled" if splits == 1 else "split-k", POLICY, splits=splits)
    got = multiply(tiled, p, tiling, a, b.ravel(), m * n)
    np.testing.assert_array_equal(got.reshape(m, n), rows @ cols.T)


@pytest.mark.parametrize("transposed", [False, True])
def test_packed_triangle_and_results_over_axes(tiled: Engine, transposed: bool) -> None:
    # C's rows are the axes (3, 13) of memory in which they are neither adjacent nor in order.
    rng, n = np.random.default_rng(5), 39
    packed = rng.integers(-8, 9, n * (n + 1) // 2).astype(SINGLE)
    lower = np.zeros((n, n), SINGLE)
    lower.T[np.triu_indices(n)] = packed
    b = rng.integers(-8, 9, (n, 10)).astype(SINGLE)
    elem = element(SINGLE)
    p = GemmProblem(
        n, 10, n, (),
        Operand(elem, 0, 0, (), aligned_bytes=4, reader=triangle(n)),
        Operand(elem, 10, 1, (), aligned_bytes=4),
        Operand(elem, 0, 70, (), aligned_bytes=4, reader=Gather("row", (3, 13), (20, 1))),
        elem,
    )  # fmt: skip
    got = multiply(tiled, p, Tiling("tiled", POLICY, transposed=transposed), packed, b, 700)
    result = got.reshape(10, 70)[:, :60].reshape(10, 3, 20)[:, :, :13].reshape(10, n).T
    np.testing.assert_array_equal(result, lower @ b)
    assert np.isnan(got).sum() == 700 - 10 * n
