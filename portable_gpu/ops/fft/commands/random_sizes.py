"""Random shapes of transforms, for ``bench hunt``."""

from __future__ import annotations

import random
from math import prod

from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.sizes import Size, random_extent

#: The maximum of elements of an array, on a CPU (``True``) and on a GPU.
_MAX_ELEMENTS = {True: 1 << 20, False: 1 << 24}
#: The maximum length of lines in a batch, and the maximum of lines.
_MAX_BATCH_LENGTH, _MAX_LINES = 8192, 100_000
#: A quarter of the lengths are products of these numbers.
_FACTORS = (2, 2, 2, 2, 3, 3, 5, 5, 7, 11, 13)


def length(rng: random.Random, maximum: int) -> int:
    """Draw a length: a power of two, a product of small primes, or any number."""
    limit = random_extent(rng, maximum, 2)
    kind = rng.random()
    if kind < 1 / 4:
        return 1 << (limit.bit_length() - 1)
    if kind < 1 / 2:
        result = 1
        while (longer := result * rng.choice(_FACTORS)) <= limit:
            result = longer
        return max(2, result)
    return limit


def single_line(rng: random.Random, on_cpu: bool) -> Size:
    """Draw a single line."""
    return Size((length(rng, _MAX_ELEMENTS[on_cpu]),))


def lines(rng: random.Random, on_cpu: bool) -> Size:
    """Draw many lines along the last axis or the first."""
    while True:
        n, count = length(rng, _MAX_BATCH_LENGTH), random_extent(rng, _MAX_LINES, 2)
        if count * n <= _MAX_ELEMENTS[on_cpu]:
            return Size((n,), count) if rng.random() < 0.5 else Size((n, count), variant="0")


def axes(rng: random.Random, on_cpu: bool) -> Size:
    """Draw a transform along two or three axes."""
    while True:
        extents = tuple(length(rng, 4096) for _ in range(rng.choice((2, 3))))
        if prod(extents) <= _MAX_ELEMENTS[on_cpu]:
            return Size(extents)


COMPLEX = (
    RandomSizes("one line", ("complex64", "complex128"), single_line),
    RandomSizes("lines", ("complex64", "complex128"), lines),
    RandomSizes("axes", ("complex64",), axes),
)
REAL = (
    RandomSizes("one line", ("float32",), single_line),
    RandomSizes("lines", ("float32", "float64"), lines),
)
