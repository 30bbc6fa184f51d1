"""Graphs with weights, and smaller ones of the same shape: pairs of neighbours become one vertex.

Source: Karypis and Kumar, SIAM J. Sci. Comput. 20(1), 1998 (heavy-edge matching).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from portable_gpu.sparse.compiled import compiled
from portable_gpu.sparse.graph import Int32, Int64

#: Vertices are visited at random within so many neighbours in memory.
_WINDOW = 256

Int8 = np.ndarray[Any, np.dtype[np.int8]]


class Weighted(NamedTuple):
    """A graph in compressed rows whose vertices stand for several, and edges too."""

    indptr: Int64
    indices: Int32
    multiplicity: Int32  # of each entry of `indices`: how many edges it stands for
    weight: Int32  # of each vertex: how many it stands for


@compiled
def random(state: Int64, bound: int) -> int:
    """A number in 0 .. bound - 1; a linear congruential generator of 48 bits."""
    state[0] = (state[0] * 25214903917 + 11) & 281474976710655
    return int((state[0] >> 17) % bound)


class Levels(NamedTuple):
    """Room for a graph's coarser ones, level after level.  Level 0, the graph, is elsewhere."""

    graphs: Weighted
    into: Int32  # of each vertex of each level, 0 too, the vertex of the next level that it is in
    side: Int8  # of each vertex of each level
    best: Int8  # of each vertex of one level
    vertex: Int64  # where the vertices of each level begin
    entry: Int64  # where its entries begin


def room_for_levels(n: int, entries: int) -> Levels:
    """Room for graphs of at most so many vertices and entries."""
    vertices = 4 * n + 64
    return Levels(
        Weighted(
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


@compiled
def level(g: Weighted, levels: Levels, k: int) -> Weighted:
    """The graph of level k, where ``g`` is level 0."""
    if k == 0:
        return g
    a, b = levels.vertex[k], levels.vertex[k + 1]
    c, d = levels.entry[k], levels.entry[k + 1]
    return Weighted(
        levels.graphs.indptr[a + k : b + k + 1],
        levels.graphs.indices[c:d],
        levels.graphs.multiplicity[c:d],
        levels.graphs.weight[a:b],
    )


@compiled
def coarsen(g: Weighted, levels: Levels, k: int, heaviest: int, state: Int64) -> bool:
    """Make level k + 1 of level k = ``g``, if that shrinks it and there is room."""
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
    levels.entry[k + 2] = levels.entry[k + 1] + len(g.indices)  # at most
    entries = _contract(g, partner, into, level(g, levels, k + 1))
    levels.entry[k + 2] = levels.entry[k + 1] + entries
    return True


@compiled
def _matched(g: Weighted, heaviest: int, state: Int64) -> Int32:
    """Of each vertex the neighbour that it is paired with, or itself.

    Vertices of few neighbours choose first, in random order: the neighbour by the most edges, if
    the two are not too heavy together.  Vertices without any neighbour pair with each other.
    """
    n = len(g.weight)
    partner = np.full(n, -1, np.int32)
    alone = -1
    for v in _visits(g, state):
        if partner[v] >= 0:
            continue
        room = heaviest - g.weight[v]
        best = v
        most = 0
        for p in range(g.indptr[v], g.indptr[v + 1]):
            w = g.indices[p]
            if partner[w] < 0 and g.multiplicity[p] > most and g.weight[w] <= room:
                best = w
                most = g.multiplicity[p]
        if g.indptr[v] == g.indptr[v + 1]:
            if alone >= 0 and g.weight[alone] <= room:
                best = alone
                alone = -1
            else:
                alone = v
        partner[v] = best
        partner[best] = v
    return partner


@compiled
def _visits(g: Weighted, state: Int64) -> Int32:
    """The vertices by their number of neighbours, up to a bound; at random within a window."""
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


@compiled
def _contract(g: Weighted, partner: Int32, into: Int32, coarse: Weighted) -> int:
    """Fill ``coarse``; return how many entries it has."""
    place = np.full(len(coarse.weight), -1, np.int64)  # of a neighbour, if it is in this row yet
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
