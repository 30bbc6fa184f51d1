"""Columns of L that are factorised together.

A chain of the elimination tree is a supernode where each column has the rows of the one before it,
less the first of them.  Chains need not be contiguous in the ordering: contiguous ones are
*static*, others *dynamic* until :class:`Supernodes` renumbers the columns.

Relaxed merging then joins a supernode and its parent at the price of stored zeros.  Fronts grow,
their number and the height of the tree shrink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_gpu.arguments import shown
from portable_gpu.errors import ArgumentError
from portable_gpu.sparse.compiled import compiled
from portable_gpu.sparse.elimination import Elimination, postorder
from portable_gpu.sparse.graph import Int32, Int64

_Float64 = np.ndarray[Any, np.dtype[np.float64]]
_Bool = np.ndarray[Any, np.dtype[np.bool_]]

#: Up to so many columns a merged supernode may store such a share of zeros: CHOLMOD's figures.
RELAX: tuple[tuple[float, float], ...] = (
    (4, 1.0),
    (16, 0.8),
    (48, 0.1),
    (float("inf"), 0.05),
)
#: Multiplications and additions that merges may cost a front where the tree is a chain, that is
#: where a supernode has one child.  There nothing is done at the same time, and a GPU waits some
#: 10 us for each level; a core does so many in 5 us, and saves assemblies.
_CHAIN = 1e5
#: The share of zeros that it may store then.
_CHAIN_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class Supernodes:
    """Supernodes in their final order, children before parents.

    Attributes:
        columns: The columns of the ordering in the final order: k is the column ``columns[k]``.
        first: Where each supernode begins in it, and n at the end.
        rows: How many rows L has below the own columns of each.
        parent: Of each its parent, or -1.
        static: Whether its columns were contiguous in the ordering, and in this order.
        fundamental: How many there were before merging.
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
    """Supernodes by the better of two searches, merged where `relax` allows it, in final order.

    Where `relax` is None, :data:`RELAX` says it, and chains of the tree are shortened.

    Both searches find equally few chains; the better one has more columns in contiguous ones.  The
    final order is a postorder in which the children of a front come in the order that keeps the
    stack of update matrices lowest.

    Source of the order: Liu, ACM TOMS 12(3), 1986.
    """
    parent, counts = elimination.parent, elimination.counts
    found = [search(parent, counts) for search in (backward, forward)]
    chain, begin = min(found, key=lambda f: (len(f[1]), -_contiguous_columns(*f)))
    count = len(begin) - 1
    owner = np.empty(len(chain), np.int32)
    owner[chain] = np.repeat(np.arange(count, dtype=np.int32), np.diff(begin))
    last = chain[begin[1:] - 1]
    above = parent[last]
    tree = np.where(above < 0, -1, owner[above]).astype(np.int32)
    rows = counts[last] - 1
    limits, shares = relaxation(RELAX if relax is None else relax)
    chain_work = _CHAIN if relax is None else 0.0
    upwards = postorder(tree)
    by_rows = np.argsort(-rows, kind="stable").astype(np.int32)
    merged = _merged(tree, upwards, by_rows, np.diff(begin), rows, limits, shares, chain_work)
    order, final_parent, left = _final_order(tree, upwards, merged, rows)
    order, final_parent = order[:left].copy(), final_parent[:left].copy()
    columns, first = _columns(chain, begin, upwards, merged, order)
    static = _contiguous(columns, first)
    return Supernodes(columns, first, rows[order], final_parent, static, count)


def relaxation(relax: Any) -> tuple[_Float64, _Float64]:
    """The columns and the shares of `relax`, checked."""
    try:
        pairs = np.array([(float(limit), float(share)) for limit, share in relax])
    except Exception:  # raised by the value's own methods, too
        pairs = np.array([[np.nan, np.nan]])
    pairs = pairs.reshape(-1, 2)
    if not ((pairs[:, 0] >= 0) & (pairs[:, 1] >= 0) & (pairs[:, 1] <= 1)).all():
        raise ArgumentError(
            f"relax is {shown(relax)}; pairs (columns, share of zeros from 0 to 1) are wanted, "
            "() for no merging"
        )
    return pairs[:, 0].copy(), pairs[:, 1].copy()


