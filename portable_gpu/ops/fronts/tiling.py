"""The tiles of fronts, and the order of their work-groups: see ``cl_kernels/fronts/_blocks``."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.ops.factor.policy import TILE
from portable_gpu.ops.fronts.table import Fronts

_Table = np.ndarray[Any, np.dtype[np.int32]]
_Int64 = np.ndarray[Any, np.dtype[np.int64]]


def tickets(fronts: Fronts, which: _Int64) -> _Table:
    """Order the tiles of fronts; return for each: front, s, f, and the start of its front's flags.

    A tile is behind all tiles that it depends on.  Tiles with long chains of dependents are first:
    those of columns with many own columns to their right.
    """
    own_blocks, *halves = _blocks(fronts, which)
    blocks = own_blocks + sum(halves)
    front = np.repeat(np.arange(len(which)), blocks)
    s = _counted(blocks)
    order = np.argsort(-np.maximum(own_blocks[front] - s, 0), kind="stable")
    front, s = front[order], s[order]
    below = blocks[front] - s
    f = _counted(below) + np.repeat(s, below)
    flags = _before(blocks * (blocks + 1) // 2)[front]
    columns = [np.repeat(which[front], below), np.repeat(s, below), f, np.repeat(flags, below)]
    return np.stack(columns, axis=1).astype(np.int32)


def cuts(fronts: Fronts, tiles: _Table) -> dict[str, _Table]:
    """Partition the rows of children by the blocks of their parents.

    ``cuts`` has, for each child in order and each block of the parent, the number of the child's
    rows before the block, followed by the number of all its rows.  ``cut_start`` is the start of
    the numbers of a tile's front.
    """
    which, front_of_tile = np.unique(tiles[:, 0].astype(np.int64), return_inverse=True)
    parts = _blocks(fronts, which)
    bounds = parts.sum(axis=0) + 1
    children = fronts.child_start[which + 1] - fronts.child_start[which]
    parent = np.repeat(np.arange(len(which)), children)
    child = fronts.child[fronts.child_start[which][parent] + _counted(children)]

    # All rows of all children are one ascending list, in which one search finds all bounds.
    rows = fronts.rows[child]
    place = fronts.relative[np.repeat(fronts.row_start[child], rows) + _counted(rows)]
    stride = int((fronts.columns[which] + fronts.rows[which]).max()) + 1
    keys = np.repeat(np.arange(len(child)), rows) * stride + place
    count = bounds[parent]
    child_of_bound, block = np.repeat(np.arange(len(child)), count), _counted(count)
    bounds_of_blocks = child_of_bound * stride + _begin(
        fronts, which, parts, parent[child_of_bound], block
    )
    positions = np.searchsorted(keys, bounds_of_blocks) - _before(rows)[child_of_bound]
    return {
        "cut_start": _before(children * bounds)[front_of_tile].astype(np.int32),
        "cuts": positions.astype(np.int32),
    }


def _blocks(fronts: Fronts, which: _Int64) -> _Int64:
    """Count the blocks of each front's own columns, and of the two halves of its update."""
    c, u = fronts.columns[which], fronts.rows[which]
    w = (u + 1) // 2
    return -(-np.stack([c, w, u - w]) // TILE)


def _begin(fronts: Fronts, which: _Int64, parts: _Int64, front: _Int64, block: _Int64) -> _Int64:
    """Compute the first row of a block of each front, or the front's end."""
    c, u = fronts.columns[which][front], fronts.rows[which][front]
    own_blocks, half, _ = parts[:, front]
    w = (u + 1) // 2
    first, second = block - own_blocks, block - own_blocks - half
    start = np.where(first < 0, TILE * block, np.where(second < 0, c + TILE * first, c))
    start = np.where(second >= 0, c + w + TILE * second, start)
    rows: _Int64 = np.minimum(start, c + u)
    return rows


def _before(counts: _Int64) -> _Int64:
    """Compute the exclusive prefix sums."""
    sums: _Int64 = np.cumsum(counts) - counts
    return sums


def _counted(counts: _Int64) -> _Int64:
    """Concatenate the ranges 0 .. count - 1."""
    numbers: _Int64 = np.arange(counts.sum()) - np.repeat(_before(counts), counts)
    return numbers
