"""Checks of cholesky and solve_triangular, within the theory's bounds element by element.

Sources: Higham, Accuracy and Stability of Numerical Algorithms, 2002, theorems 8.5 and 10.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyopencl.array as cla

from portable_gpu.checking.check import Check, Condition, gamma, unit, wide
from portable_gpu.checking.inputs import Input, View
from portable_gpu.checking.operands import Array
from portable_gpu.ops.factor import api
from portable_gpu.ops.factor.commands.catalogue import DTYPES
from portable_gpu.runtime.engine import Engine


def cholesky(
    n: int, dtype: Any, batch: tuple[int, ...] = (), *, lower: bool = True, view: View = "numpy"
) -> Check:
    """A check of ``cholesky`` of (n, n) arrays; the other triangle is full of NaN."""
    dtype = np.dtype(dtype)
    values = Input(dtype, (*batch, n, n))

    def matrix() -> Array:
        x = values.host()
        return np.asarray(x @ _adjoint(x) / n + np.eye(n), dtype)

    def run(engine: Engine) -> Any:
        keep = np.tri(n, dtype=bool)
        half = np.where(keep if lower else keep.T, matrix(), dtype.type(np.nan))
        return api.cholesky(_placed(half, view, engine), lower=lower, engine=engine)

    def expected() -> Condition:
        a = wide(matrix())

        def error(result: Array) -> float:
            other = np.triu(result, 1) if lower else np.tril(result, -1)
            if other.any():
                return np.inf
            factor = wide(result) if lower else _adjoint(wide(result))
            size = np.abs(factor) @ np.abs(_adjoint(factor))
            return _worst(a - factor @ _adjoint(factor), _roundings(n + 3, dtype) * size)

        return Condition(error, values.shape, dtype)

    part = "" if lower else " upper"
    return Check("cholesky", f"{values}{part}{_suffix(view)}", run, expected)


def solve_triangular(
    n: int,
    m: int,
    dtype: Any,
    batch: tuple[int, ...] = (),
    *,
    trans: str = "N",
    lower: bool = True,
    unit_diagonal: bool = False,
    side: str = "left",
    view: View = "numpy",
) -> Check:
    """A check of ``solve_triangular``; the elements of A that it must not read are NaN."""
    dtype = np.dtype(dtype)
    values = Input(dtype, (*batch, n, n))
    b = Input(dtype, (*batch, *((n, m) if side == "left" else (m, n))), seed=1)

    def triangle() -> Array:
        """Return triangles with a diagonal for which solutions do not grow."""
        x = values.host() / n
        x = np.tril(x, -1) if lower else np.triu(x, 1)
        return np.asarray(x + np.eye(n) * (1 if unit_diagonal else 2), dtype)

    def run(engine: Engine) -> Any:
        keep = np.tri(n, k=-1 if unit_diagonal else 0, dtype=bool)
        half = np.where(keep if lower else keep.T, triangle(), dtype.type(np.nan))
        return api.solve_triangular(
            _placed(half, view, engine), _placed(b.host(), view, engine), trans, lower,
            unit_diagonal, side=side, engine=engine,
        )  # fmt: skip

    def expected() -> Condition:
        a, right_side = wide(triangle()), wide(b.host())
        a = a if trans == "N" else a.swapaxes(-1, -2) if trans == "T" else _adjoint(a)

        def error(result: Array) -> float:
            x = wide(result)
            left, right = (a, x) if side == "left" else (x, a)
            size = np.abs(left) @ np.abs(right)
            return _worst(right_side - left @ right, _roundings(n + 2, dtype) * size)

        return Condition(error, b.shape, dtype)

    words = "lower" if lower else "upper"
    words += f" {trans}, {side}" + (", unit diagonal" if unit_diagonal else "")
    return Check("solve_triangular", f"{values} {words}, {m}{_suffix(view)}", run, expected)


def checks(dtypes: Sequence[np.dtype[Any]]) -> Iterator[Check]:
    """Yield checks of small matrices, stacks and recursion in float32; a few in other dtypes."""
    for n in (1, 7, 65, 200):
        yield cholesky(n, "float32")
    yield cholesky(33, "float32", (5,), view="device")
    yield cholesky(150, "float32", lower=False, view="fortran")
    for trans, lower in (("N", True), ("T", True), ("N", False), ("T", False)):
        yield solve_triangular(100, 33, "float32", trans=trans, lower=lower)
    yield solve_triangular(50, 7, "float32", (3,), side="right", unit_diagonal=True, view="device")
    for dtype in dtypes:
        if str(dtype) in DTYPES and dtype != np.float32:
            yield cholesky(70, dtype)
            yield solve_triangular(40, 21, dtype, trans="C" if dtype.kind == "c" else "T")


def _placed(values: Array, view: View, engine: Engine) -> Any:
    if view == "device":
        return cla.to_device(engine.queue, values)
    return np.asfortranarray(values) if view == "fortran" else values


def _suffix(view: View) -> str:
    return "" if view == "numpy" else f", {view}"


def _adjoint(x: Array) -> Array:
    return x.swapaxes(-1, -2).conj()


def _roundings(count: int, dtype: np.dtype[Any]) -> float:
    """The bound of ``count`` roundings; a complex multiply-add has twice as many."""
    return gamma(2 * count if dtype.kind == "c" else count, unit(dtype))


def _worst(residual: Array, bound: Array) -> float:
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(residual == 0, 0, np.abs(residual) / bound)
    return float(np.max(np.where(np.isnan(ratio), np.inf, ratio), initial=0.0))
