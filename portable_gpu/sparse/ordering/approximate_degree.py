"""The approximate minimum degree ordering.

The eliminated pivots are *elements* of a quotient graph: cliques, each stored as the list of its
uneliminated vertices.  The list of a vertex holds its elements, then the neighbours that are in
none of them.  Vertices with equal lists (indistinguishable vertices) are merged into one vertex of
larger weight.  The list of a new element is the union of the lists of the pivot's elements, which
it absorbs.  The degree of a vertex is bounded by a sum over its elements, so no union is formed.

Source: Amestoy, Davis and Duff, SIAM J. Matrix Anal. Appl. 17(4), 1996, and ACM TOMS 30(3), 2004.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from portable_gpu.sparse.compiled import compiled, inner
from portable_gpu.sparse.graph import Graph, Int32, Int64
from portable_gpu.sparse.ordering.merged import LAST, NONE, expand

#: A vertex with more than max(16, DENSE sqrt(n)) neighbours is dense: it is ordered last.
DENSE = 10.0


class Quotient(NamedTuple):
    """The quotient graph and its degree lists: the workspace of an ordering.

    An object is a vertex or, once it is eliminated, an element.
    """

    lists: Int32  # the lists of all objects, one after another, then free space
    start: Int64  # the start of each object's list; -1: it has none any more
    length: Int32  # the length of each object's list
    elements: Int32  # the number of elements in a vertex's list; they precede the neighbours
    weight: Int32  # vertices that it stands for; 0: removed; negative: in the pivot's list
    degree: Int32  # vertex: the degree's bound; element: the weight of its list
    tag: Int64  # 0: an absorbed element; else a mark, which only increases
    into: Int32  # the vertex that a merged one follows in the order; else -1, or LAST if dense
    heads: Int32  # the first vertex of each degree; temporarily also of each hash
    following: Int32  # the next vertex of the same degree
    preceding: Int32  # the previous vertex of the same degree
    hashes: Int32  # the hash of a vertex's list
    next_with_hash: Int32  # the next vertex of the same hash


def quotient(vertices: int, entries: int, weight: int) -> Quotient:
    """Allocate a quotient graph.

    Args:
        vertices, entries, weight: Limits of the graphs to order: the number of vertices, of entries
            of their adjacency lists, and the sum of the vertices' weights.
    """
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
        next_with_hash=np.empty(n, short),
    )


def amd(graph: Graph) -> Int32:
    """Compute the approximate minimum degree ordering.

    Args:
        graph: The adjacency structure.

    Returns:
        The permutation, int32: entry k is the vertex to eliminate k-th.

    Vertices with more than ``max(16, 10 sqrt(n))`` neighbours are ordered last.  A new element
    absorbs every element that is a subset of it, adjacent to the pivot or not (aggressive
    absorption).

    Cost: O(n m) time at worst for m edges, in practice close to O(m); some 10 m + 60 n bytes.
    Determinism: ties go to the vertex whose degree changed last.
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
    """Order the graph with the adjacency lists ``q.lists`` and the weights ``q.weight``."""
    n = len(order)
    total, left = _begin(q, indptr, n)
    free = indptr[n]
    mark = 2
    min_degree = 0
    pivots = 0
    while left > 0:
        while q.heads[min_degree] < 0:
            min_degree += 1
        pivot = q.heads[min_degree]
        _remove(q, pivot)
        order[pivots] = pivot
        pivots += 1
        left -= q.weight[pivot]

        if free + _list_length_bound(q, pivot, n) > len(q.lists):
            free = _compact(q, n)
        absorbs = q.elements[pivot] > 0
        _form_element(q, pivot, free)
        mark += total + 1  # an old mark plus a degree stays below the new mark
        _weigh_differences(q, pivot, mark)
        left -= _bound_degrees(q, pivot, mark)
        mark = _merge_indistinguishable(q, pivot, mark + total + 1)
        min_degree = min(min_degree, _reinsert(q, pivot, left))
        if absorbs:
            free += q.length[pivot]
    expand(q.into, order, pivots, q.degree, q.following)


@inner
def _begin(q: Quotient, indptr: Int64, n: int) -> tuple[int, int]:
    """Set up the lists; return the weight of all vertices, and of those that are not dense."""
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


@inner
def _insert(q: Quotient, v: int) -> None:
    """Insert ``v`` at the head of the list of its degree."""
    first = q.heads[q.degree[v]]
    q.heads[q.degree[v]] = v
    q.following[v] = first
    q.preceding[v] = -1
    if first >= 0:
        q.preceding[first] = v


