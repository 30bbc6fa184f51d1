"""Cholesky factors and triangular solves: small ones in one launch, large ones by halves."""

from portable_gpu.ops.factor.api import cholesky, inv_triangular, solve_triangular

__all__ = ["cholesky", "inv_triangular", "solve_triangular"]
