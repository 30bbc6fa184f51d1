"""Checks of arguments that all layers share, and elementwise results in their input's layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from portable_gpu.arguments import shown
from portable_gpu.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.runtime.views import as_array


def floating(value: Any, name: str) -> Any:
    """``value`` as an array of real floating numbers.

    Raises:
        ArgumentTypeError: It is no array.
        DTypeError: Its elements are not real floating numbers.
    """
    array = as_array(value, name)
    if array.dtype.kind in "iubc":
        raise DTypeError(f"{name} is {array.dtype}; float16, bfloat16, float32 or float64 would do")
    return array


def real_number(value: Any, name: str) -> float:
    """``value`` as a float.

    Raises:
        ArgumentTypeError: It is no real number.
        ArgumentError: It is NaN, or no float can hold it.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(f"{name} is {shown(value)}; a real number would do")
    try:
        number = float(value)
    except OverflowError:
        raise ArgumentError(f"{name} is {shown(value)}, which no float can hold") from None
    if number != number:
        raise ArgumentError(f"{name} is NaN; a number would do")
    return number


def same_shape(**arrays: Any) -> None:
    """Check that arrays have the shape of the first of them.

    Raises:
        ShapeError: They do not; the message has both names and shapes.
    """
    (first, expected), *others = arrays.items()
    for name, array in others:
        if array.shape != expected.shape:
            raise ShapeError(
                f"{name} has shape {array.shape} and {first} {expected.shape}; "
                "the same shape would do"
            )


def elementwise_like(
    expression: str, arrays: Mapping[str, Any], numbers: Mapping[str, Any], out: Any, **place: Any
) -> Any:
    """Compute an expression of arrays of one shape; the result has the layout of the first.

    A channels-last input has a channels-last result: axes are ordered by the first array's strides
    during the call, so that no element is transposed.
    """
    first = next(iter(arrays.values()))
    order = sorted(range(first.ndim), key=lambda axis: -abs(first.strides[axis]))
    if order == list(range(first.ndim)):
        return elementwise(expression, out=out, **arrays, **numbers, **place)
    ordered = {name: array.transpose(order) for name, array in arrays.items()}
    target = None
    if out is not None:
        target = as_array(out, "out")
        same_shape(input=first, out=target)
        # The array itself tells elementwise that the result replaces an input.
        names = [name for name, array in arrays.items() if array is out]
        target = ordered[names[0]] if names else target.transpose(order)
    result = elementwise(expression, out=target, **ordered, **numbers, **place)
    return out if out is not None else result.transpose(np.argsort(order).tolist())
