"""NumPy's broadcasting of views, and its common dtype of arrays and of Python numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from portable_gpu.dtypes import element, is_float16_like
from portable_gpu.errors import DTypeError, ShapeError
from portable_gpu.runtime.views import Shape, View

DType = np.dtype[Any]
#: Python's numbers, whose dtype gives way to the arrays'; the later the wider.
NUMBERS = (bool, int, float, complex)


def is_number(value: Any) -> bool:
    """Whether ``value`` is a Python number, and not one of NumPy."""
    return isinstance(value, NUMBERS) and not isinstance(value, np.generic)


def broadcast(shapes: Mapping[str, Shape]) -> Shape:
    """The shape that all broadcast to.

    Raises:
        ShapeError: They do not.
    """
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} has shape {tuple(shape)}" for name, shape in shapes.items())
        raise ShapeError(f"{listed}; they do not broadcast") from None


def check_broadcast(shape: Shape, target: Shape, name: str) -> None:
    """Raise ShapeError unless an array of a shape broadcasts to a target's shape."""
    try:
        fits = np.broadcast_shapes(shape, target) == target
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"{name} has shape {shape}, which does not broadcast to {target}")


def spread(view: View, shape: Shape) -> Shape:
    """The strides of a view that is broadcast to a shape."""
    if view.shape == shape:
        return view.strides
    missing = len(shape) - len(view.shape)
    strides = (0 if n == 1 else step for n, step in zip(view.shape, view.strides, strict=True))
    return (0,) * missing + tuple(strides)


def common_dtype(kinds: Mapping[str, Any]) -> DType:
    """NumPy's common dtype (NEP 50) of arrays, by their dtypes, and of Python numbers, by type.

    Raises:
        DTypeError: There is none that is supported.
    """
    dtypes = [kind for kind in kinds.values() if isinstance(kind, np.dtype)]
    weak = (kind for kind in kinds.values() if not isinstance(kind, np.dtype))
    rank = max((_rank(kind) for kind in weak), default=-1)
    try:
        if dtypes:
            common = np.result_type(*dtypes)
            if rank > _rank_of(common):
                is_exact = common.kind in "biu"  # then a Python complex is complex128
                wide = np.complex128 if is_exact else np.complex64
                common = np.result_type(common, (np.bool_, np.int64, np.float64, wide)[rank])
        else:
            common = np.dtype((np.bool_, np.int64, np.float64, np.complex128)[max(rank, 0)])
        element(common)
    except TypeError as error:
        listed = ", ".join(f"{name} is {getattr(k, '__name__', k)}" for name, k in kinds.items())
        raise DTypeError(f"{listed}: {error}; convert one of them") from None
    return common


def _rank(kind: type) -> int:
    return next(k for k, number in enumerate(NUMBERS) if issubclass(kind, number))


def _rank_of(dtype: DType) -> int:
    return 2 if is_float16_like(dtype) else {"b": 0, "i": 1, "u": 1, "f": 2}.get(dtype.kind, 3)
