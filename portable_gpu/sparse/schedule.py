"""The order in which fronts are factorised, and the memory of their update matrices.

On a GPU a stage is a level of the tree, and the deepest level is the first stage.  An update matrix
is computed in the stage before its parent's, so only the updates of two stages are live at a time.
Those of one stage are stored from the start of the arena, those of the next stage at its end.

On a CPU whole subtrees are processed first, each by one thread with a stack of its own.  Then all
threads process the fronts above them, one front after the other.

If the panels do not fit into memory, the fronts are partitioned into chunks in postorder.  Each
front is computed in the same way as without chunks, so the bits are the same.
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

#: The cost on a CPU to zero, assemble and move an element of a front, in flops of a product.
_FLOPS_PER_ELEMENT = 24
#: The cost of the launches of one front, in such flops, and the parallel efficiency of one front.
_LAUNCH_FLOPS, _PARALLEL_SHARE = 6e6, 0.7
#: The maximum number of fronts above the subtrees.
_MAX_ABOVE = 512


@dataclass(frozen=True, eq=False)
class Chunk:
    """Fronts whose panels are in memory at the same time; the panels are contiguous.

    Attributes:
        first, end: The range of the fronts.
        subtrees: The first front and the end of each subtree that one work-item of a CPU
            factorises, in descending order of work.
        stages: The other fronts of each stage, ascending; children are in earlier stages.
        alone: For each stage whether its only front belongs to a subtree that was cut by chunks.
    """

    first: int
    end: int
    subtrees: _Int32
    stages: tuple[_Int32, ...]
    alone: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class Schedule:
    """The order of the fronts, and the positions of their updates.

    Attributes:
        chunks: The chunks in their order; one chunk if all panels fit.
        update: The start of each update matrix in the arena.
        arena: The size of the arena, in elements.
        stack: The start of an update matrix on the stack of its subtree, or -1 if it is in the
            arena.
        peak: The size of a stack, in elements.
        contribution_start, rows: As `update` and `arena`, for the contributions to a solve, in
            rows.
    """

    chunks: tuple[Chunk, ...]
    update: _Int64
    arena: int
    stack: _Int64
    peak: int
    contribution_start: _Int64
    rows: int

    @property
    def stages(self) -> tuple[_Int32, ...]:
        """The stages of all chunks."""
        return tuple(stage for chunk in self.chunks for stage in chunk.stages)


def by_levels(fronts: Fronts, ends: _Int64 | None = None) -> Schedule:
    """Schedule the fronts level by level.

    Args:
        fronts: The fronts.
        ends: The end of each chunk; None for one chunk.
    """
    cuts = np.array([len(fronts)]) if ends is None else ends
    depth, chunks = depths(fronts.parent), []
    for first, end in zip([0, *cuts[:-1].tolist()], cuts.tolist(), strict=True):
        order = np.argsort(-depth[first:end], kind="stable").astype(np.int32) + np.int32(first)
        levels = np.split(order, np.flatnonzero(np.diff(depth[order])) + 1) if end > first else []
        none = np.zeros((0, 2), np.int32)
        chunks.append(Chunk(first, end, none, tuple(levels), (False,) * len(levels)))
    stages = [stage for chunk in chunks for stage in chunk.stages]
    place = double_ended_arena if len(chunks) == 1 else _first_fit_placement(fronts)
    update, arena = place(stages, update_sizes(fronts))
    contribution_start, rows = place(stages, fronts.rows)
    stack = np.full(len(fronts), -1, np.int64)
    return Schedule(tuple(chunks), update, arena, stack, 0, contribution_start, rows)


def by_subtrees(fronts: Fronts, threads: int, itemsize: int, ends: _Int64 | None) -> Schedule:
    """Schedule subtrees for the threads of a CPU, then the fronts above them.

    Args:
        fronts: The fronts.
        threads: The number of threads.
        itemsize: Bytes of an element.
        ends: The end of each chunk; None for one chunk.
    """
    cost = costs(fronts)
    subtree_cost, size = summed(fronts.parent, cost), summed(fronts.parent, np.ones(len(fronts)))
    above = cut(fronts, cost, subtree_cost, threads)
    cuts = np.array([len(fronts)]) if ends is None else ends
    chunks = []
    for first, end in zip([0, *cuts[:-1].tolist()], cuts.tolist(), strict=True):
        which = np.arange(first, end)
        inside = ~above[which] & (which - size[which] + 1 >= first)
        parent = fronts.parent[which]
        has_local_parent = (parent >= 0) & (parent < end)
        top = inside & ~(has_local_parent & inside[np.where(has_local_parent, parent - first, 0)])
        roots = which[top][np.argsort(-subtree_cost[which[top]], kind="stable")]
        subtrees = np.stack([roots + 1 - size[roots].astype(np.int64), roots + 1], axis=1)
        rest = which[~inside]
        stages = tuple(np.array([s], np.int32) for s in rest)
        alone = tuple((~above[rest]).tolist())
        chunks.append(Chunk(first, end, subtrees.astype(np.int32), stages, alone))
    alignment = ALIGNMENT // itemsize
    sizes = update_sizes(fronts)
    subtrees = np.concatenate([chunk.subtrees for chunk in chunks]).astype(np.int64)
    stack, peak = stacks(fronts, subtrees, sizes)
    groups = [
        group for chunk in chunks for group in (chunk.subtrees[:, 1] - 1, *chunk.stages)
    ]  # the roots, then one front after the other
    update, arena = _first_fit_placement(fronts)(groups, -(-sizes // alignment) * alignment)
    contribution_start, peaks = alternating_stacks(fronts, subtrees, fronts.rows)
    tops, rows = _first_fit_placement(fronts)(groups, fronts.rows)
    in_arena = stack < 0
    contribution_start[in_arena] = tops[in_arena] + peaks
    return Schedule(tuple(chunks), update, arena, stack, peak, contribution_start, rows + peaks)


def chunk_ends(panel: _Int64, size: int, budget: int) -> _Int64:
    """Partition the panels into chunks of at most ``budget`` elements; return their ends.

    Args:
        panel: The start of each front's panel.
        size: The elements of all panels.
        budget: The maximum elements of a chunk; a single panel may exceed it.
    """
    ends, first = [], 0
    bounds = np.append(panel, size)
    while first < len(panel):
        first = max(first + 1, int(np.searchsorted(bounds, bounds[first] + budget, "right")) - 1)
        ends.append(first)
    return np.array(ends, np.int64)


def costs(fronts: Fronts) -> _Floats:
    """Estimate the work of each front on a CPU, in multiplications and additions of a product."""
    elements = (fronts.columns + fronts.rows) ** 2
    return work(fronts.columns, fronts.rows) + _FLOPS_PER_ELEMENT * elements


@compiled
def depths(parent: _Int32) -> _Int32:
    """Compute the distance of each front from its root."""
    depth = np.zeros(len(parent), np.int32)
    for s in range(len(parent) - 1, -1, -1):
        if parent[s] >= 0:
            depth[s] = depth[parent[s]] + 1
    return depth


@compiled
def summed(parent: _Int32, values: _Floats) -> _Floats:
    """Compute the sum of values over the subtree of each front."""
    sums = values.copy()
    for s in range(len(parent)):
        if parent[s] >= 0:
            sums[parent[s]] += sums[s]
    return sums


def cut(fronts: Fronts, cost: _Floats, subtree_cost: _Floats, threads: int) -> _Bool:
    """Select the fronts above the subtrees.

    The largest subtree is split repeatedly; the cut with the least estimated time is returned.

    Args:
        fronts: The fronts.
        cost: The cost of each front.
        subtree_cost: The cost of each front's subtree.
        threads: The number of threads.
    """
    roots = np.flatnonzero(fronts.parent < 0)
    heap = [(-float(subtree_cost[s]), int(s)) for s in roots]
    heapq.heapify(heap)
    inside, alone = float(subtree_cost[roots].sum()), 0.0
    opened: list[int] = []
    best, best_count = np.inf, 0
    while heap and len(opened) <= _MAX_ABOVE:
        seconds = alone + max(inside / threads, -heap[0][0])
        if seconds < best:
            best, best_count = seconds, len(opened)
        if alone > best:
            break
        total, s = heapq.heappop(heap)
        opened.append(s)
        alone += _LAUNCH_FLOPS + float(cost[s]) / max(1.0, threads * _PARALLEL_SHARE)
        inside += total
        for k in range(fronts.child_start[s], fronts.child_start[s + 1]):
            child = int(fronts.child[k])
            inside += float(subtree_cost[child])
            heapq.heappush(heap, (-float(subtree_cost[child]), child))
    above = np.zeros(len(fronts), np.bool_)
    above[opened[:best_count]] = True
    return above


def stacks(fronts: Fronts, subtrees: _Int64, sizes: _Int64) -> tuple[_Int64, int]:
    """Compute the position of each update on its subtree's stack, and the size of a stack.

    The update of a front overwrites those of its children, which are assembled into the front
    before.  The updates of the subtrees' roots are in the arena.
    """
    return _stacks(subtrees, fronts.child_start, fronts.child, sizes)


@compiled
def _stacks(
    subtrees: _Int64, child_start: _Int32, child: _Int32, sizes: _Int64
) -> tuple[_Int64, int]:
    places, peak = np.full(len(sizes), -1, np.int64), 0
    for k in range(len(subtrees)):
        top = 0
        for s in range(subtrees[k, 0], subtrees[k, 1] - 1):
            if child_start[s] < child_start[s + 1]:
                top = places[child[child_start[s]]]
            places[s] = top
            top += sizes[s]
            peak = max(peak, top)
    return places, peak


def alternating_stacks(fronts: Fronts, subtrees: _Int64, sizes: _Int64) -> tuple[_Int64, int]:
    """Compute positions of data that a front writes while it reads the data of its children.

    Each subtree has one stack for even depths and one for odd depths.

    Returns:
        The position of each front's data, and the size of all stacks.
    """
    odd = (depths(fronts.parent) % 2).astype(np.int64)
    return _alternating_stacks(subtrees, fronts.child_start, fronts.child, sizes, odd)


@compiled
def _alternating_stacks(
    subtrees: _Int64, child_start: _Int32, child: _Int32, sizes: _Int64, odd: _Int64
) -> tuple[_Int64, int]:
    places, start = np.zeros(len(sizes), np.int64), 0
    tops, peaks = np.empty(2, np.int64), np.empty(2, np.int64)
    for k in range(len(subtrees)):
        tops[0] = tops[1] = peaks[0] = peaks[1] = 0
        for s in range(subtrees[k, 0], subtrees[k, 1]):
            parity = odd[s]
            if child_start[s] < child_start[s + 1]:
                tops[1 - parity] = places[child[child_start[s]]]
            places[s] = tops[parity]
            tops[parity] += sizes[s]
            peaks[parity] = max(peaks[parity], tops[parity])
        for s in range(subtrees[k, 0], subtrees[k, 1]):
            places[s] += start + odd[s] * peaks[0]
        start += peaks[0] + peaks[1]
    return places, start


def _first_fit_placement(fronts: Fronts) -> Any:
    """Return a function that places blocks of groups of fronts, group after group, first-fit."""

    def place(groups: Any, sizes: _Int64) -> tuple[_Int64, int]:
        ends = np.cumsum([len(group) for group in groups]).astype(np.int64)
        order = np.concatenate(groups).astype(np.int64) if groups else np.zeros(0, np.int64)
        number = numbered(fronts, groups)
        last = np.where(fronts.parent < 0, number, number[fronts.parent])
        return _first_fit(order, ends, last, sizes)

    return place


def numbered(fronts: Fronts, groups: Any) -> _Int64:
    """Return the number of the group of each front."""
    number = np.zeros(len(fronts), np.int64)
    for k, group in enumerate(groups):
        number[group] = k
    return number


@compiled
def _first_fit(order: _Int64, ends: _Int64, last: _Int64, sizes: _Int64) -> tuple[_Int64, int]:
    """Place blocks that are live from their own group until their last group.

    Each block gets the lowest free position (first fit).

    Returns:
        The positions, and the size of the arena.
    """
    places, size = np.zeros(len(sizes), np.int64), 0
    live, count, first = np.empty(len(order), np.int64), 0, 0  # sorted by position
    for number in range(len(ends)):
        for k in range(first, ends[number]):
            s, start, index = order[k], 0, 0
            if sizes[s] == 0:
                continue
            while index < count and start + sizes[s] > places[live[index]]:
                start = max(start, places[live[index]] + sizes[live[index]])
                index += 1
            for q in range(count, index, -1):
                live[q] = live[q - 1]
            live[index] = s
            count += 1
            places[s] = start
            size = max(size, start + sizes[s])
        alive = 0
        for q in range(count):
            if last[live[q]] > number:
                live[alive] = live[q]
                alive += 1
        count = alive
        first = ends[number]
    return places, size


def top_down_levels(
    fronts: Fronts, chunks: tuple[Chunk, ...], sizes: _Int64
) -> tuple[list[list[_Int64]], _Int64, int]:
    """Schedule fronts level by level from the roots, with positions of data that children read.

    Args:
        fronts: The fronts.
        chunks: The chunks, which are processed in reverse order.
        sizes: Elements that each front keeps until its last child is done.

    Returns:
        The stages of each chunk, in the order of the chunks; the positions; and the arena's size.
    """
    depth = depths(fronts.parent)
    stages_of_chunks: list[list[_Int64]] = []
    for chunk in chunks:
        inside = np.arange(chunk.first, chunk.end)
        order = inside[np.argsort(depth[inside], kind="stable")]
        stages_of_chunks.append(np.split(order, np.flatnonzero(np.diff(depth[order])) + 1))
    groups = [stage for stages in reversed(stages_of_chunks) for stage in stages if len(stage)]
    if len(chunks) == 1:
        return stages_of_chunks, *double_ended_arena(groups, sizes)
    number = numbered(fronts, groups)
    last = number.copy()
    has = fronts.parent >= 0
    np.maximum.at(last, fronts.parent[has], number[has])
    ends = np.cumsum([len(group) for group in groups]).astype(np.int64)
    return stages_of_chunks, *_first_fit(np.concatenate(groups), ends, last, sizes)


def double_ended_arena(stages: Any, sizes: _Int64) -> tuple[_Int64, int]:
    """Place blocks that are live in their own stage and the next, at alternating ends.

    Returns:
        The positions, and the size of the arena.
    """
    totals = [int(sizes[stage].sum()) for stage in stages]
    size = max((a + b for a, b in zip(totals, [*totals[1:], 0], strict=False)), default=0)
    places = np.zeros(len(sizes), np.int64)
    for number, (stage, total) in enumerate(zip(stages, totals, strict=True)):
        start = 0 if number % 2 == 0 else size - total
        places[stage] = start + np.cumsum(sizes[stage]) - sizes[stage]
    return places, size
