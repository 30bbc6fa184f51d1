"""Approximate minimum degree.

The pivots eliminated so far are *elements* of a quotient graph: cliques, each kept as the list of
its uneliminated vertices.  A vertex keeps a list of elements, then of the neighbours that it has
outside them.  Vertices of equal lists merge into one of larger weight.  A pivot's list is the
union of its elements' lists; these elements are absorbed.  The degree of a vertex is bounded by a
sum over its elements; no union is formed for it.

Source: Amestoy, Davis and Duff, SIAM J. Matrix Anal. Appl. 17(4), 1996, and ACM TOMS 30(3), 2004.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from portable_gpu.sparse.compiled import compiled
from portable_gpu.sparse.graph import Graph, Int32, Int64
from portable_gpu.sparse.ordering.merged import LAST, NONE, expand

#: A vertex with more than max(16, DENSE sqrt(n)) neighbours is put last.
DENSE = 10.0


class Quotient(NamedTuple):
    """The quotient graph, and lists of its vertices by degree: what an ordering works in.

    An object is a vertex or, once eliminated, an element.
    """

    lists: Int32  # of all objects, one after another, with room at the end
    start: Int64  # where the list of each begins; -1: it has none any more
    length: Int32
    elements: Int32  # how many of a vertex's list are elements; they come first
    weight: Int32  # of a merged one, all; 0: gone; negative: in the pivot's list
    degree: Int32  # of a vertex: the bound; of an element: the weight of its list
    tag: Int64  # 0: an absorbed element; else a mark that counts upwards
    into: Int32  # of a merged vertex: what it follows in the order; else -1, or LAST if dense
    heads: Int32  # first vertex of each degree; for a moment also of each hash
    following: Int32  # the next of equal degree
    preceding: Int32
    hashes: Int32
    alike: Int32  # the next of equal hash


def quotient(vertices: int, entries: int, weight: int) -> Quotient:
    """Room to order graphs of so many vertices, entries of their lists, and weight in all."""
    n, short, long = max(vertices, 1), np.int32, np.int64
    return Quotient(
        lists=np.empty(entries + entries // 5 + n, short),
        start=np.empty(n, long),
        length=np.empty(n, short),
        elements=np.empty(n, short),
        weight=np.empty(n, short),
        degree=np.empty(n, short),
        tag=np.empty(n, long),
        into=np.empty(n, short),
        heads=np.full(2 * (weight + 1), -1, short),
        following=np.empty(n, short),
        preceding=np.empty(n, short),
        hashes=np.empty(n, short),
        alike=np.empty(n, short),
    )


def amd(graph: Graph) -> Int32:
    """The approximate minimum degree ordering.

    Args:
        graph: The adjacency structure.

    Returns:
        The permutation, int32: entry k is the vertex to eliminate k-th.

    Vertices with more than ``max(16, 10 sqrt(n))`` neighbours come last.  Elements that lie within
    a new one are absorbed, neighbours of its pivot or not (aggressive absorption).

    Cost: O(n m) time at worst for m edges, in practice close to O(m); some 10 m + 60 n bytes.
    Determinism: of vertices of one degree, the one that got it last comes first.
    Source: Amestoy, Davis and Duff, SIAM J. Matrix Anal. Appl. 17(4), 1996.
    """
    n, entries = graph.vertices, len(graph.indices)
    q = quotient(n, entries, n)
    q.lists[:entries] = graph.indices
    q.weight[:] = 1
    order = np.empty(n, np.int32)
    eliminate(q, graph.indptr.copy(), order)
    return order


@compiled
def eliminate(q: Quotient, indptr: Int64, order: Int32) -> None:
    """Order the graph whose neighbours are in ``q.lists`` and whose weights are in ``q.weight``."""
    n = len(order)
    total, left = _begin(q, indptr, n)
    free = indptr[n]
    mark = 2
    least = 0
    pivots = 0
    while left > 0:
        while q.heads[least] < 0:
            least += 1
        pivot = q.heads[least]
        _remove(q, pivot)
        order[pivots] = pivot
        pivots += 1
        left -= q.weight[pivot]

        if free + _room(q, pivot, n) > len(q.lists):
            free = _compact(q, n)
        absorbs = q.elements[pivot] > 0
        _form_element(q, pivot, free)
        mark += total + 1  # no degree reaches from an old mark to a new one
        _weigh_differences(q, pivot, mark)
        left -= _bound_degrees(q, pivot, mark)
        mark = _merge_alike(q, pivot, mark + total + 1)
        least = min(least, _list_again(q, pivot, left))
        if absorbs:
            free += q.length[pivot]
    expand(q.into, order, pivots, q.degree, q.following)


@compiled
def _begin(q: Quotient, indptr: Int64, n: int) -> tuple[int, int]:
    """Every vertex with its own neighbours: the weight in all, and of those that are not dense."""
    dense = max(16.0, DENSE * math.sqrt(n))
    total = 0
    left = 0
    for v in range(n):
        q.start[v] = indptr[v]
        q.length[v] = indptr[v + 1] - indptr[v]
        q.elements[v] = 0
        q.tag[v] = 1
        q.into[v] = NONE
        q.following[v] = -1
        degree = 0
        for p in range(indptr[v], indptr[v + 1]):
            degree += q.weight[q.lists[p]]
        q.degree[v] = degree
        total += q.weight[v]
    for v in range(n):
        if q.length[v] > dense:
            q.start[v] = -1
            q.weight[v] = 0
            q.into[v] = LAST
        else:
            left += q.weight[v]
            _insert(q, v)
    return total, left


@compiled
def _insert(q: Quotient, v: int) -> None:
    """Put ``v`` first in the list of its degree."""
    first = q.heads[q.degree[v]]
    q.heads[q.degree[v]] = v
    q.following[v] = first
    q.preceding[v] = -1
    if first >= 0:
        q.preceding[first] = v


@compiled
def _remove(q: Quotient, v: int) -> None:
    """Take ``v`` out of the list of its degree."""
    before, after = q.preceding[v], q.following[v]
    if before >= 0:
        q.following[before] = after
    else:
        q.heads[q.degree[v]] = after
    if after >= 0:
        q.preceding[after] = before


@compiled
def _room(q: Quotient, pivot: int, n: int) -> int:
    """A bound on the length of the pivot's list; 0 if it takes the place of the pivot's own."""
    if q.elements[pivot] == 0:
        return 0
    begin = q.start[pivot]
    bound = int(q.length[pivot])
    for p in range(begin, begin + q.elements[pivot]):
        bound += q.length[q.lists[p]]
    return bound if bound < n else n


@compiled
def _compact(q: Quotient, n: int) -> int:
    """Move the lists together; return where the room behind them begins."""
    end = 0
    for v in range(n):
        begin = q.start[v]
        if begin >= 0:
            end = max(end, int(begin + q.length[v]))
            q.start[v] = q.lists[begin]
            q.lists[begin] = -v - 2
    free = 0
    p = 0
    while p < end:
        if q.lists[p] > -2:
            p += 1
            continue
        v = -q.lists[p] - 2
        q.lists[free] = q.start[v]
        q.start[v] = free
        for k in range(1, q.length[v]):
            q.lists[free + k] = q.lists[p + k]
        p += q.length[v]
        free += q.length[v]
    return free


@compiled
def _form_element(q: Quotient, pivot: int, free: int) -> None:
    """Make the pivot an element: what it reaches becomes its list, of negative weights."""
    begin, elements = q.start[pivot], q.elements[pivot]
    q.weight[pivot] = -q.weight[pivot]
    first = begin if elements == 0 else free
    end = first
    degree = 0
    for k in range(elements + 1):
        if k < elements:
            source = q.lists[begin + k]
            p, length = q.start[source], q.length[source]
            q.tag[source] = 0
            q.start[source] = -1
        else:
            p, length = begin + elements, q.length[pivot] - elements
        for r in range(p, p + length):
            v = q.lists[r]
            weight = q.weight[v]
            if weight > 0:
                degree += weight
                q.weight[v] = -weight
                q.lists[end] = v
                end += 1
                _remove(q, v)
    q.start[pivot] = first
    q.length[pivot] = end - first
    q.degree[pivot] = degree


@compiled
def _weigh_differences(q: Quotient, pivot: int, mark: int) -> None:
    """Tag each element near with ``mark`` + the weight of its list outside the pivot's."""
    begin = q.start[pivot]
    for r in range(begin, begin + q.length[pivot]):
        v = q.lists[r]
        weight = -q.weight[v]
        for p in range(q.start[v], q.start[v] + q.elements[v]):
            e = q.lists[p]
            tag = q.tag[e]
            if tag >= mark:
                q.tag[e] = tag - weight
            elif tag != 0:
                q.tag[e] = q.degree[e] + mark - weight


