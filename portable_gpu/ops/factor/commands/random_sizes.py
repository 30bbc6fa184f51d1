"""Random shapes of factorisations and solves, for ``bench hunt``."""

from __future__ import annotations

import random

from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.sizes import Size, random_extent

#: The maximum of rows of a matrix, and of elements of a batch, on a CPU (``True``) and on a GPU.
_MAX_ROWS = {True: 1024, False: 8192}
_MAX_ELEMENTS = {True: 1 << 20, False: 1 << 25}
#: The maximum of rows of a matrix of a batch, and of matrices.
_MAX_ROWS_OF_BATCH, _MAX_MATRICES = 256, 10_000


def matrix(rng: random.Random, on_cpu: bool) -> Size:
    """A single matrix."""
    return Size((random_extent(rng, _MAX_ROWS[on_cpu]),))


def batch(rng: random.Random, on_cpu: bool) -> Size:
    """Many small matrices."""
    while True:
        n, count = random_extent(rng, _MAX_ROWS_OF_BATCH, 2), random_extent(rng, _MAX_MATRICES, 2)
        if count * n * n <= _MAX_ELEMENTS[on_cpu]:
            return Size((n,), count)


def systems(rng: random.Random, on_cpu: bool) -> Size:
    """A triangle, as it is or transposed, with one column or many."""
    limit = _MAX_ROWS[on_cpu]
    return Size((random_extent(rng, limit), random_extent(rng, limit)), variant=rng.choice("NT"))


CHOLESKY = (
    RandomSizes("matrix", ("float32", "float64"), matrix),
    RandomSizes("batch", ("float32", "float64", "complex64"), batch),
)
SOLVE = (RandomSizes("matrix", ("float32", "float64"), systems),)
