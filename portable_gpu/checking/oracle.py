"""Functions of which the oracles of operations are made: they check results of random operands.

Rounding errors of random data are a random walk (Higham & Mary, SIAM J. Sci. Comput. 41(5), 2019).
So if n terms of zero mean and root mean square s are added one after another, the error of the sum
is about ``u n s / sqrt(2)``; in any other order it is smaller.  The bound is 8 times ``u n s``.  A
result without one of its terms has an error of about s, which is above the bound if n < 1 / (8 u).
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any, TypeAlias

import numpy as np

from portable_gpu.checking.check import rounding, unit
from portable_gpu.checking.operands import Array

#: Returns the largest error of a result in units of its bound: above 1 it is wrong.
Oracle: TypeAlias = Callable[[Array], float]

#: For each precision the relative error of an operand that is rounded or split (docs/accuracy.md).
SPLIT_ERRORS = {"ieee": 0.0, "tf32": 2**-10, "bf16x3": 2**-15, "tf32x3": 2**-20, "bf16x6": 2**-22}
#: Elements that are converted to higher precision at a time.
CHUNK = 1 << 22


def within(expected: Array, bound: Array) -> Oracle:
    """The oracle of values, each with a bound of its error."""
    return lambda result: worst(result, expected, bound)


def by_norm(expected: Array, bound: float, axes: tuple[int, ...]) -> Oracle:
    """The oracle of vectors along some axes, whose errors are bounded relative to their norm.

    The error of NaN is infinite, and so is any difference from a vector of norm 0.
    """

    def error(result: Array) -> float:
        if result.shape != expected.shape:
            return np.inf
        difference = np.asarray(result).astype(expected.dtype) - expected
        error_norm, norm = (
            np.sqrt(_squares(values).sum(axes)) for values in (difference, expected)
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(error_norm == 0, 0, error_norm / (bound * norm))
        return float(np.max(np.where(np.isnan(ratio), np.inf, ratio), initial=0.0))

    return error


def _squares(values: Array) -> Array:
    return np.asarray(values.real**2 + values.imag**2)


def worst(result: Array, expected: Array, bound: Array) -> float:
    """The largest error in units of its bound; infinite for another shape, and for NaN."""
    if result.shape != expected.shape:
        return np.inf
    ratio = np.abs(np.asarray(result).astype(expected.dtype) - expected) / bound
    return float(np.max(np.where(np.isnan(ratio), np.inf, ratio), initial=0.0))


def bound_of_sums(dtype: np.dtype[Any], terms: int, scale: float, values: Array) -> Array:
    """The bound of the errors of sums of ``terms``, with their rounding to the dtype.

    Args:
        dtype: The dtype of the result.
        terms: The number of terms of each sum.
        scale: Root mean square of a term.
        values: The sums in higher precision.
    """
    rounded = 4 * rounding(dtype) * (np.abs(values) + sqrt(terms) * scale)
    return np.asarray(8 * unit(dtype) * terms * scale + rounded)


def root_mean_square(dtype: np.dtype[Any]) -> float:
    """The root mean square of an operand's elements, whose components are uniform in [-1, 1)."""
    return sqrt((2 if dtype.kind == "c" else 1) / 3)


def times(a: Array, x: Array) -> Array:
    """``a @ x`` in double precision, one block of rows at a time."""
    if a.ndim == 3:
        wide = widened(a, np.float64)
        return np.asarray(np.einsum("bij,j->bi" if x.ndim == 1 else "bij,bj->bi", wide, x))
    rows = max(1, CHUNK // a.shape[1])
    parts = [widened(a[i : i + rows], np.float64) @ x for i in range(0, a.shape[0], rows)]
    return np.concatenate(parts)


def wide_dtype(dtype: np.dtype[Any]) -> Any:
    """A dtype of higher precision."""
    if dtype.kind == "c":
        return np.complex128 if dtype == np.complex64 else np.clongdouble
    return np.longdouble if dtype == np.float64 else np.float64


def widened(x: Array, real: Any = None) -> Array:
    """``x`` in higher precision; real numbers in the dtype ``real`` if it is given."""
    if real is None:
        return x.astype(wide_dtype(x.dtype))
    return x.astype(np.complex128 if x.dtype.kind == "c" else real)
