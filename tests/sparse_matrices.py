"""Sparse symmetric matrices for tests, and what their elimination is by the definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse

from portable_gpu.dtypes import element
from portable_gpu.sparse.memory import scheduled
from portable_gpu.sparse.numeric import Numeric

MATRICES = Path(__file__).resolve().parents[2] / "shared" / "matrices"


def numeric_of(engine: Any, symbolic: Any, dtype: Any) -> Numeric:
    """The plans of a factor whose L is in one buffer."""
    dtype = np.dtype(dtype)
    schedule = scheduled(symbolic.fronts, engine.target, element(dtype), None)
    return Numeric(engine, symbolic, dtype, *schedule)


def grid(*shape: int) -> Any:
    """The Laplacian of a grid with fixed borders."""
    total: Any = scipy.sparse.csr_array((1, 1))
    for n in shape:
        line = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n))
        total = scipy.sparse.kron(total, scipy.sparse.eye(n)) + scipy.sparse.kron(
            scipy.sparse.eye(total.shape[0]), line
        )
    return scipy.sparse.csr_array(total)


def random_definite(n: int, density: float, seed: int, dtype: Any = np.float64) -> Any:
    """A random Hermitian matrix whose diagonal outweighs its rows, both triangles."""
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(np.tril(rng.random((n, n)) < density, -1))
    values = rng.uniform(-1, 1, len(rows)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        values += 1j * rng.uniform(-1, 1, len(rows))
    lower = scipy.sparse.coo_array((values, (rows, columns)), shape=(n, n)).tocsr()
    full = lower + lower.conj().T
    weight = 1 + abs(full).sum(axis=1)
    return scipy.sparse.csr_array(full + scipy.sparse.diags(weight).astype(dtype), dtype=dtype)


def filled(pattern: Any, perm: Any) -> Any:
    """The structure of L: columns are eliminated one by one, and each joins its rows."""
    n = len(perm)
    there = (pattern | pattern.T)[np.ix_(perm, perm)] | np.eye(n, dtype=bool)
    for k in range(n):
        rows = np.nonzero(there[:, k])[0]
        rows = rows[rows > k]
        there[np.ix_(rows, rows)] = True
    return np.tril(there)


def read(name: str) -> Any:
    """A matrix of the collection, both triangles."""
    if name.endswith(".tri"):
        lines = (MATRICES / name).read_text().splitlines()
        lines = [line for line in lines if not line.startswith("%")]
        first = int(len(lines[0].split()) == 4)  # then there is a header, and indices are from 1 on
        rows, columns, values = np.loadtxt(lines[first:], unpack=True)
        rows, columns = rows - first, columns - first
        lower = scipy.sparse.coo_array((values, (rows.astype(int), columns.astype(int))))
        return scipy.sparse.csr_array(lower + scipy.sparse.tril(lower, -1).T)
    return scipy.sparse.csr_array(scipy.io.mmread(MATRICES / name))
