"""Random rows and images: what ``bench hunt`` draws."""

from __future__ import annotations

import random
from math import prod

from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.sizes import Size, random_extent

_MOST_ELEMENTS = {True: 1 << 22, False: 1 << 25}  # by whether the device is a CPU


def _direction(rng: random.Random) -> str:
    return rng.choice(("", "backward"))


def rows(rng: random.Random, on_cpu: bool) -> Size:
    """Rows of two elements or more, forward or backward."""
    while True:
        extents = random_extent(rng, 1 << 18), random_extent(rng, 1 << 17, 2)
        if prod(extents) <= _MOST_ELEMENTS[on_cpu]:
            return Size(extents, variant=_direction(rng))


def images(rng: random.Random, on_cpu: bool) -> Size:
    """A batch of images with channels, forward or backward."""
    while True:
        batch, channels = random_extent(rng, 64, 2), random_extent(rng, 1024)
        extents = batch, channels, *(random_extent(rng, 256) for _ in range(2))
        if prod(extents) <= _MOST_ELEMENTS[on_cpu]:
            return Size(extents, variant=_direction(rng))


_DTYPES = ("float32", "float16")
ROWS = (RandomSizes("rows", _DTYPES, rows),)
IMAGES = (RandomSizes("images", _DTYPES, images),)
