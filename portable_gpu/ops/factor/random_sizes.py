"""Random matrices to factorise and to solve with: what ``bench hunt`` draws."""

from __future__ import annotations

import random

from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.sizes import Size, random_extent

#: By whether the device is a CPU: the most rows of a matrix, and the most elements of a batch.
_LARGEST = {True: 1024, False: 8192}
_MOST_ELEMENTS = {True: 1 << 20, False: 1 << 25}
#: The most rows of a matrix of a batch, and the most matrices.
_LARGEST_OF_BATCH, _MOST_MATRICES = 256, 10_000


def matrix(rng: random.Random, on_cpu: bool) -> Size:
    """A single matrix."""
    return Size((random_extent(rng, _LARGEST[on_cpu]),))


def batch(rng: random.Random, on_cpu: bool) -> Size:
    """Many small matrices."""
    while True:
        n, count = random_extent(rng, _LARGEST_OF_BATCH, 2), random_extent(rng, _MOST_MATRICES, 2)
        if count * n * n <= _MOST_ELEMENTS[on_cpu]:
            return Size((n,), count)


def systems(rng: random.Random, on_cpu: bool) -> Size:
    """A triangle, as it is or transposed, with one column or many."""
    most = _LARGEST[on_cpu]
    return Size((random_extent(rng, most), random_extent(rng, most)), variant=rng.choice("NT"))


CHOLESKY = (
    RandomSizes("matrix", ("float32", "float64"), matrix),
    RandomSizes("batch", ("float32", "float64", "complex64"), batch),
)
SOLVE = (RandomSizes("matrix", ("float32", "float64"), systems),)
