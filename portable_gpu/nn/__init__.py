"""Layers of neural networks and their gradients, by the names of ``torch.nn.functional``."""

from portable_gpu.nn.activations import (
    elu,
    elu_backward,
    gelu,
    gelu_backward,
    hardswish,
    hardswish_backward,
    leaky_relu,
    leaky_relu_backward,
    relu,
    relu_backward,
    sigmoid,
    sigmoid_backward,
    silu,
    silu_backward,
    softplus,
    softplus_backward,
    tanh,
    tanh_backward,
)
from portable_gpu.nn.dropout import dropout, dropout_backward
from portable_gpu.nn.linear import linear, linear_backward
from portable_gpu.nn.padding import pad, pad_backward
from portable_gpu.nn.resampling import (
    pixel_shuffle,
    pixel_shuffle_backward,
    pixel_unshuffle,
    pixel_unshuffle_backward,
)

__all__ = [
    "dropout",
    "dropout_backward",
    "elu",
    "elu_backward",
    "gelu",
    "gelu_backward",
    "hardswish",
    "hardswish_backward",
    "leaky_relu",
    "leaky_relu_backward",
    "linear",
    "linear_backward",
    "pad",
    "pad_backward",
    "pixel_shuffle",
    "pixel_shuffle_backward",
    "pixel_unshuffle",
    "pixel_unshuffle_backward",
    "relu",
    "relu_backward",
    "sigmoid",
    "sigmoid_backward",
    "silu",
    "silu_backward",
    "softplus",
    "softplus_backward",
    "tanh",
    "tanh_backward",
]
