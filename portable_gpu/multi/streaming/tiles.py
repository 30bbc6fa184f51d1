"""Extents of tiles, which follow from the problem and from the limit of memory alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import isqrt, prod

from portable_gpu.errors import ArgumentError
from portable_gpu.multi.streaming.storage import Index, TiledOperand

#: Extents of a product's tiles are multiples of this number, unless a tile has the whole axis.
_UNIT = 16
#: They are not below this number, unless an axis is.
_LEAST = 64
#: A tile of a reduction has at least this number of elements for each partial result, unless the
#: array has fewer, or the tile would be pieces of a file of fewer bytes than the second number.
_LEAST_OF_RESULT, _LEAST_PIECE = 16, 1 << 16


def too_small(limit: int, needed: int, what: str) -> ArgumentError:
    """Return the error of a limit that is too small for any tile."""
    return ArgumentError(
        f"memory_limit is {limit} bytes, and {what} needs {needed}; expected a larger limit"
    )


def aligned(extent: int, chunk: int) -> int:
    """Return an extent rounded down to whole chunks, if it has one."""
    return extent // chunk * chunk if extent >= chunk else extent


def even(n: int, most: int, unit: int) -> int:
    """Return the extent of the parts of an axis: about equal ones, multiples of ``unit``.

    Args:
        n: The extent of the axis.
        most: The largest extent of a part.
        unit: The divisor of the result, unless the axis or the largest extent is smaller.
    """
    if most >= n:
        return max(1, n)
    part = -(-n // -(-n // most))
    return min(most, -(-part // unit) * unit)


def product_tiles(
    extents: tuple[int, int, int], itemsizes: tuple[int, int, int], limit: int
) -> tuple[int, int, int]:
    """Return the extents (rows, columns, inner) of the tiles of a product.

    Two tiles of A, of B and of C take ``2 (rows inner a + inner columns b + rows columns c)``
    bytes, where a, b and c are the itemsizes; this is at most the limit.  Tiles of C are as square
    and as large as they can be while the inner extent is an eighth of their side, because each byte
    that is read takes part in as many operations as C has rows or columns.

    Args:
        extents: m, n and k.
        itemsizes: Those of A, B and C.
        limit: Bytes.

    Raises:
        ArgumentError: The limit is too small.
    """
    m, n, k = [max(1, extent) for extent in extents]
    a, b, c = itemsizes
    half = limit // 2
    side = isqrt(8 * half // (8 * c + a + b))  # c side^2 + (a + b) side (side / 8) is the half
    inner = min(k, max(_LEAST, side // 8))
    while (found := _rows_and_columns(m, n, inner, itemsizes, half)) is None:
        if inner <= _LEAST:
            rows, columns = min(m, _LEAST), min(n, _LEAST)
            needed = 2 * (rows * inner * a + inner * columns * b + rows * columns * c)
            raise too_small(limit, needed, "a product")
        inner = max(_LEAST, inner // 2)
    rows, columns = found
    return rows, columns, inner_extent(k, (rows * a, columns * b), half - rows * columns * c)


def inner_extent(k: int, nbytes: tuple[int, int], most: int) -> int:
    """Return the inner extent of the tiles of a product.

    Args:
        k: That of the product.
        nbytes: The bytes of the tiles of A and of B, for each index of k.
        most: The largest sum of both tiles, in bytes.
    """
    inner = most // sum(nbytes)
    return max(1, k) if inner >= k else even(k, inner // _UNIT * _UNIT, _UNIT)


def _rows_and_columns(
    m: int, n: int, inner: int, itemsizes: tuple[int, int, int], nbytes: int
) -> tuple[int, int] | None:
    """Return the extents of a tile of C, given the inner extent and the bytes of one set of tiles.

    Returns:
        None if they would be too small.
    """
    a, b, c = itemsizes
    edge = inner * (a + b)
    rows = min(m, (isqrt(edge * edge + 4 * c * nbytes) - edge) // (2 * c))
    columns = min(n, max(0, nbytes - rows * inner * a) // (rows * c + inner * b))
    rows = min(m, max(0, nbytes - columns * inner * b) // (columns * c + inner * a))
    if rows < m:
        rows = even(m, rows // _UNIT * _UNIT, _UNIT) if rows >= _LEAST else 0
    if columns < n:
        columns = even(n, columns // _UNIT * _UNIT, _UNIT) if columns >= _LEAST else 0
    return (rows, columns) if rows and columns else None


def block_extents(
    shape: Sequence[int], most: int, chunks: Sequence[int], order: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the extents of blocks of an array: whole last axes, and parts of the others.

    Args:
        shape: The shape of the array.
        most: The largest number of elements of a block.
        chunks: The extents of the array's chunks.  A block has whole chunks if one is small enough.
        order: The axes that may be cut, in the order in which they are.

    Returns:
        None if each block has more elements.
    """
    extents = [max(1, n) for n in shape]
    for unit in (chunks, (1,) * len(extents)):
        for axis in order:
            if prod(extents) > most:
                rest = prod(extents) // extents[axis]
                part = max(unit[axis], aligned(most // rest, unit[axis]))
                extents[axis] = even(extents[axis], part, unit[axis])
    return tuple(extents) if prod(extents) <= most else None


def reduction_tile(x: TiledOperand, reduced: frozenset[int], most: int) -> tuple[int, ...] | None:
    """Return the extents of the tiles of a reduction; None if an element is more than the most.

    An array is cut along the axis of the largest stride, so that a tile is one piece of a file.  If
    this axis is reduced and the others are long, tiles would have about as many partial results as
    elements, which the host merges in float64.  Then the other axes are cut first, where the pieces
    of a file stay long enough and no chunk is cut.

    Args:
        x: The array.
        reduced: The reduced axes.
        most: The most elements of a tile.
    """
    extents = block_extents(x.shape, most, x.chunks, x.axes)

    def of_result(extents: Sequence[int]) -> int:
        """Return the number of elements for each partial result."""
        return prod([extents[axis] for axis in reduced])

    if extents is None or of_result(extents) >= min(_LEAST_OF_RESULT, of_result(x.shape)):
        return extents
    order = sorted(x.axes, key=lambda axis: axis in reduced)
    other = block_extents(x.shape, most, x.chunks, order)
    if other is None or of_result(other) <= of_result(extents):
        return extents
    if not x.is_in_memory:
        axes = zip(other, x.chunks, x.shape, strict=True)
        return other if all(n % chunk == 0 or n == extent for n, chunk, extent in axes) else extents
    piece = x.dtype.itemsize
    for axis in reversed(x.axes):
        piece *= other[axis]
        if other[axis] < x.shape[axis]:
            break
    return other if piece >= _LEAST_PIECE else extents


def grid(shape: Sequence[int], extents: Sequence[int]) -> Iterator[Index]:
    """Yield the tiles of an array in C order."""
    axes = [
        [slice(first, min(first + step, n)) for first in range(0, n, step)]
        for n, step in zip(shape, extents, strict=True)
    ]
    return product(*axes)
