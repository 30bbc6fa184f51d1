"""Checks of arguments that all layers share, and elementwise results in their input's layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import real_number
from portable_gpu.errors import ShapeError
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.floats import floating
from portable_gpu.runtime.engine import Engine
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
                f"{name} has shape {array.shape} and {first} {expected.shape}; expected "
                "the same shape"
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


def computed(
    expression: str,
    input: Any,
    options: dict[str, Any],
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Compute an expression of the input ``x``."""
    arrays = {"x": floating(input, "input")}
    numbers = {name: real_number(value, name) for name, value in options.items()}
    place = {"engine": engine, "queue": queue, "wait_for": wait_for}
    return elementwise_like(expression, arrays, numbers, out, **place)


def gradient(
    expression: str,
    grad_output: Any,
    operand: Any,
    options: dict[str, Any],
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
    name: str = "input",
) -> Any:
    """Compute an expression of the gradient ``g`` and of ``x``, which forward kept."""
    x, g = floating(operand, name), floating(grad_output, "grad_output")
    same_shape(**{name: x, "grad_output": g})
    numbers = {name: real_number(value, name) for name, value in options.items()}
    place = {"engine": engine, "queue": queue, "wait_for": wait_for}
    return elementwise_like(expression, {"x": x, "g": g}, numbers, out, **place)
