"""Triangles in packed storage: n (n + 1) / 2 elements, in block rows that are operands of products.

``docs/linalg_packed.md`` draws the layout.  Triangles of at most 128 rows have LAPACK's packed
format: with ``lower=True`` the triangle by rows (LAPACK's ``U`` by columns); with ``lower=False``
its transpose by rows.
"""

from portable_gpu.linalg.packed.definite import cho_solve, cholesky, solve_triangular
from portable_gpu.linalg.packed.products import herk, syrk
from portable_gpu.linalg.packed.storage import pack, unpack
from portable_gpu.ops.factor.packed import BLOCK, packed_size

__all__ = [
    "BLOCK",
    "cho_solve",
    "cholesky",
    "herk",
    "pack",
    "packed_size",
    "solve_triangular",
    "syrk",
    "unpack",
]
