"""The public functions of layer, RMS and group norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.dtypes import is_bfloat16
from portable_gpu.ops.floats import floating
from portable_gpu.ops.normalize.norms import backward, forward, place_of
from portable_gpu.runtime.engine import Engine


def layer_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``(x - mean) / sqrt(var + eps) * weight + bias`` over the last axes.

    Args:
        input: x, an array of float16, bfloat16, float32 or float64, of any strides.
        normalized_shape: The extents of the axes over which the mean and the variance are taken.
        weight, bias: Arrays of that shape, of the dtype of ``input`` or of its statistics; or
            ``None``.
        eps: The number that is added to the variance.
        out: The array for the result, with the shape and dtype of ``input``.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        ``out``, or a fresh array with the order of axes of ``input``: a NumPy array (finished) for
        NumPy arrays, a device array (enqueued) for device arrays.

    Raises:
        ShapeError: ``normalized_shape`` is not the end of the shape; a parameter or ``out`` has
            another shape.
        DTypeError: An array has another dtype.
        ArgumentError, ArgumentTypeError: ``eps`` is not a finite number.
        OverlapError: ``out`` shares memory with an input.
        ReadOnlyError: ``out`` cannot be written.
        UnsupportedError: The call needs double precision, which the device lacks.

    Cost: ``input`` read once and the result written once, where a row fits into the registers of a
        work-group or the caches of a CPU's core; otherwise ``input`` is read twice.
    Accuracy: statistics in float32 (float64 for float64).  The variance is of differences from the
        mean, or merged from parts (Chan et al.): its relative error is about ``n * eps``, however
        large the mean is.
    Order: fixed for one target, policy, shape and alignment.
    """
    return forward(
        "layer_norm", input, normalized_shape, weight, bias, eps, None, out,
        place_of(engine, queue, wait_for), with_statistics=False,
    )  # fmt: skip


def native_layer_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> tuple[Any, Any, Any]:
    """Compute :func:`layer_norm`, and what its gradient needs.

    ``out`` is a tuple of three, each an array or ``None``.

    Returns:
        The result, the mean, and ``1 / sqrt(var + eps)``: these two of float32 (float64 for
        float64), of the shape of ``input`` with 1 for the axes of ``normalized_shape``.
    """
    place = place_of(engine, queue, wait_for)
    y, mean, rstd = forward(
        "layer_norm", input, normalized_shape, weight, bias, eps, None, out, place
    )
    return y, mean, rstd


def layer_norm_backward(
    grad_output: Any,
    input: Any,
    normalized_shape: Any,
    mean: Any,
    rstd: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> tuple[Any, Any, Any]:
    """Compute the gradients of :func:`layer_norm` with respect to input, weight and bias.

    Args:
        grad_output: The gradient of the result; of the shape and dtype of ``input``.
        input, normalized_shape, weight: As :func:`layer_norm` took them.
        mean, rstd: The statistics that :func:`native_layer_norm` returned.
        bias: Any value but ``None`` requests the gradient of the bias.
        out: A tuple for the three gradients, each an array or ``None``.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        The gradients of input, weight and bias; ``None`` for a parameter that is not given.

    Raises: As :func:`layer_norm`.

    Cost: both large arrays are read once for the gradient of the input, and once more for those of
        weight and bias.
    Accuracy: sums of n terms in float32 (float64 for float64): an error of at most
        ``n * eps * sum(|terms|)``.
    Order: fixed for one target, policy, shape and alignment.
    """
    statistics = {"mean": mean, "rstd": rstd}
    place = place_of(engine, queue, wait_for)
    arrays = grad_output, input
    return backward("layer_norm", arrays, normalized_shape, statistics, weight, bias, out, place)


def rms_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    eps: float | None = None,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``x / sqrt(mean(x * x) + eps) * weight`` over the last axes.

    If ``eps`` is ``None``, it is that of the input's dtype.  All else is as in :func:`layer_norm`.
    """
    return forward(
        "rms_norm", input, normalized_shape, weight, None, _eps_of(input, eps), None, out,
        place_of(engine, queue, wait_for), with_statistics=False,
    )  # fmt: skip


def native_rms_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    eps: float | None = None,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> tuple[Any, Any]:
    """Compute :func:`rms_norm`; return the result and ``1 / sqrt(mean(x * x) + eps)``.

    ``out`` is a tuple of two, each an array or ``None``.
    """
    place = place_of(engine, queue, wait_for)
    y, rstd = forward(
        "rms_norm", input, normalized_shape, weight, None, _eps_of(input, eps), None, out, place
    )
    return y, rstd


def _eps_of(input: Any, eps: float | None) -> float:
    """``eps``, or that of the input's dtype."""
    if eps is not None:
        return eps
    dtype = floating(input, "input").dtype
    return 2.0**-7 if is_bfloat16(dtype) else float(np.finfo(dtype).eps)


def rms_norm_backward(
    grad_output: Any,
    input: Any,
    normalized_shape: Any,
    rstd: Any,
    weight: Any = None,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> tuple[Any, Any]:
    """Compute the gradients of :func:`rms_norm` with respect to input and weight.

    ``rstd`` is what :func:`native_rms_norm` returned; ``out`` is a tuple of two, each an array or
    ``None``.  All else is as in :func:`layer_norm_backward`.
    """
    if isinstance(out, tuple) and len(out) == 2:
        out = (*out, None)
    grads = backward(
        "rms_norm", (grad_output, input), normalized_shape, {"rstd": rstd}, weight, None, out,
        place_of(engine, queue, wait_for),
    )  # fmt: skip
    return grads[0], grads[1]


def group_norm(
    input: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Normalise each of ``num_groups`` groups of channels, with the axes after the channels.

    ``input`` has the axes batch, channels and any others; ``weight`` and ``bias`` have an element
    for each channel.  All else is as in :func:`layer_norm`.

    Raises:
        ArgumentError: ``num_groups`` does not divide the channels.
    """
    return forward(
        "group_norm", input, num_groups, weight, bias, eps, None, out,
        place_of(engine, queue, wait_for), with_statistics=False,
    )  # fmt: skip


def native_group_norm(
    input: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> tuple[Any, Any, Any]:
    """Compute :func:`group_norm`; return the result, and the mean and ``1 / sqrt(var + eps)``.

    The statistics have the shape (batch, groups).
    """
    place = place_of(engine, queue, wait_for)
    y, mean, rstd = forward("group_norm", input, num_groups, weight, bias, eps, None, out, place)
    return y, mean, rstd


def group_norm_backward(
    grad_output: Any,
    input: Any,
    num_groups: int,
    mean: Any,
    rstd: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> tuple[Any, Any, Any]:
    """Compute the gradients of :func:`group_norm`: see :func:`layer_norm_backward`.

    Cost: that of :func:`layer_norm_backward`, except on a GPU if channels are contiguous and the
        batch has at least two groups for each compute unit.  Then one kernel computes all three
        gradients, and reads both large arrays twice; the second time they come from the device's
        cache, if it holds the groups that are computed at the same time.  On a CPU the same holds
        where channels are neighbours in memory.
    """
    statistics = {"mean": mean, "rstd": rstd}
    place = place_of(engine, queue, wait_for)
    arrays = grad_output, input
    return backward("group_norm", arrays, num_groups, statistics, weight, bias, out, place)
