"""When fronts are made, and where their update matrices lie until their parents have taken them.

On a GPU stages go by depth, the deepest first, so that an update is made in the stage before its
parent's: the updates of two stages are all that there are at a time.  Those of one stage begin at
the start of the arena, those of the next end at its end.

On a CPU whole subtrees come first, each by one thread with a stack of its own, then the fronts
above them one after the other, by all threads.

Where the panels do not fit together, the fronts are cut into chunks, one after the other in
postorder.  Each front is made in the same way as ever, so chunks change no bits.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_gpu.ops.fronts.cpu import work
from portable_gpu.ops.fronts.device import ALIGNMENT, update_sizes
from portable_gpu.ops.fronts.table import Fronts
from portable_gpu.sparse.compiled import compiled

_Int32 = np.ndarray[Any, np.dtype[np.int32]]
_Int64 = np.ndarray[Any, np.dtype[np.int64]]
_Bool = np.ndarray[Any, np.dtype[np.bool_]]
_Floats = np.ndarray[Any, np.dtype[np.float64]]

#: What it costs a CPU to zero, assemble and move an element of a front, in operations of products.
_MOVES = 24
#: The same of the launches of a front by itself, and which share of the threads works on one.
_LAUNCHES, _SHARED = 6e6, 0.7
#: Fronts above the subtrees, at most.
_MOST_ABOVE = 512


@dataclass(frozen=True, eq=False)
class Chunk:
    """Fronts whose panels are there at a time, adjacent in the factor.

    Attributes:
        first, end: Which fronts.
        subtrees: First front and end of each subtree that one work-item of a CPU takes, those with
            the most work first.
        stages: The other fronts, stage by stage, ascending; children are in earlier stages.
        alone: Of each stage whether its only front is of a subtree that was cut.
    """

    first: int
    end: int
    subtrees: _Int32
    stages: tuple[_Int32, ...]
    alone: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class Schedule:
    """The order of the fronts, and the arena.

    Attributes:
        chunks: One after the other; only one where everything fits.
        update: Where each update begins in the arena.
        arena: Its elements.
        stack: Where an update lies on the stack of its subtree instead, or -1.
        peak: The stack's elements.
        started, rows: As `update` and `arena`, of the contributions to a solve, in rows.
    """

    chunks: tuple[Chunk, ...]
    update: _Int64
    arena: int
    stack: _Int64
    peak: int
    started: _Int64
    rows: int

    @property
    def stages(self) -> tuple[_Int32, ...]:
        """Those of all chunks."""
        return tuple(stage for chunk in self.chunks for stage in chunk.stages)


def by_levels(fronts: Fronts, ends: _Int64 | None = None) -> Schedule:
    """Stages are the levels of the tree.

    Args:
        fronts: The fronts.
        ends: Where chunks end.
    """
    cuts = np.array([len(fronts)]) if ends is None else ends
    depth, chunks = depths(fronts.parent), []
    for first, end in zip([0, *cuts[:-1].tolist()], cuts.tolist(), strict=True):
        order = np.argsort(-depth[first:end], kind="stable").astype(np.int32) + np.int32(first)
        found = np.split(order, np.flatnonzero(np.diff(depth[order])) + 1) if end > first else []
        none = np.zeros((0, 2), np.int32)
        chunks.append(Chunk(first, end, none, tuple(found), (False,) * len(found)))
    stages = [stage for chunk in chunks for stage in chunk.stages]
    place = two_ends if len(chunks) == 1 else _fitted(fronts)
    update, arena = place(stages, update_sizes(fronts))
    started, rows = place(stages, fronts.rows)
    stack = np.full(len(fronts), -1, np.int64)
    return Schedule(tuple(chunks), update, arena, stack, 0, started, rows)


def by_subtrees(
    fronts: Fronts, threads: int, itemsize: int, ends: _Int64 | None = None
) -> Schedule:
    """Subtrees for the threads of a CPU, then the fronts above them; ``ends``: of chunks."""
    cost = work(fronts.columns, fronts.rows) + _MOVES * (fronts.columns + fronts.rows) ** 2
    whole, size = summed(fronts.parent, cost), summed(fronts.parent, np.ones(len(fronts)))
    above = cut(fronts, cost, whole, threads)
    cuts = np.array([len(fronts)]) if ends is None else ends
    chunks = []
    for first, end in zip([0, *cuts[:-1].tolist()], cuts.tolist(), strict=True):
        which = np.arange(first, end)
        inside = ~above[which] & (which - size[which] + 1 >= first)
        parent = fronts.parent[which]
        among = (parent >= 0) & (parent < end)
        top = inside & ~(among & inside[np.where(among, parent - first, 0)])
        roots = which[top][np.argsort(-whole[which[top]], kind="stable")]
        subtrees = np.stack([roots + 1 - size[roots].astype(np.int64), roots + 1], axis=1)
        others = which[~inside]
        stages = tuple(np.array([s], np.int32) for s in others)
        alone = tuple((~above[others]).tolist())
        chunks.append(Chunk(first, end, subtrees.astype(np.int32), stages, alone))
    line = ALIGNMENT // itemsize
    sizes = update_sizes(fronts)
    subtrees = np.concatenate([chunk.subtrees for chunk in chunks]).astype(np.int64)
    stack, peak = stacks(fronts, subtrees, sizes)
    groups = [
        group for chunk in chunks for group in (chunk.subtrees[:, 1] - 1, *chunk.stages)
    ]  # the roots, then one front after the other
    update, arena = _fitted(fronts)(groups, -(-sizes // line) * line)
    started, peaks = two_stacks(fronts, subtrees, fronts.rows)
    tops, rows = _fitted(fronts)(groups, fronts.rows)
    outside = stack < 0
    started[outside] = tops[outside] + peaks
    return Schedule(tuple(chunks), update, arena, stack, peak, started, rows + peaks)


def chunk_ends(panel: _Int64, size: int, budget: int) -> _Int64:
    """Where chunks of at most so many elements of panels end; one panel may be more by itself.

    Args:
        panel: Where each front's panel begins.
        size: Elements of all panels.
        budget: Elements of a chunk.
    """
    ends, first = [], 0
    bounds = np.append(panel, size)
    while first < len(panel):
        first = max(first + 1, int(np.searchsorted(bounds, bounds[first] + budget, "right")) - 1)
        ends.append(first)
    return np.array(ends, np.int64)


@compiled
def depths(parent: _Int32) -> _Int32:
    """How far each front is from its root."""
    depth = np.zeros(len(parent), np.int32)
    for s in range(len(parent) - 1, -1, -1):
        if parent[s] >= 0:
            depth[s] = depth[parent[s]] + 1
    return depth


@compiled
def summed(parent: _Int32, values: _Floats) -> _Floats:
    """Of each front the sum over its subtree."""
    sums = values.copy()
    for s in range(len(parent)):
        if parent[s] >= 0:
            sums[parent[s]] += sums[s]
    return sums


def cut(fronts: Fronts, cost: _Floats, whole: _Floats, threads: int) -> _Bool:
    """Which fronts are above the subtrees.

    The largest subtree is opened, time after time; of all these cuts the one counts that the
    estimate of the seconds likes best.

    Args:
        fronts: The fronts.
        cost: Of each front.
        whole: Of each subtree.
        threads: How many there are.
    """
    roots = np.flatnonzero(fronts.parent < 0)
    heap = [(-float(whole[s]), int(s)) for s in roots]
    heapq.heapify(heap)
    inside, alone = float(whole[roots].sum()), 0.0
    opened: list[int] = []
    best, kept = np.inf, 0
    while heap and len(opened) <= _MOST_ABOVE:
        seconds = alone + max(inside / threads, -heap[0][0])
        if seconds < best:
            best, kept = seconds, len(opened)
        if alone > best:
            break
        total, s = heapq.heappop(heap)
        opened.append(s)
        alone += _LAUNCHES + float(cost[s]) / max(1.0, threads * _SHARED)
        inside += total
        for k in range(fronts.child_start[s], fronts.child_start[s + 1]):
            one = int(fronts.child[k])
            inside += float(whole[one])
            heapq.heappush(heap, (-float(whole[one]), one))
    above = np.zeros(len(fronts), np.bool_)
    above[opened[:kept]] = True
    return above


def stacks(fronts: Fronts, subtrees: _Int64, sizes: _Int64) -> tuple[_Int64, int]:
    """Where updates lie on the stack of each subtree, and the room for the largest.

    A front's update takes the place of its children's, which have been assembled elsewhere.  Those
    of the subtrees' roots lie in the arena.
    """
    return _stacks(subtrees, fronts.child_start, fronts.child, sizes)


@compiled
def _stacks(
    subtrees: _Int64, child_start: _Int32, child: _Int32, sizes: _Int64
) -> tuple[_Int64, int]:
    places, most = np.full(len(sizes), -1, np.int64), 0
    for k in range(len(subtrees)):
        top = 0
        for s in range(subtrees[k, 0], subtrees[k, 1] - 1):
            if child_start[s] < child_start[s + 1]:
                top = places[child[child_start[s]]]
            places[s] = top
            top += sizes[s]
            most = max(most, top)
    return places, most


def two_stacks(fronts: Fronts, subtrees: _Int64, sizes: _Int64) -> tuple[_Int64, int]:
    """Places of what fronts make while they read their children's, and the room for all subtrees.

    Each subtree has a stack for even depths and one for odd ones.
    """
    odd = (depths(fronts.parent) % 2).astype(np.int64)
    return _two_stacks(subtrees, fronts.child_start, fronts.child, sizes, odd)


@compiled
def _two_stacks(
    subtrees: _Int64, child_start: _Int32, child: _Int32, sizes: _Int64, odd: _Int64
) -> tuple[_Int64, int]:
    places, start = np.zeros(len(sizes), np.int64), 0
    for k in range(len(subtrees)):
        tops, peaks = np.zeros(2, np.int64), np.zeros(2, np.int64)
        for s in range(subtrees[k, 0], subtrees[k, 1]):
            own = odd[s]
            if child_start[s] < child_start[s + 1]:
                tops[1 - own] = places[child[child_start[s]]]
            places[s] = tops[own]
            tops[own] += sizes[s]
            peaks[own] = max(peaks[own], tops[own])
        for s in range(subtrees[k, 0], subtrees[k, 1]):
            places[s] += start + odd[s] * peaks[0]
        start += peaks[0] + peaks[1]
    return places, start


def _fitted(fronts: Fronts) -> Any:
    """What places the things of groups of fronts, group after group."""

    def place(groups: Any, sizes: _Int64) -> tuple[_Int64, int]:
        ends = np.cumsum([len(group) for group in groups]).astype(np.int64)
        order = np.concatenate(groups).astype(np.int64) if groups else np.zeros(0, np.int64)
        number = numbered(fronts, groups)
        last = np.where(fronts.parent < 0, number, number[fronts.parent])
        return _first_fit(order, ends, last, sizes)

    return place


def numbered(fronts: Fronts, groups: Any) -> _Int64:
    """In which group each front is."""
    number = np.zeros(len(fronts), np.int64)
    for k, group in enumerate(groups):
        number[group] = k
    return number


@compiled
def _first_fit(order: _Int64, ends: _Int64, last: _Int64, sizes: _Int64) -> tuple[_Int64, int]:
    """Places of things that live from their own group until their last one, and the room.

    Each gets the lowest place that is free.
    """
    places, room = np.zeros(len(sizes), np.int64), 0
    live, count, first = np.empty(len(order), np.int64), 0, 0  # by their places
    for number, end in enumerate(ends):
        for k in range(first, end):
            s, start, at = order[k], 0, 0
            if sizes[s] == 0:
                continue
            while at < count and start + sizes[s] > places[live[at]]:
                start = max(start, places[live[at]] + sizes[live[at]])
                at += 1
            for q in range(count, at, -1):
                live[q] = live[q - 1]
            live[at] = s
            count += 1
            places[s] = start
            room = max(room, start + sizes[s])
        kept = 0
        for q in range(count):
            if last[live[q]] > number:
                live[kept] = live[q]
                kept += 1
        count = kept
        first = end
    return places, room


def from_the_roots(
    fronts: Fronts, chunks: tuple[Chunk, ...], sizes: _Int64
) -> tuple[list[list[_Int64]], _Int64, int]:
    """Fronts in stages, parents first, with places of what their children read.

    Args:
        fronts: The fronts.
        chunks: Which of them are there at a time; the last ones come first.
        sizes: Elements that each keeps until its last child is done.

    Returns:
        The stages of each chunk, in the order of the chunks; the places; and the room.
    """
    depth = depths(fronts.parent)
    found: list[list[_Int64]] = []
    for chunk in chunks:
        inside = np.arange(chunk.first, chunk.end)
        order = inside[np.argsort(depth[inside], kind="stable")]
        found.append(np.split(order, np.flatnonzero(np.diff(depth[order])) + 1))
    groups = [stage for stages in reversed(found) for stage in stages if len(stage)]
    if len(chunks) == 1:
        return found, *two_ends(groups, sizes)
    number = numbered(fronts, groups)
    last = number.copy()
    has = fronts.parent >= 0
    np.maximum.at(last, fronts.parent[has], number[has])
    ends = np.cumsum([len(group) for group in groups]).astype(np.int64)
    return found, *_first_fit(np.concatenate(groups), ends, last, sizes)


def two_ends(stages: Any, sizes: _Int64) -> tuple[_Int64, int]:
    """Places of things that are needed in their own stage and the next, and the room for all."""
    totals = [int(sizes[stage].sum()) for stage in stages]
    room = max((a + b for a, b in zip(totals, [*totals[1:], 0], strict=False)), default=0)
    places = np.zeros(len(sizes), np.int64)
    for number, (stage, total) in enumerate(zip(stages, totals, strict=True)):
        start = 0 if number % 2 == 0 else room - total
        places[stage] = start + np.cumsum(sizes[stage]) - sizes[stage]
    return places, room
