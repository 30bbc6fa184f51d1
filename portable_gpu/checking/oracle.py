"""Whether a result of random operands is right: what the oracles of all operations are made of.

Rounding errors of random data walk at random (Higham & Mary, SIAM J. Sci. Comput. 41(5), 2019).
Summing n terms of zero mean and root mean square s one after another is then off by about
``u n s / sqrt(2)``, and any other order by less: the bound is 8 times ``u n s``.  A term left
out is off by s, and a block of them by more, which the bound does not hide.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any, TypeAlias

import numpy as np

from portable_gpu.checking.check import rounding, unit
from portable_gpu.checking.operands import Array

#: Gives the largest error of a result in units of its bound: above 1 it is wrong.
Oracle: TypeAlias = Callable[[Array], float]

#: Of a value, at most, where products are computed of its pieces (docs/accuracy.md).
LOST = {"ieee": 0.0, "tf32": 2**-10, "bf16x3": 2**-15, "tf32x3": 2**-20, "bf16x6": 2**-22}
#: Elements that are converted to higher precision at a time.
CHUNK = 1 << 22


def within(expected: Array, bound: Array) -> Oracle:
    """The oracle of values that may be off by a bound each."""
    return lambda found: worst(found, expected, bound)


def by_norm(expected: Array, bound: float, axes: tuple[int, ...]) -> Oracle:
    """The oracle of values that, along some axes together, may be off by a share of their norm.

    NaN is infinitely far off, and so is all that differs where the norm is 0.
    """

    def error(found: Array) -> float:
        if found.shape != expected.shape:
            return np.inf
        gap = np.asarray(found).astype(expected.dtype) - expected
        off, size = (np.sqrt(_squares(values).sum(axes)) for values in (gap, expected))
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(off == 0, 0, off / (bound * size))
        return float(np.max(np.where(np.isnan(share), np.inf, share), initial=0.0))

    return error


def _squares(values: Array) -> Array:
    return np.asarray(values.real**2 + values.imag**2)


def worst(found: Array, expected: Array, bound: Array) -> float:
    """The largest error in units of its bound; infinite for another shape, and for NaN."""
    if found.shape != expected.shape:
        return np.inf
    ratio = np.abs(np.asarray(found).astype(expected.dtype) - expected) / bound
    return float(np.max(np.where(np.isnan(ratio), np.inf, ratio), initial=0.0))


def bound_of_sums(dtype: np.dtype[Any], terms: int, scale: float, values: Array) -> Array:
    """How far sums of ``terms`` may be off, and what rounding them to the dtype adds.

    Args:
        dtype: Of the result.
        terms: Of each sum.
        scale: Root mean square of a term.
        values: The sums in higher precision.
    """
    rounded = 4 * rounding(dtype) * (np.abs(values) + sqrt(terms) * scale)
    return np.asarray(8 * unit(dtype) * terms * scale + rounded)


def root_mean_square(dtype: np.dtype[Any]) -> float:
    """Of an operand: numbers uniform in [-1, 1) have 1 / sqrt(3), complex ones sqrt(2) of that."""
    return sqrt((2 if dtype.kind == "c" else 1) / 3)


def times(a: Array, x: Array) -> Array:
    """``a @ x`` for vectors x of a in double precision, a block of rows at a time."""
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
    """``x`` in higher precision; real numbers in ``real`` where that is given."""
    if real is None:
        return x.astype(wide_dtype(x.dtype))
    return x.astype(np.complex128 if x.dtype.kind == "c" else real)
