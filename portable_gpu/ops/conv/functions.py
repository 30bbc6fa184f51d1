"""Convolutions and transposed convolutions along one to three axes, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.errors import ArraysError, ShapeError
from portable_gpu.ops.conv.api import convolve
from portable_gpu.ops.conv.shapes import Options
from portable_gpu.ops.reduce.api import sum as sum_along
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import EngineGroup
from portable_gpu.runtime.views import AnyArray, as_array


class Convolution:
    """The public functions of convolutions along a number of spatial axes, as methods."""

    def __init__(self, axes: int) -> None:
        """Take the number of spatial axes."""
        self._axes = axes

    def conv(
        self,
        input: AnyArray,
        weight: AnyArray,
        bias: AnyArray | None = None,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[Any] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        *,
        epilogue: Epilogue | None = None,
        precision: str | None = None,
        algo: str = "auto",
        workspace_limit: int | None = None,
        out: AnyArray | None = None,
        engine: Engine | EngineGroup | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Convolve images with filters (cross-correlation, as in torch).

        ``y[n, k, q] = bias[k] + sum_{c,r} x[n, c, q * stride + r * dilation - padding] w[k, c, r]``
        with a sum over the channels of the group of k.

        Args:
            input: Shape (N, C, ...), or (C, ...), with one to three spatial axes, as the name of
                the function says.  float16, bfloat16, float32 or float64, of any strides.
                Channels-last arrays are transposed views of shape (N, ..., C).
            weight: Shape (K, C / groups, kernel extents).
            bias: Shape (K,).
            stride: An integer, or one for each axis.
            padding: Zeros on both sides: an integer, one for each axis, or a pair (before, after)
                for each axis; ``"valid"``, or ``"same"``, which needs stride 1.
            dilation: Distance of taps: an integer, or one for each axis.
            groups: Groups of channels, each with K / groups filters of its own.
            epilogue: The stages that each element of y passes, such as batch normalisation, a
                residual and an activation: ``Epilogue().scale(s).bias(t).add(shortcut).relu()``.
                The columns are the channels: ``scale`` and ``bias`` take arrays of shape (K,).
                Those of ``add`` and ``apply`` broadcast to y.  A convolution has no rows:
                ``per="row"`` is refused, and so are ``row`` and ``col`` in an expression.
            precision: The precision of products of float32; see :func:`portable_gpu.gemm`.
            algo: ``"auto"``, the variant with the least estimate; ``"found"``, the fastest one that
                :func:`find_conv2d` timed for such a call; or the name of one.
            workspace_limit: The most bytes of workspace for copies and transforms of the arrays; by
                default those of the device's largest allocation.
            out: The array for the result, of any strides.
            engine, queue, wait_for: See :class:`portable_gpu.Engine`; a ``multi.DeviceGroup``
                convolves blocks of images.

        Returns:
            ``out``, or a fresh array of shape (N, K, ...), channels-last if ``input`` is: a NumPy
            array for NumPy arguments (done), ``portable_gpu.Array`` for device arrays (enqueued).
            Its extents are ``(n + padding - dilation * (kernel - 1) - 1) // stride + 1``.

        Raises:
            ShapeError: Shapes do not fit each other, or a filter is larger than the padded input.
            ArgumentError: An option is out of its range, or ``groups`` does not divide the
                channels; the named ``algo`` does not take the convolution, or its workspace is
                above the limit; ``algo`` is ``"found"``, and such a call has not been timed.
            DTypeError: An array is not of real floating numbers.
            OverlapError, ReadOnlyError: As for :func:`portable_gpu.gemm`.
            UnsupportedError: The call needs double precision, which the device lacks.
            DeviceMemoryError: The device has too little free memory.

        Cost: ``2 * y.size * C / groups * taps`` flop; every array is moved at least once.
        Accuracy: with K terms of a sum, ``|error| <= (K + 2) eps (|x| * |w| + |bias|)`` for any
            order of the sum; 16-bit floats are summed in float32 and rounded once.  ``winograd``,
            which ``auto`` may take: ``|error| <= (C / groups + 12) eps / 2 (S + |bias|)``, where S
            is at most 16 times ``|x| * |w|`` with the largest magnitude of each window of x
            (docs/nn.md; also for the gradient of the weights).
            ``fft``, of large filters: ``(21 log2 L + C / groups + 5) eps / 2 sum_c |x_c| |w_c|``,
            with 2-norms of planes of L elements with their padding.
        Order: fixed for one target, shape and layout; no float atomics.
        """
        if engine is not None and isinstance(engine, EngineGroup):
            return engine.compute(f"conv{self._axes}d", locals())
        return convolve(
            "forward", present(input, weight, bias),
            Options(self._axes, stride, padding, dilation, groups), None, epilogue,
            precision=precision, algo=algo, workspace_limit=workspace_limit, out=out, engine=engine,
            queue=queue, wait_for=wait_for,
        )  # fmt: skip

    def conv_transpose(
        self,
        input: AnyArray,
        weight: AnyArray,
        bias: AnyArray | None = None,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[Any] | str = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        dilation: int | Sequence[int] = 1,
        *,
        epilogue: Epilogue | None = None,
        precision: str | None = None,
        algo: str = "auto",
        workspace_limit: int | None = None,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """The transposed convolution: the adjoint of :func:`conv2d`.

        It scatters each element of ``input`` by a filter, as :func:`conv2d_input` does, and is
        computed by the same kernels.

        Args:
            input: Shape (N, C, ...), or (C, ...); dtypes and strides as for :func:`conv2d`.
            weight: Shape (C, K / groups, kernel extents).
            bias: Shape (K,).
            stride, padding, groups, dilation: The arguments of the convolution whose adjoint is
                computed; ``"same"`` is refused with a stride.
            output_padding: Extents to add to the result, below stride or dilation: an integer, or
                one for each axis.
            epilogue, precision, algo, workspace_limit, out, engine, queue, wait_for: As for
                :func:`conv2d`.

        Returns:
            An array of shape (N, K, ...) with the extents ``(n - 1) * stride - padding + dilation
            * (kernel - 1) + output_padding + 1``; else as :func:`conv2d`.

        Raises, Cost, Accuracy, Order: As for :func:`conv2d`; ShapeError too where the result would
            have extents below 1.
        """
        return convolve(
            "transposed", present(input, weight, bias),
            Options(self._axes, stride, padding, dilation, groups), output_padding, epilogue,
            precision=precision, algo=algo, workspace_limit=workspace_limit, out=out, engine=engine,
            queue=queue, wait_for=wait_for,
        )  # fmt: skip

    def conv_input(
        self,
        input_size: Sequence[int],
        weight: AnyArray,
        grad_output: AnyArray,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[Any] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        *,
        precision: str | None = None,
        algo: str = "auto",
        workspace_limit: int | None = None,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """The gradient of the input of :func:`conv2d`, of shape ``input_size``.

        Args:
            input_size: The shape of the input, (N, C, ...) or (C, ...).
            weight: The weights, of shape (K, C / groups, kernel extents).
            grad_output: The gradient of the result, of the result's shape.
            stride, padding, dilation, groups: The arguments of the convolution.
            precision, algo, workspace_limit, out, engine, queue, wait_for: As for :func:`conv2d`.

        Returns, Raises, Cost, Accuracy, Order: As for :func:`conv2d`.
        """
        return convolve(
            "input", (grad_output, weight), Options(self._axes, stride, padding, dilation, groups),
            input_size,
            precision=precision, algo=algo, workspace_limit=workspace_limit, out=out, engine=engine,
            queue=queue, wait_for=wait_for,
        )  # fmt: skip

    def conv_weight(
        self,
        input: AnyArray,
        weight_size: Sequence[int],
        grad_output: AnyArray,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[Any] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        *,
        precision: str | None = None,
        algo: str = "auto",
        workspace_limit: int | None = None,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """The gradient of the weights of :func:`conv2d`, of shape ``weight_size``.

        Args:
            input: The input, of shape (N, C, ...) or (C, ...).
            weight_size: The shape of the weights, (K, C / groups, kernel extents).
            grad_output: The gradient of the result, of the result's shape.
            stride, padding, dilation, groups: The arguments of the convolution.
            precision, algo, workspace_limit, out, engine, queue, wait_for: As for :func:`conv2d`.

        Returns: ``out``, or a fresh array of ``weight_size`` in C order.
        Raises, Cost, Order: As for :func:`conv2d`.
        Accuracy: as for :func:`conv2d`; the terms of a sum are the places of all images.
        """
        return convolve(
            "weight", (input, grad_output), Options(self._axes, stride, padding, dilation, groups),
            weight_size,
            precision=precision, algo=algo, workspace_limit=workspace_limit, out=out, engine=engine,
            queue=queue, wait_for=wait_for,
        )  # fmt: skip

    def conv_bias(
        self,
        grad_output: AnyArray,
        *,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """The gradient of the bias of :func:`conv2d`: sums over images and places.

        Args:
            grad_output: The gradient of the result, of shape (N, K, ...) or (K, ...).
            out, engine, queue, wait_for: See :func:`portable_gpu.sum`.

        Returns:
            An array of shape (K,).

        Raises:
            ShapeError: ``grad_output`` has another number of axes.

        Cost, Accuracy, Order: Those of :func:`portable_gpu.sum`.
        """
        grad = as_array(grad_output, "grad_output")
        axes = self._axes
        if grad.ndim not in (axes + 1, axes + 2):
            raise ShapeError(
                f"grad_output has shape {tuple(grad.shape)}; {axes + 2} axes are needed, or "
                f"{axes + 1} without batch"
            )
        summed = (*range(grad.ndim - axes - 1), *range(grad.ndim - axes, grad.ndim))
        place: dict[str, Any] = {"engine": engine, "queue": queue, "wait_for": wait_for}
        try:
            return sum_along(grad, axis=summed, out=out, **place)
        except ArraysError as error:
            raise error.renamed({"x": "grad_output"}) from None


def present(*arrays: Any) -> tuple[Any, ...]:
    """The arrays without a bias that is ``None``."""
    return arrays if arrays[2] is not None else arrays[:2]


_AXES = Convolution(1), Convolution(2), Convolution(3)
conv1d, conv2d, conv3d = [functions.conv for functions in _AXES]
conv_transpose1d, conv_transpose2d, conv_transpose3d = [
    functions.conv_transpose for functions in _AXES
]
conv1d_input, conv2d_input, conv3d_input = [functions.conv_input for functions in _AXES]
conv1d_weight, conv2d_weight, conv3d_weight = [functions.conv_weight for functions in _AXES]
conv1d_bias, conv2d_bias, conv3d_bias = [functions.conv_bias for functions in _AXES]
