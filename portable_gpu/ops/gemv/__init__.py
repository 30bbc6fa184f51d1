"""Matrix-vector products: the work split is chosen by shape and by how the matrix lies."""

from portable_gpu.ops.gemv.api import bind_gemv, gemv
from portable_gpu.ops.gemv.plan import explain, specializations
from portable_gpu.ops.gemv.problem import TRANSPOSES

__all__ = ["TRANSPOSES", "bind_gemv", "explain", "gemv", "specializations"]
