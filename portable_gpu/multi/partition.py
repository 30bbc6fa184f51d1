"""The partition of an axis into blocks, and the assignment of whole blocks to devices.

The blocks follow from the array and the memory of a device alone, but those of products on CPUs
have a least extent::

    axis   | block 0 | block 1 | block 2 | ... | block 23 |
    device |     0        0    |    1     ...       2     |

So kernels compute the same blocks on any number of devices, and results have the same bits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

#: The number of blocks of a large array: 1, 2, 3, 4, 6, 8, 12 and 24 devices get equal numbers.
BLOCKS = 24
#: Fewer blocks are made where they would have less than this number of bytes.
LEAST_BLOCK = 1 << 18
#: Blocks of at least 8 units begin at multiples of it, which are whole tiles of kernels.
_UNIT = 64

_DIVISORS = (24, 12, 8, 6, 4, 3, 2, 1)


def block_bounds(
    extent: int, nbytes: int, largest: int, blocks: int | None = None, min_extent: int = 1
) -> tuple[int, ...]:
    """Return the first index of each block, and the extent.

    Args:
        extent: The extent of the axis.
        nbytes: The bytes of the array.
        largest: The maximum bytes of a block, unless a single index of the axis has more.
        blocks: The number of blocks; default: see the module.
        min_extent: The least extent of a block of which there are several, unless the bytes of a
            block are too many; without ``blocks``.
    """
    if blocks is None:
        limit = max(1, min(extent // min_extent, nbytes // LEAST_BLOCK))
        blocks = next(count for count in _DIVISORS if count <= limit)
        if nbytes > blocks * largest:
            blocks = min(max(extent, 1), BLOCKS * -(-nbytes // (BLOCKS * largest)))
    unit = _UNIT if extent >= 8 * _UNIT * blocks else 1
    return (*(k * extent // blocks // unit * unit for k in range(blocks)), extent)


def owners(blocks: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Return the device of each block: neighbours belong to one device, in proportion to shares."""
    total = sum(shares)
    ends = list(accumulate(share / total for share in shares))
    last = len(shares) - 1
    return tuple(min(bisect_right(ends, (k + 0.5) / blocks), last) for k in range(blocks))
