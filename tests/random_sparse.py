"""Random sparse systems: patterns, dtypes, forms of the matrix, orderings, columns of b."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse as sp

import portable_gpu as pg
from portable_gpu import sparse
from portable_gpu.multi import DeviceGroup
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse import partition


def _pattern(draw: random.Random, rng: np.random.Generator, most: int) -> Any:
    """A pattern: scattered, a grid, an arrow, dense, a band, or parts apart; rows in any order."""
    n = int(most ** draw.random())
    kind = draw.choice(("scattered", "grid", "arrow", "dense", "band", "parts"))
    if kind == "scattered":
        result = sp.random(n, n, density=min(1, 6 * draw.random() / n), random_state=rng)
    elif kind == "grid":
        side = round(n**0.5)
        line = sp.diags([1.0] * 3, [-1, 0, 1], shape=(side, side)) if side > 1 else np.ones((1, 1))
        result = sp.kron(line, line)
    elif kind == "arrow":
        result = sp.lil_matrix((n, n))
        result[: draw.randint(0, 8)] = 1
    elif kind == "dense":
        result = sp.block_diag([np.ones((m, m)) for m in (draw.randint(1, most // 3), 1)])
    elif kind == "band":
        width = min(n - 1, draw.randint(0, 40))
        result = sp.diags([1.0] * (width + 1), range(width + 1), shape=(n, n))
    else:
        sizes = [draw.randint(1, most // 12) for _ in range(draw.randint(1, 8))]
        result = sp.block_diag([sp.random(m, m, density=0.3, random_state=rng) for m in sizes])
    order = rng.permutation(result.shape[0])
    return sp.csr_matrix(result)[order][:, order]


def _matrix(draw: random.Random, rng: np.random.Generator, dtype: np.dtype[Any], most: int) -> Any:
    """A Hermitian matrix whose diagonal is larger than the rest of each row."""
    half = _pattern(draw, rng, most).astype(dtype)
    half.data = _numbers(rng, dtype, half.nnz)
    whole = (half + half.conj().T).tocsr()
    rest = np.asarray(abs(whole).sum(axis=1)).ravel() + rng.uniform(0.1, 1, whole.shape[0])
    return sp.csr_matrix(whole - sp.diags(whole.diagonal()) + sp.diags(rest)).astype(dtype)


def _numbers(rng: np.random.Generator, dtype: np.dtype[Any], *shape: int) -> Any:
    values = rng.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def system(
    kind: np.dtype[Any], draw: random.Random, rng: np.random.Generator, most: int
) -> tuple[Any, Any, Any, Any]:
    """Draw a matrix of up to about ``most`` unknowns, its form, an ordering, right-hand sides."""
    a = _matrix(draw, rng, kind, most)
    n, columns = a.shape[0], draw.choice((0, 1, 2, 7, 33))
    form = draw.choice((sp.csr_array, sp.tril, sp.triu, sp.csc_matrix, sp.coo_array))
    ordering = draw.choice(("amd", "rcm", "natural", "auto", rng.permutation(n)))
    return a, form, ordering, _numbers(rng, kind, *((n, columns) if columns else (n,)))


def backward_error(a: Any, x: Any, b: Any) -> float:
    """Compute ``|A x - b| / (|A| |x| + |b|)`` in units of eps."""
    size = abs(a).sum(axis=1).max() * abs(x).max() + abs(b).max()
    return float(abs(a @ x - b).max() / size / np.finfo(x.dtype).eps)


def solve(
    engine: Engine, kind: np.dtype[Any], draw: random.Random, rng: np.random.Generator, most: int
) -> list[str]:
    """Factorise and solve a system of up to about ``most`` unknowns; returns what was drawn.

    A solve by a factor L has a backward error of at most ``gamma(3 m) |L||L^H|`` (Higham, 10.1), m
    the elements of a row of L; these matrices are diagonally dominant, where that is a few u.
    """
    a, form, ordering, b = system(kind, draw, rng, most)
    original = b.copy()
    factor = sparse.cholesky(form(a), ordering=ordering, engine=engine)
    if draw.random() < 0.5:
        factor.refactorize(form(a))
    on_device = draw.random() < 0.5
    x = factor.solve(pg.asarray(b, queue=engine.queue) if on_device else b)
    x = pg.asnumpy(x) if on_device else x
    assert (b == original).all()
    assert (x.shape, x.dtype) == (b.shape, b.dtype)
    messages = [f"{kind} b {b.shape}, {form.__name__}, ordering {ordering}"]
    assert backward_error(a, x, b) <= 16, messages
    return messages


def solve_on_groups(
    groups: Sequence[DeviceGroup],
    kind: np.dtype[Any],
    draw: random.Random,
    rng: np.random.Generator,
    most: int,
) -> list[str]:
    """Factorise and solve a system on groups, with the same bits; returns what was drawn."""
    a, form, ordering, b = system(kind, draw, rng, most)
    part = draw.choice(("L", "Lt", "P", "Pt"))
    messages = [f"{kind} b {b.shape}, {form.__name__}, ordering {ordering}, system {part}"]
    results = []
    # With small limits a small matrix has several parts, too.
    with mock.patch.object(partition, "_LEAST_LIMIT", draw.choice((50.0, 500.0, 5000.0))):
        for group in groups:
            with sparse.cholesky(form(a), ordering, engine=group) as factor:
                if draw.random() < 0.5:
                    factor.refactorize(form(a))
                results.append((factor.solve(b), factor.solve(b, part)))
    for x, y in results:
        assert x.tobytes() == results[0][0].tobytes(), messages
        assert y.tobytes() == results[0][1].tobytes(), messages
    assert backward_error(a, results[0][0], b) <= 16, messages
    return messages
