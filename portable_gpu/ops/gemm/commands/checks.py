"""Checks of gemm and matmul, each within gamma(k) |A| |B|, and those of a policy's edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import Check, Expected
from portable_gpu.checking.edges import VIEWS, Guarded, around, levels
from portable_gpu.checking.inputs import Input, View
from portable_gpu.checking.products import product, transposed
from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.dtypes import element, is_float16_like
from portable_gpu.ops.gemm import api
from portable_gpu.runtime.engine import Engine

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def gemm(
    m: int,
    n: int,
    k: int,
    dtype: Any,
    trans: str = "NN",
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    view: View = "numpy",
) -> Check:
    """A check of ``gemm``; with ``beta == 0`` C is full of NaN, which must not spread."""
    dtype = np.dtype(dtype)
    a = Input(dtype, (m, k) if trans[0] == "N" else (k, m), view)
    b = Input(dtype, (k, n) if trans[1] == "N" else (n, k), view, seed=1)
    c = Input(dtype, (m, n), seed=2)

    def run(engine: Engine) -> Any:
        result = Guarded(engine, (m, n), dtype, view == "device", c.host() if beta else None)
        api.gemm(
            a.array(engine), b.array(engine), alpha=alpha, beta=beta, c=result.array,
            trans_a=trans[0], trans_b=trans[1], engine=engine,
        )  # fmt: skip
        return result.checked()

    def expected() -> Expected:
        left, right = transposed(a.host(), trans[0]), transposed(b.host(), trans[1])
        return product(left, right, dtype, alpha, beta, c.host() if beta else None)

    scale = f", alpha {alpha:g}, beta {beta:g}" if (alpha, beta) != (1, 0) else ""
    where = "" if view == "numpy" else f", {view}"
    return Check("gemm", f"{dtype} {m} x {n} x {k} {trans}{scale}{where}", run, expected)


def matmul(a: Input, b: Input) -> Check:
    """A check of ``matmul``."""

    def expected() -> Expected:
        x, y = a.host(), b.host()
        if x.dtype.kind in "biu":
            return Expected(x @ y, None, np.result_type(x, y))
        return product(x, y, np.result_type(x, y), 1, 0, None)

    return Check(
        "matmul",
        f"{a} by {b}",
        lambda engine: api.matmul(a.array(engine), b.array(engine), engine=engine),
        expected,
    )


def dense_layer(m: int, n: int, k: int) -> Check:
    """A check of the epilogue: ``max(A B + bias, 0)``."""
    single = np.dtype(np.float32)
    a, b = Input(single, (m, k)), Input(single, (k, n), seed=1)
    bias = Input(single, (n,), seed=2)

    def run(engine: Engine) -> Any:
        epilogue = Epilogue().bias(bias.array(engine)).relu()
        return api.gemm(a.array(engine), b.array(engine), epilogue=epilogue, engine=engine)

    def expected() -> Expected:
        plain = product(a.host(), b.host(), single, 1, 1, np.broadcast_to(bias.host(), (m, n)))
        return Expected(np.maximum(plain.value, 0), plain.bound, single)

    return Check("gemm", f"float32 {m} x {n} x {k}, bias and relu", run, expected)


def checks(dtypes: Sequence[np.dtype[Any]]) -> Iterator[Check]:
    """Every path and transpose in float32; a few in each other floating dtype."""
    for m, n, k in ((1, 1, 1), (64, 64, 64), (130, 127, 65), (300, 310, 290), (9, 7, 6000)):
        yield gemm(m, n, k, "float32")
    for trans in ("NT", "TN", "TT"):
        yield gemm(97, 131, 67, "float32", trans, alpha=-0.5, beta=2)
    yield gemm(100, 101, 102, "float32", alpha=0, beta=3)
    for view in ("device", "stepped", "reversed"):
        yield gemm(97, 131, 67, "float32", view=view)
    yield dense_layer(60, 50, 40)
    for dtype in dtypes:
        if (dtype.kind in "fc" or is_float16_like(dtype)) and dtype != np.float32:
            yield gemm(97, 131, 67, dtype, "NC" if dtype.kind == "c" else "NN")
    single = np.dtype(np.float32)
    yield matmul(Input(single, (5, 33, 34)), Input(single, (34, 35), seed=1))
    yield matmul(Input(single, (33, 34)), Input(single, (34,), seed=1))
    yield matmul(Input(np.dtype(np.int32), (33, 34)), Input(np.dtype(np.int32), (34, 35), seed=1))


def edge_checks(
    tile: tuple[int, int, int], dtype: np.dtype[Any], cases: Sequence[Case]
) -> Iterator[Check]:
    """Single products; batches of small ones too where some of ``cases`` are batches."""
    yield from _singles(tile, dtype)
    if any(case.batch is not None for case in cases):
        yield from _stacks(tile, dtype)


def _singles(tile: tuple[int, int, int], dtype: np.dtype[Any]) -> Iterator[Check]:
    rows, cols, depths = around(tile[0], 97), around(tile[1], 101), around(tile[2], 131)
    conjugate = "C" if element(dtype).complex else "T"
    every = ("NN", "NT", "TN", "TT", f"N{conjugate}")
    # Numbers of values: each value of a factor meets each value of every other factor once.
    for m, n, k, trans, view in levels(5):
        beta = 0.0 if (m + n) % 3 else 0.5
        extents = rows[m], cols[n], depths[k]
        yield gemm(*extents, dtype, every[trans], alpha=-0.5, beta=beta, view=VIEWS[view])


def _stacks(tile: tuple[int, int, int], dtype: np.dtype[Any]) -> Iterator[Check]:
    """Batches of small products."""
    for m, n, k in (tile, (1, 1, 1), (tile[0] + 1, tile[1] - 1 or 1, 37), (31, 37, tile[2] + 1)):
        yield matmul(Input(dtype, (5, m, k)), Input(dtype, (5, k, n), seed=1))
