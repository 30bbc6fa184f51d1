"""Small sets of vertices whose removal cuts a graph into halves.

The graph is coarsened, and the coarsest graph is cut by growing a region.  The separator is
projected to each finer graph, and refined there: vertices of the separator move to a half, and pull
their neighbours in the other half into the separator.

Source: Fiduccia and Mattheyses, DAC 1982; Karypis and Kumar, SIAM J. Sci. Comput. 20(1), 1998;
Hendrickson and Rothberg, SIAM J. Sci. Comput. 20(2), 1998.
"""

from __future__ import annotations

import numpy as np

from portable_gpu.sparse.compiled import compiled, inner
from portable_gpu.sparse.ordering.coarsening import (
    Int8,
    Levels,
    WeightedGraph,
    coarsen,
    level,
    random,
)
from portable_gpu.sparse.ordering.moves import Moves, change, clear, push, remove

#: The value of `side` for a vertex in neither of the halves 0 and 1.
SEPARATOR = 2

# Each number is near the best of a few measured (docs/experiments/sparse_orderings.md).
_COARSEST = 100  # vertices of the coarsest graph: n / 8, but at least 40 and at most 100
_MIN_LARGE = 5000  # a graph with more vertices is large
_ATTEMPTS = 3  # bisections of a large graph; the one that cuts the fewest edges is taken
# The factor by which a large graph, and a small one, shrinks until edge cuts are refined.
_LARGE_REDUCTION, _SMALL_REDUCTION = 16, 4
_REGIONS = 3  # regions grown in the coarsest graph
# The maximum share of a half in the weight: of an edge cut, and with a separator.
_MAX_EDGE_HALF, _MAX_HALF = 0.55, 0.6
_EDGE_PASSES, _PASSES = 2, 4
_EDGE_PATIENCE, _PATIENCE = 50, 150  # moves without a gain before a pass ends


