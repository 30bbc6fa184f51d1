"""The moments of a part of an array: computed on a device, and merged with those of other parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from portable_gpu.codegen.operators import BinaryOp
from portable_gpu.multi.merging import Moments, in_double
from portable_gpu.ops.reduce import mean, reduce, var
from portable_gpu.runtime.engine import Engine

_ADD = BinaryOp("add", "0", "a + b")


def on_device(
    x: Any, reduced: Iterable[int], dtype: np.dtype[Any], engine: Engine
) -> tuple[Any, Any, Any]:
    """Return the pivots, the sums of ``x - pivot``, and the variances of a real array.

    The pivot is the rounded mean.

    Args:
        x: An array of NumPy or of the engine's device.
        reduced: The axes, which stay with extent 1.
        dtype: The dtype of the arithmetic.
        engine: The engine.
    """
    axes = tuple(sorted(reduced))
    options: dict[str, Any] = {"axis": axes, "dtype": dtype, "keepdims": True, "engine": engine}
    pivot = mean(x, **options)
    return pivot, reduce(x, _ADD, "x - pivot", pivot=pivot, **options), var(x, **options)


def from_device(count: int, pivot: Any, total: Any, variance: Any) -> Moments:
    """Return the moments of ``count`` elements, given what :func:`on_device` returns, in NumPy."""
    with np.errstate(all="ignore"):
        offset, squares = in_double(total) / count, in_double(variance) * count
        return np.asarray(float(count)), in_double(pivot), offset, squares
