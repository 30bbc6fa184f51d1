"""Random products, single and of batches, and layers of networks: what ``bench hunt`` draws."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod

from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.gemm.commands.cases import SYMMETRIC
from portable_gpu.ops.sizes import Size, random_extent

#: The largest extent of a single product and of a product of a batch, and the largest batch.
LARGEST, LARGEST_OF_BATCH, LARGEST_BATCH = 4096, 256, 1024
_THIN = 16  # rows or columns
#: The limits of a size, by whether the device is a CPU: flop of a size of any shape, flop of a
#: layer, and elements of an operand.
_MOST_FLOP = {True: 2e9, False: 2e10}
_MOST_OF_LAYER = {True: 4e9, False: 1e12}
_MOST_ELEMENTS = {True: 1 << 23, False: 1 << 27}
#: (k, n) of linear layers: hidden and inner sizes of BERT, Llama 2 and Llama 3.
_TRANSFORMER = (
    (768, 768), (768, 3072), (3072, 768), (4096, 1024), (4096, 4096), (4096, 6144), (4096, 11008),
    (4096, 12288), (4096, 14336), (4096, 32000), (11008, 4096), (14336, 4096), (5120, 5120),
    (5120, 13824), (13824, 5120), (8192, 1024), (8192, 8192),
)  # fmt: skip
#: ResNet-50's convolutions as products: places of an image, channels times taps, filters.
_RESNET = (
    (112 * 112, 147, 64), (56 * 56, 64, 64), (56 * 56, 576, 64), (56 * 56, 64, 256),
    (56 * 56, 256, 64), (56 * 56, 256, 128), (28 * 28, 1152, 128), (28 * 28, 128, 512),
    (28 * 28, 512, 128), (28 * 28, 512, 256), (14 * 14, 2304, 256), (14 * 14, 256, 1024),
    (14 * 14, 1024, 256), (14 * 14, 1024, 512), (7 * 7, 4608, 512), (7 * 7, 512, 2048),
    (7 * 7, 2048, 512), (1, 2048, 1000),
)  # fmt: skip


def product(rng: random.Random, on_cpu: bool) -> Size:
    """A single product of any shape."""

    def draw() -> Size:
        extents = tuple(random_extent(rng, LARGEST) for _ in range(3))
        return Size(extents, variant=_transposes(rng))

    return _fitting(draw, _MOST_FLOP[on_cpu], on_cpu)


def batch(rng: random.Random, on_cpu: bool) -> Size:
    """A batch of products of any shape."""

    def draw() -> Size:
        extents = tuple(random_extent(rng, LARGEST_OF_BATCH) for _ in range(3))
        return Size(extents, random_extent(rng, LARGEST_BATCH, 2), _transposes(rng))

    return _fitting(draw, _MOST_FLOP[on_cpu], on_cpu)


def thin(rng: random.Random, on_cpu: bool) -> Size:
    """A single product of at most 16 rows or columns, or of both."""

    def draw() -> Size:
        extents = [random_extent(rng, LARGEST) for _ in range(3)]
        for few in rng.choice(((0,), (2,), (0, 2))):
            extents[few] = random_extent(rng, _THIN)
        return Size(tuple(extents), variant=_transposes(rng))

    return _fitting(draw, _MOST_FLOP[on_cpu], on_cpu)


def small(rng: random.Random, on_cpu: bool) -> Size:
    """A batch of 8 to 2000 products with extents of 4 to 300."""

    def draw() -> Size:
        extents = tuple(random_extent(rng, 300, 4) for _ in range(3))
        return Size(extents, random_extent(rng, 2000, 8), _transposes(rng))

    return _fitting(draw, _MOST_FLOP[on_cpu], on_cpu)


def symmetric(rng: random.Random, on_cpu: bool) -> Size:
    """A matrix times its own transpose, with a short k."""

    def draw() -> Size:
        m, k = random_extent(rng, LARGEST, 16), random_extent(rng, 256)
        return Size((m, k, m), variant=SYMMETRIC)

    return _fitting(draw, _MOST_FLOP[on_cpu], on_cpu)


def transformer(rng: random.Random, on_cpu: bool) -> Size:
    """A linear layer on 1 to 2048 tokens."""

    def draw() -> Size:
        return Size((random_extent(rng, 2048), *rng.choice(_TRANSFORMER)), variant="NT")

    return _fitting(draw, _MOST_OF_LAYER[on_cpu], on_cpu)


def resnet(rng: random.Random, on_cpu: bool) -> Size:
    """A convolution of 1 to 64 images whose patches are stored as rows."""

    def draw() -> Size:
        places, k, n = rng.choice(_RESNET)
        return Size((places * random_extent(rng, 64), k, n), variant="NT")

    return _fitting(draw, _MOST_OF_LAYER[on_cpu], on_cpu)


def _transposes(rng: random.Random) -> str:
    return rng.choice("NT") + rng.choice("NT")


def _fitting(draw: Callable[[], Size], most_flop: float, on_cpu: bool) -> Size:
    """Draw sizes until one has few enough flop and elements."""
    while True:
        size = draw()
        (m, k, n), count = size.extents, size.batch or 1
        fits = count * max(m * k, k * n, m * n) <= _MOST_ELEMENTS[on_cpu]
        if fits and 2 * count * prod(size.extents) <= most_flop:
            return size


RANDOM = (
    RandomSizes("product", ("float32", "float16", "bfloat16", "float64"), product),
    RandomSizes("batch", ("float32", "float16", "float64"), batch),
    RandomSizes("thin", ("float32", "float16", "float64"), thin),
    RandomSizes("small products", ("float32", "float16", "float64"), small),
    RandomSizes("A @ A.T", ("float32", "float64"), symmetric),
    RandomSizes("transformer layer", ("bfloat16", "float16"), transformer),
    RandomSizes("ResNet's products", ("float32", "float16"), resnet),
)
