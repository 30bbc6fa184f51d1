"""Random lengths to transform: what ``bench hunt`` draws."""

from __future__ import annotations

import random
from math import prod

from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.sizes import Size, random_extent

#: By whether the device is a CPU: the most numbers of an array.
_MOST_ELEMENTS = {True: 1 << 20, False: 1 << 24}
#: The longest line of many, and the most lines.
_LONGEST_OF_BATCH, _MOST_LINES = 8192, 100_000
#: Half of the lengths are products of these.
_FACTORS = (2, 2, 2, 2, 3, 3, 5, 5, 7, 11, 13)


def length(rng: random.Random, most: int) -> int:
    """A length: a power of two, a product of small primes, or any."""
    wanted = random_extent(rng, most, 2)
    kind = rng.random()
    if kind < 1 / 4:
        return 1 << (wanted.bit_length() - 1)
    if kind < 1 / 2:
        found = 1
        while (longer := found * rng.choice(_FACTORS)) <= wanted:
            found = longer
        return max(2, found)
    return wanted


def one(rng: random.Random, on_cpu: bool) -> Size:
    """A single line."""
    return Size((length(rng, _MOST_ELEMENTS[on_cpu]),))


def lines(rng: random.Random, on_cpu: bool) -> Size:
    """Many lines, which lie one behind the other or side by side."""
    while True:
        n, count = length(rng, _LONGEST_OF_BATCH), random_extent(rng, _MOST_LINES, 2)
        if count * n <= _MOST_ELEMENTS[on_cpu]:
            return Size((n,), count) if rng.random() < 0.5 else Size((n, count), variant="0")


def axes(rng: random.Random, on_cpu: bool) -> Size:
    """Two or three axes."""
    while True:
        extents = tuple(length(rng, 4096) for _ in range(rng.choice((2, 3))))
        if prod(extents) <= _MOST_ELEMENTS[on_cpu]:
            return Size(extents)


COMPLEX = (
    RandomSizes("one line", ("complex64", "complex128"), one),
    RandomSizes("lines", ("complex64", "complex128"), lines),
    RandomSizes("axes", ("complex64",), axes),
)
REAL = (
    RandomSizes("one line", ("float32",), one),
    RandomSizes("lines", ("float32", "float64"), lines),
)
