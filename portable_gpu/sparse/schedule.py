"""When fronts are made, and where their update matrices lie until their parents have taken them.

Stages go by depth, the deepest first, so that an update is made in the stage before its parent's:
the updates of two stages are all that there are at a time.  Those of one stage begin at the start
of the arena, those of the next end at its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_gpu.ops.fronts.device import update_sizes
from portable_gpu.ops.fronts.table import Fronts

_Int32 = np.ndarray[Any, np.dtype[np.int32]]
_Int64 = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class Schedule:
    """The order of the fronts, and the arena.

    Attributes:
        stages: Fronts of each stage, ascending; children are in earlier stages.
        update: Where each update begins in the arena.
        arena: Its elements.
        started, rows: The same of the contributions of a solve, in rows.
    """

    stages: tuple[_Int32, ...]
    update: _Int64
    arena: int
    started: _Int64
    rows: int


def by_levels(fronts: Fronts) -> Schedule:
    """Stages are the levels of the tree."""
    depth = depths(fronts.parent)
    order = np.argsort(-depth, kind="stable").astype(np.int32)
    cuts = np.flatnonzero(np.diff(depth[order])) + 1
    stages = tuple(np.split(order, cuts)) if len(order) else ()
    update, arena = two_ends(stages, update_sizes(fronts))
    started, rows = two_ends(stages, fronts.rows)
    return Schedule(stages, update, arena, started, rows)


def depths(parent: _Int32) -> _Int32:
    """How far each front is from its root."""
    depth = np.zeros(len(parent), np.int32)
    for s in range(len(parent) - 1, -1, -1):
        if parent[s] >= 0:
            depth[s] = depth[parent[s]] + 1
    return depth


def two_ends(stages: tuple[_Int32, ...], sizes: _Int64) -> tuple[_Int64, int]:
    """Places of things that are needed in their own stage and the next, and the room for all."""
    totals = [int(sizes[stage].sum()) for stage in stages]
    room = max((a + b for a, b in zip(totals, [*totals[1:], 0], strict=True)), default=0)
    places = np.zeros(len(sizes), np.int64)
    for number, (stage, total) in enumerate(zip(stages, totals, strict=True)):
        start = 0 if number % 2 == 0 else room - total
        places[stage] = start + np.cumsum(sizes[stage]) - sizes[stage]
    return places, room
