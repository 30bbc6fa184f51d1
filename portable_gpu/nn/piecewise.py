"""Activation functions of straight and parabolic parts, and their gradients.

What they share is described at :func:`portable_gpu.nn.relu` and
:func:`portable_gpu.nn.relu_backward`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.arguments import real_number
from portable_gpu.errors import ArgumentError
from portable_gpu.nn.operands import computed, gradient
from portable_gpu.runtime.engine import Engine
from portable_gpu.typing import of_one, of_two


@of_one
def hardtanh(
    input: Any,
    min_val: float = -1.0,
    max_val: float = 1.0,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``x`` between ``min_val`` and ``max_val``, and these numbers beyond; NaN stays NaN.

    Arguments, result, errors, cost: see :func:`portable_gpu.nn.relu`.
    ArgumentError where ``min_val`` is not below ``max_val``.
    """
    options = ends(min_val, max_val)
    expression = "x < min_val ? min_val : x > max_val ? max_val : x"
    return computed(expression, input, options, out, engine, queue, wait_for)


@of_two
def hardtanh_backward(
    grad_output: Any,
    input: Any,
    min_val: float = -1.0,
    max_val: float = 1.0,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`hardtanh`: ``grad_output`` between the ends, else 0.

    Arguments, result, errors, cost: see :func:`portable_gpu.nn.relu_backward`.
    """
    expression = "x <= min_val ? 0 : x >= max_val ? 0 : g"
    options = ends(min_val, max_val)
    return gradient(expression, grad_output, input, options, out, engine, queue, wait_for)


@of_one
def relu6(
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``min(max(x, 0), 6)``: :func:`hardtanh` from 0 to 6.

    Arguments, result, errors, cost: see :func:`portable_gpu.nn.relu`.
    """
    place = {"engine": engine, "queue": queue, "wait_for": wait_for}
    return hardtanh(input, 0.0, 6.0, out=out, **place)  # type: ignore[arg-type]


@of_two
def relu6_backward(
    grad_output: Any,
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`relu6`: ``grad_output`` between 0 and 6, else 0.

    ``input`` may be the result of :func:`relu6` as well.

    Arguments, result, errors, cost: see :func:`portable_gpu.nn.relu_backward`.
    """
    place = {"engine": engine, "queue": queue, "wait_for": wait_for}
    return hardtanh_backward(grad_output, input, 0.0, 6.0, out=out, **place)  # type: ignore[arg-type]


@of_one
def hardsigmoid(
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute 0 up to -3, 1 from 3 on, and ``x / 6 + 1 / 2`` between.

    Arguments, result, errors, cost: see :func:`portable_gpu.nn.relu`.
    """
    expression = "x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + 0.5"
    return computed(expression, input, {}, out, engine, queue, wait_for)


@of_two
def hardsigmoid_backward(
    grad_output: Any,
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`hardsigmoid`: ``grad_output / 6`` between -3 and 3, else 0.

    Arguments, result, errors, cost: see :func:`portable_gpu.nn.relu_backward`.
    """
    expression = "x <= -3 ? 0 : x >= 3 ? 0 : g / 6"
    return gradient(expression, grad_output, input, {}, out, engine, queue, wait_for)


@of_one
def hardswish(
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute 0 up to -3, ``x`` from 3 on, and ``x * (x + 3) / 6`` between.

    Arguments, result, errors, cost: see :func:`portable_gpu.nn.relu`.
    Howard et al., arXiv:1905.02244.
    """
    return computed(
        "x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6", input, {}, out, engine, queue, wait_for
    )


@of_two
def hardswish_backward(
    grad_output: Any,
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`hardswish`: that of each of its three parts.

    Arguments, result, errors, cost: see :func:`portable_gpu.nn.relu_backward`.
    """
    expression = "x <= -3 ? 0 : x >= 3 ? g : g * (x / 3 + 0.5)"
    return gradient(expression, grad_output, input, {}, out, engine, queue, wait_for)


def ends(min_val: Any, max_val: Any) -> dict[str, Any]:
    """The options of :func:`hardtanh`.

    Raises:
        ArgumentTypeError, ArgumentError: One is no number; the first is not below the second.
    """
    low, high = real_number(min_val, "min_val"), real_number(max_val, "max_val")
    if not low < high:
        raise ArgumentError(f"min_val is {low} and max_val {high}; a smaller min_val would do")
    return {"min_val": low, "max_val": high}
