"""Unpooling: values at the places of indices, and the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.arguments import MAX_INT, hashable, integers, shown, whole
from portable_gpu.errors import ArgumentError, ShapeError
from portable_gpu.ops.operation import CallArguments, Invocation
from portable_gpu.ops.sampling.call import (
    SamplingOperation,
    check_result,
    floating,
    invocation,
    spatial,
)
from portable_gpu.ops.sampling.pooling_calls import comparable, first_input, indices_of, strides_of
from portable_gpu.ops.sampling.rules import AxisRule, PoolingWindow, transposed
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import AnyArray, Shape


class Unpooling:
    """The public functions of unpooling along a number of spatial axes, as methods."""

    def __init__(self, axes: int) -> None:
        """Take the number of spatial axes."""
        self._axes = axes

    def max_unpool(
        self,
        input: AnyArray,
        indices: AnyArray,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        output_size: Sequence[int] | None = None,
        *,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Return values at the places that indices name, and 0 elsewhere.

        It reverses :func:`max_pool2d`.

        Args:
            input: The values, of the shape of the result of pooling; real numbers.
            indices: The int64 indices that :func:`max_pool2d` returned with them, in planes of the
                extents of the result.
            kernel_size, stride, padding: As in the pooling; the padding is the same on both sides.
            output_size: The extents of the result, or its whole shape: less than a stride from
                ``(n - 1) * stride - 2 * padding + kernel_size``, which is the default.
            out, engine, queue, wait_for: As in :func:`max_pool2d`.

        Returns:
            ``out``, or a fresh array with the dtype and the order of axes of ``input``.  If values
            have the same index, it has the last of them.  A value whose index is outside of its
            window is left out.

        Raises: As :func:`max_pool2d`; ``indices`` of another shape is a ShapeError.

        Cost: ``input`` and ``indices`` are read once, the result is written once.
        Accuracy: exact.
        """
        numbers = hashable(kernel_size), hashable(stride), hashable(padding), hashable(output_size)
        return _UNPOOL.call((input, indices), (self._axes, *numbers), out, engine, queue, wait_for)

    def max_unpool_backward(
        self,
        grad_output: AnyArray,
        indices: AnyArray,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        *,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Return the gradient of :func:`max_unpool2d`: the elements at the places of the indices.

        Args:
            grad_output: The gradient of the result; floating-point numbers.
            indices: As in the forward call.
            kernel_size, stride, padding: As in the forward call.
            out, engine, queue, wait_for: As in :func:`max_pool2d`.

        Returns:
            The gradient, of the shape of ``indices``; 0 for an index outside of its window.  Values
            with the same index all have the same element of the gradient.

        Raises, Cost, Accuracy: As :func:`max_unpool2d`.
        """
        numbers = hashable(kernel_size), hashable(stride), hashable(padding)
        arrays = grad_output, indices
        return _UNPOOL_BACKWARD.call(arrays, (self._axes, *numbers), out, engine, queue, wait_for)


def _unpooled(
    shape: Shape, axes: int, options: tuple[Any, ...], given_by: str = "output_size is"
) -> list[AxisRule | None]:
    """The rules of the windows of a result of unpooling, of the shape of its input."""
    kernel_size, stride, padding, output_size = options
    windows = (
        f"with kernel_size {shown(kernel_size)}, stride {shown(stride)} and padding "
        f"{shown(padding)}"
    )
    kernels = integers(kernel_size, "kernel_size", axes, 1)
    strides = strides_of(stride, kernels, axes)
    pads = integers(padding, "padding", axes, 0)
    extents = shape[len(shape) - axes :]
    options_of_axes = zip(extents, kernels, strides, pads, strict=True)
    sizes = [(n - 1) * s - 2 * p + k for n, k, s, p in options_of_axes]
    if output_size is not None:
        listed = output_size if isinstance(output_size, tuple) else (output_size,)
        if len(listed) not in (axes, axes + 1, axes + 2):
            raise ArgumentError(f"output_size is {shown(output_size)}; expected {axes} integers")
        requested = [whole(n, "output_size") for n in listed[len(listed) - axes :]]
        near = zip(requested, sizes, strides, strict=True)
        if not all(abs(m - size) < step for m, size, step in near):
            raise ArgumentError(
                f"{given_by} {shown(output_size)}; expected {windows}, less than a stride from "
                f"{tuple(sizes)}"
            )
        sizes = requested
    if not 1 <= min(sizes) <= max(sizes) <= MAX_INT or min(extents) < 1:
        raise ShapeError(
            f"input has shape {shape}: {windows}, the result would have the extents {sizes}"
        )
    rules = [
        PoolingWindow(m, n, k, s, p, 0)
        for m, n, k, s, p in zip(sizes, extents, kernels, strides, pads, strict=True)
    ]
    return [*[None] * (len(shape) - axes), *rules]


def _unpool(arguments: CallArguments) -> Invocation:
    axes, *options, _ = arguments.options
    x = comparable(first_input(arguments, axes), "input")
    indices = indices_of(arguments)
    if indices.shape != x.shape:
        raise ShapeError(f"indices has shape {indices.shape} and the input {x.shape}")
    rules = transposed(_unpooled(tuple(x.shape), axes, tuple(options)))
    return invocation("placed", [(x, "input"), (indices, "indices")], rules, arguments)


def _unpool_backward(arguments: CallArguments) -> Invocation:
    axes, *options, _ = arguments.options
    grad = floating(first_input(arguments, axes, "grad_output"), "grad_output")
    indices = spatial(indices_of(arguments), "indices", axes)
    sizes = tuple(grad.shape[grad.ndim - axes :])
    rules = _unpooled(
        tuple(indices.shape), axes, (*options, sizes),
        f"indices has shape {indices.shape} and grad_output the spatial extents",
    )  # fmt: skip
    check_result(grad, "grad_output", transposed(rules), tuple(indices.shape))
    return invocation("picked", [(grad, "grad_output"), (indices, "indices")], rules, arguments)


_UNPOOL = SamplingOperation("max_unpool", _unpool)
_UNPOOL_BACKWARD = SamplingOperation("max_unpool_backward", _unpool_backward)
_AXES = Unpooling(1), Unpooling(2), Unpooling(3)
max_unpool1d, max_unpool2d, max_unpool3d = [functions.max_unpool for functions in _AXES]
max_unpool1d_backward, max_unpool2d_backward, max_unpool3d_backward = [
    functions.max_unpool_backward for functions in _AXES
]
