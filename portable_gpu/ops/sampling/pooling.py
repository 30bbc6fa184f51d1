"""Pooling of windows: largest elements, means, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.arguments import flag, hashable
from portable_gpu.ops.reduce import max as largest
from portable_gpu.ops.reduce import mean
from portable_gpu.ops.sampling.call import shape_of
from portable_gpu.ops.sampling.pooling_calls import (
    ADAPTIVE_AVG,
    ADAPTIVE_AVG_BACKWARD,
    ADAPTIVE_INDICES,
    ADAPTIVE_MAX,
    ADAPTIVE_MAX_BACKWARD,
    AVG,
    AVG_BACKWARD,
    MAX,
    MAX_BACKWARD,
    MAX_INDICES,
    adaptive,
    window_of,
)
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import AnyArray


class Pooling:
    """The public functions of pooling along a number of spatial axes, as methods."""

    def __init__(self, axes: int) -> None:
        """Take the number of spatial axes."""
        self._axes = axes

    def max_pool(
        self,
        input: AnyArray,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[Any] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
        *,
        out: Any = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Return the largest element of each window.

        Args:
            input: Shape (batch, channels, spatial axes), or without a batch; any strides.  The
                number in the function's name is that of the spatial axes.  Real numbers of any
                dtype but bool.
            kernel_size: The extents of a window: an integer, or one for each spatial axis.
            stride: The distance of windows; ``kernel_size`` by default.
            padding: The number of places to add before and after each spatial axis, which have no
                elements: an integer, one for each axis, or a pair for each.  An integer is at most
                half of a window, each of a pair less than a window.
            dilation: The distance of the elements of a window.
            ceil_mode: Whether windows may extend beyond the end.  A window that begins beyond the
                input and the padding before it is left out, as in torch.
            return_indices: Whether indices are returned, too.
            out: Where to put the result; with ``return_indices`` a pair, each of which may be
                ``None``.
            engine, queue, wait_for: See :class:`portable_gpu.Engine`.

        Returns:
            ``out``, or a fresh array with the dtype and the order of axes of ``input``; with
            ``return_indices`` a pair of it and int64 indices in the plane of the spatial axes.  For
            equal elements the index is that of the first.  A window with NaN gives NaN, and the
            index of its last NaN.  A window without elements, which occurs with dilation, gives
            the least number of the dtype, and the index -1.

        Raises:
            ShapeError: The input has another number of axes; a spatial axis is empty; a window is
                larger than the padded input, and ``ceil_mode`` does not cut it off.
            ArgumentError: An extent, a distance or a padding is out of range.
            DTypeError: ``input`` is bool or complex.
            ArgumentTypeError: ``input`` is not an array.
            OverlapError: ``out`` shares memory with ``input``.
            ReadOnlyError: ``out`` cannot be written.

        Cost: each input element is read from memory once, and for its other windows from caches;
            the results are written once.  One launch; tables of 4 bytes for each place of a window
            along each axis.
        Accuracy: exact.
        """
        window = window_of(kernel_size, stride, padding, dilation, ceil_mode)
        operation = MAX_INDICES if flag(return_indices, "return_indices") else MAX
        return operation.call((input,), (self._axes, window), out, engine, queue, wait_for)

    def max_pool_backward(
        self,
        grad_output: AnyArray,
        indices: AnyArray,
        input: Any,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[Any] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        *,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Return the gradient of :func:`max_pool2d` with respect to its input.

        Args:
            grad_output: The gradient of the result; floating-point numbers.
            indices: The indices that the forward call returned, of the same shape; int64.
            input: The input of the forward call, or its shape: nothing else of it is read.
            kernel_size, stride, padding, dilation, ceil_mode: As in the forward call.
            out, engine, queue, wait_for: As in :func:`max_pool2d`.

        Returns:
            The gradient, with the shape of the input and the order of axes of ``grad_output``.
            Each of its elements adds up the gradients of the windows that took it, in their order.

        Raises: As :func:`max_pool2d`; ``grad_output`` or ``indices`` of another shape is a
            ShapeError.

        Cost: ``grad_output`` and ``indices`` are read once, the result is written once.
        Accuracy: ``|error| <= (windows + 2) * eps * sum |grad_output|`` for each element.
        """
        window = window_of(kernel_size, stride, padding, dilation, ceil_mode)
        options = self._axes, shape_of(input, "input", self._axes), window
        return MAX_BACKWARD.call((grad_output, indices), options, out, engine, queue, wait_for)

    def avg_pool(
        self,
        input: AnyArray,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[Any] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        *,
        dilation: int | Sequence[int] = 1,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Return the mean of each window.

        Args:
            input: As in :func:`max_pool2d`, of floating-point numbers.
            kernel_size, stride, padding, ceil_mode: As in :func:`max_pool2d`.
            count_include_pad: Whether padded places count as elements that are 0.  Places beyond
                the padding, which windows reach with ``ceil_mode``, never count.
            divisor_override: The divisor of sums, instead of the number of elements.
            dilation: The distance of the elements of a window.
            out, engine, queue, wait_for: As in :func:`max_pool2d`.

        Returns:
            ``out``, or a fresh array with the dtype and the order of axes of ``input``.

        Raises: As :func:`max_pool2d`; a divisor of 0 is an ArgumentError.

        Cost: As :func:`max_pool2d`, and weights of 4 or 8 bytes in the tables.
        Accuracy: ``|error| <= (k + 5) * eps * mean |x|`` of k elements; 16-bit floats are computed
            in float32 and rounded once.  Means are sums of weighted elements.
        """
        window = window_of(kernel_size, stride, padding, dilation, ceil_mode)
        options = self._axes, window, flag(count_include_pad, "count_include_pad"), divisor_override
        return AVG.call((input,), options, out, engine, queue, wait_for)

    def avg_pool_backward(
        self,
        grad_output: AnyArray,
        input: Any,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[Any] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        *,
        dilation: int | Sequence[int] = 1,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Return the gradient of :func:`avg_pool2d` with respect to its input.

        Args:
            grad_output: The gradient of the result; floating-point numbers.
            input: The input of the forward call, or its shape: nothing else of it is read.
            kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dilation:
                As in the forward call.
            out, engine, queue, wait_for: As in :func:`max_pool2d`.

        Returns:
            The gradient, with the shape of the input and the order of axes of ``grad_output``.

        Raises: As :func:`avg_pool2d`; ``grad_output`` of another shape is a ShapeError.

        Cost: ``grad_output`` is read once, the result is written once.
        Accuracy: ``|error| <= (windows + 5) * eps * sum |weight * grad_output|`` for each element.
        """
        window = window_of(kernel_size, stride, padding, dilation, ceil_mode)
        include = flag(count_include_pad, "count_include_pad")
        options = (
            self._axes,
            shape_of(input, "input", self._axes),
            window,
            include,
            divisor_override,
        )
        return AVG_BACKWARD.call((grad_output,), options, out, engine, queue, wait_for)

    def adaptive_avg_pool(
        self,
        input: AnyArray,
        output_size: int | Sequence[int | None] | None,
        *,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Return the means of windows that cover the input, for a given extent of the result.

        Args:
            input: As in :func:`avg_pool2d`.
            output_size: The extents of the result: an integer, or one for each spatial axis;
                ``None`` stands for that of the input.  Output o of m has the elements from
                ``floor(o n / m)`` to ``ceil((o + 1) n / m)``.
            out, engine, queue, wait_for: As in :func:`max_pool2d`.

        Returns, Accuracy: As :func:`avg_pool2d`.

        Raises: As :func:`avg_pool2d`; an extent of the result below 1 is an ArgumentError.

        Cost: As :func:`avg_pool2d`; with an ``output_size`` of 1 it is :func:`portable_gpu.mean`.
        """
        return adaptive(
            ADAPTIVE_AVG, mean, input, self._axes, output_size, out, engine, queue, wait_for
        )

    def adaptive_avg_pool_backward(
        self,
        grad_output: AnyArray,
        input: Any,
        *,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Return the gradient of :func:`adaptive_avg_pool2d` with respect to its input.

        Args:
            grad_output: The gradient of the result, whose extents are the ``output_size``.
            input: The input of the forward call, or its shape: nothing else of it is read.
            out, engine, queue, wait_for: As in :func:`max_pool2d`.

        Returns, Raises, Cost, Accuracy: As :func:`avg_pool2d_backward`.
        """
        options = self._axes, shape_of(input, "input", self._axes)
        return ADAPTIVE_AVG_BACKWARD.call((grad_output,), options, out, engine, queue, wait_for)

    def adaptive_max_pool(
        self,
        input: AnyArray,
        output_size: int | Sequence[int | None] | None,
        return_indices: bool = False,
        *,
        out: Any = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Return the largest elements of windows that cover the input, for extents of the result.

        Args:
            input: As in :func:`max_pool2d`.
            output_size: As in :func:`adaptive_avg_pool2d`.
            return_indices, out, engine, queue, wait_for: As in :func:`max_pool2d`.

        Returns, Accuracy: As :func:`max_pool2d`.

        Raises: As :func:`max_pool2d`; an extent of the result below 1 is an ArgumentError.

        Cost: As :func:`max_pool2d`; with an ``output_size`` of 1, and without indices, it is
            :func:`portable_gpu.max`.
        """
        if not flag(return_indices, "return_indices"):
            return adaptive(
                ADAPTIVE_MAX, largest, input, self._axes, output_size, out, engine, queue, wait_for
            )
        options = self._axes, hashable(output_size)
        return ADAPTIVE_INDICES.call((input,), options, out, engine, queue, wait_for)

    def adaptive_max_pool_backward(
        self,
        grad_output: AnyArray,
        indices: AnyArray,
        input: Any,
        *,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Return the gradient of :func:`adaptive_max_pool2d` with respect to its input.

        Args:
            grad_output, indices, input: As in :func:`max_pool2d_backward`.
            out, engine, queue, wait_for: As in :func:`max_pool2d`.

        Returns, Raises, Cost, Accuracy: As :func:`max_pool2d_backward`.
        """
        options = self._axes, shape_of(input, "input", self._axes)
        arrays = grad_output, indices
        return ADAPTIVE_MAX_BACKWARD.call(arrays, options, out, engine, queue, wait_for)


_AXES = Pooling(1), Pooling(2), Pooling(3)
max_pool1d, max_pool2d, max_pool3d = [functions.max_pool for functions in _AXES]
max_pool1d_backward, max_pool2d_backward, max_pool3d_backward = [
    functions.max_pool_backward for functions in _AXES
]
avg_pool1d, avg_pool2d, avg_pool3d = [functions.avg_pool for functions in _AXES]
avg_pool1d_backward, avg_pool2d_backward, avg_pool3d_backward = [
    functions.avg_pool_backward for functions in _AXES
]
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = [
    functions.adaptive_avg_pool for functions in _AXES
]
adaptive_avg_pool1d_backward, adaptive_avg_pool2d_backward, adaptive_avg_pool3d_backward = [
    functions.adaptive_avg_pool_backward for functions in _AXES
]
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = [
    functions.adaptive_max_pool for functions in _AXES
]
adaptive_max_pool1d_backward, adaptive_max_pool2d_backward, adaptive_max_pool3d_backward = [
    functions.adaptive_max_pool_backward for functions in _AXES
]
