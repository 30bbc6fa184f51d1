"""The moments of a part of an array: computed on a device, and merged with those of other parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from portable_gpu.multi.merging import Moments, in_double
from portable_gpu.ops.reduce import mean
from portable_gpu.ops.reduce.call import deviations, run
from portable_gpu.runtime.engine import Engine


def on_device(
    x: Any, reduced: Iterable[int], dtype: np.dtype[Any], engine: Engine
) -> tuple[Any, Any]:
    """Return the pivots of a real array, and complex numbers of its deviations.

    The pivot is the rounded mean.  Real parts are sums of squared distances from the mean,
    imaginary parts are sums of ``x - pivot``.

    Args:
        x: An array of NumPy or of the engine's device.
        reduced: The axes, which stay with extent 1.
        dtype: The dtype of the arithmetic.
        engine: The engine.
    """
    axes = tuple(sorted(reduced))
    pivot = mean(x, axes, dtype, keepdims=True, engine=engine)
    both = run(
        "deviations", (x, pivot), ("x", "pivot"), deviations, axes, True, None, engine, None, None
    )
    return pivot, both


def from_device(count: int, pivot: Any, both: Any) -> Moments:
    """Return the moments of ``count`` elements, given what :func:`on_device` returns, in NumPy."""
    values = np.asarray(both)
    squares, total = in_double(values.real), in_double(values.imag)
    with np.errstate(all="ignore"):
        return np.asarray(float(count)), in_double(pivot), total / count, squares
