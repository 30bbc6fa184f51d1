"""When fronts are made, and where their update matrices lie until their parents have taken them.

On a GPU stages go by depth, the deepest first, so that an update is made in the stage before its
parent's: the updates of two stages are all that there are at a time.  Those of one stage begin at
the start of the arena, those of the next end at its end.

On a CPU whole subtrees come first, each by one thread with a stack of its own, then the fronts
above them one after the other, by all threads.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_gpu.ops.fronts.cpu import work
from portable_gpu.ops.fronts.device import ALIGNMENT, update_sizes
from portable_gpu.ops.fronts.table import Fronts

_Int32 = np.ndarray[Any, np.dtype[np.int32]]
_Int64 = np.ndarray[Any, np.dtype[np.int64]]
_Floats = np.ndarray[Any, np.dtype[np.float64]]

#: What it costs a CPU to zero, assemble and move an element of a front, in operations of products.
_MOVES = 24
#: The same of the launches of a front by itself, and which share of the threads works on one.
_LAUNCHES, _SHARED = 6e6, 0.7
#: Fronts above the subtrees, at most.
_MOST_ABOVE = 512


@dataclass(frozen=True, eq=False)
class Schedule:
    """The order of the fronts, and the arena.

    Attributes:
        subtrees: First front and end of each subtree that one work-item takes, those with the most
            work first.
        stages: The other fronts, stage by stage, ascending; children are in earlier stages.
        update: Where each update begins in the arena.
        arena: Its elements.
        stack: Where each update within a subtree lies on a stack instead.
        peak: The stack's elements.
        started, rows: As `update` and `arena`, of the contributions to a solve, in rows.
    """

    subtrees: _Int32
    stages: tuple[_Int32, ...]
    update: _Int64
    arena: int
    stack: _Int64
    peak: int
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
    none = np.zeros((0, 2), np.int32)
    return Schedule(none, stages, update, arena, np.zeros(0, np.int64), 0, started, rows)


def by_subtrees(fronts: Fronts, threads: int, itemsize: int) -> Schedule:
    """Subtrees for the threads of a CPU, then the fronts above them."""
    cost = work(fronts.columns, fronts.rows) + _MOVES * (fronts.columns + fronts.rows) ** 2
    above, roots = cut(fronts, cost, threads)
    ends = np.array(roots, np.int64)
    subtrees = np.stack([ends + 1 - subtree_sizes(fronts.parent)[ends], ends + 1], axis=1)
    line = ALIGNMENT // itemsize
    sizes = update_sizes(fronts)
    stack, peak = stacks(fronts, subtrees, sizes)
    update, arena = first_fit(fronts, subtrees, above, -(-sizes // line) * line)
    started, peaks = two_stacks(fronts, subtrees, fronts.rows)
    tops, rows = first_fit(fronts, subtrees[:0], above, fronts.rows)
    started[above] = tops[above] + peaks
    stages = tuple(np.array([s], np.int32) for s in above)
    return Schedule(
        subtrees.astype(np.int32), stages, update, arena, stack, peak, started, rows + peaks
    )


def depths(parent: _Int32) -> _Int32:
    """How far each front is from its root."""
    depth = np.zeros(len(parent), np.int32)
    for s in range(len(parent) - 1, -1, -1):
        if parent[s] >= 0:
            depth[s] = depth[parent[s]] + 1
    return depth


def subtree_sizes(parent: _Int32) -> _Int64:
    """How many fronts the subtree of each has, itself among them."""
    return _summed(parent, np.ones(len(parent))).astype(np.int64)


def _summed(parent: _Int32, values: _Floats) -> _Floats:
    """Of each front the sum over its subtree."""
    sums, parents = values.tolist(), parent.tolist()
    for s, above in enumerate(parents):
        if above >= 0:
            sums[above] += sums[s]
    return np.array(sums)


def cut(fronts: Fronts, cost: _Floats, threads: int) -> tuple[list[int], list[int]]:
    """The fronts above the subtrees, ascending, and the subtrees' roots, those of most work first.

    The largest subtree is opened, time after time; of all these cuts the one counts that the
    estimate of the seconds likes best.
    """
    whole = _summed(fronts.parent, cost)
    heap = [(-float(whole[s]), int(s)) for s in np.flatnonzero(fronts.parent < 0)]
    heapq.heapify(heap)
    inside, alone = float(-sum(one for one, _ in heap)), 0.0
    opened: list[int] = []
    best, kept = np.inf, 0
    while heap and len(opened) <= _MOST_ABOVE:
        seconds = alone + max(inside / threads, -heap[0][0])
        if seconds < best:
            best, kept = seconds, len(opened)
        least = alone + inside / threads
        if least >= best and alone > best:
            break
        total, s = heapq.heappop(heap)
        opened.append(s)
        alone += _LAUNCHES + float(cost[s]) / max(1.0, threads * _SHARED)
        inside += total
        for k in range(fronts.child_start[s], fronts.child_start[s + 1]):
            one = int(fronts.child[k])
            inside += float(whole[one])
            heapq.heappush(heap, (-float(whole[one]), one))
    above = set(opened[:kept])
    starts = [int(s) for s in np.flatnonzero(fronts.parent < 0)]
    for s in above:
        starts.extend(fronts.child[fronts.child_start[s] : fronts.child_start[s + 1]].tolist())
    roots = sorted({s for s in starts if s not in above}, key=lambda s: (-whole[s], s))
    return sorted(above), roots


def stacks(fronts: Fronts, subtrees: _Int64, sizes: _Int64) -> tuple[_Int64, int]:
    """Where updates lie on the stack of each subtree, and the room for the largest.

    A front's update takes the place of its children's, which have been assembled elsewhere.
    """
    places = np.zeros(len(fronts), np.int64)
    size, first_child, most = sizes.tolist(), fronts.child_start.tolist(), 0
    for low, end in subtrees.tolist():
        top = 0
        found: list[int] = []
        for s in range(low, end):
            if first_child[s] < first_child[s + 1]:
                top = found[int(fronts.child[first_child[s]]) - low]
            found.append(top)
            top += size[s]
            most = max(most, top)
        places[low:end] = found
    return places, most


def two_stacks(fronts: Fronts, subtrees: _Int64, sizes: _Int64) -> tuple[_Int64, int]:
    """Places of what fronts make while they read their children's, and the room for all subtrees.

    Each subtree has a stack for even depths and one for odd ones.
    """
    places = np.zeros(len(fronts), np.int64)
    depth = (depths(fronts.parent) % 2).tolist()
    size, first_child, start = sizes.tolist(), fronts.child_start.tolist(), 0
    for low, end in subtrees.tolist():
        tops, peaks = [0, 0], [0, 0]
        found: list[int] = []
        for s in range(low, end):
            own = depth[s]
            if first_child[s] < first_child[s + 1]:
                tops[1 - own] = found[int(fronts.child[first_child[s]]) - low]
            found.append(tops[own])
            tops[own] += size[s]
            peaks[own] = max(peaks[own], tops[own])
        odd = np.array(depth[low:end], np.int64)
        places[low:end] = start + np.array(found) + odd * peaks[0]
        start += sum(peaks)
    return places, start


def first_fit(
    fronts: Fronts, subtrees: _Int64, above: list[int], sizes: _Int64
) -> tuple[_Int64, int]:
    """Places of what subtrees leave and of what the fronts above them make, and the room.

    A thing lives from its own front until its parent; each gets the lowest place that is free.
    """
    places = np.zeros(len(fronts), np.int64)
    taken: list[tuple[int, int, int]] = []  # start, end, whose
    room = 0
    for s in [*(int(end) - 1 for _, end in subtrees), *above]:
        size, start = int(sizes[s]), 0
        if not size:
            continue
        for begin, end, _ in taken:
            if start + size <= begin:
                break
            start = max(start, end)
        places[s] = start
        taken.append((start, start + size, s))
        room = max(room, start + size)
        taken = sorted(one for one in taken if int(fronts.parent[one[2]]) != s)
    return places, room


def two_ends(stages: tuple[_Int32, ...], sizes: _Int64) -> tuple[_Int64, int]:
    """Places of things that are needed in their own stage and the next, and the room for all."""
    totals = [int(sizes[stage].sum()) for stage in stages]
    room = max((a + b for a, b in zip(totals, [*totals[1:], 0], strict=False)), default=0)
    places = np.zeros(len(sizes), np.int64)
    for number, (stage, total) in enumerate(zip(stages, totals, strict=True)):
        start = 0 if number % 2 == 0 else room - total
        places[stage] = start + np.cumsum(sizes[stage]) - sizes[stage]
    return places, room
