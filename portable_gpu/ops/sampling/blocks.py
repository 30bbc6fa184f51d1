"""Blocks of adjacent outputs that read the same pattern of places, block after block."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from portable_gpu.ops.sampling.rules import AxisRule, Numbers

#: The longest window of a block, in elements of an axis.
_MAX_WINDOW = 20


class AxisBlocks(NamedTuple):
    """The blocks of an axis: block c reads elements of the window that begins at c step + first.

    Places of a window that are not in the source stand for the nearest place of the source, or for
    nothing where sources have an index.

    Attributes:
        size: The outputs of a block.
        step: The distance of the windows of neighbouring blocks.
        first: The place where the window of block 0 begins.
        width: The elements of a window.
        taps: The elements of the window that each output of a block reads.
        inside: Whether each element of the window is in the source, for all blocks.
        weights: The weights of the taps, of shape (most taps, outputs of whole blocks).
    """

    size: int
    step: int
    first: int
    width: int
    taps: tuple[tuple[int, ...], ...]
    inside: tuple[bool, ...]
    weights: Numbers


@lru_cache(maxsize=256)
def blocks_of(rule: AxisRule, size: int, routed: bool) -> AxisBlocks | None:
    """Return the blocks of a rule, or ``None`` if blocks of this size read different patterns.

    Args:
        rule: The rule.
        size: The outputs of a block.
        routed: Whether sources have an index.
    """
    counts, places, weights = rule.entries()
    outputs, whole = len(counts), len(counts) // size
    if whole < 2 or not counts.all():
        return None
    starts = np.cumsum(counts) - counts
    block = (whole - 1) // 2
    first = int(places[starts[block * size]])
    step = int(places[starts[(block + 1) * size]]) - first
    ends = starts + counts
    read = [
        np.unique(places[starts[o] : ends[o]]) - block * step
        for o in range(block * size, (block + 1) * size)
    ]
    first = int(min(r[0] for r in read))
    width = int(max(r[-1] for r in read)) - first + 1
    if step < 0 or width > _MAX_WINDOW:
        return None
    taps = tuple(tuple(int(p) - first for p in r) for r in read)
    blocks = -(-outputs // size)
    # The places of the pattern: as many rows as there are taps, -1 where an output has fewer.
    at = np.full((max(map(len, taps)), blocks * size), -1, np.int64)
    for j, own in enumerate(taps):
        for t, tap in enumerate(own):
            at[t, j::size] = np.arange(blocks) * step + first + tap
    is_tap = np.zeros((len(at), size), bool)
    for j, own in enumerate(taps):
        is_tap[: len(own), j] = True
    is_tap = np.tile(is_tap, (1, blocks))
    is_tap[:, outputs:] = False
    if routed:
        is_tap &= (at >= 0) & (at < rule.size)
    at = np.clip(at, 0, rule.size - 1)
    output = np.broadcast_to(np.arange(blocks * size), at.shape)
    named = output * rule.size + at
    keys = np.repeat(np.arange(outputs), counts) * rule.size + places
    expected, inverse = np.unique(keys, return_inverse=True)
    found, times = np.unique(named[is_tap], return_counts=True)
    if not np.array_equal(expected, found):
        return None
    total = np.bincount(inverse, weights, len(expected))
    split = np.zeros(at.shape)
    split[is_tap] = (total / times)[np.searchsorted(expected, named[is_tap])]
    ends_of_windows = np.arange(width) + first + step * (blocks - 1)
    inside = (np.arange(width) + first >= 0) & (ends_of_windows < rule.size)
    return AxisBlocks(size, step, first, width, taps, tuple(map(bool, inside)), split)
