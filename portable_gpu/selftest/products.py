"""Checks of gemv, gemm and matmul, within the bound gamma(k) |A| |B|."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyopencl.array as cla

from portable_gpu.dtypes import is_float16_like
from portable_gpu.ops import gemm as gemm_ops
from portable_gpu.ops import gemv as gemv_ops
from portable_gpu.runtime.engine import Engine
from portable_gpu.selftest.check import Array, Check, Expected, gamma, rounding, unit, wide
from portable_gpu.selftest.inputs import Input, View


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

    def given() -> Array:
        return c.host().copy() if beta else np.full((m, n), np.nan, dtype)

    def run(engine: Engine) -> Any:
        out: Any = cla.to_device(engine.queue, given()) if view == "device" else given()
        return gemm_ops.gemm(
            a.array(engine), b.array(engine), alpha=alpha, beta=beta, c=out,
            trans_a=trans[0], trans_b=trans[1], engine=engine,
        )  # fmt: skip

    def expected() -> Expected:
        left, right = _op(a.host(), trans[0]), _op(b.host(), trans[1])
        return product(left, right, dtype, alpha, beta, c.host() if beta else None)

    scale = f", alpha {alpha:g}, beta {beta:g}" if (alpha, beta) != (1, 0) else ""
    where = "" if view == "numpy" else f", {view}"
    return Check("gemm", f"{dtype} {m} x {n} x {k} {trans}{scale}{where}", run, expected)


def gemv(
    m: int,
    n: int,
    dtype: Any,
    trans: str = "N",
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    view: View = "numpy",
) -> Check:
    """A check of ``gemv`` of an (m, n) array."""
    dtype = np.dtype(dtype)
    a = Input(dtype, (m, n), view)
    x = Input(dtype, (n if trans == "N" else m,), view, seed=1)
    y = Input(dtype, (m if trans == "N" else n,), seed=2)

    def run(engine: Engine) -> Any:
        if not beta:
            return gemv_ops.gemv(
                a.array(engine), x.array(engine), alpha=alpha, trans=trans, engine=engine
            )
        out: Any = cla.to_device(engine.queue, y.host()) if view == "device" else y.host().copy()
        return gemv_ops.gemv(
            a.array(engine), x.array(engine), alpha=alpha, beta=beta, y=out, trans=trans,
            engine=engine,
        )  # fmt: skip

    def expected() -> Expected:
        given = y.host() if beta else None
        return product(_op(a.host(), trans), x.host(), dtype, alpha, beta, given)

    scale = f", alpha {alpha:g}, beta {beta:g}" if (alpha, beta) != (1, 0) else ""
    where = "" if view == "numpy" else f", {view}"
    return Check("gemv", f"{dtype} {m} x {n} {trans}{scale}{where}", run, expected)


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
        lambda engine: gemm_ops.matmul(a.array(engine), b.array(engine), engine=engine),
        expected,
    )


def dense_layer(m: int, n: int, k: int) -> Check:
    """A check of the epilogue: ``max(A B + bias, 0)``."""
    single = np.dtype(np.float32)
    a, b = Input(single, (m, k)), Input(single, (k, n), seed=1)
    bias = Input(single, (n,), seed=2)

    def run(engine: Engine) -> Any:
        epilogue = gemm_ops.Epilogue().bias(bias.array(engine)).relu()
        return gemm_ops.gemm(a.array(engine), b.array(engine), epilogue=epilogue, engine=engine)

    def expected() -> Expected:
        plain = product(a.host(), b.host(), single, 1, 1, np.broadcast_to(bias.host(), (m, n)))
        return Expected(np.maximum(plain.value, 0), plain.bound, single)

    return Check("gemm", f"float32 {m} x {n} x {k}, bias and relu", run, expected)


def product(a: Array, b: Array, dtype: Any, alpha: float, beta: float, c: Array | None) -> Expected:
    """``alpha a @ b + beta c`` and ``gamma(k) (|alpha| |a| @ |b| + |beta c|)``.

    A complex component is a sum of 2 k products.  Scaling and adding C take three more roundings.
    """
    k = a.shape[-1]
    left, right = wide(a), wide(b)
    value = alpha * (left @ right)
    size = abs(alpha) * (np.abs(left) @ np.abs(right))
    if c is not None:
        value, size = value + beta * wide(c), size + abs(beta) * np.abs(wide(c))
    roundings = (2 * k if dtype.kind == "c" else k) + 3
    bound = gamma(roundings, unit(dtype)) * size
    if is_float16_like(dtype):  # rounded once more, perhaps to a subnormal number
        bound = bound + rounding(dtype) * np.abs(value) + 2.0**-25
    return Expected(value, bound, dtype)


def _op(a: Array, trans: str) -> Array:
    return a if trans == "N" else a.T.conj() if trans == "C" else a.T


def checks(dtypes: list[np.dtype[Any]]) -> Iterator[Check]:
    """Every path and transpose in float32; a few in each other floating dtype."""
    for m, n, k in ((1, 1, 1), (64, 64, 64), (130, 127, 65), (300, 310, 290), (9, 7, 6000)):
        yield gemm(m, n, k, "float32")
    for trans in ("NT", "TN", "TT"):
        yield gemm(97, 131, 67, "float32", trans, alpha=-0.5, beta=2)
    yield gemm(100, 101, 102, "float32", alpha=0, beta=3)
    for view in ("device", "stepped", "reversed"):
        yield gemm(97, 131, 67, "float32", view=view)
    yield dense_layer(60, 50, 40)
    for m, n in ((3000, 31), (600, 1000), (7, 40_000)):
        for trans in ("N", "T"):
            yield gemv(m, n, "float32", trans)
    yield gemv(257, 130, "float32", alpha=2, beta=-1, view="device")
    yield gemv(257, 130, "float32", view="stepped")
    for dtype in dtypes:
        if (dtype.kind in "fc" or is_float16_like(dtype)) and dtype != np.float32:
            yield gemm(97, 131, 67, dtype, "NC" if dtype.kind == "c" else "NN")
            yield gemv(600, 300, dtype, "C" if dtype.kind == "c" else "N")
    single = np.dtype(np.float32)
    yield matmul(Input(single, (5, 33, 34)), Input(single, (34, 35), seed=1))
    yield matmul(Input(single, (33, 34)), Input(single, (34,), seed=1))
    yield matmul(Input(np.dtype(np.int32), (33, 34)), Input(np.dtype(np.int32), (34, 35), seed=1))
