"""The data of a case, and how many copies keep it out of the caches."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from portable_gpu.bench.cases import Case
from portable_gpu.dtypes import dtype_of, element

Array = np.ndarray[Any, Any]
Operands = tuple[Array, ...]

_MOST_COPIES = 16


def operands(case: Case, seed: int = 1) -> Operands:
    """Random inputs, uniform in [-1, 1): zeros and small integers flatter some devices.

    Matrices lie C-ordered as they are stored: for a transposed one that is (columns, rows).
    """
    rng = np.random.default_rng(seed)
    dtype = dtype_of(case.dtype)
    return tuple(uniform(rng, shape, dtype) for shape in shapes(case))


def shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    """Shapes of the inputs, as stored."""
    if case.operation == "gemm":
        m, k, n = case.extents
        a = (m, k) if case.trans[0] == "N" else (k, m)
        b = (k, n) if case.trans[1] == "N" else (n, k)
        batch = () if case.batch is None else (case.batch,)
        return (*batch, *a), (*batch, *b)
    if case.operation == "gemv":
        m, n = case.extents
        return (m, n), (n if case.trans == "N" else m,)
    return (case.extents,) * (2 if case.operation == "dot" else 1)


def copies(case: Case, cache_bytes: int, memory_bytes: int) -> int:
    """How many copies of the inputs take turns, so that a call finds none of its data cached.

    Together they are twice as large as the last-level cache, as far as 16 copies reach and an
    eighth of the memory allows.
    """
    itemsize = element(dtype_of(case.dtype)).itemsize
    nbytes = itemsize * sum(prod(shape) for shape in shapes(case))
    wanted = min(_MOST_COPIES, max(2, -(-2 * cache_bytes // nbytes)))
    return max(1, min(wanted, memory_bytes // 8 // nbytes))


def uniform(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Random values in [-1, 1), of complex numbers both parts."""
    elem = element(dtype)
    real = np.float64 if elem.needs_fp64 else np.float32
    values = rng.random((*shape, elem.components), real)
    values *= 2
    values -= 1
    if elem.complex:
        return values.view(dtype)[..., 0]
    return values[..., 0].astype(dtype, copy=False)
