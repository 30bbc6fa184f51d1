"""Cases of gemm: what they cost, their operands and variants, and their oracle."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.operands import Operands
from portable_gpu.checking.oracle import (
    SPLIT_ERRORS,
    Oracle,
    bound_of_sums,
    root_mean_square,
    times,
    worst,
)
from portable_gpu.dtypes import PRECISIONS, dtype_of, element
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.family import Contested, RandomSizes
from portable_gpu.ops.gemm.commands.catalogue import contiguous
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.variants import variants as variants_of
from portable_gpu.ops.gemv.commands.cases import by_transposes, transposed
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.ops.sizes import Size, random_extent

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


#: The precisions of float32 products, and the dtype of the result of 16-bit floats.
MANNERS = {"float32": PRECISIONS, "float16": ("float32",), "bfloat16": ("float32",)}
_TRANSPOSES = ("NN", "NT", "TN", "TT")
#: The product of a matrix and its own transpose, which is one array: ``A @ A.T``.
SYMMETRIC = "NS"


def problem_of(case: Case) -> GemmProblem:
    """The product of a case, of contiguous arrays."""
    m, k, n = case.extents
    batch = () if case.batch is None else (case.batch,)
    elem, result = element(dtype_of(case.dtype)), element(dtype_of(case.result))
    a, b, c = Operand(elem, k, 1), Operand(elem, n, 1), Operand(result, n, 1)
    return GemmProblem(m=m, n=n, k=k, batch=batch, a=a, b=b, c=c, compute=elem)


def shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of A and B as stored; of A alone where B is its transpose in memory.

    Raises:
        ArgumentError: Such a product is not square.
    """
    m, k, n = case.extents
    if case.trans == SYMMETRIC:
        if m != n:
            raise ArgumentError(f"{case.size} is not a size: {SYMMETRIC} takes m x k x m")
        return ((m, k) if case.batch is None else (case.batch, m, k),)
    a = (k, m) if case.trans[:1] == "T" else (m, k)
    b = (n, k) if case.trans[1:] == "T" else (k, n)
    batch = () if case.batch is None else (case.batch,)
    return (*batch, *a), (*batch, *b)


def options(case: Case) -> dict[str, Any]:
    """Transposes or the batch, and the precision."""
    if case.batch is not None:
        return {"batch": (case.batch,), "precision": case.precision}
    return {"trans_a": case.trans[0], "trans_b": case.trans[1], "precision": case.precision}


def variants(case: Case, variant: str, alone: bool) -> Iterator[Case]:
    """All transposes of single square products; others as they are."""
    every = len(set(case.extents)) == 1 and case.batch is None
    known = (*_TRANSPOSES, SYMMETRIC) if variant else _TRANSPOSES if every else _TRANSPOSES[:1]
    yield from by_transposes(case, known, variant)


def call(case: Case, on_host: bool) -> PublicCall:
    """``matmul`` for batches, and for NumPy arrays, whose transposes are views; else ``gemm``.

    If the result has another dtype, it is ``gemm`` into a given C.
    """
    converts = case.result != case.dtype
    if case.trans == SYMMETRIC:
        return PublicCall("matmul", {"precision": case.precision}, transposed="NT")
    if case.batch is not None or (on_host and not converts):
        return PublicCall("matmul", {"precision": case.precision}, transposed=case.trans)
    c = ("c", (case.extents[0], case.extents[2]), case.result) if converts else None
    return PublicCall("gemm", options(case), into=c)


def oracle(case: Case, inputs: Operands) -> Oracle:
    """Freivalds' test: ``C r`` against ``A (B r)`` for a random vector r.

    It detects every wrong element, at the cost of a few products with a vector.
    """
    a, b = transposed(case, inputs)
    n = b.shape[-1]
    r = np.random.default_rng(2).standard_normal(n)
    expected = times(a, times(b, r))
    k, scale = a.shape[-1], root_mean_square(dtype_of(case.dtype)) ** 2
    # The n errors of a row of C are multiplied by the factors of r; they add up as a random walk.
    size = np.asarray(sqrt(k) * scale)
    bound = np.linalg.norm(r) * bound_of_sums(dtype_of(case.result), k, scale, size)
    bound = bound + 16 * SPLIT_ERRORS[case.precision] * np.linalg.norm(r) * sqrt(k) * scale
    # The test's own sums, of n terms on either side, are in double precision.
    bound = bound + 2 * bound_of_sums(np.dtype(np.float64), n, sqrt(k) * scale, np.zeros(()))
    shape = (*a.shape[:-1], n)
    return lambda found: worst(times(found, r), expected, bound) if found.shape == shape else np.inf


# -- random sizes

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


#: What is drawn, as often as it is listed.
_KINDS = (product, product, batch, thin, small)


def _draw(rng: random.Random, on_cpu: bool) -> Size:
    return rng.choice(_KINDS)(rng, on_cpu)


def product_of(case: Case) -> GemmProblem:
    """The product of a case, of contiguous arrays."""
    m, k, n = case.extents
    outer = () if case.batch is None else (case.batch,)
    return contiguous(m, n, k, dtype_of(case.dtype), outer, *case.trans)


def _nbytes(case: Case) -> tuple[int, ...]:
    """The shapes of A, B and C."""
    m, _, n = case.extents
    lengths = *(prod(shape) for shape in shapes(case)), m * n * (case.batch or 1)
    return tuple(length * dtype_of(case.dtype).itemsize for length in lengths)


CONTESTED = Contested(
    _draw, product_of, variants_of, _nbytes, (1.0, 0.0), {"float32": (48, 96), "float16": (48, 96)}
)
