"""Modules of activations and of dropout."""

from __future__ import annotations

from typing import Any, ClassVar

from portable_gpu.arguments import flag, one_of, real_number, whole
from portable_gpu.nn import activations, init
from portable_gpu.nn.modules.base import Module
from portable_gpu.ops.normalize.softmax import (
    log_softmax,
    log_softmax_backward,
    softmax,
    softmax_backward,
)
from portable_gpu.ops.random import channels
from portable_gpu.ops.random.api import dropout, dropout_backward


class _Activation(Module):
    """An elementwise function that keeps its input, or its result where the gradient takes that."""

    _pair: ClassVar[tuple[Any, Any]]  # the function and its gradient
    _of_result: ClassVar[bool] = False

    def __init__(self) -> None:
        self._options: dict[str, Any] = {}

    def forward(self, input: Any) -> Any:
        """Compute the function of each element."""
        result = self._pair[0](input, **self._options)
        self._saved = result if self._of_result else input
        return result

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input."""
        (saved,) = self._from_forward("_saved")
        return self._pair[1](grad_output, saved, **self._options)


class ReLU(_Activation):
    """See ``nn.relu``."""

    _pair = activations.relu, activations.relu_backward
    _of_result = True

    def __init__(self, inplace: bool = False) -> None:
        """Write the result over the input if ``inplace`` is true."""
        super().__init__()
        self.inplace = flag(inplace, "inplace")

    def _writes_input(self) -> bool:
        return self.inplace

    def forward(self, input: Any) -> Any:
        """Compute the function of each element."""
        self._saved = self._pair[0](input, out=input if self.inplace else None)
        return self._saved


class ReLU6(ReLU):
    """See ``nn.relu6``."""

    _pair = activations.relu6, activations.relu6_backward


class LeakyReLU(_Activation):
    """See ``nn.leaky_relu``."""

    _pair = activations.leaky_relu, activations.leaky_relu_backward

    def __init__(self, negative_slope: float = 0.01) -> None:
        """Take the slope of negative values."""
        self._options = {"negative_slope": real_number(negative_slope, "negative_slope")}


class ELU(_Activation):
    """See ``nn.elu``."""

    _pair = activations.elu, activations.elu_backward

    def __init__(self, alpha: float = 1.0) -> None:
        """Take the factor of negative values."""
        self._options = {"alpha": real_number(alpha, "alpha")}


class Sigmoid(_Activation):
    """See ``nn.sigmoid``."""

    _pair = activations.sigmoid, activations.sigmoid_backward
    _of_result = True


class Tanh(_Activation):
    """See ``nn.tanh``."""

    _pair = activations.tanh, activations.tanh_backward
    _of_result = True


class GELU(_Activation):
    """See ``nn.gelu``."""

    _pair = activations.gelu, activations.gelu_backward

    def __init__(self, approximate: str = "none") -> None:
        """Take the form, ``"none"`` or ``"tanh"``."""
        self._options = {"approximate": one_of(approximate, ("none", "tanh"), "approximate")}


class SiLU(_Activation):
    """See ``nn.silu``."""

    _pair = activations.silu, activations.silu_backward


class Hardswish(_Activation):
    """See ``nn.hardswish``."""

    _pair = activations.hardswish, activations.hardswish_backward


class Hardsigmoid(_Activation):
    """See ``nn.hardsigmoid``."""

    _pair = activations.hardsigmoid, activations.hardsigmoid_backward


class Hardtanh(_Activation):
    """See ``nn.hardtanh``."""

    _pair = activations.hardtanh, activations.hardtanh_backward

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        """Take the least and the largest result."""
        self._options = activations.ends(min_val, max_val)


class Softplus(_Activation):
    """See ``nn.softplus``."""

    _pair = activations.softplus, activations.softplus_backward

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        """Take the sharpness, and the threshold above which the result is the input."""
        self._options = activations.sharpness(beta, threshold)


class _OfRows(_Activation):
    """A function of the lines along an axis."""

    _of_result = True

    def __init__(self, dim: int = -1) -> None:
        """Take the axis."""
        self._options = {"dim": whole(dim, "dim")}


class Softmax(_OfRows):
    """See ``nn.softmax``."""

    _pair = softmax, softmax_backward


class LogSoftmax(_OfRows):
    """See ``nn.log_softmax``."""

    _pair = log_softmax, log_softmax_backward


class Dropout(Module):
    """See ``nn.dropout``; each module has a seed of its own, and each training call a new mask."""

    _pair: ClassVar[tuple[Any, Any]] = dropout, dropout_backward  # the function and its gradient

    def __init__(self, p: float = 0.5, *, seed: int | None = None) -> None:
        """Take the probability, and the seed; by default the next one after ``manual_seed``."""
        self.p = real_number(p, "p")
        self.seed = init.next_seed() if seed is None else seed
        self.calls = 0

    def forward(self, input: Any) -> Any:
        """Drop elements, or channels, in training mode."""
        call = self.calls if self.training and self.p else None
        result = input
        if call is not None:
            result = self._pair[0](input, self.p, seed=self.seed, offset=call)
        self._call = call
        self.calls += call is not None
        return result

    def backward(self, grad_output: Any) -> Any:
        """Drop the same elements of the gradient."""
        (call,) = self._from_forward("_call")
        if call is None:
            return grad_output
        return self._pair[1](grad_output, self.p, seed=self.seed, offset=call)


class Dropout1d(Dropout):
    """Dropout of whole channels, as ``torch.nn.Dropout1d``; see ``nn.dropout1d``."""

    _pair = channels.dropout1d, channels.dropout1d_backward


class Dropout2d(Dropout):
    """Dropout of whole channels, as ``torch.nn.Dropout2d``; see ``nn.dropout2d``."""

    _pair = channels.dropout2d, channels.dropout2d_backward


class Dropout3d(Dropout):
    """Dropout of whole channels, as ``torch.nn.Dropout3d``; see ``nn.dropout3d``."""

    _pair = channels.dropout3d, channels.dropout3d_backward
