"""Matrix-vector products: the work split is chosen by shape and by how the matrix lies."""

from portable_gpu.ops.gemv.api import gemv, normalise_gemv
from portable_gpu.ops.gemv.problem import TRANSPOSES

__all__ = ["TRANSPOSES", "gemv", "normalise_gemv"]
