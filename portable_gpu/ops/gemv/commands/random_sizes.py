"""Random matrices: what ``bench hunt`` draws."""

from __future__ import annotations

import random
from math import prod

from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.sizes import Size, random_extent

_MOST_ELEMENTS = {True: 1 << 23, False: 1 << 26}  # by whether the device is a CPU


def matrix(rng: random.Random, on_cpu: bool) -> Size:
    """A matrix of any shape, as it is or transposed."""
    while True:
        extents = tuple(random_extent(rng, 1 << 18) for _ in range(2))
        if prod(extents) <= _MOST_ELEMENTS[on_cpu]:
            return Size(extents, variant=rng.choice("NT"))


RANDOM = (RandomSizes("matrix", ("float32", "float16", "float64"), matrix),)
