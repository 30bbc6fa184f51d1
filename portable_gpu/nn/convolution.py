"""Convolutions and transposed convolutions along one to three axes, and their gradients."""

from portable_gpu.ops.conv.functions import (
    conv1d,
    conv1d_bias,
    conv1d_input,
    conv1d_weight,
    conv2d,
    conv2d_bias,
    conv2d_input,
    conv2d_weight,
    conv3d,
    conv3d_bias,
    conv3d_input,
    conv3d_weight,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)

__all__ = [
    "conv1d",
    "conv1d_bias",
    "conv1d_input",
    "conv1d_weight",
    "conv2d",
    "conv2d_bias",
    "conv2d_input",
    "conv2d_weight",
    "conv3d",
    "conv3d_bias",
    "conv3d_input",
    "conv3d_weight",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]
