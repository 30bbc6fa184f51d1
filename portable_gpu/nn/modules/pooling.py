"""Modules of pooling and of interpolation."""

from __future__ import annotations

from typing import Any, ClassVar

from portable_gpu.arguments import flag
from portable_gpu.nn.modules.base import Module
from portable_gpu.ops.sampling import lp_pooling, pooling, resampling, unpooling


class _Pooling(Module):
    """The base of poolings: the function of a number of axes, and its options by torch's names."""

    _name: ClassVar[str]
    #: Whether the gradient takes the options, too.
    _same_options: ClassVar[bool] = True

    def __init__(self, **options: Any) -> None:
        self._options = options

    def forward(self, input: Any) -> Any:
        """Compute the pooled array."""
        result = getattr(pooling, self._name)(input, **self._options)
        self._shape = input.shape
        return result

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input."""
        (shape,) = self._from_forward("_shape")
        return self._gradient(grad_output, shape)

    def _gradient(self, *arguments: Any) -> Any:
        options = self._options if self._same_options else {}
        return getattr(pooling, f"{self._name}_backward")(*arguments, **options)


class _WithIndices(_Pooling):
    """The base of poolings that keep the indices of the largest elements."""

    return_indices: bool

    def forward(self, input: Any) -> Any:
        """Compute the largest elements."""
        function = getattr(pooling, self._name)
        result, indices = function(input, return_indices=True, **self._options)
        self._shape, self._indices = input.shape, indices
        return (result, indices) if self.return_indices else result

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input."""
        shape, indices = self._from_forward("_shape", "_indices")
        return self._gradient(grad_output, indices, shape)


class _Largest(_WithIndices):
    """The base of poolings of the largest elements of windows."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        """Take torch's arguments; with ``return_indices`` indices follow the result."""
        self.return_indices = flag(return_indices, "return_indices")
        super().__init__(
            kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation,
            ceil_mode=ceil_mode,
        )  # fmt: skip


class MaxPool1d(_Largest):
    """See ``nn.max_pool1d``."""

    _name = "max_pool1d"


class MaxPool2d(_Largest):
    """See ``nn.max_pool2d``."""

    _name = "max_pool2d"


class MaxPool3d(_Largest):
    """See ``nn.max_pool3d``."""

    _name = "max_pool3d"


class _Mean(_Pooling):
    """The base of poolings of means."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        """Take torch's arguments."""
        super().__init__(
            kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )  # fmt: skip


class AvgPool1d(_Mean):
    """See ``nn.avg_pool1d``."""

    _name = "avg_pool1d"


class _MeanOrSum(_Mean):
    """The base of poolings that divide by ``divisor_override``, if it is given."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        """Take torch's arguments."""
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self._options["divisor_override"] = divisor_override


class AvgPool2d(_MeanOrSum):
    """See ``nn.avg_pool2d``."""

    _name = "avg_pool2d"


class AvgPool3d(_MeanOrSum):
    """See ``nn.avg_pool3d``."""

    _name = "avg_pool3d"


class _Adaptive(_Pooling):
    """The base of poolings to a given size."""

    _same_options = False

    def __init__(self, output_size: Any) -> None:
        """Take the size of the result."""
        super().__init__(output_size=output_size)
        self.output_size = output_size


class AdaptiveAvgPool1d(_Adaptive):
    """See ``nn.adaptive_avg_pool1d``."""

    _name = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_Adaptive):
    """See ``nn.adaptive_avg_pool2d``."""

    _name = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_Adaptive):
    """See ``nn.adaptive_avg_pool3d``."""

    _name = "adaptive_avg_pool3d"


class _AdaptiveLargest(_WithIndices, _Adaptive):
    """The base of poolings of largest elements to a given size."""

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        """Take the size; with ``return_indices`` indices follow the result."""
        super().__init__(output_size)
        self.return_indices = flag(return_indices, "return_indices")


class AdaptiveMaxPool1d(_AdaptiveLargest):
    """See ``nn.adaptive_max_pool1d``."""

    _name = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveLargest):
    """See ``nn.adaptive_max_pool2d``."""

    _name = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveLargest):
    """See ``nn.adaptive_max_pool3d``."""

    _name = "adaptive_max_pool3d"


class _Unpooling(Module):
    """The base of unpoolings: ``forward(input, indices)``."""

    _pair: ClassVar[tuple[Any, Any]]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        """Take torch's arguments."""
        self._arguments = kernel_size, stride, padding

    def __call__(self, input: Any, indices: Any, output_size: Any = None) -> Any:  # type: ignore[override]
        """Compute the output; arrays of NumPy are copied to the device first."""
        arrays = self._on_device(input, "input"), self._on_device(indices, "indices")
        return self.forward(*arrays, output_size)

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:  # type: ignore[override]
        """Put elements at their indices; ``output_size`` has the pooled axes, or all axes."""
        axes = len(input.shape) - 2
        size = output_size if output_size is None else tuple(output_size)[-axes:]
        result = self._pair[0](input, indices, *self._arguments, size)
        self._indices = indices
        return result

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input."""
        (indices,) = self._from_forward("_indices")
        return self._pair[1](grad_output, indices, *self._arguments)


class MaxUnpool1d(_Unpooling):
    """See ``nn.max_unpool1d``."""

    _pair = unpooling.max_unpool1d, unpooling.max_unpool1d_backward


class MaxUnpool2d(_Unpooling):
    """See ``nn.max_unpool2d``."""

    _pair = unpooling.max_unpool2d, unpooling.max_unpool2d_backward


class MaxUnpool3d(_Unpooling):
    """See ``nn.max_unpool3d``."""

    _pair = unpooling.max_unpool3d, unpooling.max_unpool3d_backward


class _Powers(Module):
    """The base of poolings of powers, whose gradients take the input and the result."""

    _pair: ClassVar[tuple[Any, Any]]

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        """Take torch's arguments."""
        self._arguments = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Any) -> Any:
        """Compute the roots of sums of powers."""
        result = self._pair[0](input, *self._arguments)
        self._input, self._result = input, result
        return result

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input."""
        x, result = self._from_forward("_input", "_result")
        return self._pair[1](grad_output, x, result, *self._arguments)


class LPPool1d(_Powers):
    """See ``nn.lp_pool1d``."""

    _pair = lp_pooling.lp_pool1d, lp_pooling.lp_pool1d_backward


class LPPool2d(_Powers):
    """See ``nn.lp_pool2d``."""

    _pair = lp_pooling.lp_pool2d, lp_pooling.lp_pool2d_backward


class LPPool3d(_Powers):
    """See ``nn.lp_pool3d``."""

    _pair = lp_pooling.lp_pool3d, lp_pooling.lp_pool3d_backward


class Upsample(Module):
    """See ``nn.interpolate``."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        """Take torch's arguments."""
        self._options = {
            "size": size, "scale_factor": scale_factor, "mode": mode,
            "align_corners": align_corners, "recompute_scale_factor": recompute_scale_factor,
        }  # fmt: skip

    def forward(self, input: Any) -> Any:
        """Resize the array."""
        result = resampling.interpolate(input, **self._options)
        self._shape = input.shape
        return result

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input."""
        (shape,) = self._from_forward("_shape")
        return resampling.interpolate_backward(grad_output, shape, **self._options)
