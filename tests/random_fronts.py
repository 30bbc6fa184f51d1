"""Random trees of fronts, the dense matrix that they are of, and factors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_gpu.ops.fronts.device import DeviceFronts
from portable_gpu.ops.fronts.table import Fronts

Array = Any


@dataclass(frozen=True)
class Problem:
    """Fronts, the values of a matrix, and that matrix: positive definite, both triangles."""

    fronts: Fronts
    values: Array
    dense: Array


def tree(
    columns: Sequence[int], parents: Sequence[int], more: int, dtype: Any, seed: int
) -> Problem:
    """Fronts of these numbers of columns, children before parents (-1: a root).

    Args:
        columns, parents: Of each front.
        more: How many rows of their ancestors fronts have on the average, without the children's.
        dtype: Of the matrix.
        seed: Of the random numbers.
    """
    rng = np.random.default_rng(seed)
    first = np.concatenate([[0], np.cumsum(columns)])
    n, count = int(first[-1]), len(columns)
    rows: list[set[int]] = [set() for _ in columns]
    dense = np.zeros((n, n), dtype)
    entries: list[tuple[Array, Array]] = []
    for s in range(count):
        local = range(int(first[s]), int(first[s + 1]))
        ancestors, up = [], parents[s]
        while up >= 0:
            ancestors += range(int(first[up]), int(first[up + 1]))
            up = parents[up]
        if ancestors:
            near = range(int(first[parents[s]]), int(first[parents[s] + 1]))
            rows[s] |= {int(rng.choice(near))}
            size = min(len(ancestors), int(rng.integers(0, 2 * more + 1)))
            rows[s] |= {int(item) for item in rng.choice(ancestors, size, replace=False)}
        if parents[s] >= 0:
            rows[parents[s]] |= {item for item in rows[s] if item >= first[parents[s] + 1]}
        front = np.array([*local, *sorted(rows[s])])
        i, j = np.tril_indices(len(front))
        chosen = (j < len(local)) & ((i == j) | (rng.random(len(i)) < 0.5))
        i, j = i[chosen], j[chosen]
        entries.append((i, j))
        dense[front[i], front[j]] = _random(rng, len(i), dtype)
    np.fill_diagonal(dense, 0)
    size = np.abs(dense).sum(0) + np.abs(dense).sum(1)
    dense[np.arange(n), np.arange(n)] = size.real + 1

    row_list = [np.array(sorted(item), np.int32) for item in rows]
    fronts_of = [
        np.concatenate([np.arange(first[s], first[s + 1]), row_list[s]]) for s in range(count)
    ]
    relative = [
        np.searchsorted(fronts_of[parents[s]], row_list[s]) if parents[s] >= 0 else row_list[s]
        for s in range(count)
    ]
    children: list[list[int]] = [[] for _ in columns]
    for s, up in enumerate(parents):
        if up >= 0:
            children[up].append(s)
    values = np.concatenate(
        [dense[fronts_of[s][i], fronts_of[s][j]] for s, (i, j) in enumerate(entries)]
    )
    source = rng.permutation(len(values))
    shuffled = np.empty_like(values)
    conj = rng.random(len(values)) < 0.3
    shuffled[source] = np.where(conj, values.conj(), values)
    fronts = Fronts(
        first=first.astype(np.int64),
        parent=np.array(parents, np.int32),
        row_start=_starts(row_list),
        row_index=_joined(row_list).astype(np.int32),
        relative=_joined(relative).astype(np.int32),
        child_start=_starts(children).astype(np.int32),
        child=_joined(children).astype(np.int32),
        entry_start=_starts([i for i, _ in entries]),
        entry_row=_joined([i for i, _ in entries]).astype(np.int32),
        entry_column=_joined([j for _, j in entries]).astype(np.int32),
        entry_source=source.astype(np.int64),
        entry_conj=conj,
    )
    strict = np.tril(dense, -1)
    dense = strict + strict.conj().T + np.diag(dense.diagonal())
    return Problem(fronts, shuffled, dense)


def lower(device: DeviceFronts, factor: Array) -> tuple[Array, Array]:
    """L as a dense matrix, and which elements of the factor it has."""
    n = int(device.fronts.first[-1])
    dense, selected = np.zeros((n, n), factor.dtype), np.zeros(len(factor), bool)
    for row, column, at in _elements(device):
        dense[row, column], selected[at] = factor[at], True
    return dense, selected


def place(device: DeviceFronts, dense: Array) -> Array:
    """The factor that has a dense L, and NaN elsewhere."""
    factor = np.full(device.size, np.nan, dense.dtype)
    for row, column, at in _elements(device):
        factor[at] = dense[row, column]
    return factor


def _elements(device: DeviceFronts) -> Iterator[tuple[Array, Array, Array]]:
    """Rows and columns of each front's elements of L, and their places in the factor."""
    fronts = device.fronts
    for s in range(len(fronts)):
        columns = np.arange(fronts.first[s], fronts.first[s + 1])
        rows = fronts.row_index[fronts.row_start[s] : fronts.row_start[s + 1]]
        front = np.concatenate([columns, rows])
        i, j = np.tril_indices(len(front), m=len(columns))
        yield front[i], columns[j], device.panel[s] + i * device.leading[s] + j


def _random(rng: Any, count: int, dtype: Any) -> Array:
    result = rng.standard_normal(count)
    if np.dtype(dtype).kind == "c":
        result = result + 1j * rng.standard_normal(count)
    return result.astype(dtype)


def _starts(lists: Sequence[Any]) -> Array:
    return np.concatenate([[0], np.cumsum([len(item) for item in lists])]).astype(np.int64)


def _joined(lists: Sequence[Any]) -> Array:
    return np.concatenate([np.asarray(item, np.int64) for item in lists])
