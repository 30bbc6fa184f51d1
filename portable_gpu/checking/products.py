"""The expected product of matrices, within gamma(k) |A| |B|."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.checking.check import Expected, gamma, rounding, unit, wide
from portable_gpu.checking.operands import Array
from portable_gpu.dtypes import is_float16_like


def product(a: Array, b: Array, dtype: Any, alpha: float, beta: float, c: Array | None) -> Expected:
    """``alpha a @ b + beta c`` and ``gamma(k) (|alpha| |a| @ |b| + |beta c|)``.

    A complex component is a sum of 2 k products.  Scaling and adding C are three more roundings.
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


def transposed(a: Array, trans: str) -> Array:
    """A matrix as it is (N), transposed (T), or conjugated and transposed (C)."""
    return a if trans == "N" else a.T.conj() if trans == "C" else a.T
