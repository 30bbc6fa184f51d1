"""Checks of the arguments of factorisations and solves, and conversions."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.arguments import shown
from portable_gpu.dtypes import check_precision
from portable_gpu.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import Shape

#: When an error about a matrix without a result is raised.
CHECKS = ("late", "now")
#: The values of ``trans=``, as in SciPy.
_TRANS = {"N": "N", "T": "T", "C": "C", 0: "N", 1: "T", 2: "C"}


def square(array: Any, name: str) -> Any:
    """Return ``array`` if it is a stack of square matrices of a supported dtype.

    Raises:
        ShapeError, DTypeError: It is not.
    """
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ShapeError(f"{name} has shape {tuple(array.shape)}; square matrices are needed")
    check_dtype(array.dtype, name)
    return array


def check_dtype(dtype: np.dtype[Any], name: str) -> None:
    """Raise DTypeError unless it is float32, float64, complex64 or complex128."""
    if dtype.kind not in "fc" or dtype.itemsize < 4:
        raise DTypeError(
            f"{name} is {dtype}; float32, float64, complex64 or complex128 are needed: convert it, "
            "for instance by astype('float32')"
        )


def common_dtype(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """Return NumPy's common dtype of a matrix, which is checked already, and a right-hand side."""
    check_dtype(b, "b")
    return np.result_type(a, b)


def transposition(trans: Any) -> str:
    """Return N, T or C for a value of ``trans=``.

    Raises:
        ArgumentTypeError: It is neither a word nor an integer.
        ArgumentError: It is unknown.
    """
    is_known_type = isinstance(trans, (str, int)) and not isinstance(trans, bool)
    known = _TRANS.get(trans) if is_known_type else None
    if known is None:
        error = ArgumentError if is_known_type else ArgumentTypeError
        raise error(f"trans is {shown(trans)}; known are N, T, C and 0, 1, 2")
    return known


def solution_shape(a: Shape, b: Shape, side: str = "left", name: str = "a") -> Shape:
    """Return the shape of X: that of b, with batch axes broadcast.

    A ``b`` of one axis is a vector.  ``name`` is the name of the matrix in messages.

    Raises:
        ShapeError: They do not fit.
    """
    n = a[-1]
    if not b:
        raise ShapeError(f"{name} has shape {a} and b {b}; b must be a vector or a matrix")
    matrix = b[-2:]
    have = matrix[0] if side == "left" else matrix[-1]
    if have != n:
        rows = "rows" if side == "left" else "columns"
        raise ShapeError(f"{name} has shape {a} and b {b}: b must have {n} {rows}, not {have}")
    try:
        return (*np.broadcast_shapes(a[:-2], b[:-2]), *matrix)
    except ValueError:
        raise ShapeError(
            f"{name} has shape {a} and b {b}: the batch axes do not broadcast"
        ) from None


def precision_of(precision: str | None, engine: Engine) -> str:
    """Return the precision of products of float32: the caller's, or else the engine's.

    Raises:
        ArgumentError: It is unknown.
    """
    return engine.precision if precision is None else check_precision(precision)
