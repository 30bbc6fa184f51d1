"""Sparse Cholesky factors: analysis on the host, numbers on any OpenCL device."""

from portable_gpu.sparse.symbolic import MemoryEstimate, Symbolic, analyze

__all__ = ["MemoryEstimate", "Symbolic", "analyze"]
