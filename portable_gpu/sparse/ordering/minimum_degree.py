"""Minimum degree, and multiple minimum degree, on a quotient graph in the graph's own memory.

An eliminated pivot is an *element*: a clique of the vertices reachable from it.  The list of a
vertex holds its elements and the neighbours that are in none of them.  A new element is stored in
the space of the lists that it makes redundant: the pivot's, and those of the elements that it
absorbs, which are linked.  This space is always long enough, so no other memory is needed.

Source: George and Liu, ACM TOMS 6(3), 1980 (the quotient graph in place); Liu, ACM TOMS 11(2), 1985
(multiple elimination).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from portable_gpu.sparse.compiled import compiled_at_once, inner
from portable_gpu.sparse.graph import Graph, Int32, Int64
from portable_gpu.sparse.ordering.merged import NONE, expand

# Values of `weight` for objects that are not vertices any more.
_ELEMENT, _ABSORBED = -1, -2


class Elements(NamedTuple):
    """The quotient graph: the workspace of an ordering.

    A thread may order one graph after another with the same workspace.
    """

    lists: Int32  # the lists of vertices and elements
    start: Int64  # the start of each object's space, which is its row of the graph
    length: Int32  # the used length of each object's space
    link: Int32  # the object in whose space an element's list continues; or -1
    tail: Int32  # the last object of these links
    weight: Int32  # the vertices that a vertex stands for; 0: it is merged
    degree: Int32  # the weight of a vertex's other neighbours, those within elements included
    mark: Int64  # the last stamp with which a vertex was visited
    reachable: Int32  # the vertices of a new element
    into: Int32  # the vertex that a merged one follows in the order; or NONE
    queue: Int32  # a priority queue of the vertices by degree


def elements(vertices: int, entries: int) -> Elements:
    """Allocate workspace for graphs of at most ``vertices`` vertices and ``entries`` entries."""
    return Elements(
        lists=np.empty(entries, np.int32), start=np.empty(vertices + 1, np.int64),
        length=np.empty(vertices, np.int32), link=np.empty(vertices, np.int32),
        tail=np.empty(vertices, np.int32), weight=np.empty(vertices, np.int32),
        degree=np.empty(vertices, np.int32), mark=np.empty(vertices, np.int64),
        reachable=np.empty(vertices, np.int32), into=np.empty(vertices, np.int32),
        queue=np.empty(5 * vertices + 2, np.int32),
    )  # fmt: skip


def md(graph: Graph, workspace: Elements | None = None) -> Int32:
    """Compute the minimum degree ordering: each pivot has the least degree.

    Args:
        graph: The adjacency structure.
        workspace: The result of :func:`elements` for at least this number of vertices and entries;
            None allocates it.

    Returns:
        The permutation, int32: entry k is the vertex to eliminate k-th.

    Degrees are exact, so the ordering is that of the elimination game.

    Cost: each pivot visits the neighbours of its neighbours; use
        :func:`portable_gpu.sparse.ordering.amd` for large graphs.  64 n + 8 m bytes for m edges.
    Determinism: ties go to the lower index.
    Source: George and Liu, SIAM Review 31(1), 1989.
    """
    n, entries = graph.vertices, len(graph.indices)
    order = np.empty(n, np.int32)
    _minimum_degree(graph.indptr, graph.indices, workspace or elements(n, entries), order)
    return order


def mmd(graph: Graph, workspace: Elements | None = None) -> Int32:
    """Compute the multiple minimum degree ordering.

    Args:
        graph, workspace: As for :func:`md`.

    Returns:
        The permutation, int32: entry k is the vertex to eliminate k-th.

    A round eliminates vertices of minimum degree that are not neighbours of each other; degrees are
    updated after the round.  Indistinguishable vertices are merged, and a vertex that has no
    neighbour outside the new element is eliminated with the pivot.

    Cost: as :func:`md`, over fewer and heavier vertices.
    Determinism: ties go to the vertex whose degree changed last.
    Source: Liu, ACM TOMS 11(2), 1985.
    """
    n, entries = graph.vertices, len(graph.indices)
    order = np.empty(n, np.int32)
    _multiple_minimum_degree(graph.indptr, graph.indices, workspace or elements(n, entries), order)
    return order


@inner
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


@inner
def _form_element(q: Elements, pivot: int, stamp: int) -> int:
    """Make the pivot an element; return the number of its vertices in ``q.reachable``."""
    q.mark[pivot] = stamp
    q.weight[pivot] = _ELEMENT
    count = 0
    last = pivot
    for p in range(q.start[pivot], q.start[pivot] + q.length[pivot]):
        v = q.lists[p]
        if q.weight[v] != _ELEMENT:
            count = _add_reachable(q, v, stamp, count)
            continue
        place = v
        while place >= 0:
            for r in range(q.start[place], q.start[place] + q.length[place]):
                count = _add_reachable(q, q.lists[r], stamp, count)
            place = q.link[place]
        q.weight[v] = _ABSORBED
        q.link[last] = v
        last = q.tail[v]
    q.tail[pivot] = last
    done = 0
    place = pivot
    while place >= 0:
        begin = q.start[place]
        length = min(count - done, int(q.start[place + 1] - begin))
        for k in range(length):
            q.lists[begin + k] = q.reachable[done + k]
        q.length[place] = length
        done += length
        place = q.link[place]
    return count


@inner
def _add_reachable(q: Elements, v: int, stamp: int, count: int) -> int:
    """Append ``v`` to the reachable vertices, if it is a vertex and not among them."""
    if q.weight[v] > 0 and q.mark[v] != stamp:
        q.mark[v] = stamp
        q.reachable[count] = v
        return count + 1
    return count


@inner
def _prune(q: Elements, v: int, pivot: int, stamp: int) -> None:
    """Insert the new element into the list of ``v``, and remove the redundant entries."""
    begin = q.start[v]
    write = begin
    for p in range(begin, begin + q.length[v]):
        w = q.lists[p]
        if (q.weight[w] == _ELEMENT and w != pivot) or (q.weight[w] > 0 and q.mark[w] != stamp):
            q.lists[write] = w
            write += 1
    q.lists[write] = pivot
    q.length[v] = write + 1 - begin


@inner
def _count(q: Elements, v: int, stamp: int) -> int:
    """Compute the degree of ``v``."""
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


@inner
def _weigh(q: Elements, v: int, stamp: int) -> int:
    """Return the weight of ``v``, or 0 if it is not a vertex, or was visited."""
    if q.weight[v] > 0 and q.mark[v] != stamp:
        q.mark[v] = stamp
        return int(q.weight[v])
    return 0


@compiled_at_once
def _minimum_degree(indptr: Int64, indices: Int32, q: Elements, order: Int32) -> None:
    n = len(order)
    _begin(q, indptr, indices)
    # A tournament tree: a node is the minimum of its children; vertex v is the leaf `leaves` + v.
    leaves = 1
    while leaves < n:
        leaves *= 2
    tree = q.queue
    for v in range(leaves):
        tree[leaves + v] = q.degree[v] if v < n else n
    for k in range(leaves - 1, 0, -1):
        tree[k] = min(tree[2 * k], tree[2 * k + 1])
    stamp = 0
    for k in range(n):
        pivot = 1
        while pivot < leaves:
            pivot = 2 * pivot + (0 if tree[2 * pivot] == tree[pivot] else 1)
        pivot -= leaves
        order[k] = pivot
        _update_tournament_tree(tree, leaves, pivot, n)
        stamp += 1
        count = _form_element(q, pivot, stamp)
        for r in range(count):
            _prune(q, q.reachable[r], pivot, stamp)
        for r in range(count):
            stamp += 1
            _update_tournament_tree(tree, leaves, q.reachable[r], _count(q, q.reachable[r], stamp))


@inner
def _update_tournament_tree(tree: Int32, leaves: int, v: int, degree: int) -> None:
    """Set the degree of ``v``, and update the minima above it."""
    k = leaves + v
    tree[k] = degree
    while k > 1:
        k //= 2
        tree[k] = min(tree[2 * k], tree[2 * k + 1])


@compiled_at_once
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
        min_degree = 0
        while heads[min_degree] < 0:
            min_degree += 1
        count = 0
        while heads[min_degree] >= 0:
            pivot = heads[min_degree]
            _remove(heads, following, preceding, pivot, q.degree[pivot])
            order[pivots] = pivot
            pivots += 1
            left -= q.weight[pivot]
            stamp += 1
            for r in range(_form_element(q, pivot, stamp)):
                v = q.reachable[r]
                _prune(q, v, pivot, stamp)
                if q.degree[v] >= 0:
                    _remove(heads, following, preceding, v, q.degree[v])
                    q.degree[v] = -1
                    touched[count] = v
                    count += 1
                if q.length[v] == 1:  # only the pivot's element
                    left -= q.weight[v]
                    q.weight[v] = 0
                    q.into[v] = pivot
        stamp = _merge_indistinguishable(q, touched[:count], buckets, following, stamp)
        for k in range(count):
            v = touched[k]
            if q.weight[v] > 0:
                stamp += 1
                q.degree[v] = _count(q, v, stamp)
                _insert(heads, following, preceding, v, q.degree[v])
    expand(q.into, order, pivots, q.degree, q.length)


@inner
def _merge_indistinguishable(
    q: Elements, touched: Int32, buckets: Int32, next_in_bucket: Int32, stamp: int
) -> int:
    """Merge indistinguishable vertices; return the last stamp."""
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
            w = next_in_bucket[w]
        if q.weight[v] > 0:
            next_in_bucket[v] = buckets[key]
            buckets[key] = v
    for v in touched:  # empty the buckets
        key = 0
        for p in range(q.start[v], q.start[v] + q.length[v]):
            key += q.lists[p]
        buckets[key % len(buckets)] = -1
    return stamp


@inner
def _insert(heads: Int32, following: Int32, preceding: Int32, v: int, degree: int) -> None:
    """Insert ``v`` at the head of the list of its degree."""
    first = heads[degree]
    heads[degree] = v
    following[v] = first
    preceding[v] = -1
    if first >= 0:
        preceding[first] = v


@inner
def _remove(heads: Int32, following: Int32, preceding: Int32, v: int, degree: int) -> None:
    """Remove ``v`` from the list of its degree."""
    before, after = preceding[v], following[v]
    if before >= 0:
        following[before] = after
    else:
        heads[degree] = after
    if after >= 0:
        preceding[after] = before
