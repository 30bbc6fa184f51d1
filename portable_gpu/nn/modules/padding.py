"""Modules of padding, and of pixels that are moved to channels."""

from __future__ import annotations

from typing import Any, ClassVar

from portable_gpu.arguments import integers, real_number
from portable_gpu.nn import resampling
from portable_gpu.nn.modules.base import Module
from portable_gpu.nn.modules.linear import positive
from portable_gpu.ops.sampling.padding import pad, pad_backward


class _Padding(Module):
    """The base of paddings: a number for all sides, or two for each axis, the last axis first."""

    _axes: ClassVar[int]
    _mode: ClassVar[str]
    _value: float | None = None

    def __init__(self, padding: Any) -> None:
        """Take the padding."""
        self.padding = integers(padding, "padding", 2 * self._axes)

    def forward(self, input: Any) -> Any:
        """Compute the padded array."""
        result = pad(input, self.padding, self._mode, self._value)
        self._has_input = True
        return result

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input."""
        self._from_forward("_has_input")
        return pad_backward(grad_output, self.padding, self._mode)


class _Constant(_Padding):
    """The base of paddings with a number."""

    _mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        """Take the padding and the number."""
        super().__init__(padding)
        self._value = real_number(value, "value")


class ConstantPad1d(_Constant):
    """As ``torch.nn.ConstantPad1d``; see ``nn.pad``."""

    _axes = 1


class ConstantPad2d(_Constant):
    """As ``torch.nn.ConstantPad2d``; see ``nn.pad``."""

    _axes = 2


class ConstantPad3d(_Constant):
    """As ``torch.nn.ConstantPad3d``; see ``nn.pad``."""

    _axes = 3


class ZeroPad1d(_Padding):
    """As ``torch.nn.ZeroPad1d``; see ``nn.pad``."""

    _axes, _mode = 1, "constant"


class ZeroPad2d(_Padding):
    """As ``torch.nn.ZeroPad2d``; see ``nn.pad``."""

    _axes, _mode = 2, "constant"


class ZeroPad3d(_Padding):
    """As ``torch.nn.ZeroPad3d``; see ``nn.pad``."""

    _axes, _mode = 3, "constant"


class ReflectionPad1d(_Padding):
    """As ``torch.nn.ReflectionPad1d``; see ``nn.pad``."""

    _axes, _mode = 1, "reflect"


class ReflectionPad2d(_Padding):
    """As ``torch.nn.ReflectionPad2d``; see ``nn.pad``."""

    _axes, _mode = 2, "reflect"


class ReflectionPad3d(_Padding):
    """As ``torch.nn.ReflectionPad3d``; see ``nn.pad``."""

    _axes, _mode = 3, "reflect"


class ReplicationPad1d(_Padding):
    """As ``torch.nn.ReplicationPad1d``; see ``nn.pad``."""

    _axes, _mode = 1, "replicate"


class ReplicationPad2d(_Padding):
    """As ``torch.nn.ReplicationPad2d``; see ``nn.pad``."""

    _axes, _mode = 2, "replicate"


class ReplicationPad3d(_Padding):
    """As ``torch.nn.ReplicationPad3d``; see ``nn.pad``."""

    _axes, _mode = 3, "replicate"


class CircularPad1d(_Padding):
    """As ``torch.nn.CircularPad1d``; see ``nn.pad``."""

    _axes, _mode = 1, "circular"


class CircularPad2d(_Padding):
    """As ``torch.nn.CircularPad2d``; see ``nn.pad``."""

    _axes, _mode = 2, "circular"


class CircularPad3d(_Padding):
    """As ``torch.nn.CircularPad3d``; see ``nn.pad``."""

    _axes, _mode = 3, "circular"


class PixelShuffle(Module):
    """See ``nn.pixel_shuffle``."""

    def __init__(self, upscale_factor: int) -> None:
        """Take the factor."""
        self.upscale_factor = positive(upscale_factor, "upscale_factor")

    def forward(self, input: Any) -> Any:
        """Move channels to pixels."""
        return resampling.pixel_shuffle(input, self.upscale_factor)

    def backward(self, grad_output: Any) -> Any:
        """Move the gradient back."""
        return resampling.pixel_shuffle_backward(grad_output, self.upscale_factor)


class PixelUnshuffle(Module):
    """See ``nn.pixel_unshuffle``."""

    def __init__(self, downscale_factor: int) -> None:
        """Take the factor."""
        self.downscale_factor = positive(downscale_factor, "downscale_factor")

    def forward(self, input: Any) -> Any:
        """Move pixels to channels."""
        return resampling.pixel_unshuffle(input, self.downscale_factor)

    def backward(self, grad_output: Any) -> Any:
        """Move the gradient back."""
        return resampling.pixel_unshuffle_backward(grad_output, self.downscale_factor)
