"""Nested dissection: separators first found are eliminated last, and what is left by degree."""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from portable_gpu.sparse.compiled import compiled
from portable_gpu.sparse.graph import Graph, Int32, Int64
from portable_gpu.sparse.ordering.approximate_degree import Quotient, eliminate, quotient
from portable_gpu.sparse.ordering.coarsening import Int8, Levels, Weighted, room_for_levels
from portable_gpu.sparse.ordering.compression import NONE, compressed
from portable_gpu.sparse.ordering.separator import (
    SEPARATOR,
    Moves,
    room_for_moves,
    separate,
)

_LEAF = 200  # parts of so many vertices are ordered by degree
_ALONE = 20_000  # parts of more are cut, and their halves left to any thread
_MANY, _FEW = 5, 2  # attempts at a part of more, and of fewer, vertices than that
_DEPTH = 128


def nd(graph: Graph) -> Int32:
    """The nested dissection ordering.

    Args:
        graph: The adjacency structure.

    Returns:
        The permutation, int32: entry k is the vertex to eliminate k-th.

    Vertices with the same neighbours count as one; those with more than ``max(16, 10 sqrt(n))``
    come last.  A part is cut by the lighter of two separators: one of a multilevel bisection, and
    one of the levels of a breadth-first search; both are refined.  On grids of 7 points the latter
    are diagonal, and a quarter smaller than planes.  Parts of at most 200 vertices are ordered by
    approximate minimum degree.

    Cost: O(m log n) time for m edges; some 120 (n + m) bytes.  Halves of large parts run on all
        cores that the process may use.
    Determinism: the same graph gives the same permutation, whatever the threads do.
    Source: George, SIAM J. Numer. Anal. 10(2), 1973; Karypis and Kumar, SIAM J. Sci. Comput. 20(1),
        1998; George and Liu, SIAM J. Numer. Anal. 15(5), 1978 (separators of levels).
    """
    indptr, indices, weight, into = compressed(graph.indptr, graph.indices)
    order = np.empty(len(weight), np.int32)
    whole = Part(indptr, indices, weight, np.arange(len(weight), dtype=np.int32))
    with ThreadPoolExecutor(_cores()) as pool:
        tasks = [pool.submit(_order_part, pool, whole, order)]
        while tasks:
            tasks.extend(tasks.pop().result())
    return _expanded(order, into)


def _cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _order_part(pool: Executor, part: Part, order: Int32) -> list[Future[Any]]:
    """Order a small part; cut a large one, and return the tasks that order its halves."""
    n, entries = len(part.weight), len(part.indices)
    levels, moves = room_for_levels(n, entries), room_for_moves(n)
    ones = np.ones(entries, np.int32)
    if n > _ALONE:
        g = Weighted(part.indptr, part.indices, ones, part.weight)
        side = separate(g, _MANY, levels, moves)
        first, second = _half(part, side, 0), _half(part, side, 1)
        middle, end = len(first.weight), len(first.weight) + len(second.weight)
        if _divides(first, second, n):
            order[end:] = part.labels[side == SEPARATOR]
            halves = (first, order[:middle]), (second, order[middle:end])
            return [pool.submit(_order_part, pool, *half) for half in halves]
    q = quotient(n, entries, int(part.weight.sum()))
    if n > _ALONE:
        _by_degree(part, order, q)
    else:
        _dissect(part, order, ones, levels, moves, q)
    return []


class Part(NamedTuple):
    """A part of a graph, and which vertices of the whole its vertices are."""

    indptr: Int64
    indices: Int32
    weight: Int32
    labels: Int32


