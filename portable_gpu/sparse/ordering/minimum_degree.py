"""Minimum degree, and multiple minimum degree, on a quotient graph in the graph's own memory.

An eliminated pivot is an *element*: a clique of the vertices that it reaches.  A vertex keeps a
list of elements and of neighbours that it has outside them.  A pivot's element takes the places of
the lists that it makes superfluous: its own, and those of the elements that it absorbs, linked.
They are always long enough, so the graph's own memory is enough.

Source: George and Liu, ACM TOMS 6(3), 1980 (the quotient graph in place); Liu, ACM TOMS 11(2), 1985
(multiple elimination).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from portable_gpu.sparse.compiled import compiled
from portable_gpu.sparse.graph import Graph, Int32, Int64
from portable_gpu.sparse.ordering.merged import NONE, expand

# What `weight` says of what is no vertex any more.
_ELEMENT, _ABSORBED = -1, -2


class Elements(NamedTuple):
    """The quotient graph: what an ordering works in, of graphs of at most so many vertices.

    Threads that order one graph after another keep one of these each.
    """

    lists: Int32  # of vertices and elements
    start: Int64  # where the place of each object begins; the places are those of the graph's rows
    length: Int32  # how much of its place is used
    link: Int32  # the object in whose place an element's list goes on; or -1
    tail: Int32  # the last of these places
    weight: Int32  # of a vertex: how many it stands for; 0: it is merged
    degree: Int32  # the weight of a vertex's other neighbours, elements' vertices among them
    mark: Int64  # when a vertex was met
    reach: Int32  # the vertices of a new element
    into: Int32  # of a merged vertex: what it follows in the order; or NONE
    queue: Int32  # of the vertices by their degrees


def elements(vertices: int, entries: int) -> Elements:
    """Room to order graphs of at most so many vertices and entries of their lists."""
    return Elements(
        np.empty(entries, np.int32),
        np.empty(vertices + 1, np.int64),
        np.empty(vertices, np.int32),
        np.empty(vertices, np.int32),
        np.empty(vertices, np.int32),
        np.empty(vertices, np.int32),
        np.empty(vertices, np.int32),
        np.empty(vertices, np.int64),
        np.empty(vertices, np.int32),
        np.empty(vertices, np.int32),
        np.empty(5 * vertices + 2, np.int32),
    )


def md(graph: Graph, room: Elements | None = None) -> Int32:
    """The minimum degree ordering: each pivot has the least degree of the vertices left.

    Args:
        graph: The adjacency structure.
        room: What to work in (default: memory of its own): :func:`elements` of at least as many
            vertices and entries.

    Returns:
        The permutation, int32: entry k is the vertex to eliminate k-th.

    Degrees are exact, and of vertices of one degree the first is taken.  So the ordering is that of
    the elimination game.

    Cost: each pivot visits the neighbours of its neighbours; of large graphs take
        :func:`portable_gpu.sparse.ordering.amd`.  64 n + 8 m bytes for m edges.
    Determinism: ties go to the lower index.
    Source: George and Liu, SIAM Review 31(1), 1989.
    """
    n, entries = graph.vertices, len(graph.indices)
    order = np.empty(n, np.int32)
    _minimum_degree(graph.indptr, graph.indices, room or elements(n, entries), order)
    return order


def mmd(graph: Graph, room: Elements | None = None) -> Int32:
    """The multiple minimum degree ordering.

    Args:
        graph, room: As :func:`md` takes them.

    Returns:
        The permutation, int32: entry k is the vertex to eliminate k-th.

    A round eliminates vertices of least degree as long as none is a neighbour of another; degrees
    are updated after the round.  Vertices of equal neighbours count as one, and what a pivot leaves
    without further neighbours goes with it.

    Cost: as :func:`md`, over fewer and heavier vertices.
    Determinism: ties go to the vertex whose degree changed last.
    Source: Liu, ACM TOMS 11(2), 1985.
    """
    n, entries = graph.vertices, len(graph.indices)
    order = np.empty(n, np.int32)
    _multiple_minimum_degree(graph.indptr, graph.indices, room or elements(n, entries), order)
    return order


@compiled
def _begin(q: Elements, indptr: Int64, indices: Int32) -> None:
    n = len(indptr) - 1
    for p in range(indptr[n]):
        q.lists[p] = indices[p]
    q.start[n] = indptr[n]
    for v in range(n):
        q.start[v] = indptr[v]
        q.length[v] = q.degree[v] = indptr[v + 1] - indptr[v]
        q.link[v] = -1
        q.tail[v] = v
        q.weight[v] = 1
        q.mark[v] = 0
        q.into[v] = NONE


@compiled
def _form_element(q: Elements, pivot: int, stamp: int) -> int:
    """Make the pivot an element; return how many vertices it reaches, the first of ``q.reach``."""
    q.mark[pivot] = stamp
    q.weight[pivot] = _ELEMENT
    count = 0
    last = pivot
    for p in range(q.start[pivot], q.start[pivot] + q.length[pivot]):
        v = q.lists[p]
        if q.weight[v] != _ELEMENT:
            count = _meet(q, v, stamp, count)
            continue
        place = v
        while place >= 0:
            for r in range(q.start[place], q.start[place] + q.length[place]):
                count = _meet(q, q.lists[r], stamp, count)
            place = q.link[place]
        q.weight[v] = _ABSORBED
        q.link[last] = v
        last = q.tail[v]
    q.tail[pivot] = last
    done = 0
    place = pivot
    while place >= 0:
        begin = q.start[place]
        taken = min(count - done, int(q.start[place + 1] - begin))
        for k in range(taken):
            q.lists[begin + k] = q.reach[done + k]
        q.length[place] = taken
        done += taken
        place = q.link[place]
    return count


@compiled
def _meet(q: Elements, v: int, stamp: int, count: int) -> int:
    """Add ``v`` to the reach, if it is a vertex that is not there yet."""
    if q.weight[v] > 0 and q.mark[v] != stamp:
        q.mark[v] = stamp
        q.reach[count] = v
        return count + 1
    return count


@compiled
def _prune(q: Elements, v: int, pivot: int, stamp: int) -> None:
    """Put the new element into the list of ``v``, for all that it makes superfluous there."""
    begin = q.start[v]
    kept = begin
    for p in range(begin, begin + q.length[v]):
        w = q.lists[p]
        if (q.weight[w] == _ELEMENT and w != pivot) or (q.weight[w] > 0 and q.mark[w] != stamp):
            q.lists[kept] = w
            kept += 1
    q.lists[kept] = pivot
    q.length[v] = kept + 1 - begin


@compiled
def _count(q: Elements, v: int, stamp: int) -> int:
    """The degree of ``v``."""
    q.mark[v] = stamp
    degree = 0
    for p in range(q.start[v], q.start[v] + q.length[v]):
        w = q.lists[p]
        if q.weight[w] != _ELEMENT:
            degree += _weigh(q, w, stamp)
            continue
        while w >= 0:
            for r in range(q.start[w], q.start[w] + q.length[w]):
                degree += _weigh(q, q.lists[r], stamp)
            w = q.link[w]
    return degree


@compiled
def _weigh(q: Elements, v: int, stamp: int) -> int:
    """The weight of ``v``, if it is a vertex that was not met yet."""
    if q.weight[v] > 0 and q.mark[v] != stamp:
        q.mark[v] = stamp
        return int(q.weight[v])
    return 0


@compiled
def _minimum_degree(indptr: Int64, indices: Int32, q: Elements, order: Int32) -> None:
    n = len(order)
    _begin(q, indptr, indices)
    # A tournament: a node knows the least degree of its two; vertex v is the leaf `leaves` + v.
    leaves = 1
    while leaves < n:
        leaves *= 2
    least = q.queue
    for v in range(leaves):
        least[leaves + v] = q.degree[v] if v < n else n
    for k in range(leaves - 1, 0, -1):
        least[k] = min(least[2 * k], least[2 * k + 1])
    stamp = 0
    for k in range(n):
        pivot = 1
        while pivot < leaves:
            pivot = 2 * pivot + (0 if least[2 * pivot] == least[pivot] else 1)
        pivot -= leaves
        order[k] = pivot
        _play(least, leaves, pivot, n)
        stamp += 1
        count = _form_element(q, pivot, stamp)
        for r in range(count):
            _prune(q, q.reach[r], pivot, stamp)
        for r in range(count):
            stamp += 1
            _play(least, leaves, q.reach[r], _count(q, q.reach[r], stamp))


@compiled
def _play(least: Int32, leaves: int, v: int, degree: int) -> None:
    """Give ``v`` another degree."""
    k = leaves + v
    least[k] = degree
    while k > 1:
        k //= 2
        least[k] = min(least[2 * k], least[2 * k + 1])


@compiled
def _multiple_minimum_degree(indptr: Int64, indices: Int32, q: Elements, order: Int32) -> None:
    n = len(order)
    _begin(q, indptr, indices)
    heads, following, preceding = q.queue[:n], q.queue[n : 2 * n], q.queue[2 * n : 3 * n]
    buckets, touched = q.queue[3 * n : 4 * n], q.queue[4 * n : 5 * n]
    for v in range(n):
        heads[v] = buckets[v] = -1
    for v in range(n - 1, -1, -1):
        _insert(heads, following, preceding, v, q.degree[v])
    pivots = 0
    left = n
    stamp = 0
    while left > 0:
        least = 0
        while heads[least] < 0:
            least += 1
        count = 0
        while heads[least] >= 0:
            pivot = heads[least]
            _remove(heads, following, preceding, pivot, q.degree[pivot])
            order[pivots] = pivot
            pivots += 1
            left -= q.weight[pivot]
            stamp += 1
            for r in range(_form_element(q, pivot, stamp)):
                v = q.reach[r]
                _prune(q, v, pivot, stamp)
                if q.degree[v] >= 0:
                    _remove(heads, following, preceding, v, q.degree[v])
                    q.degree[v] = -1
                    touched[count] = v
                    count += 1
                if q.length[v] == 1:  # nothing but the pivot's element
                    left -= q.weight[v]
                    q.weight[v] = 0
                    q.into[v] = pivot
        stamp = _merge_alike(q, touched[:count], buckets, following, stamp)
        for k in range(count):
            v = touched[k]
            if q.weight[v] > 0:
                stamp += 1
                q.degree[v] = _count(q, v, stamp)
                _insert(heads, following, preceding, v, q.degree[v])
    expand(q.into, order, pivots, q.degree, q.length)


@compiled
def _merge_alike(q: Elements, touched: Int32, buckets: Int32, alike: Int32, stamp: int) -> int:
    """Merge vertices of equal lists; return the last mark in use."""
    for v in touched:
        if q.weight[v] <= 0:
            continue
        key = 0
        for p in range(q.start[v], q.start[v] + q.length[v]):
            key += q.lists[p]
        key %= len(buckets)
        stamp += 1
        for p in range(q.start[v], q.start[v] + q.length[v]):
            q.mark[q.lists[p]] = stamp
        w = buckets[key]
        while w >= 0:
            same = q.length[w] == q.length[v]
            for p in range(q.start[w], q.start[w] + q.length[w]):
                same = same and q.mark[q.lists[p]] == stamp
            if same:
                q.weight[w] += q.weight[v]
                q.weight[v] = 0
                q.into[v] = w
                break
            w = alike[w]
        if q.weight[v] > 0:
            alike[v] = buckets[key]
            buckets[key] = v
    for v in touched:  # the buckets are empty again
        key = 0
        for p in range(q.start[v], q.start[v] + q.length[v]):
            key += q.lists[p]
        buckets[key % len(buckets)] = -1
    return stamp


@compiled
def _insert(heads: Int32, following: Int32, preceding: Int32, v: int, degree: int) -> None:
    """Put ``v`` first in the list of its degree."""
    first = heads[degree]
    heads[degree] = v
    following[v] = first
    preceding[v] = -1
    if first >= 0:
        preceding[first] = v


@compiled
def _remove(heads: Int32, following: Int32, preceding: Int32, v: int, degree: int) -> None:
    """Take ``v`` out of the list of its degree."""
    before, after = preceding[v], following[v]
    if before >= 0:
        following[before] = after
    else:
        heads[degree] = after
    if after >= 0:
        preceding[after] = before