@compiled
def _bound_degrees(q: Quotient, pivot: int, mark: int) -> int:
    """Prune the lists of the pivot's vertices, and bound their degrees outside its list.

    A vertex with no neighbour outside is eliminated with the pivot.  Their weight is returned.
    """
    begin = q.start[pivot]
    hashes = len(q.heads) // 2
    eliminated = 0
    for r in range(begin, begin + q.length[pivot]):
        v = q.lists[r]
        first = q.start[v]
        middle, last = first + q.elements[v], first + q.length[v]
        kept = first
        degree = 0
        total = 0
        for p in range(first, middle):
            e = q.lists[p]
            if q.tag[e] != 0:
                outside = q.tag[e] - mark
                if outside > 0:
                    degree += outside
                    total += e
                    q.lists[kept] = e
                    kept += 1
                else:
                    q.tag[e] = 0
                    q.start[e] = -1
        q.elements[v] = kept - first + 1
        neighbours = kept
        for p in range(middle, last):
            w = q.lists[p]
            if q.weight[w] > 0:
                degree += q.weight[w]
                total += w
                q.lists[kept] = w
                kept += 1
        if kept == first:
            eliminated -= q.weight[v]
            q.weight[v] = 0
            q.start[v] = -1
            q.into[v] = pivot
        else:
            q.degree[v] = min(int(q.degree[v]), degree)
            q.lists[kept] = q.lists[neighbours]
            q.lists[neighbours] = q.lists[first]
            q.lists[first] = pivot
            q.length[v] = kept - first + 1
            key = hashes + total % hashes
            q.alike[v] = q.heads[key]
            q.heads[key] = v
            q.hashes[v] = key
    q.degree[pivot] -= eliminated
    return eliminated


