"""Where vertices go in the order that were merged into others."""

from __future__ import annotations

from portable_gpu.sparse.compiled import compiled
from portable_gpu.sparse.graph import Int32

#: What ``into`` says of a vertex that is merged into none, and of one that is put last.
NONE, LAST = -1, -2


@compiled
def expand(into: Int32, order: Int32, pivots: int, rank: Int32, place: Int32) -> None:
    """Put each vertex behind the one that it is merged into, as ``into`` says.

    ``order`` begins with the pivots, the vertices of which ``into`` says NONE; ``rank`` and
    ``place`` are overwritten.
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
        while into[w] >= 0:  # the whole path shortens
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
