"""Layers of neural networks and their gradients, by the names of ``torch.nn.functional``."""

from portable_gpu.nn.activations import (
    elu,
    elu_backward,
    gelu,
    gelu_backward,
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
from portable_gpu.nn.init import manual_seed
from portable_gpu.nn.linear import linear, linear_backward
from portable_gpu.nn.lr_scheduler import (
    CosineAnnealingLR,
    ExponentialLR,
    LinearLR,
    LRScheduler,
    MultiStepLR,
    OneCycleLR,
    SequentialLR,
    StepLR,
)
from portable_gpu.nn.modules.activations import (
    ELU,
    GELU,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSoftmax,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from portable_gpu.nn.modules.attention import MultiheadAttention
from portable_gpu.nn.modules.base import Buffer, Module
from portable_gpu.nn.modules.containers import (
    Concat,
    Flatten,
    Identity,
    ModuleList,
    Residual,
    Sequential,
    Unflatten,
)
from portable_gpu.nn.modules.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from portable_gpu.nn.modules.embedding import Embedding
from portable_gpu.nn.modules.linear import Linear
from portable_gpu.nn.modules.losses import CrossEntropyLoss, MSELoss, NLLLoss
from portable_gpu.nn.modules.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    RMSNorm,
)
from portable_gpu.nn.modules.padding import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    PixelShuffle,
    PixelUnshuffle,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from portable_gpu.nn.modules.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
    Upsample,
)
from portable_gpu.nn.optim import SGD, Adam, AdamW, Optimizer, clip_grad_norm_, clip_grad_value_
from portable_gpu.nn.parameter import ModuleParameter as Parameter
from portable_gpu.nn.piecewise import (
    hardsigmoid,
    hardsigmoid_backward,
    hardswish,
    hardswish_backward,
    hardtanh,
    hardtanh_backward,
    relu6,
    relu6_backward,
)
from portable_gpu.nn.resampling import (
    pixel_shuffle,
    pixel_shuffle_backward,
    pixel_unshuffle,
    pixel_unshuffle_backward,
)
from portable_gpu.ops.attention.functions import (
    native_scaled_dot_product_attention,
    scaled_dot_product_attention,
    scaled_dot_product_attention_backward,
)
from portable_gpu.ops.conv.answers import TimedAlgorithm
from portable_gpu.ops.conv.finding import (
    find_conv1d,
    find_conv1d_input,
    find_conv1d_weight,
    find_conv2d,
    find_conv2d_input,
    find_conv2d_weight,
    find_conv3d,
    find_conv3d_input,
    find_conv3d_weight,
)
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
from portable_gpu.ops.embedding.api import embedding, embedding_backward
from portable_gpu.ops.normalize.batch import (
    batch_norm,
    batch_norm_backward,
    instance_norm,
    native_batch_norm,
)
from portable_gpu.ops.normalize.functions import (
    group_norm,
    group_norm_backward,
    layer_norm,
    layer_norm_backward,
    native_group_norm,
    native_layer_norm,
    native_rms_norm,
    rms_norm,
    rms_norm_backward,
)
from portable_gpu.ops.normalize.losses import (
    cross_entropy,
    cross_entropy_backward,
    mse_loss,
    mse_loss_backward,
    nll_loss,
    nll_loss_backward,
)
from portable_gpu.ops.normalize.softmax import (
    log_softmax,
    log_softmax_backward,
    softmax,
    softmax_backward,
)
from portable_gpu.ops.optim.api import adam_step, sgd_step
from portable_gpu.ops.random.api import dropout, dropout_backward
from portable_gpu.ops.sampling.lp_pooling import (
    lp_pool1d,
    lp_pool1d_backward,
    lp_pool2d,
    lp_pool2d_backward,
    lp_pool3d,
    lp_pool3d_backward,
)
from portable_gpu.ops.sampling.padding import pad, pad_backward
from portable_gpu.ops.sampling.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool1d_backward,
    adaptive_avg_pool2d,
    adaptive_avg_pool2d_backward,
    adaptive_avg_pool3d,
    adaptive_avg_pool3d_backward,
    adaptive_max_pool1d,
    adaptive_max_pool1d_backward,
    adaptive_max_pool2d,
    adaptive_max_pool2d_backward,
    adaptive_max_pool3d,
    adaptive_max_pool3d_backward,
    avg_pool1d,
    avg_pool1d_backward,
    avg_pool2d,
    avg_pool2d_backward,
    avg_pool3d,
    avg_pool3d_backward,
    max_pool1d,
    max_pool1d_backward,
    max_pool2d,
    max_pool2d_backward,
    max_pool3d,
    max_pool3d_backward,
)
from portable_gpu.ops.sampling.resampling import interpolate, interpolate_backward
from portable_gpu.ops.sampling.unpooling import (
    max_unpool1d,
    max_unpool1d_backward,
    max_unpool2d,
    max_unpool2d_backward,
    max_unpool3d,
    max_unpool3d_backward,
)

