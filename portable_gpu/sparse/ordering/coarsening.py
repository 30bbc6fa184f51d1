"""Coarsening of weighted graphs: a matching pairs neighbours, and each pair becomes one vertex.

Source: Karypis and Kumar, SIAM J. Sci. Comput. 20(1), 1998 (heavy-edge matching).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from portable_gpu.sparse.compiled import inner
from portable_gpu.sparse.graph import Int32, Int64

#: Vertices are visited in random order within windows of this many consecutive vertices.
_WINDOW = 256

Int8 = np.ndarray[Any, np.dtype[np.int8]]


class WeightedGraph(NamedTuple):
    """A graph with weighted vertices and edges, in compressed rows."""

    indptr: Int64
    indices: Int32
    multiplicity: Int32  # for each entry of `indices`, the number of edges that it stands for
    weight: Int32  # for each vertex, the number of vertices that it stands for


@inner
def random(state: Int64, bound: int) -> int:
    """Draw a number in 0 .. bound - 1 from a linear congruential generator of 48 bits."""
    state[0] = (int(state[0]) * 25214903917 + 11) & 281474976710655
    return int((state[0] >> 17) % bound)


class Levels(NamedTuple):
    """Workspace for the coarser graphs, level after level.  Level 0, the graph, is not stored."""

    graphs: WeightedGraph
    into: Int32  # for each vertex of each level, 0 included, the vertex of the next level with it
    side: Int8  # for each vertex of each level, its half or SEPARATOR
    best: Int8  # for each vertex of one level, its side in the best separator
    vertex: Int64  # the index of the first vertex of each level
    entry: Int64  # the index of the first entry of each level


def allocate_levels(n: int, entries: int) -> Levels:
    """Allocate workspace for graphs of at most ``n`` vertices and ``entries`` entries."""
    vertices = 4 * n + 64
    return Levels(
        WeightedGraph(
            np.empty(vertices + 64, np.int64),
            np.empty(6 * entries, np.int32),
            np.empty(6 * entries, np.int32),
            np.empty(vertices, np.int32),
        ),
        np.empty(vertices, np.int32),
        np.empty(vertices, np.int8),
        np.empty(n, np.int8),
        np.zeros(65, np.int64),
        np.zeros(65, np.int64),
    )


@inner
def level(g: WeightedGraph, levels: Levels, k: int) -> WeightedGraph:
    """Return the graph of level k, where ``g`` is level 0."""
    if k == 0:
        return g
    a, b = levels.vertex[k], levels.vertex[k + 1]
    c, d = levels.entry[k], levels.entry[k + 1]
    return WeightedGraph(
        levels.graphs.indptr[a + k : b + k + 1],
        levels.graphs.indices[c:d],
        levels.graphs.multiplicity[c:d],
        levels.graphs.weight[a:b],
    )


@inner
def coarsen(g: WeightedGraph, levels: Levels, k: int, heaviest: int, state: Int64) -> bool:
    """Coarsen level k = ``g`` to level k + 1; return False if it does not shrink or fit."""
    n = len(g.weight)
    begin = levels.vertex[k + 1]
    if k > 60 or begin + n > len(levels.graphs.weight):
        return False
    if levels.entry[k + 1] + len(g.indices) > len(levels.graphs.indices):
        return False
    partner = _matched(g, heaviest, state)
    into = levels.into[levels.vertex[k] : begin]
    count = 0
    for v in range(n):
        if partner[v] >= v:
            into[v] = count
            into[partner[v]] = count
            count += 1
    if count > 0.95 * n:
        return False
    levels.vertex[k + 2] = begin + count
    levels.entry[k + 2] = levels.entry[k + 1] + len(g.indices)  # an upper bound
    entries = _contract(g, partner, into, level(g, levels, k + 1))
    levels.entry[k + 2] = levels.entry[k + 1] + entries
    return True


@inner
def _matched(g: WeightedGraph, heaviest: int, state: Int64) -> Int32:
    """Match each vertex with a neighbour, or with itself.

    Vertices with few neighbours are visited first, in random order.  Each is matched with the
    neighbour over the heaviest edge for which the pair weighs at most ``heaviest``.  Isolated
    vertices are matched with each other.
    """
    n = len(g.weight)
    partner = np.full(n, -1, np.int32)
    isolated = -1
    for v in _visits(g, state):
        if partner[v] >= 0:
            continue
        max_weight = heaviest - g.weight[v]
        best = v
        max_multiplicity = 0
        for p in range(g.indptr[v], g.indptr[v + 1]):
            w = g.indices[p]
            if (
                partner[w] < 0
                and g.multiplicity[p] > max_multiplicity
                and g.weight[w] <= max_weight
            ):
                best = w
                max_multiplicity = g.multiplicity[p]
        if g.indptr[v] == g.indptr[v + 1]:
            if isolated >= 0 and g.weight[isolated] <= max_weight:
                best = isolated
                isolated = -1
            else:
                isolated = v
        partner[v] = best
        partner[best] = v
    return partner


@inner
def _visits(g: WeightedGraph, state: Int64) -> Int32:
    """Order the vertices by their degree, up to a bound; randomly within a window."""
    n = len(g.weight)
    shuffled = np.empty(n, np.int32)
    for v in range(n):
        k = v - random(state, v % _WINDOW + 1)
        shuffled[v] = shuffled[k]
        shuffled[k] = v
    bound = int(0.7 * len(g.indices) / n) + 1
    begins = np.zeros(bound + 2, np.int64)
    for v in range(n):
        begins[min(g.indptr[v + 1] - g.indptr[v], bound) + 1] += 1
    for d in range(bound + 1):
        begins[d + 1] += begins[d]
    visits = np.empty(n, np.int32)
    for k in range(n):
        v = shuffled[k]
        d = min(g.indptr[v + 1] - g.indptr[v], bound)
        visits[begins[d]] = v
        begins[d] += 1
    return visits


@inner
def _contract(g: WeightedGraph, partner: Int32, into: Int32, coarse: WeightedGraph) -> int:
    """Fill ``coarse``; return its number of entries."""
    place = np.full(len(coarse.weight), -1, np.int64)  # the entry of a neighbour in this row
    end = 0
    c = 0
    for v in range(len(partner)):
        if partner[v] < v:
            continue
        begin = end
        coarse.indptr[c] = begin
        coarse.weight[c] = 0
        member = v
        while True:
            coarse.weight[c] += g.weight[member]
            for p in range(g.indptr[member], g.indptr[member + 1]):
                d = into[g.indices[p]]
                if d == c:
                    continue
                if place[d] >= begin:
                    coarse.multiplicity[place[d]] += g.multiplicity[p]
                else:
                    place[d] = end
                    coarse.indices[end] = d
                    coarse.multiplicity[end] = g.multiplicity[p]
                    end += 1
            if member == partner[v]:
                break
            member = partner[v]
        c += 1
    coarse.indptr[c] = end
    return end
