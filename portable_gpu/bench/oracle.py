"""Whether a result is right, before anybody times it.

Rounding errors of random data walk at random (Higham & Mary, SIAM J. Sci. Comput. 41(5), 2019).
Summing n terms of zero mean and root mean square s one after another is then off by about
``u n s / sqrt(2)``, and any other order by less: the bound is 8 times ``u n s``.  A term left
out is off by s, and a block of them by more, which the bound does not hide.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from typing import Any

import numpy as np

from portable_gpu.bench.cases import Case
from portable_gpu.bench.operands import Array, Operands
from portable_gpu.dtypes import dtype_of, is_float16_like

#: Gives the largest error of a result in units of its bound: above 1 it is wrong.
Oracle = Callable[[Array], float]

#: Of a value, at most, where products are computed of its pieces (docs/accuracy.md).
_LOST = {"ieee": 0.0, "tf32": 2**-10, "bf16x3": 2**-15, "tf32x3": 2**-20, "bf16x6": 2**-22}
_CHUNK = 1 << 22  # elements converted to higher precision at a time


def oracle(case: Case, inputs: Operands) -> Oracle:
    """The oracle of a case: NumPy in higher precision, exact for max and argmax.

    Products of matrices are checked by Freivalds' test: ``C r`` against ``A (B r)`` for a random
    vector r.  It sees every wrong element, at the cost of a few products with a vector.
    """
    if case.operation == "gemm":
        return _product_oracle(case, inputs)
    if case.operation == "argmax":
        x = inputs[0].reshape(-1)
        places = np.flatnonzero(x == x.max())
        return lambda found: 0.0 if found.shape == () and found in places else np.inf
    if case.operation == "max":
        largest = inputs[0].max()
        return lambda found: 0.0 if found.shape == () and found == largest else np.inf
    reference, terms = _reference(case, inputs)
    bound = _bound(case, terms, _root_mean_square(case), reference)
    return lambda found: _worst(found, reference, bound)


def _reference(case: Case, inputs: Operands) -> tuple[Array, int]:
    """The values in higher precision, and how many terms each sums."""
    x = inputs[0]
    if case.operation == "gemv":
        a = x if case.trans == "N" else x.T
        return _times(a, _wide(inputs[1])), a.shape[1]
    if case.operation == "sum" and case.axis is not None:
        total = np.asarray(x.sum(case.axis, dtype=_wide_dtype(x.dtype)))
        return total, x.shape[case.axis]
    flat = [array.reshape(-1) for array in inputs]
    total = np.zeros((), _wide_dtype(x.dtype))
    for i in range(0, x.size, _CHUNK):
        parts = [_wide(array[i : i + _CHUNK]) for array in flat]
        if case.operation == "nrm2":
            parts = [parts[0], parts[0].conj()]
        total = total + prod(parts[1:], start=parts[0]).sum()
    return np.asarray(np.sqrt(total.real) if case.operation == "nrm2" else total), x.size


def _product_oracle(case: Case, inputs: Operands) -> Oracle:
    a, b = inputs
    a = np.swapaxes(a, -1, -2) if case.trans[0] == "T" else a
    b = np.swapaxes(b, -1, -2) if case.trans[1] == "T" else b
    n = b.shape[-1]
    r = np.random.default_rng(2).standard_normal(n)
    expected = _times(a, _times(b, r))
    k, scale = a.shape[-1], _root_mean_square(case)
    # The errors of a row of C meet the n factors of r: they add up as a walk does.
    bound = np.linalg.norm(r) * _bound(case, k, scale, np.asarray(sqrt(k) * scale))
    bound = bound + 16 * _LOST[case.precision] * np.linalg.norm(r) * sqrt(k) * scale
    shape = (*a.shape[:-1], n)
    return lambda found: (
        _worst(_times(found, r), expected, bound) if found.shape == shape else np.inf
    )


def _bound(case: Case, terms: int, scale: float, values: Array) -> Array:
    """How far sums of ``terms`` may be off, and what rounding them to the dtype adds."""
    dtype = dtype_of(case.result)
    narrow = is_float16_like(dtype)
    single = narrow or dtype in (np.float32, np.complex64)
    u = 2.0**-24 if single else 2.0**-53
    rounded = (2.0**-11 if dtype == np.float16 else 2.0**-8) if narrow else u
    if case.operation == "nrm2":  # a sum of squares has a mean; its relative error is u sqrt(n)
        return np.asarray((8 * u * sqrt(terms) + rounded) * np.abs(values))
    return np.asarray(8 * u * terms * scale + 4 * rounded * (np.abs(values) + sqrt(terms) * scale))


def _root_mean_square(case: Case) -> float:
    """Of a term: numbers uniform in [-1, 1) have 1 / sqrt(3), complex ones sqrt(2) of that."""
    one = sqrt((2 if dtype_of(case.dtype).kind == "c" else 1) / 3)
    return one if case.operation == "sum" else one * one


def _worst(found: Array, expected: Array, bound: Array) -> float:
    if found.shape != expected.shape:
        return np.inf
    ratio = np.abs(np.asarray(found).astype(expected.dtype) - expected) / bound
    return float(np.max(np.where(np.isnan(ratio), np.inf, ratio), initial=0.0))


def _times(a: Array, x: Array) -> Array:
    """``a @ x`` for vectors x of a in double precision, a block of rows at a time."""
    if a.ndim == 3:
        wide = _wide(a, np.float64)
        return np.asarray(np.einsum("bij,j->bi" if x.ndim == 1 else "bij,bj->bi", wide, x))
    rows = max(1, _CHUNK // a.shape[1])
    parts = [_wide(a[i : i + rows], np.float64) @ x for i in range(0, a.shape[0], rows)]
    return np.concatenate(parts)


def _wide_dtype(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "c":
        return np.complex128 if dtype == np.complex64 else np.clongdouble
    return np.longdouble if dtype == np.float64 else np.float64


def _wide(x: Array, least: Any = None) -> Array:
    if least is None:
        return x.astype(_wide_dtype(x.dtype))
    return x.astype(np.complex128 if x.dtype.kind == "c" else least)
