"""Large arrays of NumPy: made, multiplied and compared by threads on all cores.

At the sizes of several GPUs one thread would take longer than the devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from portable_gpu.side_by_side import cores

_Values = np.ndarray[Any, Any]


def rounding(dtype: Any) -> float:
    """Return the distance between 1 and the next number of a dtype."""
    return 2.0**-7 if dtype.kind == "V" or dtype.name == "bfloat16" else float(np.finfo(dtype).eps)


def random_array(shape: tuple[int, ...], seed: int, dtype: Any) -> _Values:
    """Return normal random numbers.

    One thread makes a million of them, which are repeated from a random place in each part.
    """
    line = np.random.default_rng(seed).standard_normal(1 << 20, np.float32).astype(dtype)
    result = np.empty(shape, dtype)
    flat = result.reshape(-1)
    step = len(line) // 2

    def fill(starts: Sequence[int]) -> None:
        for start in starts:
            at = start * 2654435761 % step
            part = flat[start : start + step]
            part[:] = line[at : at + len(part)]

    in_threads(fill, range(0, flat.size, step))
    return result


def times_vector(a: _Values, v: _Values) -> _Values:
    """Return a product of a matrix and a vector in float64."""

    def product(rows: _Values) -> _Values:
        if rows.dtype == np.float64:
            return rows @ v
        step = max(1, (1 << 20) // rows.shape[1])
        parts = [rows[k : k + step].astype(np.float64) @ v for k in range(0, len(rows), step)]
        return np.concatenate(parts)

    return np.concatenate(in_threads(product, a))


def same_bits(first: _Values, second: _Values) -> bool:
    """Return whether two C-ordered arrays have the same bits."""
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        return False
    flat = [np.ravel(values).view(np.uint8) for values in (first, second)]

    def same(left: _Values, right: _Values) -> bool:
        step = 1 << 24
        pieces = range(0, len(left), step)
        return all(np.array_equal(left[k : k + step], right[k : k + step]) for k in pieces)

    return all(in_threads(same, *flat))


def in_threads(work: Callable[..., Any], *arrays: Any) -> list[Any]:
    """Call a function with parts of the first axis of arrays, on all cores.

    Returns:
        The results, in the order of the parts.
    """
    total = len(arrays[0])
    count = max(1, min(total, 2 * cores()))
    bounds = [k * total // count for k in range(count + 1)]
    with ThreadPoolExecutor(cores()) as pool:
        parts = [
            pool.submit(work, *(array[start:stop] for array in arrays))
            for start, stop in pairwise(bounds)
        ]
        return [part.result() for part in parts]
