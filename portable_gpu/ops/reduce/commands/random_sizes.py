"""Random vectors, and matrices with an axis: what ``bench hunt`` draws."""

from __future__ import annotations

import random
from math import prod

from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.sizes import Size, random_extent

_MOST_ELEMENTS = {True: 1 << 23, False: 1 << 26}  # by whether the device is a CPU
_DTYPES = ("float32", "float16", "float64")


def whole(rng: random.Random, on_cpu: bool) -> Size:
    """A vector."""
    return Size((random_extent(rng, _MOST_ELEMENTS[on_cpu]),))


def along_an_axis(rng: random.Random, on_cpu: bool) -> Size:
    """A matrix of any shape; the variant is one of its axes."""
    max_elements = _MOST_ELEMENTS[on_cpu]
    while True:
        extents = tuple(random_extent(rng, 1 << 18) for _ in range(2))
        if prod(extents) <= max_elements:
            return Size(extents, variant=rng.choice("01"))


WHOLE = RandomSizes("of all", _DTYPES, whole)
ALONG_AN_AXIS = RandomSizes("along an axis", _DTYPES, along_an_axis)
