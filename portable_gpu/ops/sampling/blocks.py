"""Blocks of adjacent outputs of an axis, each of which reads a window with the same pattern."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from portable_gpu.ops.sampling.rules import AxisRule, Numbers

#: The longest window of a block, in elements of an axis.
_MAX_WINDOW = 20


class AxisBlocks(NamedTuple):
    """The blocks of an axis: block c reads the window that begins at ``c * step + first``.

    An element of a window that is outside the source is read at the nearest place of the source,
    or not at all if an index names the output that each source belongs to (gradients of max
    pooling).

    Attributes:
        size: The number of outputs of a block.
        step: The distance of the windows of neighbouring blocks.
        first: The place where the window of block 0 begins.
        width: The number of elements of a window.
        taps: For each output of a block, the elements of the window that it reads.
        inside: Whether each element of the window is in the source, for all blocks.
    """

    size: int
    step: int
    first: int
    width: int
    taps: tuple[tuple[int, ...], ...]
    inside: tuple[bool, ...]


@lru_cache(maxsize=256)
def blocks_of(rule: AxisRule, size: int, routed: bool) -> AxisBlocks | None:
    """Return the blocks of a rule, or ``None`` if they do not read windows of one pattern.

    It is also ``None`` if there are fewer than two whole blocks, an output reads nothing, windows
    go backwards, or a window is too long for registers.

    Args:
        rule: The rule.
        size: The outputs of a block.
        routed: Whether an index names the output that each source belongs to, as for gradients of
            max pooling.
    """
    result = _blocks_and_weights(rule, size, routed)
    return None if result is None else result[0]


def block_weights(rule: AxisRule, size: int) -> Numbers:
    """Return the weights of a rule that has blocks, of shape (most taps, outputs of all blocks).

    They are 0 where an output has fewer taps, and beyond the last output.
    """
    result = _blocks_and_weights(rule, size, False)
    assert result is not None
    return result[1]


def _blocks_and_weights(
    rule: AxisRule, size: int, routed: bool
) -> tuple[AxisBlocks, Numbers] | None:
    counts, places, weights = rule.entries()
    outputs, full_blocks = len(counts), len(counts) // size
    if full_blocks < 2 or not counts.all():
        return None
    # The pattern of a block in the middle.
    ends = np.cumsum(counts)
    starts, block = ends - counts, (full_blocks - 1) // 2
    step = int(places[starts[(block + 1) * size]] - places[starts[block * size]])
    outputs_of_block = range(block * size, (block + 1) * size)
    read = [np.unique(places[starts[o] : ends[o]]) - block * step for o in outputs_of_block]
    first = int(min(r[0] for r in read))
    width = int(max(r[-1] for r in read)) - first + 1
    if step < 0 or width > _MAX_WINDOW:
        return None
    taps = tuple(tuple(int(place) - first for place in r) for r in read)
    # All blocks are assumed to be like this one.  Arrays of taps have the shape (most taps of an
    # output, outputs of all blocks).
    blocks = -(-outputs // size)
    longest = max(map(len, taps))
    block_taps = np.array([[*t, *(-1,) * (longest - len(t))] for t in taps]).T
    is_tap = np.tile(block_taps >= 0, (1, blocks))
    is_tap[:, outputs:] = False
    tap_places = np.tile(block_taps, (1, blocks)) + first + np.arange(blocks).repeat(size) * step
    if routed:
        is_tap &= (tap_places >= 0) & (tap_places < rule.size)
    # Each pair (output, place) has one number.  The pairs of the taps must be those of the rule.
    pairs = np.arange(blocks * size) * rule.size + np.clip(tap_places, 0, rule.size - 1)
    expected, inverse = np.unique(
        np.repeat(np.arange(outputs), counts) * rule.size + places, return_inverse=True
    )
    pairs_of_taps, taps_of_pair = np.unique(pairs[is_tap], return_counts=True)
    if not np.array_equal(expected, pairs_of_taps):
        return None
    pair_weights = np.bincount(inverse, weights, len(expected))
    # A place that several taps of an output read has its weight divided among them.
    divided = np.zeros(tap_places.shape)
    divided[is_tap] = (pair_weights / taps_of_pair)[np.searchsorted(expected, pairs[is_tap])]
    window = np.arange(width) + first
    inside = (window >= 0) & (window + step * (blocks - 1) < rule.size)
    return AxisBlocks(size, step, first, width, taps, tuple(map(bool, inside))), divided