@compiled
def separate(g: WeightedGraph, levels: Levels, moves: Moves) -> Int8:
    """Compute for each vertex its half, 0 or 1, or SEPARATOR.

    The graph is coarsened, and the coarsest graph is bisected with few cut edges.  At the level
    ``top`` the edge cut becomes a separator; for a large graph the coarsening from there on is
    repeated several times.  A level of a breadth-first search is tried as well.  The result may be
    a view of ``levels``.
    """
    n = len(g.weight)
    heaviest = 0
    for v in range(n):
        heaviest += g.weight[v]
    heaviest = int(1.5 * heaviest / _COARSEST)
    coarsest = min(max(n // 8, 40), _COARSEST)
    state = np.full(1, n, np.int64)
    levels.vertex[1] = n
    levels.entry[1] = len(g.indices)
    top = 0  # the level at which the cut becomes a separator
    small = n // _LARGE_REDUCTION if n > _MIN_LARGE else n // _SMALL_REDUCTION
    while levels.vertex[top + 1] - levels.vertex[top] > max(small, coarsest):
        if not coarsen(level(g, levels, top), levels, top, heaviest, state):
            break
        top += 1
    small_side = levels.side[levels.vertex[top] : levels.vertex[top + 1]]
    trial = np.empty(n, np.int8)
    best = -1
    for _ in range(_ATTEMPTS if n > _MIN_LARGE else 1):
        k = top
        while levels.vertex[k + 1] - levels.vertex[k] > coarsest:
            if not coarsen(level(g, levels, k), levels, k, heaviest, state):
                break
            k += 1
        smallest = level(g, levels, k)
        min_cut = -1
        for _ in range(_REGIONS):
            cut = _grow(smallest, trial, random(state, len(smallest.weight)), moves)
            cut -= _improve(smallest, trial, moves)
            if min_cut < 0 or cut < min_cut:
                min_cut = cut
                _copy(trial, levels.side, levels.vertex[k], len(smallest.weight))
        while k > top:
            k -= 1
            _project(levels, k)
            min_cut -= _improve(level(g, levels, k), levels.side[levels.vertex[k] :], moves)
        if best < 0 or min_cut < best:
            best = min_cut
            _copy(small_side, levels.best, 0, len(small_side))
    _copy(levels.best, small_side, 0, len(small_side))
    _cover(level(g, levels, top), small_side)
    best = refine(level(g, levels, top), small_side, moves)
    while top > 0:
        top -= 1
        _project(levels, top)
        best = refine(level(g, levels, top), levels.side[levels.vertex[top] :], moves)
    if _cut_between_levels(g, trial) and refine(g, trial, moves) < best:
        return trial
    return levels.side[:n]


@inner
def _copy(source: Int8, to: Int8, begin: int, count: int) -> None:
    for v in range(count):
        to[begin + v] = source[v]


@inner
def _project(levels: Levels, k: int) -> None:
    """Project the separator of level k + 1 to level k."""
    above = levels.vertex[k + 1]
    for v in range(levels.vertex[k], above):
        levels.side[v] = levels.side[above + levels.into[v]]


@inner
def _grow(g: WeightedGraph, side: Int8, start: int, m: Moves) -> int:
    """Grow half 0 from a vertex to half the weight; return the number of cut edges.

    The vertex with the largest gain is added next.
    """
    n = len(g.weight)
    total = 0
    for v in range(n):
        side[v] = 1
        total += g.weight[v]
    push(m, 0, start, -_edges(g, start))
    grown = 0
    unseen = 0
    cut = 0
    while 2 * grown < total:
        if m.size[0] == 0:  # the component is exhausted
            while side[unseen] == 0:
                unseen += 1
            push(m, 0, unseen, -_edges(g, unseen))
        v = m.heap[0, 0]
        cut -= m.key[0, v]
        remove(m, 0, v)
        side[v] = 0
        grown += g.weight[v]
        for p in range(g.indptr[v], g.indptr[v + 1]):
            u = g.indices[p]
            if side[u] == 1:
                if m.place[0, u] < 0:
                    push(m, 0, u, -_edges(g, u))
                change(m, 0, u, m.key[0, u] + 2 * g.multiplicity[p])
    clear(m)
    return cut


@inner
def _edges(g: WeightedGraph, v: int) -> int:
    total = 0
    for p in range(g.indptr[v], g.indptr[v + 1]):
        total += g.multiplicity[p]
    return total


@inner
def _improve(g: WeightedGraph, side: Int8, m: Moves) -> int:
    """Move vertices between the halves to cut fewer edges; return the gain."""
    weights = m.weights
    weights[0] = weights[1] = 0
    for v in range(len(g.weight)):
        weights[side[v]] += g.weight[v]
    max_weight = int(_MAX_EDGE_HALF * (weights[0] + weights[1]))
    gained = 0
    for _ in range(_EDGE_PASSES):
        for v in range(len(g.weight)):
            for p in range(g.indptr[v], g.indptr[v + 1]):
                if side[g.indices[p]] != side[v]:
                    push(m, 1 - side[v], v, _gain(g, side, v))
                    break
        gain = 0
        best = 0
        length = 0
        best_length = 0
        while length - best_length < _EDGE_PATIENCE:
            to = _next_side(g, max_weight, m)
            if to < 0:
                break
            v = m.heap[to, 0]
            gain += m.key[to, v]
            remove(m, to, v)
            weights[to] += g.weight[v]
            weights[1 - to] -= g.weight[v]
            side[v] = to
            m.locked[v] = True
            m.journal[length] = v
            length += 1
            for p in range(g.indptr[v], g.indptr[v + 1]):
                u = g.indices[p]
                if m.place[0, u] >= 0 or m.place[1, u] >= 0:
                    s = 1 - side[u]
                    twice = 2 * g.multiplicity[p]
                    change(m, s, u, m.key[s, u] + (twice if s == to else -twice))
                elif not m.locked[u]:
                    push(m, 1 - side[u], u, _gain(g, side, u))
            if gain > best:
                best = gain
                best_length = length
        clear(m)
        for k in range(length):
            v = m.journal[k]
            m.locked[v] = False
            if k >= best_length:
                weights[side[v]] -= g.weight[v]
                side[v] = 1 - side[v]
                weights[side[v]] += g.weight[v]
        gained += best
        if best == 0:
            break
    return gained


@inner
def _gain(g: WeightedGraph, side: Int8, v: int) -> int:
    """Compute the decrease of the edge cut if ``v`` changes its side."""
    gain = 0
    for p in range(g.indptr[v], g.indptr[v + 1]):
        if side[g.indices[p]] == side[v]:
            gain -= g.multiplicity[p]
        else:
            gain += g.multiplicity[p]
    return gain


@inner
def _cover(g: WeightedGraph, side: Int8) -> None:
    """Make the lighter of the two borders of an edge cut the separator."""
    first = second = 0
    for v in range(len(side)):
        for p in range(g.indptr[v], g.indptr[v + 1]):
            if side[g.indices[p]] != side[v]:
                if side[v] == 0:
                    first += g.weight[v]
                else:
                    second += g.weight[v]
                break
    lighter = 0 if first < second else 1
    for v in range(len(side)):
        if side[v] == lighter:
            for p in range(g.indptr[v], g.indptr[v + 1]):
                if side[g.indices[p]] == 1 - lighter:
                    side[v] = SEPARATOR
                    break


@inner
def _cut_between_levels(g: WeightedGraph, side: Int8) -> bool:
    """Cut by one level of a breadth-first search from a pseudo-peripheral vertex."""
    n = len(g.weight)
    queue = np.empty(n, np.int32)
    distance = np.empty(n, np.int32)
    start = last = 0
    longest = -1
    for _ in range(4):
        for v in range(n):
            distance[v] = -1
        queue[0] = start
        distance[start] = 0
        last = 1
        k = 0
        while k < last:
            v = queue[k]
            k += 1
            for p in range(g.indptr[v], g.indptr[v + 1]):
                w = g.indices[p]
                if distance[w] < 0:
                    distance[w] = distance[v] + 1
                    queue[last] = w
                    last += 1
        if distance[queue[last - 1]] <= longest:
            break
        longest = distance[queue[last - 1]]
        k = last - 1
        start = queue[k]
        while k >= 0 and distance[queue[k]] == longest:
            if g.indptr[queue[k] + 1] - g.indptr[queue[k]] < g.indptr[start + 1] - g.indptr[start]:
                start = queue[k]
            k -= 1
    if last < n or longest < 2:
        return False
    weights = np.zeros(longest + 1, np.int64)
    total = 0
    for v in range(n):
        weights[distance[v]] += g.weight[v]
        total += g.weight[v]
    best = -1
    below = 0
    for d in range(longest + 1):
        above = total - below - weights[d]
        if max(below, above) <= _MAX_HALF * total and (best < 0 or weights[d] < weights[best]):
            best = d
        below += weights[d]
    if best < 0:
        return False
    for v in range(n):
        side[v] = 0 if distance[v] < best else (1 if distance[v] > best else SEPARATOR)
    return True


@inner
def refine(g: WeightedGraph, side: Int8, m: Moves) -> int:
    """Refine the separator by passes of moves; each pass is undone back to its best state.

    Returns:
        The separator's weight.
    """
    n = len(g.weight)
    weights = m.weights
    for s in range(3):
        weights[s] = 0
    for v in range(n):
        weights[side[v]] += g.weight[v]
    max_weight = int(_MAX_HALF * (weights[0] + weights[1] + weights[2]))
    for _ in range(_PASSES):
        count = 0
        for v in range(n):
            if side[v] == SEPARATOR:
                count += 1
                _weigh_neighbours(g, side, m, v)
                for s in range(2):
                    push(m, s, v, g.weight[v] - m.pull[v, 1 - s])
        before = weights[2]
        before_difference = abs(weights[0] - weights[1])
        best, best_first, best_second = before, weights[0], weights[1]
        best_difference = before_difference
        length = 0
        best_length = 0
        patience = min(count, _PATIENCE) + 20
        since = 0
        while since < patience:
            to = _next_side(g, max_weight, m)
            if to < 0:
                break
            length = _move(g, side, m, to, length)
            difference = abs(weights[0] - weights[1])
            since += 1
            if weights[2] < best or (weights[2] == best and difference < best_difference):
                best, best_first, best_second = weights[2], weights[0], weights[1]
                best_difference = difference
                best_length = length
                since = 0
        clear(m)
        for k in range(length - 1, -1, -1):
            v = m.journal[k] >> 2
            m.locked[v] = False
            if k >= best_length:
                side[v] = m.journal[k] & 3
        weights[0], weights[1], weights[2] = best_first, best_second, best
        if best == before and best_difference == before_difference:
            break
    return int(weights[2])


@inner
def _move(g: WeightedGraph, side: Int8, m: Moves, to: int, length: int) -> int:
    """Move the best vertex to a half; return the new length of the journal."""
    other = 1 - to
    v = m.heap[to, 0]
    m.weights[to] += g.weight[v]
    m.weights[other] -= m.pull[v, other]
    m.weights[2] -= m.key[to, v]
    remove(m, to, v)
    if m.place[other, v] >= 0:
        remove(m, other, v)
    side[v] = to
    m.locked[v] = True
    m.journal[length] = 4 * v + SEPARATOR
    length += 1
    for p in range(g.indptr[v], g.indptr[v + 1]):
        u = g.indices[p]
        if side[u] == SEPARATOR:
            m.pull[u, to] += g.weight[v]
            if m.place[other, u] >= 0:
                change(m, other, u, g.weight[u] - m.pull[u, to])
        elif side[u] == other:
            side[u] = SEPARATOR
            m.journal[length] = 4 * u + other
            length += 1
            _weigh_neighbours(g, side, m, u)
            for r in range(g.indptr[u], g.indptr[u + 1]):
                x = g.indices[r]
                if side[x] == SEPARATOR:
                    m.pull[x, other] -= g.weight[u]
                    if m.place[to, x] >= 0:
                        change(m, to, x, g.weight[x] - m.pull[x, other])
            if not m.locked[u]:
                push(m, to, u, g.weight[u] - m.pull[u, other])
    return length


@inner
def _weigh_neighbours(g: WeightedGraph, side: Int8, m: Moves, v: int) -> None:
    """Compute the weight of the neighbours of ``v`` in each half."""
    m.pull[v, 0] = 0
    m.pull[v, 1] = 0
    for p in range(g.indptr[v], g.indptr[v + 1]):
        s = side[g.indices[p]]
        if s != SEPARATOR:
            m.pull[v, s] += g.weight[g.indices[p]]


@inner
def _next_side(g: WeightedGraph, max_weight: int, m: Moves) -> int:
    """Return the target half of the best move, or -1; drop moves that make a half too heavy."""
    for s in range(2):
        while m.size[s] > 0 and m.weights[s] + g.weight[m.heap[s, 0]] > max_weight:
            remove(m, s, m.heap[s, 0])
    if m.size[0] == 0:
        return 1 if m.size[1] > 0 else -1
    if m.size[1] == 0:
        return 0
    first, second = m.key[0, m.heap[0, 0]], m.key[1, m.heap[1, 0]]
    if first == second:
        return 0 if m.weights[0] < m.weights[1] else 1
    return 0 if first > second else 1
