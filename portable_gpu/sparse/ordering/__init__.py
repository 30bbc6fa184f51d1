"""Orderings: permutations of a symmetric matrix that keep its Cholesky factor sparse."""

from portable_gpu.sparse.ordering.approximate_degree import amd
from portable_gpu.sparse.ordering.choice import order
from portable_gpu.sparse.ordering.cuthill_mckee import rcm
from portable_gpu.sparse.ordering.dissection import nd
from portable_gpu.sparse.ordering.minimum_degree import md, mmd

__all__ = ["amd", "md", "mmd", "nd", "order", "rcm"]
