"""Random stacks of images: what ``bench hunt`` draws."""

from __future__ import annotations

import random
from math import prod

from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.sizes import Size, random_extent

_MOST_ELEMENTS = {True: 1 << 22, False: 1 << 25}  # by whether the device is a CPU


def images(rng: random.Random, on_cpu: bool) -> Size:
    """A batch of images with channels."""
    while True:
        extents = (
            random_extent(rng, 64),
            random_extent(rng, 512),
            *(random_extent(rng, 512, 4) for _ in range(2)),
        )
        if prod(extents) <= _MOST_ELEMENTS[on_cpu]:
            return Size(extents)


RANDOM = (RandomSizes("images", ("float32", "float16"), images),)
