"""The reverse Cuthill-McKee ordering, which has a small profile."""

from __future__ import annotations

import numpy as np

from portable_gpu.sparse.compiled import compiled, inner
from portable_gpu.sparse.graph import Graph, Int32, Int64


def rcm(graph: Graph) -> Int32:
    """Compute the reverse Cuthill-McKee ordering.

    Args:
        graph: The adjacency structure.

    Returns:
        The permutation, int32: entry k is the vertex to eliminate k-th.

    A breadth-first search numbers each component from a pseudo-peripheral vertex, neighbours in
    order of their degrees.  The numbering is then reversed.

    Cost: O(m log d) time for m edges and maximum degree d, plus a few searches for the start
        vertices; 17 n bytes.
    Determinism: ties go to the lower index.
    Source: Cuthill and McKee, ACM 1969; George and Liu, ACM TOMS 5(3), 1979 (start vertices).
    """
    n = graph.vertices
    order = np.empty(n, np.int32)
    _number(graph.indptr, graph.indices, order)
    return order[::-1].copy()


@compiled
def _number(indptr: Int64, indices: Int32, order: Int32) -> None:
    """Write the vertices to ``order`` as searches reach them, one component after another."""
    n = len(order)
    numbered = np.zeros(n, np.bool_)
    seen = np.full(n, -1, np.int64)
    search = 0
    done = 0
    for v in range(n):
        if numbered[v]:
            continue
        start, search = _far_vertex(indptr, indices, v, order[done:], seen, search)
        order[done] = start
        numbered[start] = True
        last = done + 1
        while done < last:
            u = order[done]
            done += 1
            first = last
            for p in range(indptr[u], indptr[u + 1]):
                w = indices[p]
                if not numbered[w]:
                    numbered[w] = True
                    # Insertion sort by degree: a vertex has few unnumbered neighbours.
                    degree = indptr[w + 1] - indptr[w]
                    place = last
                    while place > first and _degree(indptr, order[place - 1]) > degree:
                        order[place] = order[place - 1]
                        place -= 1
                    order[place] = w
                    last += 1


@inner
def _degree(indptr: Int64, v: int) -> int:
    return int(indptr[v + 1] - indptr[v])


@inner
def _far_vertex(
    indptr: Int64, indices: Int32, start: int, queue: Int32, seen: Int64, search: int
) -> tuple[int, int]:
    """Find a pseudo-peripheral vertex; return it and the number of the last search.

    Each search starts at a vertex of minimum degree in the last level of the one before, as long
    as the number of levels grows.
    """
    longest = -1
    while True:
        search += 1
        seen[start] = search
        queue[0] = start
        last = 1
        begin = 0
        depth = 0
        while True:
            end = last
            for k in range(begin, end):
                u = queue[k]
                for p in range(indptr[u], indptr[u + 1]):
                    w = indices[p]
                    if seen[w] != search:
                        seen[w] = search
                        queue[last] = w
                        last += 1
            if last == end:
                break
            begin = end
            depth += 1
        if depth <= longest:
            return start, search
        longest = depth
        start = queue[begin]
        for k in range(begin, last):
            if _degree(indptr, queue[k]) < _degree(indptr, start):
                start = queue[k]
