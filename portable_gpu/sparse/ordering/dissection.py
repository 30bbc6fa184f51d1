"""Nested dissection: separators are eliminated last, and small parts by minimum degree."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from portable_gpu.side_by_side import Task, cores, run_tasks
from portable_gpu.sparse.compiled import compiled, inner
from portable_gpu.sparse.graph import Graph, Int32, Int64
from portable_gpu.sparse.ordering.approximate_degree import Quotient, eliminate, quotient
from portable_gpu.sparse.ordering.coarsening import Int8, Levels, WeightedGraph, allocate_levels
from portable_gpu.sparse.ordering.compression import NONE, compressed
from portable_gpu.sparse.ordering.moves import Moves, allocate_moves
from portable_gpu.sparse.ordering.separator import SEPARATOR, separate

_MAX_LEAF = 60  # parts of at most this many vertices are ordered by minimum degree
_MAX_SERIAL = 20_000  # the halves of parts with more vertices are tasks for any thread


def nd(graph: Graph) -> Int32:
    """Compute the nested dissection ordering.

    Args:
        graph: The adjacency structure.

    Returns:
        The permutation, int32: entry k is the vertex to eliminate k-th.

    Indistinguishable vertices are merged first; vertices with more than ``max(16, 10 sqrt(n))``
    neighbours are ordered last.  A part is cut by the lighter of two separators, both refined: one
    from a multilevel bisection, and one level of a breadth-first search.  On grids with 7-point
    stencils the level separators are diagonal, and a quarter smaller than planes.  Parts of at most
    60 vertices are ordered by approximate minimum degree.

    Cost: O(m log n) time for m edges; some 120 (n + m) bytes.  Halves of large parts run on all
        cores that the process may use.
    Determinism: the same graph gives the same permutation for any schedule of the threads.
    Source: George, SIAM J. Numer. Anal. 10(2), 1973; Karypis and Kumar, SIAM J. Sci. Comput. 20(1),
        1998; George and Liu, SIAM J. Numer. Anal. 15(5), 1978 (level separators).
    """
    indptr, indices, weight, into = compressed(graph.indptr, graph.indices)
    order = np.empty(len(weight), np.int32)
    whole = Subgraph(indptr, indices, weight, np.arange(len(weight), dtype=np.int32))
    run_tasks([partial(_order_part, whole, order)], cores())
    return _expanded(order, into)


class Subgraph(NamedTuple):
    """A part of a graph; ``labels`` are its vertices' numbers in the whole graph."""

    indptr: Int64
    indices: Int32
    weight: Int32
    labels: Int32


class _Workspace(NamedTuple):
    """The workspace in which a task orders parts, one after another."""

    ones: Int32
    levels: Levels
    moves: Moves
    quotient: Quotient


def _order_part(part: Subgraph, order: Int32) -> list[Task]:
    """Order a small part; cut a large one, and return the tasks that order its halves."""
    n, entries = len(part.weight), len(part.indices)
    workspace = _Workspace(
        np.ones(entries, np.int32),
        allocate_levels(n, entries),
        allocate_moves(n),
        quotient(n, entries, int(part.weight.sum())),
    )
    is_serial = n <= _MAX_SERIAL
    todo = [(part, order)]
    while todo:
        part, order = todo.pop()
        halves = _halves(part, order, workspace)
        if not halves:
            _order_by_degree(part, order, workspace.quotient)
        elif is_serial:
            todo += halves
        else:
            return [partial(_order_part, *half) for half in halves]
    return []


def _halves(part: Subgraph, order: Int32, workspace: _Workspace) -> list[tuple[Subgraph, Int32]]:
    """Order a separator last; return the halves with their slices of the order.

    There are no halves if the part is small, if one is empty, or if the separator holds more than
    half of the vertices.
    """
    n = len(part.weight)
    if n <= _MAX_LEAF:
        return []
    ones = workspace.ones[: len(part.indices)]
    g = WeightedGraph(part.indptr, part.indices, ones, part.weight)
    first, second, separator = _split(part, separate(g, workspace.levels, workspace.moves))
    middle, end = len(first.weight), n - len(separator)
    if not 0 < middle < end or 2 * end < n:
        return []
    order[end:] = separator
    return [(first, order[:middle]), (second, order[middle:end])]


@compiled
def _split(part: Subgraph, side: Int8) -> tuple[Subgraph, Subgraph, Int32]:
    """Split a part into its halves and the labels of the separator."""
    place = np.empty(len(side), np.int32)
    count = np.zeros(3, np.int64)
    for v in range(len(side)):
        place[v] = count[side[v]]
        count[side[v]] += 1
    separator = np.empty(count[SEPARATOR], np.int32)
    for v in range(len(side)):
        if side[v] == SEPARATOR:
            separator[place[v]] = part.labels[v]
    return _half(part, side, place, 0, count[0]), _half(part, side, place, 1, count[1]), separator


@inner
def _half(part: Subgraph, side: Int8, place: Int32, which: int, count: int) -> Subgraph:
    """Extract one half; ``place`` gives each vertex's number within its half."""
    entries = 0
    for v in range(len(side)):
        if side[v] == which:
            entries += part.indptr[v + 1] - part.indptr[v]
    indptr = np.empty(count + 1, np.int64)
    indices = np.empty(entries, np.int32)
    weight = np.empty(count, np.int32)
    labels = np.empty(count, np.int32)
    end = 0
    for v in range(len(side)):
        if side[v] != which:
            continue
        c = place[v]
        indptr[c] = end
        weight[c] = part.weight[v]
        labels[c] = part.labels[v]
        for p in range(part.indptr[v], part.indptr[v + 1]):
            w = part.indices[p]
            if side[w] == which:
                indices[end] = place[w]
                end += 1
    indptr[count] = end
    return Subgraph(indptr, indices[:end], weight, labels)


def _order_by_degree(part: Subgraph, order: Int32, q: Quotient) -> None:
    q.weight[: len(part.weight)] = part.weight
    q.lists[: len(part.indices)] = part.indices
    eliminate(q, part.indptr, order)
    order[:] = part.labels[order]


@compiled
def _expanded(order: Int32, into: Int32) -> Int32:
    """Expand the order of the compressed graph to all vertices; dense vertices are last."""
    count, n = len(order), len(into)
    begins = np.zeros(count + 2, np.int64)
    for v in range(n):
        begins[(into[v] if into[v] != NONE else count) + 1] += 1
    end = 0
    for k in range(count):
        begin = end
        end += begins[order[k] + 1]
        begins[order[k] + 1] = begin
    begins[count + 1] = end
    full = np.empty(n, np.int32)
    for v in range(n):
        c = (into[v] if into[v] != NONE else count) + 1
        full[begins[c]] = v
        begins[c] += 1
    return full
