"""Random shapes: what ``bench hunt`` draws."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod

from portable_gpu.ops.elementwise.commands.activations import NAMES
from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.sizes import Size, random_extent

_MOST_ELEMENTS = {True: 1 << 23, False: 1 << 26}  # by whether the device is a CPU


def matrix(rng: random.Random, on_cpu: bool) -> Size:
    """Two matrices of any shape."""
    while True:
        extents = tuple(random_extent(rng, 1 << 18) for _ in range(2))
        if prod(extents) <= _MOST_ELEMENTS[on_cpu]:
            return Size(extents)


def activation(rng: random.Random, on_cpu: bool) -> Size:
    """An activation function of a matrix of any shape, or its gradient."""
    return replace(matrix(rng, on_cpu), variant=rng.choice(NAMES))


RANDOM = (
    RandomSizes("sum of two", ("float32", "float16", "float64"), matrix),
    RandomSizes("activation", ("float32", "float16"), activation),
)
