"""Checks of arguments that the functions on rows share."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.arguments import shown, whole
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.ops.floats import floating, statistics_dtype


def axis_of(dim: Any, ndim: int) -> int:
    """The number of an axis, from 0.

    Raises:
        ArgumentTypeError: ``dim`` is not an integer.
        ArgumentError: There is no such axis.
    """
    axis = whole(dim, "dim")
    if not -max(1, ndim) <= axis < max(1, ndim):
        last = max(1, ndim) - 1
        raise ArgumentError(f"dim is {shown(dim)}; the input has axes {-last - 1} to {last}")
    return axis % max(1, ndim)


def like(array: Any, name: str, other: Any, other_name: str) -> None:
    """Check that an array has the shape and dtype of another one.

    Raises:
        ShapeError, DTypeError: It has not.
    """
    if array.shape != other.shape:
        raise ShapeError(
            f"{name} has shape {array.shape} and {other_name} {other.shape}; expected the same"
        )
    of_dtype(array, name, other.dtype, other_name)


def of_dtype(array: Any, name: str, dtype: np.dtype[Any], other_name: str) -> None:
    """Check that an array has the dtype that another one asks for.

    Raises:
        DTypeError: It has not.
    """
    if array.dtype != dtype:
        raise DTypeError(f"{name} is {array.dtype}; expected {dtype}, that of {other_name}")


def parameter(
    value: Any,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    decided_by: str = "this input",
) -> Any:
    """``value`` as an array of the given shape, with the input's dtype or that of its statistics.

    An error names the arguments that the shape is ``decided_by``.

    Raises:
        ArgumentTypeError: It is not an array.
        ShapeError, DTypeError: It has another shape or dtype.
    """
    array = floating(value, name)
    if array.shape != shape:
        raise ShapeError(f"{name} has shape {array.shape}; expected {shape} with {decided_by}")
    accepted = dict.fromkeys((dtype, statistics_dtype(dtype)))
    if array.dtype not in accepted:
        expected = " or ".join(str(one) for one in accepted)
        raise DTypeError(f"{name} is {array.dtype}; expected {expected} with this input")
    return array
