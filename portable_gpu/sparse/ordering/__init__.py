"""Orderings: permutations of a symmetric matrix that keep its Cholesky factor sparse."""

from portable_gpu.sparse.ordering.approximate_degree import amd
from portable_gpu.sparse.ordering.choice import order
from portable_gpu.sparse.ordering.cuthill_mckee import rcm

__all__ = ["amd", "order", "rcm"]