@inner
def _remove(q: Quotient, v: int) -> None:
    """Remove ``v`` from the list of its degree."""
    before, after = q.preceding[v], q.following[v]
    if before >= 0:
        q.following[before] = after
    else:
        q.heads[q.degree[v]] = after
    if after >= 0:
        q.preceding[after] = before


@inner
def _list_length_bound(q: Quotient, pivot: int, n: int) -> int:
    """Bound the length of the new element's list; 0 if it overwrites the pivot's list."""
    if q.elements[pivot] == 0:
        return 0
    begin = q.start[pivot]
    bound = int(q.length[pivot])
    for p in range(begin, begin + q.elements[pivot]):
        bound += q.length[q.lists[p]]
    return bound if bound < n else n


@inner
def _compact(q: Quotient, n: int) -> int:
    """Compact the lists; return where the free space begins."""
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


@inner
def _form_element(q: Quotient, pivot: int, free: int) -> None:
    """Make the pivot an element, whose list has the reachable vertices; negate their weights."""
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


@inner
def _weigh_differences(q: Quotient, pivot: int, mark: int) -> None:
    """Set the tag of each adjacent element to ``mark`` plus the weight of its list outside.

    Outside are the vertices that are not in the pivot's list.
    """
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


@inner
def _bound_degrees(q: Quotient, pivot: int, mark: int) -> int:
    """Prune the lists of the pivot's vertices, and bound their degrees outside its list.

    A vertex without a neighbour outside is eliminated with the pivot (mass elimination).

    Returns:
        The weight of the vertices eliminated so.
    """
    begin = q.start[pivot]
    hashes = len(q.heads) // 2
    eliminated = 0
    for r in range(begin, begin + q.length[pivot]):
        v = q.lists[r]
        first = q.start[v]
        middle, last = first + q.elements[v], first + q.length[v]
        write = first
        degree = 0
        hash_sum = 0
        for p in range(first, middle):
            e = q.lists[p]
            if q.tag[e] != 0:
                outside = q.tag[e] - mark
                if outside > 0:
                    degree += outside
                    hash_sum += e
                    q.lists[write] = e
                    write += 1
                else:
                    q.tag[e] = 0
                    q.start[e] = -1
        q.elements[v] = write - first + 1
        neighbours = write
        for p in range(middle, last):
            w = q.lists[p]
            if q.weight[w] > 0:
                degree += q.weight[w]
                hash_sum += w
                q.lists[write] = w
                write += 1
        if write == first:
            eliminated -= q.weight[v]
            q.weight[v] = 0
            q.start[v] = -1
            q.into[v] = pivot
        else:
            q.degree[v] = min(int(q.degree[v]), degree)
            q.lists[write] = q.lists[neighbours]
            q.lists[neighbours] = q.lists[first]
            q.lists[first] = pivot
            q.length[v] = write - first + 1
            key = hashes + hash_sum % hashes
            q.next_with_hash[v] = q.heads[key]
            q.heads[key] = v
            q.hashes[v] = key
    q.degree[pivot] -= eliminated
    return eliminated


@inner
def _merge_indistinguishable(q: Quotient, pivot: int, mark: int) -> int:
    """Merge indistinguishable vertices of the pivot's list; return an unused mark."""
    begin = q.start[pivot]
    for r in range(begin, begin + q.length[pivot]):
        v = q.lists[r]
        if q.weight[v] == 0:
            continue
        key = q.hashes[v]
        v = q.heads[key]
        q.heads[key] = -1
        while v >= 0 and q.next_with_hash[v] >= 0:
            length, elements = q.length[v], q.elements[v]
            for p in range(q.start[v] + 1, q.start[v] + length):
                q.tag[q.lists[p]] = mark
            before, w = v, q.next_with_hash[v]
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
                    q.next_with_hash[before] = q.next_with_hash[w]
                else:
                    before = w
                w = q.next_with_hash[w]
            mark += 1
            v = q.next_with_hash[v]
    return mark


@inner
def _reinsert(q: Quotient, pivot: int, left: int) -> int:
    """Insert the pivot's vertices into the degree lists again; return their minimum degree."""
    begin = q.start[pivot]
    end = begin
    min_degree = left
    for r in range(begin, begin + q.length[pivot]):
        v = q.lists[r]
        weight = -int(q.weight[v])
        if weight > 0:
            q.weight[v] = weight
            degree = min(int(q.degree[v] + q.degree[pivot]), left) - weight
            q.degree[v] = degree
            _insert(q, v)
            min_degree = min(min_degree, degree)
            q.lists[end] = v
            end += 1
    q.length[pivot] = end - begin
    q.weight[pivot] = 0
    if end == begin:
        q.start[pivot] = -1
        q.tag[pivot] = 0
    return min_degree