@compiled
def _merge_alike(q: Quotient, pivot: int, mark: int) -> int:
    """Merge vertices of the pivot's list that have equal lists; return a mark not used yet."""
    begin = q.start[pivot]
    for r in range(begin, begin + q.length[pivot]):
        v = q.lists[r]
        if q.weight[v] == 0:
            continue
        key = q.hashes[v]
        v = q.heads[key]
        q.heads[key] = -1
        while v >= 0 and q.alike[v] >= 0:
            length, elements = q.length[v], q.elements[v]
            for p in range(q.start[v] + 1, q.start[v] + length):
                q.tag[q.lists[p]] = mark
            before, w = v, q.alike[v]
            while w >= 0:
                same = q.length[w] == length and q.elements[w] == elements
                if same:
                    for p in range(q.start[w] + 1, q.start[w] + length):
                        if q.tag[q.lists[p]] != mark:
                            same = False
                            break
                if same:
                    q.weight[v] += q.weight[w]
                    q.weight[w] = 0
                    q.start[w] = -1
                    q.into[w] = v
                    q.alike[before] = q.alike[w]
                else:
                    before = w
                w = q.alike[w]
            mark += 1
            v = q.alike[v]
    return mark


@compiled
def _list_again(q: Quotient, pivot: int, left: int) -> int:
    """Put the pivot's vertices back into the lists by degree; return the least of these degrees."""
    begin = q.start[pivot]
    end = begin
    least = left
    for r in range(begin, begin + q.length[pivot]):
        v = q.lists[r]
        weight = -int(q.weight[v])
        if weight > 0:
            q.weight[v] = weight
            degree = min(int(q.degree[v] + q.degree[pivot]), left) - weight
            q.degree[v] = degree
            _insert(q, v)
            least = min(least, degree)
            q.lists[end] = v
            end += 1
    q.length[pivot] = end - begin
    q.weight[pivot] = 0
    if end == begin:
        q.start[pivot] = -1
        q.tag[pivot] = 0
    return least
