"""The elimination tree of a permuted matrix, its postorder, and the column counts of L.

A graph is given by `pointers` (int64, n + 1) and `indices` (int32): the neighbours of v are
``indices[pointers[v] : pointers[v + 1]]``.  Both triangles are stored; a diagonal is ignored.
Column k of the permuted matrix is vertex ``perm[k]``, and ``iperm[perm[k]] == k``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from portable_gpu.sparse.compiled import compiled
from portable_gpu.sparse.graph import Int32, Int64


@dataclass(frozen=True, eq=False)
class Elimination:
    """The symbolic elimination of a permuted matrix; columns have their permuted numbers.

    Attributes:
        iperm: The inverse permutation: the column of each vertex.
        parent: The elimination tree: for each column the first row below the diagonal in L, or -1
            for a root.
        postorder: The columns in a postorder of the tree.
        counts: The number of elements in each column of L, with the diagonal.
    """

    iperm: Int32
    parent: Int32
    postorder: Int32
    counts: Int64

    @property
    def nnz(self) -> int:
        """The number of elements of L."""
        return int(self.counts.sum())

    @property
    def flops(self) -> float:
        """The sum of the squares of the counts: multiplications and additions to factorise."""
        counts = self.counts.astype(np.float64)
        return float(counts @ counts)


def eliminate(pointers: Int64, indices: Int32, perm: Int32) -> Elimination:
    """Compute the elimination tree and the column counts, in nearly linear time."""
    iperm = inverse(perm)
    parent = elimination_tree(pointers, indices, perm, iperm)
    order = postorder(parent)
    return Elimination(
        iperm, parent, order, column_counts(pointers, indices, perm, iperm, parent, order)
    )


def inverse(perm: Int32) -> Int32:
    """Invert a permutation."""
    iperm = np.empty_like(perm)
    iperm[perm] = np.arange(len(perm), dtype=perm.dtype)
    return iperm


@compiled
def levels(parent: Int32) -> Int32:
    """Compute the height of each node above the leaves; parents have larger numbers."""
    level = np.zeros(len(parent), np.int32)
    for s in range(len(parent)):
        above = parent[s]
        if above != -1:
            level[above] = max(level[above], level[s] + 1)
    return level


@compiled
def elimination_tree(pointers: Int64, indices: Int32, perm: Int32, iperm: Int32) -> Int32:
    """Compute the parent of each column, or -1.

    Source: Liu, ACM TOMS 12(2), 1986, with path compression.
    """
    n = len(perm)
    parent = np.full(n, -1, np.int32)
    ancestor = np.full(n, -1, np.int32)
    for k in range(n):
        vertex = perm[k]
        for p in range(pointers[vertex], pointers[vertex + 1]):
            i = iperm[indices[p]]
            while i != -1 and i < k:
                above = ancestor[i]
                ancestor[i] = k
                if above == -1:
                    parent[i] = k
                i = above
    return parent


@compiled
def postorder(parent: Int32) -> Int32:
    """Compute a postorder of a forest; siblings are in ascending order."""
    n = len(parent)
    child = np.full(n, -1, np.int32)
    sibling = np.empty(n, np.int32)
    for k in range(n - 1, -1, -1):
        above = parent[k]
        if above != -1:
            sibling[k] = child[above]
            child[above] = k
    order = np.empty(n, np.int32)
    stack = np.empty(n, np.int32)
    done = 0
    for root in range(n):
        if parent[root] != -1:
            continue
        stack[0] = root
        top = 0
        while top >= 0:
            node = stack[top]
            below = child[node]
            if below == -1:
                order[done] = node
                done += 1
                top -= 1
            else:
                child[node] = sibling[below]
                top += 1
                stack[top] = below
    return order


@compiled
def column_counts(
    pointers: Int64,
    indices: Int32,
    perm: Int32,
    iperm: Int32,
    parent: Int32,
    order: Int32,
) -> Int64:
    """Compute the number of elements in each column of L.

    Row i of L is a subtree with the root i.  The count of a column is the number of row subtrees
    of which it is a leaf, minus the number of overlaps at their least common ancestors, plus the
    counts of its children.

    Source: Gilbert, Ng and Peyton, SIAM J. Matrix Anal. Appl. 15(4), 1994.
    """
    n = len(perm)
    first = np.full(n, -1, np.int32)  # the first descendant, by its number in the postorder
    counts = np.zeros(n, np.int64)
    for k in range(n):
        j = order[k]
        if first[j] == -1:
            counts[j] = 1
        while j != -1 and first[j] == -1:
            first[j] = k
            j = parent[j]
    latest = np.full(n, -1, np.int32)  # for each row, the maximum `first` of its leaves so far
    leaf = np.full(n, -1, np.int32)  # for each row, its previous leaf
    ancestor = np.arange(n, dtype=np.int32)
    for k in range(n):
        j = order[k]
        above = parent[j]
        if above != -1:
            counts[above] -= 1
        vertex = perm[j]
        for p in range(pointers[vertex], pointers[vertex + 1]):
            i = iperm[indices[p]]
            if i <= j or first[j] <= latest[i]:
                continue
            latest[i] = first[j]
            counts[j] += 1
            before = leaf[i]
            leaf[i] = j
            if before != -1:
                common_ancestor = before
                while ancestor[common_ancestor] != common_ancestor:
                    common_ancestor = ancestor[common_ancestor]
                while before != common_ancestor:
                    following = ancestor[before]
                    ancestor[before] = common_ancestor
                    before = following
                counts[common_ancestor] -= 1
        if above != -1:
            ancestor[j] = above
    for k in range(n):
        j = order[k]
        if parent[j] != -1:
            counts[parent[j]] += counts[j]
    return counts
