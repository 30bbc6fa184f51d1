"""The diagonal of an inverse against LAPACK's inverse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_systems import DTYPES
from sparse_matrices import grid, random_definite

from portable_gpu.errors import NotPositiveDefiniteError
from portable_gpu.ops.fronts import inverse
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse import Factor, analyze, cholesky


@pytest.fixture(params=["as it is", "plans of their own"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which fronts one launch takes: all of these, or those of a few rows."""
    if request.param != "as it is":
        monkeypatch.setattr(inverse, "_MAX_SMALL", (9, 4))
        monkeypatch.setattr(inverse, "_MAX_SMALL_ON_CPU", (9, 4))
    return str(request.param)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.usefixtures("small")
def test_the_diagonal_of_an_inverse(engine: Engine, dtype: Any) -> None:
    @settings(max_examples=15, deadline=None)
    @given(st.integers(1, 40), st.sampled_from([0, 0.05, 0.2, 1]), st.integers(0, 10**6))
    def check(n: int, density: float, seed: int) -> None:
        A = random_definite(n, density, seed, dtype)
        perm = np.random.default_rng(seed).permutation(n)
        result = cholesky(A, perm, engine=engine).inv_diag()
        assert result.dtype == np.zeros(0, dtype).real.dtype
        wide = A.toarray().astype(np.result_type(dtype, np.float64))
        expected = np.diag(np.linalg.inv(wide)).real
        # The diagonal outweighs the rows by 1, so the inverse is at most 1, and the condition is
        # at most the norm.
        rounding = np.finfo(dtype).eps * abs(wide).sum(axis=1).max()
        assert np.abs(result - expected).max() <= 4 * (n + 2) * rounding

    if np.finfo(dtype).bits == 64 and not engine.target.fp64:
        pytest.skip("the device has no double precision")
    check()


@pytest.mark.usefixtures("small")
def test_of_a_grid(engine: Engine) -> None:
    A = grid(13, 12, 3).astype(np.float32)
    factor = cholesky(A, engine=engine)
    expected = np.diag(np.linalg.inv(A.toarray().astype(np.float64)))
    assert np.allclose(factor.inv_diag(), expected, rtol=1e-5)
    factor.refactorize(A * 2)
    assert np.allclose(factor.inv_diag(), expected / 2, rtol=1e-5)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_from_the_disk(engine: Engine, dtype: str) -> None:
    """The bits are the same twice, with any part on the disk."""
    A = grid(31, 17).astype(dtype)
    symbolic = analyze(A, "amd")
    whole = Factor(symbolic, dtype, engine).refactorize(A)
    expected = whole.inv_diag()
    assert np.array_equal(whole.inv_diag(), expected)
    assert np.allclose(expected, np.diag(np.linalg.inv(A.toarray())).real, rtol=1e-5)
    for share in (0.5, 0.2):
        limit = int(share * whole.stats.factor_bytes)
        factor = Factor(symbolic, dtype, engine, memory_limit=limit).refactorize(A)
        assert np.array_equal(factor.inv_diag(), expected)
        assert factor._numeric.inverse_bytes <= whole._numeric.inverse_bytes


def test_there_is_none(engine: Engine) -> None:
    A = -grid(3, 3).astype(np.float32)
    factor = Factor(analyze(A), np.float32, engine)
    assert cholesky(A[:0, :0], engine=engine).inv_diag().shape == (0,)
    with pytest.raises(NotPositiveDefiniteError):
        factor.refactorize(A)
    with pytest.raises(NotPositiveDefiniteError):
        factor.inv_diag()
