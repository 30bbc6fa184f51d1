"""Supernodes: columns of L that are factorised together.

A chain of the elimination tree is a supernode if the rows of each column are those of the column
before it, without the first one.  The columns of a chain need not be contiguous in the ordering:
contiguous supernodes are *static*, others are *dynamic* until :class:`Supernodes` renumbers the
columns.

Relaxed amalgamation then merges a supernode with its parent, at the cost of stored zeros.  It makes
fewer and larger fronts, and a tree of fewer levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_gpu.arguments import shown
from portable_gpu.errors import ArgumentError, reraise_of_signal
from portable_gpu.sparse.compiled import compiled, inner
from portable_gpu.sparse.elimination import Elimination, postorder
from portable_gpu.sparse.graph import Int32, Int64

_Float64 = np.ndarray[Any, np.dtype[np.float64]]
_Bool = np.ndarray[Any, np.dtype[np.bool_]]

#: Pairs (columns, share): a merged supernode of at most this many columns may store this share of
#: zeros.  The figures are CHOLMOD's.
RELAX: tuple[tuple[float, float], ...] = (
    (4, 1.0),
    (16, 0.8),
    (48, 0.1),
    (float("inf"), 0.05),
)
#: Multiplications and additions that merges may add to a front where a supernode has only one
#: child.  There is no parallelism between levels there, and a GPU needs some 10 us for each level;
#: a core does this work in 5 us, and saves an assembly.
_CHAIN_FLOPS = 1e5
#: The share of zeros that such a front may store.
_CHAIN_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class Supernodes:
    """Supernodes in their final order, children before parents.

    Attributes:
        columns: For each column of the final order its number in the ordering.
        first: The first column of each supernode in the final order, followed by n.
        rows: For each supernode the number of rows of L below its columns.
        parent: The parent of each supernode, or -1.
        static: Whether its columns were contiguous in the ordering, in the same order.
        fundamental: The number of supernodes before merging.
    """

    columns: Int32
    first: Int64
    rows: Int64
    parent: Int32
    static: _Bool
    fundamental: int


def supernodes(
    elimination: Elimination, relax: Sequence[tuple[float, float]] | None = None
) -> Supernodes:
    """Find supernodes by the better of two searches, and merge them as `relax` allows.

    If `relax` is None, :data:`RELAX` is used, and chains of the tree are shortened.

    Both searches find the same minimal number of chains; the better one has more columns in
    contiguous chains.  The final order is the postorder that minimises the stack of update
    matrices.

    Source of the order: Liu, ACM TOMS 12(3), 1986.
    """
    parent, counts = elimination.parent, elimination.counts
    chains = [search(parent, counts) for search in (backward, forward)]
    chain, begin = min(chains, key=lambda f: (len(f[1]), -_contiguous_columns(*f)))
    count = len(begin) - 1
    node_of_column = np.empty(len(chain), np.int32)
    node_of_column[chain] = np.repeat(np.arange(count, dtype=np.int32), np.diff(begin))
    last = chain[begin[1:] - 1]
    above = parent[last]
    forest = np.where(above < 0, -1, node_of_column[above]).astype(np.int32)
    rows = counts[last] - 1
    limits, shares = relaxation(RELAX if relax is None else relax)
    chain_work = _CHAIN_FLOPS if relax is None else 0.0
    upwards = postorder(forest)
    descending_rows = np.argsort(-rows, kind="stable").astype(np.int32)
    merged = _merged(
        forest, upwards, descending_rows, np.diff(begin), rows, limits, shares, chain_work
    )
    order, final_parent, remaining = _final_order(forest, upwards, merged, rows * (rows + 1) // 2)
    order, final_parent = order[:remaining].copy(), final_parent[:remaining].copy()
    columns, first = _columns(chain, begin, upwards, merged, order)
    static = _contiguous(columns, first)
    return Supernodes(columns, first, rows[order], final_parent, static, count)


def relaxation(relax: Any) -> tuple[_Float64, _Float64]:
    """Return the columns and the shares of `relax`; raise if they are not valid."""
    try:
        pairs = np.array([(float(limit), float(share)) for limit, share in relax])
    except Exception as error:  # raised by the value's own methods, too
        reraise_of_signal(error)
        pairs = np.array([[np.nan, np.nan]])
    pairs = pairs.reshape(-1, 2)
    if not ((pairs[:, 0] >= 0) & (pairs[:, 1] >= 0) & (pairs[:, 1] <= 1)).all():
        raise ArgumentError(
            f"relax is {shown(relax)}; expected pairs (columns, share of zeros from 0 to 1), "
            "() for no merging"
        )
    return pairs[:, 0].copy(), pairs[:, 1].copy()


@compiled
def backward(parent: Int32, counts: Int64) -> tuple[Int32, Int64]:
    """Find chains from the last column on: each column is joined to its last matching child.

    Returns:
        The columns chain by chain, and the start of each chain.
    """
    n = len(parent)
    below = np.full(n, -1, np.int32)
    chained = np.zeros(n, np.bool_)
    chains = n
    for k in range(n):
        if parent[k] != -1 and counts[k] == counts[parent[k]] + 1:
            if below[parent[k]] == -1:
                chains -= 1
            else:
                chained[below[parent[k]]] = False
            below[parent[k]] = k
            chained[k] = True
    columns = np.empty(n, np.int32)
    begin = np.empty(chains + 1, np.int64)
    begin[chains] = write = n
    for k in range(n - 1, -1, -1):
        if chained[k]:
            continue
        j = k
        while j != -1:
            write -= 1
            columns[write] = j
            j = below[j]
        chains -= 1
        begin[chains] = write
    return columns, begin


@compiled
def forward(parent: Int32, counts: Int64) -> tuple[Int32, Int64]:
    """Find chains from the first column on: each continues while the parent matches and is free.

    Returns:
        The columns chain by chain, and the start of each chain.
    """
    n = len(parent)
    is_chained = np.zeros(n, np.bool_)
    columns = np.empty(n, np.int32)
    begin = np.zeros(n + 1, np.int64)
    chains = write = 0
    for k in range(n):
        if is_chained[k]:
            continue
        j = k
        while True:
            is_chained[j] = True
            columns[write] = j
            write += 1
            above = parent[j]
            if above == -1 or is_chained[above] or counts[j] != counts[above] + 1:
                break
            j = above
        chains += 1
        begin[chains] = write
    return columns, begin[: chains + 1].copy()


@compiled
def _contiguous(columns: Int32, begin: Int64) -> _Bool:
    """Return for each supernode whether its columns are contiguous."""
    static = np.ones(len(begin) - 1, np.bool_)
    for s in range(len(static)):
        for k in range(begin[s] + 1, begin[s + 1]):
            if columns[k] != columns[k - 1] + 1:
                static[s] = False
                break
    return static


def _contiguous_columns(columns: Int32, begin: Int64) -> int:
    return int(np.diff(begin)[_contiguous(columns, begin)].sum())


@compiled
def _merged(
    parent: Int32,
    upwards: Int32,
    descending_rows: Int32,
    columns: Int64,
    rows: Int64,
    limits: _Float64,
    shares: _Float64,
    chain_work: float,
) -> Int32:
    """Return for each supernode the ancestor that it is merged into, or itself.

    From the leaves up, each supernode is merged with the allowed children, in descending order of
    their number of rows, since long children add the fewest zeros.

    Source: Ashcraft and Grimes, ACM TOMS 15(4), 1989; the form of the thresholds is CHOLMOD's.
    """
    count = len(parent)
    child = np.full(count, -1, np.int32)
    sibling = np.empty(count, np.int32)
    for k in range(count - 1, -1, -1):
        s = descending_rows[k]
        if parent[s] != -1:
            sibling[s] = child[parent[s]]
            child[parent[s]] = s
    width = columns.copy()
    zeros = np.zeros(count, np.float64)
    cost = np.empty(count, np.float64)  # flops of the fundamental supernodes in each
    for s in range(count):
        cost[s] = _work(width[s], rows[s])
    merged = np.arange(count, dtype=np.int32)
    for s in upwards:
        c = child[s]
        while c != -1:
            total_width = float(width[c] + width[s])
            missing = width[s] + rows[s] - rows[c]
            total_zeros = zeros[c] + zeros[s] + float(width[c]) * float(missing)
            size = total_width * (total_width + 1) / 2 + total_width * float(rows[s])
            allowed = False
            for t in range(len(limits)):
                allowed = allowed or (total_width <= limits[t] and total_zeros <= shares[t] * size)
            work = cost[c] + cost[s]
            whole = _work(width[c] + width[s], rows[s])
            if c == child[s] and sibling[c] == -1 and total_zeros <= _CHAIN_SHARE * size:
                allowed = allowed or whole - work < chain_work
            if allowed:
                merged[c] = s
                width[s] += width[c]
                zeros[s] = total_zeros
                cost[s] = work
            c = sibling[c]
    for k in range(count - 1, -1, -1):
        s = upwards[k]
        merged[s] = merged[merged[s]]
    return merged


@inner
def _work(columns: int, rows: int) -> float:
    """Compute the sum of the squares of the column counts of a front."""
    high, low = float(columns + rows), float(rows)
    return (high * (high + 1) * (2 * high + 1) - low * (low + 1) * (2 * low + 1)) / 6


@compiled
def _final_order(
    parent: Int32, upwards: Int32, merged: Int32, update: Int64
) -> tuple[Int32, Int32, int]:
    """Order the merged supernodes so that the stack of update matrices is minimal.

    Siblings are ordered by the peak of their subtree's stack minus the size of their update matrix,
    the largest difference first.

    Returns:
        The supernodes in that order, their parents, and their number; the arrays are longer.
    """
    count = len(parent)
    child = np.full(count, -1, np.int32)
    sibling = np.full(count, -1, np.int32)
    children = np.zeros(count, np.int32)
    peak = np.zeros(count, np.int64)
    siblings = np.empty(count, np.int32)
    for s in upwards:
        if merged[s] != s:
            continue
        below = siblings[: children[s]]
        c = child[s]
        for k in range(len(below)):
            below[k] = c
            c = sibling[c]
        _sort_by_fall(below, peak, update)
        stacked = 0  # elements of update matrices on the stack
        for c in below:
            peak[s] = max(peak[s], stacked + peak[c])
            stacked += update[c]
        peak[s] = max(peak[s], stacked + update[s])
        following = -1
        for k in range(len(below) - 1, -1, -1):
            sibling[below[k]] = following
            following = below[k]
        child[s] = following
        if parent[s] != -1:
            above = merged[parent[s]]
            sibling[s] = child[above]
            child[above] = s
            children[above] += 1

    order = np.empty(count, np.int32)
    final_parent = np.full(count, -1, np.int32)
    place = np.full(count, -1, np.int32)
    path = np.empty(count, np.int32)  # from a root to the supernode that is visited
    done = 0
    for root in range(count):
        if merged[root] != root or parent[root] != -1:
            continue
        path[0] = root
        top = 0
        while top >= 0:
            s = path[top]
            c = child[s]
            if c != -1:
                child[s] = sibling[c]
                top += 1
                path[top] = c
                continue
            order[done] = s
            place[s] = done
            done += 1
            top -= 1
    for k in range(done):
        s = order[k]
        if parent[s] != -1:
            final_parent[k] = place[merged[parent[s]]]
    return order, final_parent, done


@inner
def _sort_by_fall(siblings: Int32, peak: Int64, update: Int64) -> None:
    """Sort siblings by descending ``peak - update``, then ascending, by Shell's sort."""
    gap = 1
    while gap < len(siblings) // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for k in range(gap, len(siblings)):
            s = siblings[k]
            fall = peak[s] - update[s]
            j = k - gap
            while j >= 0:
                other = siblings[j]
                falls = peak[other] - update[other]
                if falls > fall or (falls == fall and other < s):
                    break
                siblings[j + gap] = other
                j -= gap
            siblings[j + gap] = s
        gap //= 3


@compiled
def _columns(
    chain: Int32, begin: Int64, upwards: Int32, merged: Int32, order: Int32
) -> tuple[Int32, Int64]:
    """Return the columns in the final order, and the start of each supernode."""
    width = np.zeros(len(merged), np.int64)
    for s in range(len(merged)):
        width[merged[s]] += begin[s + 1] - begin[s]
    first = np.zeros(len(order) + 1, np.int64)
    write = np.zeros(len(merged), np.int64)
    for k in range(len(order)):
        write[order[k]] = first[k]
        first[k + 1] = first[k] + width[order[k]]
    columns = np.empty(len(chain), np.int32)
    for s in upwards:  # descendants before the supernode that they were merged into
        t = merged[s]
        for p in range(begin[s], begin[s + 1]):
            columns[write[t]] = chain[p]
            write[t] += 1
    return columns, first
