"""Random products, whose choices ``bench dispatch`` times."""

from __future__ import annotations

import random
from math import prod
from typing import TYPE_CHECKING

from portable_gpu.dtypes import dtype_of
from portable_gpu.ops.family import Contested
from portable_gpu.ops.gemm.commands.cases import shapes
from portable_gpu.ops.gemm.commands.catalogue import contiguous
from portable_gpu.ops.gemm.commands.random_sizes import batch, product, small, thin
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.variants import variants
from portable_gpu.ops.sizes import Size

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case

#: What is drawn, as often as it is listed.
_KINDS = (product, product, batch, thin, small)


def _draw(rng: random.Random, on_cpu: bool) -> Size:
    return rng.choice(_KINDS)(rng, on_cpu)


def product_of(case: Case) -> GemmProblem:
    """The product of a case, of contiguous arrays."""
    m, k, n = case.extents
    outer = () if case.batch is None else (case.batch,)
    return contiguous(m, n, k, dtype_of(case.dtype), outer, *case.trans)


def _nbytes(case: Case) -> tuple[int, ...]:
    """The shapes of A, B and C."""
    m, _, n = case.extents
    lengths = *(prod(shape) for shape in shapes(case)), m * n * (case.batch or 1)
    return tuple(length * dtype_of(case.dtype).itemsize for length in lengths)


CONTESTED = Contested(
    _draw, product_of, variants, _nbytes, (1.0, 0.0), {"float32": (48, 96), "float16": (48, 96)}
)