@compiled
def _dissect(
    part: Part, order: Int32, ones: Int32, levels: Levels, moves: Moves, q: Quotient
) -> None:
    """Order a part, which is overwritten by the parts that it falls into."""
    n = len(part.weight)
    vertex = np.zeros(_DEPTH, np.int64)  # where the vertices of each part to do begin
    entry = np.zeros(_DEPTH, np.int64)
    place = np.zeros(_DEPTH, np.int64)  # in the order
    indptr = np.empty(n + _DEPTH, np.int64)
    _store(part, part, indptr, vertex, entry, 0)
    k = 0
    while k >= 0:
        a, b, c, d = vertex[k], vertex[k + 1], entry[k], entry[k + 1]
        this = Part(
            indptr[a + k : b + k + 1], part.indices[c:d], part.weight[a:b], part.labels[a:b]
        )
        first = second = this
        if b - a > _LEAF and k + 2 < _DEPTH:
            g = Weighted(this.indptr, this.indices, ones[: d - c], this.weight)
            side = separate(g, _FEW, levels, moves)
            first, second = _half(this, side, 0), _half(this, side, 1)
        middle, end = len(first.weight), len(first.weight) + len(second.weight)
        if not _divides(first, second, b - a):
            _by_degree(this, order[place[k] : place[k] + b - a], q)
            k -= 1
            continue
        end += place[k]
        for v in range(b - a):
            if side[v] == SEPARATOR:
                order[end] = this.labels[v]
                end += 1
        place[k + 1] = place[k] + middle
        _store(first, part, indptr, vertex, entry, k)
        _store(second, part, indptr, vertex, entry, k + 1)
        k += 1


@compiled
def _divides(first: Part, second: Part, n: int) -> bool:
    """Whether these are two parts of n vertices with a separator of no more than half of them."""
    a, b = len(first.weight), len(second.weight)
    return a > 0 and b > 0 and a + b <= n <= 2 * (a + b)


@compiled
def _store(part: Part, room: Part, indptr: Int64, vertex: Int64, entry: Int64, k: int) -> None:
    """Put a part into the room as the k-th."""
    a, c = vertex[k], entry[k]
    n = len(part.weight)
    for v in range(n):
        indptr[a + k + v] = part.indptr[v]
        room.weight[a + v] = part.weight[v]
        room.labels[a + v] = part.labels[v]
    indptr[a + k + n] = part.indptr[n]
    for p in range(part.indptr[n]):
        room.indices[c + p] = part.indices[p]
    vertex[k + 1] = a + n
    entry[k + 1] = c + part.indptr[n]


@compiled
def _half(part: Part, side: Int8, which: int) -> Part:
    """What lies on one side."""
    place = np.empty(len(side), np.int32)
    entries = 0
    count = 0
    for v in range(len(side)):
        if side[v] == which:
            place[v] = count
            count += 1
            entries += part.indptr[v + 1] - part.indptr[v]
    indptr = np.empty(count + 1, np.int64)
    indices = np.empty(entries, np.int32)
    weight = np.empty(count, np.int32)
    labels = np.empty(count, np.int32)
    end = 0
    c = 0
    for v in range(len(side)):
        if side[v] != which:
            continue
        indptr[c] = end
        weight[c] = part.weight[v]
        labels[c] = part.labels[v]
        c += 1
        for p in range(part.indptr[v], part.indptr[v + 1]):
            w = part.indices[p]
            if side[w] == which:
                indices[end] = place[w]
                end += 1
    indptr[count] = end
    return Part(indptr, indices[:end], weight, labels)


@compiled
def _by_degree(part: Part, order: Int32, q: Quotient) -> None:
    n = len(part.weight)
    for v in range(n):
        q.weight[v] = part.weight[v]
    for p in range(part.indptr[n]):
        q.lists[p] = part.indices[p]
    eliminate(q, part.indptr, order)
    for k in range(n):
        order[k] = part.labels[order[k]]


@compiled
def _expanded(order: Int32, into: Int32) -> Int32:
    """The order of all vertices, given that of the small graph; dense ones last."""
    count, n = len(order), len(into)
    begins = np.zeros(count + 2, np.int64)
    for v in range(n):
        begins[(into[v] if into[v] != NONE else count) + 1] += 1
    end = 0
    for k in range(count):
        begins_here = end
        end += begins[order[k] + 1]
        begins[order[k] + 1] = begins_here
    begins[count + 1] = end
    full = np.empty(n, np.int32)
    for v in range(n):
        c = (into[v] if into[v] != NONE else count) + 1
        full[begins[c]] = v
        begins[c] += 1
    return full
