"""Operations on arrays that are larger than the device's memory, or than the host's.

Operands are NumPy arrays, memmaps or Zarr arrays.  They are read tile by tile, and results are
written as memmaps or Zarr arrays; see docs/streaming.md.
"""

from portable_gpu.multi.streaming.convolution import conv1d, conv2d, conv3d
from portable_gpu.multi.streaming.product import gemm
from portable_gpu.multi.streaming.reductions import (
    argmax,
    argmin,
    max,
    mean,
    min,
    nrm2,
    std,
    sum,
    var,
)
from portable_gpu.multi.streaming.transform import fftn, ifftn, irfftn, rfftn

__all__ = [
    "argmax",
    "argmin",
    "conv1d",
    "conv2d",
    "conv3d",
    "fftn",
    "gemm",
    "ifftn",
    "irfftn",
    "max",
    "mean",
    "min",
    "nrm2",
    "rfftn",
    "std",
    "sum",
    "var",
]
