"""Checks of arguments that all layers share, and elementwise results in their input's layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from portable_gpu.errors import ShapeError
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.runtime.views import as_array


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
