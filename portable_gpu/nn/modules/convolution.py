"""Modules of convolutions and of transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any, ClassVar

import numpy as np

from portable_gpu.arguments import flag, integers, one_of
from portable_gpu.dtypes import as_dtype
from portable_gpu.errors import ArgumentError
from portable_gpu.nn import init
from portable_gpu.nn.modules.base import Module
from portable_gpu.nn.modules.linear import positive
from portable_gpu.nn.parameter import ModuleParameter
from portable_gpu.ops.conv import functions
from portable_gpu.ops.conv.shapes import Options, pads
from portable_gpu.ops.conv.variants import check_algorithm, check_limit
from portable_gpu.ops.sampling.padding import pad, pad_backward
from portable_gpu.runtime.engine import Engine

Extents = int | Sequence[int]
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
#: The calls of a module, in the order of ``algo``.
_FORWARD, _BY_INPUT, _BY_WEIGHT = range(3)


def _algorithms(algo: Any) -> tuple[str, str, str]:
    """Return the variants of the calls of a module.

    Raises:
        ArgumentError, ArgumentTypeError: One is unknown, or there are not three.
    """
    if not isinstance(algo, (list, tuple)):
        algo = (algo,) * 3
    if len(algo) != 3:
        raise ArgumentError(f"algo is {algo}; expected one name or three")
    forward, by_input, by_weight = (check_algorithm(name) for name in algo)
    return forward, by_input, by_weight


class _Convolution(Module):
    """The base of all convolutions: the weight, the bias and the options.

    Attributes:
        algo: The variants of ``forward``, of the gradient of the input, and of that of the weights.
        workspace_limit: The most bytes of workspace of each of these calls.
    """

    _axes: ClassVar[int]
    _transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Any = 0,
        dilation: Extents = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        algo: str | Sequence[str] = "auto",
        workspace_limit: int | None = None,
        dtype: Any = np.float32,
        engine: Engine | None = None,
    ) -> None:
        """Draw the weight and the bias within ``1 / sqrt(fan_in)``, as torch.

        Args:
            in_channels, out_channels, kernel_size: The extents of the weight.
            stride, padding, dilation, groups, workspace_limit: As in :func:`nn.conv2d`.
            bias: Whether there is one.
            algo: ``algo`` of :func:`nn.conv2d` for all calls; or three names, for ``forward``, the
                gradient of the input and that of the weights.
            dtype: The dtype of the parameters.
            engine: See :class:`portable_gpu.Engine`.

        Raises:
            ArgumentTypeError, ArgumentError: A number is not an integer, or is too small;
                ``groups`` does not divide the channels; ``algo`` is unknown.
        """
        channels = positive(in_channels, "in_channels"), positive(out_channels, "out_channels")
        parts = positive(groups, "groups")
        if channels[0] % parts or channels[1] % parts:
            raise ArgumentError(
                f"groups is {groups}, in_channels {in_channels} and out_channels {out_channels}; "
                "expected a divisor of both"
            )
        kernel = integers(kernel_size, "kernel_size", self._axes, 1)
        first, second = channels if self._transposed else channels[::-1]
        shape, kind = (first, second // parts, *kernel), as_dtype(dtype)
        self.weight = ModuleParameter(init.kaiming_uniform(shape, kind), engine)
        self.bias: ModuleParameter | None = None
        if flag(bias, "bias"):
            bound = 1 / sqrt(shape[1] * prod(kernel))
            self.bias = ModuleParameter(init.uniform((channels[1],), bound, kind), engine)
        self.stride = integers(stride, "stride", self._axes, 1)
        self.padding = padding
        self.dilation, self.groups = integers(dilation, "dilation", self._axes, 1), parts
        self.algo, self.workspace_limit = _algorithms(algo), check_limit(workspace_limit)

    def _function(self, end: str = "") -> Any:
        return getattr(functions, f"conv{self._axes}d{end}")

    def _options(self, call: int) -> dict[str, Any]:
        return {
            "stride": self.stride, "padding": self.padding, "dilation": self.dilation,
            "groups": self.groups, "algo": self.algo[call], "workspace_limit": self.workspace_limit,
        }  # fmt: skip

    def forward(self, input: Any) -> Any:
        """Compute the convolution, with the bias as part of it."""
        bias = None if self.bias is None else self.bias.data
        result = self._function()(input, self.weight.data, bias, **self._options(_FORWARD))
        self._input = input
        return result

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input, and add those of weight and bias."""
        (x,), weight = self._from_forward("_input"), self.weight
        options = self._options(_BY_WEIGHT)
        by_weight, by_input = self._function("_weight"), self._function("_input")
        weight.add_grad(lambda out: by_weight(x, weight.shape, grad_output, out=out, **options))
        self._add_bias(grad_output)
        return by_input(x.shape, weight.data, grad_output, **self._options(_BY_INPUT))

    def _add_bias(self, grad_output: Any) -> None:
        if self.bias is not None:
            by_bias = self._function("_bias")
            self.bias.add_grad(lambda out: by_bias(grad_output, out=out))


