"""The tiles of fronts, and in what order groups take them: see ``cl_kernels/fronts/_blocks``."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.ops.factor.policy import TILE
from portable_gpu.ops.fronts.table import Fronts

_Table = np.ndarray[Any, np.dtype[np.int32]]
_Int64 = np.ndarray[Any, np.dtype[np.int64]]


def tickets(fronts: Fronts, which: _Int64) -> _Table:
    """The tiles of fronts: front, s, f, where the front's marks begin.

    A tile comes behind all that it rests on, and what begins a long chain before what begins a
    short one: first tiles of columns that have many own columns right of them.
    """
    own, *halves = _blocks(fronts, which)
    blocks = own + sum(halves)
    front = np.repeat(np.arange(len(which)), blocks)
    s = _counted(blocks)
    order = np.argsort(-np.maximum(own[front] - s, 0), kind="stable")
    front, s = front[order], s[order]
    below = blocks[front] - s
    f = _counted(below) + np.repeat(s, below)
    marks = _before(blocks * (blocks + 1) // 2)[front]
    listed = [np.repeat(which[front], below), np.repeat(s, below), f, np.repeat(marks, below)]
    return np.stack(listed, axis=1).astype(np.int32)


def cuts(fronts: Fronts, tiles: _Table) -> dict[str, _Table]:
    """Where the rows of children begin that lie in each block of their parents.

    ``cuts`` has for each child, in the order of the children, a number for each block of the
    parent, and the end: how many of the child's rows lie before.  ``cut_start``: where those of a
    tile's front begin.
    """
    which, of_tile = np.unique(tiles[:, 0].astype(np.int64), return_inverse=True)
    parts = _blocks(fronts, which)
    bounds = parts.sum(axis=0) + 1
    children = fronts.child_start[which + 1] - fronts.child_start[which]
    parent = np.repeat(np.arange(len(which)), children)
    child = fronts.child[fronts.child_start[which][parent] + _counted(children)]

    # All rows of all children as one ascending list, in which all bounds are looked for at once.
    rows = fronts.rows[child]
    place = fronts.relative[np.repeat(fronts.row_start[child], rows) + _counted(rows)]
    apart = int((fronts.columns[which] + fronts.rows[which]).max()) + 1
    listed = np.repeat(np.arange(len(child)), rows) * apart + place
    count = bounds[parent]
    one, block = np.repeat(np.arange(len(child)), count), _counted(count)
    wanted = one * apart + _begin(fronts, which, parts, parent[one], block)
    found = np.searchsorted(listed, wanted) - _before(rows)[one]
    return {
        "cut_start": _before(children * bounds)[of_tile].astype(np.int32),
        "cuts": found.astype(np.int32),
    }


def _blocks(fronts: Fronts, which: _Int64) -> _Int64:
    """How many blocks each front has of its own columns, and of the halves of its update."""
    c, u = fronts.columns[which], fronts.rows[which]
    w = (u + 1) // 2
    return -(-np.stack([c, w, u - w]) // TILE)


def _begin(fronts: Fronts, which: _Int64, parts: _Int64, front: _Int64, block: _Int64) -> _Int64:
    """The first row of a block of each of some fronts, or their end."""
    c, u = fronts.columns[which][front], fronts.rows[which][front]
    own, half, _ = parts[:, front]
    w = (u + 1) // 2
    first, second = block - own, block - own - half
    start = np.where(first < 0, TILE * block, np.where(second < 0, c + TILE * first, c))
    start = np.where(second >= 0, c + w + TILE * second, start)
    found: _Int64 = np.minimum(start, c + u)
    return found


def _before(counts: _Int64) -> _Int64:
    """The sum of what stands before each."""
    found: _Int64 = np.cumsum(counts) - counts
    return found


def _counted(counts: _Int64) -> _Int64:
    """0, 1, ... up to each count."""
    found: _Int64 = np.arange(counts.sum()) - np.repeat(_before(counts), counts)
    return found
