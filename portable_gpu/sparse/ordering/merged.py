"""Insertion of merged vertices into an elimination order."""

from __future__ import annotations

from portable_gpu.sparse.compiled import inner
from portable_gpu.sparse.graph import Int32

#: Values of ``into`` for a vertex that is not merged, and for a dense one, which is ordered last.
NONE, LAST = -1, -2


@inner
def expand(into: Int32, order: Int32, pivots: int, rank: Int32, place: Int32) -> None:
    """Insert each merged vertex behind the vertex ``into[v]``.

    Args:
        into: For each vertex the one that it is merged into, NONE or LAST; paths are compressed.
        order: The order, in place; it begins with the pivots, the vertices that are not merged.
        pivots: The number of pivots.
        rank, place: Workspace.
    """
    n = len(order)
    for k in range(pivots):
        rank[order[k]] = k
        place[k] = 0
    for v in range(n):
        root = v
        while into[root] >= 0:
            root = into[root]
        w = v
        while into[w] >= 0:  # path compression
            above = into[w]
            into[w] = root
            w = above
        if into[root] != LAST:
            place[rank[root]] += 1
    total = 0
    for k in range(pivots):
        total, place[k] = total + place[k], total
    for v in range(n):
        root = into[v] if into[v] >= 0 else v
        if into[root] == LAST:
            order[total] = v
            total += 1
        else:
            order[place[rank[root]]] = v
            place[rank[root]] += 1
