"""Random convolutions: what ``bench hunt`` draws."""

from __future__ import annotations

import random
from math import prod

from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.sizes import Size, random_extent

#: The limit of the multiply-adds of a size, by whether the device is a CPU.
_MAX_PRODUCTS = {True: 1 << 30, False: 1 << 35}
_KERNELS = (1, 3, 3, 5, 7)


def layer(rng: random.Random, on_cpu: bool) -> Size:
    """A layer of a network, with one group, four groups or one for each channel."""
    while True:
        n, c, k = random_extent(rng, 64), random_extent(rng, 1024), random_extent(rng, 1024)
        h, taps, stride = random_extent(rng, 224), rng.choice(_KERNELS), rng.choice((1, 1, 2))
        groups = rng.choice((1, 1, 1, 4, c))
        c, k = (max(1, m // groups) * groups for m in (c, k))
        products = n * k * (h // stride + 1) ** 2 * c // groups * taps**2
        if (
            h >= taps
            and products <= _MAX_PRODUCTS[on_cpu]
            and n * max(c, k) * h * h <= _MAX_PRODUCTS[on_cpu] // 8
        ):
            return Size((n, c, h, h, k, taps, taps), variant=f"s{stride}g{groups}")


def any_kind(rng: random.Random, on_cpu: bool) -> Size:
    """A convolution of any kind: along one to three axes, of any stride, dilation and groups."""
    max_products = _MAX_PRODUCTS[on_cpu] >> 2
    while True:
        rank = rng.choice((1, 2, 2, 2, 3))
        n, c, k = random_extent(rng, 32), random_extent(rng, 512), random_extent(rng, 512)
        space = [random_extent(rng, (4096, 224, 32)[rank - 1]) for _ in range(rank)]
        taps = [rng.choice(_KERNELS) for _ in range(rank)]
        stride, dilation = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 1, 2))
        groups = rng.choice((1, 1, 1, 1, 2, 4, 8, 32, c))
        c, k = (max(1, m // groups) * groups for m in (c, k))
        out = [m // stride + 1 for m in space]
        products = n * k * prod(out) * c // groups * prod(taps)
        fits = all(m >= dilation * (r - 1) + 1 for m, r in zip(space, taps, strict=True))
        if fits and products <= max_products and n * max(c, k) * prod(space) <= max_products // 8:
            layout = rng.choice(("", "l"))  # "l": channels-last
            variant = f"s{stride}d{dilation}g{groups}{layout}"
            return Size((n, c, *space, k, *taps), variant=variant)


RANDOM = (RandomSizes("layer", ("float32", "float16"), layer),)
