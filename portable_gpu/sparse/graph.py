"""The adjacency graph of a symmetric matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_gpu.errors import ShapeError
from portable_gpu.sparse.compiled import compiled

Int32 = np.ndarray[Any, np.dtype[np.int32]]
Int64 = np.ndarray[Any, np.dtype[np.int64]]

#: Indices of vertices are 32-bit.
MAX_VERTICES = 2**31 - 2


@dataclass(frozen=True, eq=False)
class Graph:
    """The neighbours of each vertex, in compressed rows.

    The neighbours of ``v`` are ``indices[indptr[v] : indptr[v + 1]]``, in ascending order, without
    duplicates and without ``v``.  Every edge is stored at both of its vertices.

    Attributes:
        indptr: n + 1 int64, read-only.
        indices: int32, two for each edge, read-only.
    """

    indptr: Int64
    indices: Int32

    @property
    def vertices(self) -> int:
        """n, the number of vertices."""
        return len(self.indptr) - 1

    @property
    def edges(self) -> int:
        """The number of edges, each counted once."""
        return len(self.indices) // 2

    @classmethod
    def from_matrix(cls, matrix: Any) -> Graph:
        """Build the graph of ``A + A'`` for a square ``scipy.sparse`` array or matrix.

        Stored zeros count as entries.  One triangle is enough.

        Raises:
            ShapeError: The matrix is not square, or has more than 2^31 - 2 rows.

        Cost: O(n + nnz) time and memory.
        """
        rows, columns = matrix.shape
        if rows != columns:
            raise ShapeError(f"the matrix is {rows} x {columns}; expected a square one")
        by_rows = matrix.tocsr()
        return cls.from_pattern(by_rows.indptr, by_rows.indices)

    @classmethod
    def from_pattern(cls, indptr: Any, indices: Any) -> Graph:
        """Build the graph of a pattern in compressed rows or columns.

        The pattern may hold one triangle or both, the diagonal and duplicates, in any order.

        Args:
            indptr: n + 1 integers: the start of each row in `indices`, and the end.
            indices: The columns of the entries, in 0 .. n-1.

        Raises:
            ShapeError: There are more than 2^31 - 2 rows.

        Cost: O(n + nnz) time and memory.
        """
        n = len(indptr) - 1
        if n > MAX_VERTICES:
            raise ShapeError(f"the graph has {n} vertices; expected at most {MAX_VERTICES}")
        begins = np.array(indptr, np.int64)
        return cls(*map(_frozen, _symmetrized(begins, np.array(indices, np.int32))))


@compiled
def _symmetrized(indptr: Int64, indices: Int32) -> tuple[Int64, Int32]:
    """Symmetrize a pattern: sort its neighbours, and remove duplicates and the diagonal."""
    n = len(indptr) - 1
    begins = np.zeros(n + 1, np.int64)
    for v in range(n):
        for p in range(indptr[v], indptr[v + 1]):
            if indices[p] != v:
                begins[v + 1] += 1
                begins[indices[p] + 1] += 1
    for v in range(n):
        begins[v + 1] += begins[v]
    ends = begins.copy()
    unsorted = np.empty(begins[n], np.int32)
    for v in range(n):
        for p in range(indptr[v], indptr[v + 1]):
            w = indices[p]
            if w != v:
                unsorted[ends[v]] = w
                ends[v] += 1
                unsorted[ends[w]] = v
                ends[w] += 1
    # Transposing the symmetric pattern sorts its rows, which makes duplicates adjacent.
    ends = begins.copy()
    neighbours = np.empty(begins[n], np.int32)
    for v in range(n):
        for p in range(begins[v], begins[v + 1]):
            w = unsorted[p]
            if ends[w] == begins[w] or neighbours[ends[w] - 1] != v:
                neighbours[ends[w]] = v
                ends[w] += 1
    # Compact the rows.
    write = 0
    for v in range(n):
        begin = begins[v]
        begins[v] = write
        for p in range(begin, ends[v]):
            neighbours[write] = neighbours[p]
            write += 1
    begins[n] = write
    return begins, neighbours[:write].copy()


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array