__all__ = [
    "ELU", "GELU", "SGD", "Adam", "AdamW", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d",
    "AvgPool2d", "AvgPool3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Buffer",
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "Concat", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "CosineAnnealingLR", "CrossEntropyLoss", "Dropout", "Dropout1d", "Dropout2d",
    "Dropout3d", "Embedding", "ExponentialLR", "Flatten", "GroupNorm", "Hardsigmoid", "Hardswish",
    "Hardtanh", "Identity", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LPPool1d",
    "LPPool2d", "LPPool3d", "LRScheduler", "LayerNorm", "LeakyReLU", "Linear", "LinearLR",
    "LogSoftmax", "MSELoss", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d", "Module", "ModuleList", "MultiStepLR", "MultiheadAttention", "NLLLoss",
    "OneCycleLR", "Optimizer", "Parameter", "PixelShuffle", "PixelUnshuffle", "RMSNorm", "ReLU",
    "ReLU6", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "Residual", "Sequential", "SequentialLR", "SiLU",
    "Sigmoid", "Softmax", "Softplus", "StepLR", "Tanh", "TimedAlgorithm", "Unflatten", "Upsample",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "adam_step", "adaptive_avg_pool1d",
    "adaptive_avg_pool1d_backward", "adaptive_avg_pool2d", "adaptive_avg_pool2d_backward",
    "adaptive_avg_pool3d", "adaptive_avg_pool3d_backward", "adaptive_max_pool1d",
    "adaptive_max_pool1d_backward", "adaptive_max_pool2d", "adaptive_max_pool2d_backward",
    "adaptive_max_pool3d", "adaptive_max_pool3d_backward", "avg_pool1d", "avg_pool1d_backward",
    "avg_pool2d", "avg_pool2d_backward", "avg_pool3d", "avg_pool3d_backward", "batch_norm",
    "batch_norm_backward", "clip_grad_norm_", "clip_grad_value_", "conv1d", "conv1d_bias",
    "conv1d_input", "conv1d_weight", "conv2d", "conv2d_bias", "conv2d_input", "conv2d_weight",
    "conv3d", "conv3d_bias", "conv3d_input", "conv3d_weight", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "cross_entropy", "cross_entropy_backward", "dropout",
    "dropout_backward", "elu", "elu_backward", "embedding", "embedding_backward", "find_conv1d",
    "find_conv1d_input", "find_conv1d_weight", "find_conv2d", "find_conv2d_input",
    "find_conv2d_weight", "find_conv3d", "find_conv3d_input", "find_conv3d_weight", "gelu",
    "gelu_backward", "group_norm", "group_norm_backward", "hardsigmoid", "hardsigmoid_backward",
    "hardswish", "hardswish_backward", "hardtanh", "hardtanh_backward", "instance_norm",
    "interpolate", "interpolate_backward", "layer_norm", "layer_norm_backward", "leaky_relu",
    "leaky_relu_backward", "linear", "linear_backward", "log_softmax", "log_softmax_backward",
    "lp_pool1d", "lp_pool1d_backward", "lp_pool2d", "lp_pool2d_backward", "lp_pool3d",
    "lp_pool3d_backward", "manual_seed", "max_pool1d", "max_pool1d_backward", "max_pool2d",
    "max_pool2d_backward", "max_pool3d", "max_pool3d_backward", "max_unpool1d",
    "max_unpool1d_backward", "max_unpool2d", "max_unpool2d_backward", "max_unpool3d",
    "max_unpool3d_backward", "mse_loss", "mse_loss_backward", "native_batch_norm",
    "native_group_norm", "native_layer_norm", "native_rms_norm",
    "native_scaled_dot_product_attention", "nll_loss", "nll_loss_backward", "pad", "pad_backward",
    "pixel_shuffle", "pixel_shuffle_backward", "pixel_unshuffle", "pixel_unshuffle_backward",
    "relu", "relu6", "relu6_backward", "relu_backward", "rms_norm", "rms_norm_backward",
    "scaled_dot_product_attention", "scaled_dot_product_attention_backward", "sgd_step", "sigmoid",
    "sigmoid_backward", "silu", "silu_backward", "softmax", "softmax_backward", "softplus",
    "softplus_backward", "tanh", "tanh_backward",
]  # fmt: skip
