"""Random products, whose choices ``bench dispatch`` times."""

from __future__ import annotations

import random
from math import prod
from typing import TYPE_CHECKING

from portable_gpu.dtypes import dtype_of
from portable_gpu.ops.family import Contested
from portable_gpu.ops.gemm.candidates import candidates
from portable_gpu.ops.gemm.cases import shapes
from portable_gpu.ops.gemm.catalogue import contiguous
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.random_sizes import batch, product
from portable_gpu.ops.sizes import Size

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case

_BATCHED = 0.2  # of the products


def _draw(rng: random.Random, on_cpu: bool) -> Size:
    return (batch if rng.random() < _BATCHED else product)(rng, on_cpu)


def product_of(case: Case) -> GemmProblem:
    """The product of a case, of contiguous arrays."""
    m, k, n = case.extents
    outer = () if case.batch is None else (case.batch,)
    return contiguous(m, n, k, dtype_of(case.dtype), outer, *case.trans)


def _nbytes(case: Case) -> tuple[int, ...]:
    """Of A, B and C."""
    m, _, n = case.extents
    lengths = *(prod(shape) for shape in shapes(case)), m * n * (case.batch or 1)
    return tuple(length * dtype_of(case.dtype).itemsize for length in lengths)


CONTESTED = Contested(_draw, product_of, candidates, _nbytes, (1.0, 0.0))
