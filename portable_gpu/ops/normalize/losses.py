"""Losses and their gradients: cross entropy, negative log likelihood, squared errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.arguments import one_of
from portable_gpu.errors import ShapeError
from portable_gpu.ops.floats import floating, statistics_dtype
from portable_gpu.ops.normalize.arguments import like
from portable_gpu.ops.normalize.loss_calls import GRADIENT, LOSS, REDUCTIONS, SQUARES
from portable_gpu.ops.ordered import elementwise_like
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import as_array


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``-sum(w * p * log_softmax(x))`` over the classes; p are the targets' probabilities.

    Args:
        input: x, the logits: shape (N, C) or (N, C, d1, ...), or (C,); of float16, bfloat16,
            float32 or float64, of any strides.
        target: The number of a class for each place, integers of shape (N, d1, ...); or
            probabilities of classes, of the shape and dtype of ``input``.
        weight: A weight for each class, of the dtype of ``input`` or float32; or ``None``.
        ignore_index: A target whose places have loss and gradient 0; negative if targets are
            probabilities.
        reduction: ``none``; ``sum``; or ``mean``, the sum divided by the sum of the weights of the
            targets, or, if the targets are probabilities, by the number of places.
        label_smoothing: From 0 to 1: how much of the target is spread evenly over the classes.
        out: The array for the result, of the dtype of ``input``.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        ``out`` or a fresh array of shape (N, d1, ...), or, reduced, without axes: a NumPy array
        (finished) for NumPy arrays, a device array (enqueued) for device arrays.

    Raises:
        ArgumentError: A target is neither a class nor ``ignore_index``; the message names the first
            such target.  The call raises it for NumPy arrays; for device arrays it is raised when
            values of the result are copied to the host.
        ShapeError, DTypeError: The shapes or dtypes of the arrays do not fit each other.
        ArgumentError, ArgumentTypeError: An option has a wrong value or type.
        OverlapError, ReadOnlyError: ``out`` cannot be written.
        UnsupportedError: The call needs double precision, which the device lacks.

    Cost: ``input`` read once.
    Accuracy: sums over the classes as in :func:`log_softmax`, in float32 (float64 for float64);
        with probabilities or smoothing ``|error| <= (C + c) * eps * sum(w * p * (|x| + |m|))``,
        where m is the maximum of x and c a few ulp of ``exp``.
    Order: fixed for one target, policy, shape and alignment.
    """
    options = ("entropy", weight is not None, ignore_index, reduction, label_smoothing)
    arrays = (input, target) if weight is None else (input, target, weight)
    return LOSS.call(arrays, options, out, (), engine, queue, wait_for)


def cross_entropy_backward(
    grad_output: Any,
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`cross_entropy` with respect to ``input``.

    Args:
        grad_output: The gradient of the result, of its shape and the dtype of ``input``.
        input, target, weight, ignore_index, reduction, label_smoothing: As in
            :func:`cross_entropy`.
        out: The array for the result, of the shape and dtype of ``input``.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns, Raises: As :func:`cross_entropy`.

    Cost: ``input`` is read once if its classes fit into the registers of a work-group or the caches
        of a CPU's core, else twice; the result is written once.  For a mean, the weights of the
        targets are added first.
    """
    options = ("entropy", weight is not None, ignore_index, reduction, label_smoothing)
    arrays = (grad_output, input, target) + (() if weight is None else (weight,))
    return GRADIENT.call(arrays, options, out, (), engine, queue, wait_for)


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``-w * x`` for the class that each target names.

    Args:
        input: x, the logarithms of the probabilities of the classes; shapes and dtypes as in
            :func:`cross_entropy`.
        target: The number of a class for each place, integers of shape (N, d1, ...).
        weight, ignore_index, reduction, out, engine, queue, wait_for: As in :func:`cross_entropy`.

    Returns, Raises, Order: As :func:`cross_entropy`.

    Cost: one element of ``input`` is read for each target.
    Accuracy: products and their sums are computed in float32 (float64 for float64).
    """
    options = ("likelihood", weight is not None, ignore_index, reduction, 0.0)
    arrays = (input, target) if weight is None else (input, target, weight)
    return LOSS.call(arrays, options, out, (), engine, queue, wait_for)


def nll_loss_backward(
    grad_output: Any,
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`nll_loss` with respect to ``input``.

    Args:
        grad_output: The gradient of the result, of its shape and the dtype of ``input``.
        input, target, weight, ignore_index, reduction: As in :func:`nll_loss`.
        out, engine, queue, wait_for: As in :func:`cross_entropy_backward`.

    Returns, Raises: As :func:`cross_entropy_backward`.

    Cost: the result is written once; ``input`` is not read.
    """
    options = ("likelihood", weight is not None, ignore_index, reduction, 0.0)
    arrays = (grad_output, input, target) + (() if weight is None else (weight,))
    return GRADIENT.call(arrays, options, out, (), engine, queue, wait_for)


#: The names of arrays in messages, by those in expressions.
_NAMES = {"x": "input", "y": "target", "g": "grad_output"}


def mse_loss(
    input: Any,
    target: Any,
    reduction: str = "mean",
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``(x - y)**2`` for each element, or the sum or the mean of all.

    Args:
        input: x, of float16, bfloat16, float32 or float64, and of any shape and strides.
        target: y, of the shape and dtype of ``input``.
        reduction: ``none``, ``sum`` or ``mean``.
        out, engine, queue, wait_for: As in :func:`cross_entropy`.

    Returns:
        ``out``, or a fresh array of the shape of ``input`` (``none``) or without axes.

    Raises: As :func:`cross_entropy`.

    Cost: both arrays are read once.
    Accuracy: differences, squares and sums are computed in float32 (float64 for float64), and the
        result is rounded once to the dtype.
    Order: fixed for one target, policy, shape and alignment.
    """
    if one_of(reduction, REDUCTIONS, "reduction") == "none":
        x, y = floating(input, "input"), floating(target, "target")
        like(y, "target", x, "input")
        return elementwise_like(
            "(x - y) * (x - y)", {"x": x, "y": y}, {}, out, names=_NAMES,
            engine=engine, queue=queue, wait_for=wait_for,
        )  # fmt: skip
    return SQUARES.call((input, target), (reduction,), out, (), engine, queue, wait_for)


def mse_loss_backward(
    grad_output: Any,
    input: Any,
    target: Any,
    reduction: str = "mean",
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`mse_loss` with respect to ``input``.

    Args:
        grad_output: The gradient of the result, of its shape.
        input, target, reduction: As in :func:`mse_loss`.
        out: The array for the result, of the shape and dtype of ``input``.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        ``out``, or a fresh array of the shape and dtype of ``input``.

    Raises: As :func:`cross_entropy_backward`.

    Cost: one launch; both arrays are read once, and the result is written once.
    """
    one_of(reduction, REDUCTIONS, "reduction")
    x, y, g = (
        floating(input, "input"),
        floating(target, "target"),
        as_array(grad_output, "grad_output"),
    )
    like(y, "target", x, "input")
    expected = x.shape if reduction == "none" else ()
    if g.shape != expected:
        raise ShapeError(
            f"grad_output has shape {g.shape}; expected {expected} with this reduction"
        )
    # In 16 bits the factor of a mean of many elements would be subnormal, or 0.
    scale = statistics_dtype(x.dtype).type(2.0 / max(1, x.size) if reduction == "mean" else 2.0)
    return elementwise_like(
        "(x - y) * g * k", {"x": x, "y": y, "g": g}, {"k": scale}, out, dtype=x.dtype,
        names=_NAMES, engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip
