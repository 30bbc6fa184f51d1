"""The fronts of the supernodes: their lists of rows, and the indices of their assembly."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.ops.fronts.table import Fronts
from portable_gpu.sparse.compiled import compiled
from portable_gpu.sparse.graph import Int32, Int64
from portable_gpu.sparse.matrix import Pattern

_Bool = np.ndarray[Any, np.dtype[np.bool_]]


def structure(pattern: Pattern, iperm: Int32, first: Int64, rows: Int64, parent: Int32) -> Fronts:
    """Build the fronts of a matrix in the order of its supernodes.

    Args:
        pattern: The pattern of the matrix.
        iperm: The column of the permuted matrix for each row and column of the matrix.
        first: The first column of each supernode, followed by n.
        rows: For each supernode the number of rows of L below its columns.
        parent: The parent of each supernode, which has a larger number, or -1.

    Cost: O(n + nnz + the rows of all fronts).
    """
    count = len(parent)
    row_start = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
    row_pointers, row_columns, row_sources = _permuted(pattern.pointers, pattern.columns, iperm)
    row_index, entry_start, entry_row, entry_column, source, conj = _rows_and_entries(
        first, row_start, parent, row_pointers, row_columns, row_sources
    )
    children = np.bincount(parent[parent >= 0], minlength=count)
    child_start = np.concatenate([[0], np.cumsum(children)]).astype(np.int32)
    child = np.argsort(parent, kind="stable")[count - int(child_start[-1]) :].astype(np.int32)
    relative = _relative(first, row_start, row_index, child_start, child)
    return Fronts(
        first=first,
        parent=parent,
        row_start=row_start,
        row_index=row_index,
        relative=relative,
        child_start=child_start,
        child=child,
        entry_start=entry_start,
        entry_row=entry_row,
        entry_column=entry_column,
        entry_source=source,
        entry_conj=conj,
    )


@compiled
def _permuted(pointers: Int64, columns: Int32, iperm: Int32) -> tuple[Int64, Int32, Int64]:
    """Compute the lower triangle of the permuted matrix in CSR form, with ascending columns.

    Returns:
        Pointers (and one number more), columns, and the source of each element: element k of the
        matrix, or -1 - k for the conjugate of element k.
    """
    n = len(iperm)
    begin = np.zeros(n + 2, np.int64)
    row_begin = np.zeros(n + 2, np.int64)
    for r in range(n):
        for k in range(pointers[r], pointers[r + 1]):
            i, j = iperm[r], iperm[columns[k]]
            begin[min(i, j) + 2] += 1
            row_begin[max(i, j) + 2] += 1
    for i in range(n):
        begin[i + 2] += begin[i + 1]
        row_begin[i + 2] += row_begin[i + 1]
    by_column = np.empty(len(columns), np.int32)
    sources = np.empty(len(columns), np.int64)
    for r in range(n):
        for k in range(pointers[r], pointers[r + 1]):
            i, j = iperm[r], iperm[columns[k]]
            p = begin[min(i, j) + 1]
            begin[min(i, j) + 1] += 1
            by_column[p] = max(i, j)
            sources[p] = k if i >= j else -1 - k
    row_columns = np.empty(len(columns), np.int32)
    row_sources = np.empty(len(columns), np.int64)
    for j in range(n):
        for p in range(begin[j], begin[j + 1]):
            i = by_column[p]
            q = row_begin[i + 1]
            row_begin[i + 1] += 1
            row_columns[q] = j
            row_sources[q] = sources[p]
    return row_begin, row_columns, row_sources


@compiled
def _rows_and_entries(
    first: Int64,
    row_start: Int64,
    parent: Int32,
    row_pointers: Int64,
    row_columns: Int32,
    row_sources: Int64,
) -> tuple[Int32, Int64, Int32, Int32, Int64, _Bool]:
    """Compute the rows of all fronts, and the matrix's elements in them.

    Row i of L is a subtree whose root is the supernode of column i, and whose leaves are the
    supernodes in which the matrix has elements of that row.  Rows are visited in ascending order,
    so every list is ascending.

    Source: Liu, SIAM J. Matrix Anal. Appl. 11(1), 1990, with supernodes for columns.
    """
    count = len(parent)
    n = first[count]
    supernode = np.empty(n, np.int32)
    for s in range(count):
        for k in range(first[s], first[s + 1]):
            supernode[k] = s
    entry_start = np.zeros(count + 1, np.int64)
    for j in row_columns:
        entry_start[supernode[j] + 1] += 1
    for s in range(count):
        entry_start[s + 1] += entry_start[s]
    entries = len(row_columns)
    entry_row = np.empty(entries, np.int32)
    entry_column = np.empty(entries, np.int32)
    entry_source = np.empty(entries, np.int64)
    entry_conj = np.empty(entries, np.bool_)
    row_index = np.empty(row_start[count], np.int32)
    row_end = row_start.copy()
    entry_end = entry_start.copy()
    reached = np.full(count, -1, np.int32)
    for i in range(n):
        diagonal_node = supernode[i]
        reached[diagonal_node] = i
        for q in range(row_pointers[i], row_pointers[i + 1]):
            j = row_columns[q]
            s = supernode[j]
            t = s
            while reached[t] != i:
                reached[t] = i
                row_index[row_end[t]] = i
                row_end[t] += 1
                t = parent[t]
            p = entry_end[s]
            entry_end[s] += 1
            if s == diagonal_node:
                entry_row[p] = i - first[s]
            else:  # row i is the last row of the front so far
                entry_row[p] = first[s + 1] - first[s] + row_end[s] - 1 - row_start[s]
            entry_column[p] = j - first[s]
            source = row_sources[q]
            entry_conj[p] = source < 0
            entry_source[p] = source if source >= 0 else -1 - source
    return row_index, entry_start, entry_row, entry_column, entry_source, entry_conj


@compiled
def _relative(
    first: Int64, row_start: Int64, row_index: Int32, child_start: Int32, child: Int32
) -> Int32:
    """Compute the index of each row of each front in the parent's front."""
    count = len(first) - 1
    relative = np.full(len(row_index), -1, np.int32)
    place = np.empty(first[count], np.int32)
    for s in range(count):
        if child_start[s] == child_start[s + 1]:
            continue
        for k in range(first[s], first[s + 1]):
            place[k] = k - first[s]
        columns = first[s + 1] - first[s]
        for p in range(row_start[s], row_start[s + 1]):
            place[row_index[p]] = columns + p - row_start[s]
        for q in range(child_start[s], child_start[s + 1]):
            c = child[q]
            for p in range(row_start[c], row_start[c + 1]):
                relative[p] = place[row_index[p]]
    return relative
