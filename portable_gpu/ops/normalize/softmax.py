"""Softmax and its logarithm along an axis, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.ops.floats import floating
from portable_gpu.ops.normalize.arguments import axis_of, like
from portable_gpu.ops.normalize.invoke import flop_of, make_rows
from portable_gpu.ops.operation import CallArguments, Invocation
from portable_gpu.ops.ordered import OrderedOperation
from portable_gpu.runtime.engine import Engine
from portable_gpu.typing import of_one, of_two


@of_one
def softmax(
    input: Any,
    dim: int = -1,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``exp(x - m) / sum(exp(x - m))`` along an axis, m the maximum along it.

    Args:
        input: An array of float16, bfloat16, float32 or float64, of any shape and strides.
        dim: The axis, from ``-input.ndim`` to ``input.ndim - 1``.
        out: The array for the result, with the shape and dtype of ``input``.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        ``out``, or a fresh array with the order of axes of ``input`` (``output`` for gradients): a
        NumPy array (finished) for NumPy arrays, a device array (enqueued) for device arrays.

    Raises:
        DTypeError: ``input`` has no real floating dtype; ``out`` has another dtype.
        ShapeError: ``out`` has another shape.
        ArgumentError, ArgumentTypeError: ``dim`` is not an axis of ``input``.
        OverlapError: ``out`` shares memory with ``input``.
        ReadOnlyError: ``out`` cannot be written.
        UnsupportedError: The call needs double precision, which the device lacks.

    Cost: each element read once and written once, where a row fits into the registers of a
        work-group or the caches of a CPU's core; otherwise read twice.
    Accuracy: ``|error| <= (n + c) * eps * y`` for rows of n elements, where c is a few ulp of
        ``exp``; 16-bit floats are computed in float32 and rounded once.  A row of minus infinities,
        or one with NaN or plus infinity, gives NaN, as in torch.
    Order: fixed for one target, policy, shape and alignment.
    """
    return _SOFTMAX.call((input,), ("softmax", dim), out, (), engine, queue, wait_for)


@of_one
def log_softmax(
    input: Any,
    dim: int = -1,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``x - m - log(sum(exp(x - m)))`` along an axis, m the maximum along it.

    Arguments, errors and costs: as :func:`softmax`.

    Accuracy: ``|error| <= (n + c) * eps + eps * |y|`` for rows of n elements, with c as in
        :func:`softmax`: the terms of the sum are positive, and its logarithm is not below 0.
    """
    return _SOFTMAX.call((input,), ("log_softmax", dim), out, (), engine, queue, wait_for)


@of_two
def softmax_backward(
    grad_output: Any,
    output: Any,
    dim: int = -1,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`softmax`: ``y * (dy - sum(dy * y))`` along the axis.

    Args:
        grad_output: dy, the gradient of the output; of its shape and dtype.
        output: y, the result of :func:`softmax`.
        dim: The axis.
        out, engine, queue, wait_for: As :func:`softmax`.

    Returns, Raises: As :func:`softmax`; ShapeError and DTypeError where the arrays differ.

    Cost: both arrays read once (twice where a row is long), and one written.
    Accuracy: ``|error| <= (n + 3) * eps * y * (|dy| + sum(|dy| * y))``.
    """
    arrays, options = (grad_output, output), ("softmax_backward", dim)
    return _BACKWARD.call(arrays, options, out, (), engine, queue, wait_for)


@of_two
def log_softmax_backward(
    grad_output: Any,
    output: Any,
    dim: int = -1,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`log_softmax`: ``dy - exp(y) * sum(dy)`` along the axis.

    Arguments, errors and costs: as :func:`softmax_backward`; ``output`` is the result of
    :func:`log_softmax`.

    Accuracy: ``|error| <= eps * |dy| + (n + c + |y|) * eps * exp(y) * sum(|dy|)``, with c as in
        :func:`softmax`.
    """
    arrays, options = (grad_output, output), ("log_softmax_backward", dim)
    return _BACKWARD.call(arrays, options, out, (), engine, queue, wait_for)


def _normalise(arguments: CallArguments) -> Invocation:
    (name, dim), x = arguments.options, floating(arguments.inputs[0], "input")
    return _invocation(name, dim, (x,), ("input",), arguments.out)


def _normalise_backward(arguments: CallArguments) -> Invocation:
    name, dim = arguments.options
    dy, y = (
        floating(array, label)
        for array, label in zip(arguments.inputs, ("grad_output", "output"), strict=True)
    )
    like(dy, "grad_output", y, "output")
    return _invocation(name, dim, (dy, y), ("grad_output", "output"), arguments.out)


def _invocation(
    name: str, dim: Any, arrays: tuple[Any, ...], names: tuple[str, ...], out: Any
) -> Invocation:
    shape, dtype = tuple(arrays[0].shape), arrays[0].dtype
    axis = axis_of(dim, len(shape))
    return Invocation(
        inputs=arrays,
        names=names,
        shape=shape,
        dtype=dtype,
        plan=lambda engine, views: make_rows(
            engine, views, name, frozenset(), shape, frozenset((axis,)), {}
        ),
        flop=flop_of(shape),
        out=out,
    )


_SOFTMAX = OrderedOperation("softmax", _normalise)
_BACKWARD = OrderedOperation("softmax_backward", _normalise_backward, like=1)
