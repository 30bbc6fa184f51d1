"""Linear algebra beyond products of two matrices."""

from portable_gpu.errors import NotPositiveDefiniteError, SingularMatrixError
from portable_gpu.linalg import packed, ragged
from portable_gpu.linalg.definite import cho_factor, cho_solve, logdet, solve
from portable_gpu.linalg.least_squares import lstsq
from portable_gpu.linalg.symmetric import her2k, herk, syr2k, syrk
from portable_gpu.ops.factor import cholesky, inv_triangular, solve_triangular

__all__ = [
    "NotPositiveDefiniteError",
    "SingularMatrixError",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "her2k",
    "herk",
    "inv_triangular",
    "logdet",
    "lstsq",
    "packed",
    "ragged",
    "solve",
    "solve_triangular",
    "syr2k",
    "syrk",
]
