"""Checks of arguments that all layers share, and expressions of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import real_number
from portable_gpu.errors import ShapeError
from portable_gpu.ops.floats import floating
from portable_gpu.ops.ordered import elementwise_like
from portable_gpu.runtime.engine import Engine


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
    x = floating(input, "input")
    place = {"engine": engine, "queue": queue, "wait_for": wait_for}
    return elementwise_like(expression, {"x": x}, _numbers(options, x.dtype, place), out, **place)


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
    place = {"engine": engine, "queue": queue, "wait_for": wait_for}
    numbers = _numbers(options, x.dtype, place)
    return elementwise_like(expression, {"x": x, "g": g}, numbers, out, **place)


def _numbers(
    options: dict[str, Any], dtype: np.dtype[Any], place: dict[str, Any]
) -> dict[str, Any]:
    """Return the numbers of an expression.

    With 16-bit floats they are float32, not rounded, and ``place`` gets the dtype of the result.
    """
    numbers = {name: real_number(value, name) for name, value in options.items()}
    if not numbers or dtype.itemsize > 2:
        return numbers
    place["dtype"] = dtype
    return {name: np.float32(number) for name, number in numbers.items()}
