"""``--sizes``: the text of a size, and what it means."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, prod

from portable_gpu.errors import ArgumentError
from portable_gpu.runtime.views import Shape

#: What the command's help says.
SYNTAX = (
    "Comma list. Reductions: a length (2^20, 1000000) or a shape (4096x4096). gemv: rows x columns "
    "(16384x32). gemm: m x k x n (8x3200x3200), and a batch in front (1000:32x32x32). cholesky: n "
    "(4096, 10000:32). solve_triangular: n x m (2048x16, 2000:64x64). fft, rfft: extents, "
    "all transformed (1000:1024, 512x512). A variant may follow: 4096x4096/0 (axis), 16384x32/T, "
    "512x512x512/NT. conv: N x C x H x W x K x R x S, or the layers of a network with a batch in "
    "front (8:resnet50, 8:mobilenet_v2/l)."
)
_EXTENT = r"\d+(?:\^\d+)?"
_SIZE = re.compile(rf"(?:({_EXTENT}):)?({_EXTENT}(?:x{_EXTENT})*|[a-z]\w+)(?:/(\w+))?")


@dataclass(frozen=True)
class Size:
    """One size of ``--sizes``.

    Attributes:
        extents: The numbers between the ``x``.
        batch: The number before a colon.
        variant: The text after a slash, such as an axis or transposes.  Empty means all variants.
        name: A name of several sizes, in place of extents: see :attr:`Benchmark.named`.
    """

    extents: tuple[int, ...]
    batch: int | None = None
    variant: str = ""
    name: str = ""


def parse_sizes(text: str, option: str = "--sizes", *, names: bool = True) -> tuple[Size, ...]:
    """Return the sizes of a comma list.

    Args:
        text: The list.
        option: The name of the list in messages.
        names: Whether the list may have names of several sizes.

    Raises:
        ArgumentError: One of them cannot be read, or is 0.
    """
    return tuple(parse_size(part.strip(), option, names=names) for part in text.split(","))


def parse_size(text: str, option: str, *, names: bool = False) -> Size:
    """Return one size; see :func:`parse_sizes`."""
    match = _SIZE.fullmatch(text)
    if match is None or (match[2][0].isalpha() and not names):
        raise ArgumentError(f"{option} has {text!r}; sizes are like 2^20, 4096x4096, 1000:32x32x32")
    batch, extents, variant = match.groups()
    name = extents if extents[0].isalpha() else ""
    size = Size(
        () if name else tuple(_extent(part) for part in extents.split("x")),
        None if batch is None else _extent(batch),
        variant or "",
        name,
    )
    if min((*size.extents, 1 if size.batch is None else size.batch)) < 1:
        raise ArgumentError(f"{option} has {text!r}; every extent is 1 or more")
    return size


def _extent(text: str) -> int:
    base, _, power = text.partition("^")
    return int(int(base) ** int(power or 1))


#: Limits of the extents of random matrices, and of their elements by whether the device is a CPU.
MATRIX = ((1 << 18, 1),) * 2
MOST_ELEMENTS = {True: 1 << 23, False: 1 << 26}


def random_extent(rng: random.Random, maximum: int, minimum: int = 1) -> int:
    """Draw an integer from ``minimum`` to ``maximum``, uniformly on a logarithmic scale."""
    return int(exp(rng.uniform(log(minimum), log(maximum + 1))))


def random_extents(
    rng: random.Random, limits: Sequence[tuple[int, int]], max_elements: int
) -> Shape:
    """Draw extents within limits, the largest and the smallest, until the array is small enough."""
    while True:
        extents = tuple([random_extent(rng, *limit) for limit in limits])
        if prod(extents) <= max_elements:
            return extents
