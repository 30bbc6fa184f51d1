"""Random convolutions: what ``bench hunt`` draws."""

from __future__ import annotations

import random

from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.sizes import Size, random_extent

#: The most multiply-adds of a size, by whether the device is a CPU.
_MOST = {True: 1 << 30, False: 1 << 35}
_KERNELS = (1, 3, 3, 5, 7)


def layer(rng: random.Random, on_cpu: bool) -> Size:
    """A layer of a network: whole, grouped or depthwise."""
    while True:
        n, c, k = random_extent(rng, 64), random_extent(rng, 1024), random_extent(rng, 1024)
        h, taps, stride = random_extent(rng, 224), rng.choice(_KERNELS), rng.choice((1, 1, 2))
        groups = rng.choice((1, 1, 1, 4, c))
        c, k = (max(1, m // groups) * groups for m in (c, k))
        products = n * k * (h // stride + 1) ** 2 * c // groups * taps**2
        if h >= taps and products <= _MOST[on_cpu] and n * max(c, k) * h * h <= _MOST[on_cpu] // 8:
            return Size((n, c, h, h, k, taps, taps), variant=f"s{stride}g{groups}")


RANDOM = (RandomSizes("layer", ("float32", "float16"), layer),)
