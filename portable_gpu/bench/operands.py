"""The data of a case, and how many copies keep it out of the caches."""

from __future__ import annotations

from math import prod

import numpy as np

from portable_gpu.checking.operands import Operands, uniform
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.case import Case
from portable_gpu.ops.registry import BENCHMARKS

_MOST_COPIES = 16


def operands(case: Case, seed: int = 1) -> Operands:
    """Random inputs, uniform in [-1, 1), or what the operation makes of them.

    Zeros and small integers would flatter some devices.
    Matrices are stored in C order; a transposed one has the shape (columns, rows).
    """
    rng = np.random.default_rng(seed)
    dtype = dtype_of(case.dtype)
    drawn = tuple(uniform(rng, shape, dtype) for shape in case.shapes)
    return BENCHMARKS[case.operation].operands(case, drawn)


def copies(case: Case, cache_bytes: int, memory_bytes: int) -> int:
    """The number of copies of the inputs that take turns, so that no data of a call are in a cache.

    Together they are twice as large as the last-level cache, as far as 16 copies reach and an
    eighth of the memory allows.
    """
    itemsize = element(dtype_of(case.dtype)).itemsize
    nbytes = itemsize * sum(prod(shape) for shape in case.shapes)
    requested = min(_MOST_COPIES, max(2, -(-2 * cache_bytes // nbytes)))
    return max(1, min(requested, memory_bytes // 8 // nbytes))
