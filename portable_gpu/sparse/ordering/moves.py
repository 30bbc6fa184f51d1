"""Priority queues of the vertices that may move between halves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from portable_gpu.sparse.compiled import inner
from portable_gpu.sparse.graph import Int32, Int64

Bool = np.ndarray[Any, np.dtype[np.bool_]]


class Moves(NamedTuple):
    """The workspace of a refinement, before which heaps are empty and no vertex is locked.

    Each half has a heap of the vertices that may move to it from the separator.
    """

    heap: Int32  # [half, k]: a vertex whose key is at least those at 2 k + 1 and 2 k + 2
    key: Int32  # [half, vertex]: the gain of its move, the decrease of the separator's weight
    place: Int32  # [half, vertex]: its index in the heap, or -1
    size: Int64  # [half]: the length of the heap
    pull: Int32  # [vertex of the separator, half]: the weight of its neighbours there
    locked: Bool  # [vertex]: it has moved in this pass
    journal: Int64  # for each change, 4 * vertex + the vertex's side before
    weights: Int64  # [half or SEPARATOR]: the sum of its vertices' weights


def allocate_moves(n: int) -> Moves:
    """Allocate workspace for graphs of at most n vertices."""
    return Moves(
        heap=np.empty((2, n), np.int32), key=np.empty((2, n), np.int32),
        place=np.full((2, n), -1, np.int32), size=np.zeros(2, np.int64),
        pull=np.empty((n, 2), np.int32), locked=np.zeros(n, np.bool_),
        journal=np.empty(3 * n, np.int64), weights=np.zeros(3, np.int64),
    )  # fmt: skip


@inner
def clear(m: Moves) -> None:
    """Empty the heaps."""
    for s in range(2):
        for k in range(m.size[s]):
            m.place[s, m.heap[s, k]] = -1
        m.size[s] = 0


@inner
def push(m: Moves, s: int, v: int, value: int) -> None:
    """Insert the move of ``v`` to half ``s``, with the gain ``value``."""
    m.key[s, v] = value
    m.place[s, v] = m.size[s]
    m.heap[s, m.size[s]] = v
    m.size[s] += 1
    _rise(m, s, v)


@inner
def remove(m: Moves, s: int, v: int) -> None:
    """Remove the move of ``v`` to half ``s``."""
    m.size[s] -= 1
    last = m.heap[s, m.size[s]]
    hole = m.place[s, v]
    m.place[s, v] = -1
    if last != v:
        m.heap[s, hole] = last
        m.place[s, last] = hole
        _rise(m, s, last)
        _sink(m, s, last)


@inner
def change(m: Moves, s: int, v: int, value: int) -> None:
    """Change the gain of the move of ``v``."""
    rises = value > m.key[s, v]
    m.key[s, v] = value
    if rises:
        _rise(m, s, v)
    else:
        _sink(m, s, v)


@inner
def _rise(m: Moves, s: int, v: int) -> None:
    k = int(m.place[s, v])
    while k > 0:
        above = (k - 1) // 2
        if m.key[s, m.heap[s, above]] >= m.key[s, v]:
            break
        m.heap[s, k] = m.heap[s, above]
        m.place[s, m.heap[s, k]] = k
        k = above
    m.heap[s, k] = v
    m.place[s, v] = k


@inner
def _sink(m: Moves, s: int, v: int) -> None:
    k = int(m.place[s, v])
    while True:
        below = 2 * k + 1
        if below >= m.size[s]:
            break
        if below + 1 < m.size[s] and m.key[s, m.heap[s, below + 1]] > m.key[s, m.heap[s, below]]:
            below += 1
        if m.key[s, m.heap[s, below]] <= m.key[s, v]:
            break
        m.heap[s, k] = m.heap[s, below]
        m.place[s, m.heap[s, k]] = k
        k = below
    m.heap[s, k] = v
    m.place[s, v] = k
