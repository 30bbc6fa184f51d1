"""Compressed graphs: indistinguishable vertices are merged, and dense vertices are removed.

Source: Ashcraft, SIAM J. Sci. Comput. 16(6), 1995 (compressed graphs).
"""

from __future__ import annotations

import math

import numpy as np

from portable_gpu.sparse.compiled import compiled, inner
from portable_gpu.sparse.graph import Int32, Int64
from portable_gpu.sparse.ordering.approximate_degree import DENSE

#: The compressed vertex of a dense vertex: there is none.
NONE = -1


@compiled
def compressed(indptr: Int64, indices: Int32) -> tuple[Int64, Int32, Int32, Int32]:
    """Compress a graph.

    Two vertices are indistinguishable if they are neighbours and have the same other neighbours.

    Returns:
        The compressed graph's pointers and indices, its vertices' weights, and for each vertex of
        the graph its compressed vertex.
    """
    into = _classes(indptr, indices)
    n = len(into)
    count = 0
    for v in range(n):
        count = max(count, into[v] + 1)
    weight = np.zeros(count, np.int32)
    small_indptr = np.empty(count + 1, np.int64)
    small = np.empty(len(indices), np.int32)
    seen = np.full(count, -1, np.int32)
    end = 0
    c = 0
    for v in range(n):
        if into[v] == NONE:
            continue
        weight[into[v]] += 1
        if into[v] < c:
            continue
        small_indptr[c] = end
        seen[c] = c
        for p in range(indptr[v], indptr[v + 1]):
            d = into[indices[p]]
            if d != NONE and seen[d] != c:
                seen[d] = c
                small[end] = d
                end += 1
        c += 1
    small_indptr[count] = end
    return small_indptr, small[:end].copy(), weight, into


@inner
def _classes(indptr: Int64, indices: Int32) -> Int32:
    """Number the classes of indistinguishable vertices, by first vertex; NONE for dense ones."""
    n = len(indptr) - 1
    dense = max(16.0, DENSE * math.sqrt(n))
    key = np.empty(n, np.int64)  # a hash of the neighbours and the vertex itself
    for v in range(n):
        key[v] = _mixed(v)
        for p in range(indptr[v], indptr[v + 1]):
            key[v] += _mixed(indices[p])
    unknown = -2
    into = np.full(n, unknown, np.int32)
    mark = np.full(n, -1, np.int32)
    count = 0
    for v in range(n):
        if indptr[v + 1] - indptr[v] > dense:
            into[v] = NONE
    for v in range(n):
        if into[v] != unknown:
            continue
        into[v] = count
        marked = False
        for p in range(indptr[v], indptr[v + 1]):
            w = indices[p]
            if into[w] != unknown or key[w] != key[v]:
                continue
            if not marked:
                mark[v] = v
                for q in range(indptr[v], indptr[v + 1]):
                    mark[indices[q]] = v
                marked = True
            same = indptr[w + 1] - indptr[w] == indptr[v + 1] - indptr[v]
            for q in range(indptr[w], indptr[w + 1]):
                if mark[indices[q]] != v:
                    same = False
                    break
            if same:
                into[w] = count
        count += 1
    return into


@inner
def _mixed(v: int) -> int:
    """Hash an index, so that sums of different indices rarely coincide."""
    mixed = (int(v) + 1) * 2654435761
    return mixed ^ (mixed >> 15)
