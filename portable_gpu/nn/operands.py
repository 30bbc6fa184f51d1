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
    numbers, dtype = _numbers(options, x.dtype)
    return elementwise_like(
        expression, {"x": x}, numbers, out, dtype, names={"x": "input"},
        engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


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
    if g.shape != x.shape:
        raise ShapeError(
            f"grad_output has shape {g.shape} and {name} {x.shape}; expected the same shape"
        )
    numbers, dtype = _numbers(options, x.dtype)
    return elementwise_like(
        expression, {"x": x, "g": g}, numbers, out, dtype, names={"x": name, "g": "grad_output"},
        engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


def _numbers(
    options: dict[str, Any], dtype: np.dtype[Any]
) -> tuple[dict[str, Any], np.dtype[Any] | None]:
    """Return the numbers of an expression, and the dtype of its result.

    The dtype is ``None`` if it is the common one.  With 16-bit floats the numbers are float32, not
    rounded.
    """
    if not options:
        return options, None
    numbers: dict[str, Any] = {name: real_number(value, name) for name, value in options.items()}
    if dtype.itemsize > 2:
        return numbers, None
    return {name: np.float32(number) for name, number in numbers.items()}, dtype
