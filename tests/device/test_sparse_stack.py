"""Stacks of sparse matrices of one pattern against one factor each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from device_arrays import on_device
from sparse_matrices import filled, random_definite

import portable_gpu as pg
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    NotPositiveDefiniteError,
    ShapeError,
)
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse import FactorStack, analyze, cholesky
from portable_gpu.sparse.stack import repeated

N, COUNT = 30, 5


def matrices(dtype: Any = np.float32, triangle: str = "full") -> tuple[Any, Any]:
    """A matrix, and the values that COUNT of its pattern store."""
    A = random_definite(N, 0.1, 2, dtype)
    A = {"full": A, "lower": sp.tril(A), "upper": sp.triu(A)}[triangle].tocsr()
    scales = np.linspace(1, 3, COUNT).astype(np.float32)
    return A, A.data * scales[:, None].astype(A.dtype)


@pytest.mark.parametrize("triangle", ["full", "lower", "upper"])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_like_one_after_the_other(engine: Engine, dtype: Any, triangle: str) -> None:
    A, values = matrices(dtype, triangle)
    symbolic = analyze(A)
    stack = FactorStack(symbolic, COUNT, dtype, engine).refactorize(values)
    rng = np.random.default_rng(0)
    for shape in ((COUNT, N), (COUNT, N, 3)):
        b = rng.standard_normal(shape).astype(dtype)
        result = stack.solve(b)
        assert (result.shape, result.dtype) == (shape, dtype)
        for i in range(COUNT):
            item = A.copy()
            item.data = values[i]
            factor = cholesky(item, symbolic=symbolic, engine=engine)
            assert np.allclose(result[i], factor.solve(b[i]), rtol=1e-4, atol=1e-5)
            assert np.isclose(stack.logdet()[i], factor.logdet(), rtol=1e-5)
            assert np.allclose(stack.inv_diag()[i], factor.inv_diag(), rtol=1e-5)
            for system in ("L", "Lt", "P", "Pt"):
                part = stack.solve(b, system)[i]
                assert np.allclose(part, factor.solve(b[i], system), rtol=1e-4, atol=1e-5)
        on = FactorStack(symbolic, COUNT, dtype, engine)
        x = on.refactorize(on_device(engine, values)).solve(on_device(engine, b))
        assert isinstance(x, pg.Array)
        assert np.array_equal(pg.asnumpy(x), result)
    stack.refactorize(values * 2)
    assert np.allclose(stack.solve(b), result / 2, rtol=1e-4, atol=1e-5)


def test_the_analysis_is_that_of_a_block_diagonal_matrix() -> None:
    A, values = matrices()
    symbolic = repeated(analyze(A, "amd"), 3)
    blocks = sp.block_diag([A] * 3).toarray() != 0
    L = filled(blocks, symbolic.perm)
    assert np.array_equal(symbolic.column_counts, L.sum(axis=0))
    below = [np.flatnonzero(L[k + 1 :, k]) + k + 1 for k in range(3 * N)]
    assert symbolic.parent.tolist() == [rows[0] if len(rows) else -1 for rows in below]
    assert (symbolic.perm[symbolic.iperm] == np.arange(3 * N)).all()
    assert symbolic.pattern.values(values[:3].reshape(-1)).shape == (symbolic.pattern.nnz,)


def test_a_matrix_that_is_not_positive_definite(engine: Engine) -> None:
    A, values = matrices()
    symbolic = analyze(A)
    bad = values.copy()
    place = int(
        np.flatnonzero((A.indices == 7) & (np.repeat(np.arange(N), np.diff(A.indptr)) == 7))[0]
    )
    bad[3, place] = -1
    stack = FactorStack(symbolic, COUNT, np.float32, engine)
    with pytest.raises(NotPositiveDefiniteError, match="matrix 3 of the stack") as caught:
        stack.refactorize(bad)
    assert caught.value.index == (3,)
    assert caught.value.column == symbolic.iperm[caught.value.variable]
    late = stack.refactorize(on_device(engine, bad)).solve(
        on_device(engine, np.ones((COUNT, N), "f4"))
    )
    with pytest.raises(NotPositiveDefiniteError, match="matrix 3 of the stack"):
        late.get()
    stack.refactorize(values)
    assert np.isfinite(stack.logdet()).all()


def test_what_is_refused(engine: Engine) -> None:
    A, values = matrices()
    symbolic = analyze(A)
    stack = FactorStack(symbolic, COUNT, np.float32, engine)
    with pytest.raises(ArgumentError, match="count is 0"):
        FactorStack(symbolic, 0)
    with pytest.raises(ArgumentTypeError, match="symbolic is 3"):
        FactorStack(3, 1)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"values have the shape \(4, "):
        stack.refactorize(values[:4])
    wrong = values.copy()
    wrong[2, 5] = np.nan
    with pytest.raises(ArgumentError, match=r"matrix 2 of the stack: A\[\d+, \d+\] is nan"):
        stack.refactorize(wrong)
    stack.refactorize(values)
    with pytest.raises(ShapeError, match=r"\(30,\); expected \(5, 30\) or \(5, 30, k\)"):
        stack.solve(np.ones(30))
    with pytest.raises(ArgumentError, match="not in C order"):
        stack.solve(on_device(engine, np.ones((N, COUNT), np.float32)).T)
    with stack, pytest.raises(ArgumentError, match="system"):
        stack.solve(np.ones((COUNT, N)), "Q")
    with pytest.raises(ArgumentError, match="closed"):
        stack.solve(np.ones((COUNT, N)))