class _Padded(_Convolution):
    """The base of convolutions whose padding may be other than zeros."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Any = 0,
        dilation: Extents = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        algo: str | Sequence[str] = "auto",
        workspace_limit: int | None = None,
        dtype: Any = np.float32,
        engine: Engine | None = None,
    ) -> None:
        """Draw the weight and the bias within ``1 / sqrt(fan_in)``, as torch.

        ``padding_mode`` is ``"zeros"``, or the mode of :func:`portable_gpu.nn.pad` that makes a
        padded copy of the input first: ``"reflect"``, ``"replicate"`` or ``"circular"``.
        """
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            algo=algo, workspace_limit=workspace_limit, dtype=dtype, engine=engine,
        )  # fmt: skip
        self.padding_mode = one_of(padding_mode, _PADDING_MODES, "padding_mode")
        self._sides: list[int] | None = None
        if padding_mode != "zeros":
            options = Options(self._axes, stride, padding, dilation, groups)
            sides = pads(options, self.weight.shape[2:], self.stride, self.dilation)
            self._sides = [n for pair in reversed(sides) for n in pair]
            self.padding = 0

    def forward(self, input: Any) -> Any:
        """Compute the convolution, with the bias as part of it."""
        if self._sides is None:
            return super().forward(input)
        return super().forward(pad(input, self._sides, self.padding_mode))

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input, and add those of weight and bias."""
        grad = super().backward(grad_output)
        if self._sides is not None:
            grad = pad_backward(grad, self._sides, self.padding_mode)
        return grad


class Conv1d(_Padded):
    """Cross-correlation along one axis, as ``torch.nn.Conv1d``; see ``nn.conv1d``."""

    _axes = 1


class Conv2d(_Padded):
    """Cross-correlation along two axes, as ``torch.nn.Conv2d``; see ``nn.conv2d``."""

    _axes = 2


class Conv3d(_Padded):
    """Cross-correlation along three axes, as ``torch.nn.Conv3d``; see ``nn.conv3d``."""

    _axes = 3


class _Transposed(_Convolution):
    """The base of transposed convolutions: weights are (inputs, outputs / groups, ...kernel)."""

    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Any = 0,
        output_padding: Extents = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Extents = 1,
        *,
        algo: str | Sequence[str] = "auto",
        workspace_limit: int | None = None,
        dtype: Any = np.float32,
        engine: Engine | None = None,
    ) -> None:
        """Draw the weight and the bias within ``1 / sqrt(fan_in)``, as torch."""
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            algo=algo, workspace_limit=workspace_limit, dtype=dtype, engine=engine,
        )  # fmt: skip
        self.output_padding = integers(output_padding, "output_padding", self._axes, 0)

    def forward(self, input: Any) -> Any:
        """Compute the transposed convolution, with the bias as part of it."""
        bias = None if self.bias is None else self.bias.data
        function = getattr(functions, f"conv_transpose{self._axes}d")
        options = {**self._options(_FORWARD), "output_padding": self.output_padding}
        result = function(input, self.weight.data, bias, **options)
        self._saved = input, result.shape
        return result

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input, and add those of weight and bias."""
        ((x, shape),), weight = self._from_forward("_saved"), self.weight
        grad_output = self._gradient(grad_output, shape)
        # Where output_padding is a stride or more, the last places have the bias alone.
        steps = integers(self.stride, "stride", self._axes, 1)
        ends = [
            extra // step * step for extra, step in zip(self.output_padding, steps, strict=True)
        ]
        reached = grad_output
        if any(ends):
            space = zip(shape[len(shape) - self._axes :], ends, strict=True)
            reached = grad_output[(..., *(slice(0, extent - end) for extent, end in space))]
        options, by_weight = self._options(_BY_WEIGHT), self._function("_weight")
        weight.add_grad(lambda out: by_weight(reached, weight.shape, x, out=out, **options))
        self._add_bias(grad_output)
        return self._function()(reached, weight.data, **self._options(_BY_INPUT))


class ConvTranspose1d(_Transposed):
    """As ``torch.nn.ConvTranspose1d``; see ``nn.conv_transpose1d``."""

    _axes = 1


class ConvTranspose2d(_Transposed):
    """As ``torch.nn.ConvTranspose2d``; see ``nn.conv_transpose2d``."""

    _axes = 2


class ConvTranspose3d(_Transposed):
    """As ``torch.nn.ConvTranspose3d``; see ``nn.conv_transpose3d``."""

    _axes = 3
