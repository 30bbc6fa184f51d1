"""Views of arrays with other shapes and dtypes, for NumPy arrays and device arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.runtime.array import Array
from portable_gpu.runtime.report import reports_of
from portable_gpu.runtime.views import Shape


def diagonal(x: Any) -> Any:
    """The real parts of the diagonals of (..., n, n), as (..., n)."""
    if isinstance(x, np.ndarray):
        return np.diagonal(x, 0, -2, -1).real
    step = x.strides[-2] + x.strides[-1]
    return _relaid(x, x.shape[:-1], (*x.strides[:-2], step), _real(x.dtype))


def parts(x: Any) -> Any:
    """View an array as real numbers, with one more axis for the real and the imaginary part."""
    real = _real(x.dtype)
    if isinstance(x, np.ndarray):
        return x[..., None].view(real)
    count = x.dtype.itemsize // real.itemsize
    return _relaid(x, (*x.shape, count), (*x.strides, real.itemsize), real)


def joined(x: Any) -> Any:
    """View real and imaginary parts, in C order, as numbers: the inverse of :func:`parts`."""
    *shape, count = x.shape
    dtype = x.dtype if count == 1 else np.result_type(x.dtype, np.complex64)
    if isinstance(x, np.ndarray):
        return x.view(dtype)[..., 0]
    return _relaid(x, tuple(shape), x.strides[:-1], dtype)


def columns(x: Any) -> Any:
    """View vectors (..., n) as matrices of one column."""
    if isinstance(x, np.ndarray):
        return x[..., None]
    return _relaid(x, (*x.shape, 1), (*x.strides, x.dtype.itemsize), x.dtype)


def vectors(x: Any) -> Any:
    """View matrices of one column as vectors."""
    return x[..., 0]


def spread(x: Any, shape: Shape) -> Any:
    """Broadcast ``x`` to a shape, as a view that must not be written."""
    if isinstance(x, np.ndarray):
        return np.broadcast_to(x, shape)
    missing = len(shape) - x.ndim
    strides = [0 if extent == 1 else step for extent, step in zip(x.shape, x.strides, strict=True)]
    return _relaid(x, shape, (0,) * missing + tuple(strides), x.dtype)


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.empty(0, dtype).real.dtype


def _relaid(x: Any, shape: Shape, strides: Shape, dtype: np.dtype[Any]) -> Array:
    """Return a view of a device array with its queue, events and reports."""
    kind = type(x) if isinstance(x, Array) else Array
    view: Array = kind(
        x.context if x.queue is None else x.queue, shape, dtype,
        data=x.base_data, offset=x.offset, strides=strides, events=x.events,
    )  # fmt: skip
    view.reports = reports_of(x)
    return view
