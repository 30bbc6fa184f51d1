"""Matrix-vector products: the work split is chosen by shape and by how the matrix lies."""

from portable_gpu.ops.gemv.api import gemv
from portable_gpu.ops.gemv.plan import explain, specializations
from portable_gpu.ops.gemv.problem import TRANSPOSES

#: See :mod:`portable_gpu.ops.catalogue`.
CATALOGUE = {"gemv": specializations}
#: See :mod:`portable_gpu.ops.explain`.
EXPLAINERS = {"gemv": explain}

__all__ = ["CATALOGUE", "EXPLAINERS", "TRANSPOSES", "explain", "gemv", "specializations"]
