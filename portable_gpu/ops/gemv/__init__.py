"""Matrix-vector products: the partition depends on the shape and on the strides of the matrix."""

from portable_gpu.ops.gemv.api import gemv, normalise_gemv
from portable_gpu.ops.gemv.problem import TRANSPOSES

__all__ = ["TRANSPOSES", "gemv", "normalise_gemv"]