@compiled
def backward(parent: Int32, counts: Int64) -> tuple[Int32, Int64]:
    """Chains from the last column on: each column takes the last child that fits.

    Returns:
        The columns chain by chain, and where each chain begins.
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
    """Chains from the first column on: each goes up while the parent fits and is free.

    Returns:
        The columns chain by chain, and where each chain begins.
    """
    n = len(parent)
    taken = np.zeros(n, np.bool_)
    columns = np.empty(n, np.int32)
    begin = np.zeros(n + 1, np.int64)
    chains = write = 0
    for k in range(n):
        if taken[k]:
            continue
        j = k
        while True:
            taken[j] = True
            columns[write] = j
            write += 1
            above = parent[j]
            if above == -1 or taken[above] or counts[j] != counts[above] + 1:
                break
            j = above
        chains += 1
        begin[chains] = write
    return columns, begin[: chains + 1].copy()


@compiled
def _contiguous(columns: Int32, begin: Int64) -> _Bool:
    """Of each supernode whether its columns follow each other."""
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
    by_rows: Int32,
    columns: Int64,
    rows: Int64,
    limits: _Float64,
    shares: _Float64,
    chain_work: float,
) -> Int32:
    """Of each supernode the ancestor that it is merged into, or itself.

    From the leaves on, each takes what it may of its children, those with the most rows first: they
    bring the fewest zeros.

    Source: Ashcraft and Grimes, ACM TOMS 15(4), 1989; the form of the thresholds is CHOLMOD's.
    """
    count = len(parent)
    child = np.full(count, -1, np.int32)
    sibling = np.empty(count, np.int32)
    for k in range(count - 1, -1, -1):
        s = by_rows[k]
        if parent[s] != -1:
            sibling[s] = child[parent[s]]
            child[parent[s]] = s
    width = columns.copy()
    zeros = np.zeros(count, np.float64)
    cost = np.empty(count, np.float64)  # of the fundamental supernodes in each
    for s in range(count):
        cost[s] = _work(width[s], rows[s])
    merged = np.arange(count).astype(np.int32)
    for s in upwards:
        c = child[s]
        while c != -1:
            together = float(width[c] + width[s])
            missing = width[s] + rows[s] - rows[c]
            more = zeros[c] + zeros[s] + float(width[c]) * float(missing)
            size = together * (together + 1) / 2 + together * float(rows[s])
            allowed = False
            for t in range(len(limits)):
                allowed = allowed or (together <= limits[t] and more <= shares[t] * size)
            work = cost[c] + cost[s]
            whole = _work(width[c] + width[s], rows[s])
            if c == child[s] and sibling[c] == -1 and more <= _CHAIN_SHARE * size:
                allowed = allowed or whole - work < chain_work
            if allowed:
                merged[c] = s
                width[s] += width[c]
                zeros[s] = more
                cost[s] = work
            c = sibling[c]
    for k in range(count - 1, -1, -1):
        s = upwards[k]
        merged[s] = merged[merged[s]]
    return merged


@compiled
def _work(columns: int, rows: int) -> float:
    """The sum of the squares of the column counts of a front."""
    high, low = float(columns + rows), float(rows)
    return (high * (high + 1) * (2 * high + 1) - low * (low + 1) * (2 * low + 1)) / 6


@compiled
def _final_order(
    parent: Int32, upwards: Int32, merged: Int32, rows: Int64
) -> tuple[Int32, Int32, int]:
    """What merging left, in the order that keeps the stack lowest, and the parents in that order.

    The arrays are longer than what was left, whose number is returned too.
    Of siblings that one comes first whose stack falls most from its peak to what it leaves.
    """
    count = len(parent)
    child = np.full(count, -1, np.int32)
    sibling = np.full(count, -1, np.int32)
    children = np.zeros(count, np.int32)
    update = rows * (rows + 1) // 2
    peak = np.zeros(count, np.int64)
    for s in upwards:
        if merged[s] != s:
            continue
        below = np.empty(children[s], np.int32)
        c = child[s]
        for k in range(len(below)):
            below[k] = c
            c = sibling[c]
        _sort_by_fall(below, peak, update)
        left = 0
        for c in below:
            peak[s] = max(peak[s], left + peak[c])
            left += update[c]
        peak[s] = max(peak[s], left + update[s])
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
    stack = np.empty(count, np.int32)
    done = 0
    for root in range(count):
        if merged[root] != root or parent[root] != -1:
            continue
        stack[0] = root
        top = 0
        while top >= 0:
            s = stack[top]
            c = child[s]
            if c != -1:
                child[s] = sibling[c]
                top += 1
                stack[top] = c
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


@compiled
def _sort_by_fall(siblings: Int32, peak: Int64, update: Int64) -> None:
    """Shell's sort, by what the stack falls from each one's peak; equal ones ascend."""
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
    """The columns in the final order, and where each supernode begins."""
    width = np.zeros(len(merged), np.int64)
    for s in range(len(merged)):
        width[merged[s]] += begin[s + 1] - begin[s]
    first = np.zeros(len(order) + 1, np.int64)
    write = np.zeros(len(merged), np.int64)
    for k in range(len(order)):
        write[order[k]] = first[k]
        first[k + 1] = first[k] + width[order[k]]
    columns = np.empty(len(chain), np.int32)
    for s in upwards:  # members before those that they were merged into
        t = merged[s]
        for p in range(begin[s], begin[s + 1]):
            columns[write[t]] = chain[p]
            write[t] += 1
    return columns, first
