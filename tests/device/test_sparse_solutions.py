"""Dtypes of sparse solutions, sparse and integer right sides, triangles, the order that users give.

The oracles are SciPy's and LAPACK's; a backward error of a Cholesky solve is at most
``(3 m + 1) eps`` (Higham, 2002, 10.1), m the most elements of a row of L, here below 40.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from device_arrays import on_device
from sparse_matrices import grid, random_definite

import portable_gpu as pg
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    NotPositiveDefiniteError,
    ShapeError,
)
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse import Factor, FactorStack, analyze, cholesky, spsolve

N = 30
UNITS = 120


def numbers(shape: Any, dtype: Any, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else values
            ).astype(dtype)  # fmt: skip


def check(A: Any, x: Any, b: Any, dtype: Any, eps_of: Any) -> None:
    """The dtype of a solution, and its backward error in units of the factor's rounding."""
    assert x.dtype == dtype
    dense = A.toarray()
    scale = np.linalg.norm(dense, np.inf) * abs(x).max() + abs(b).max()
    assert abs(dense @ x - b).max() <= UNITS * np.finfo(eps_of).eps * scale


@pytest.fixture
def double(engine: Engine) -> Engine:
    if not engine.target.fp64:
        pytest.skip("the device has no double precision")
    return engine


@pytest.mark.parametrize(
    ("of_factor", "of_values", "of_b"),
    [
        ("complex128", "float64", "float64"),
        ("complex64", "float32", "float32"),
        ("complex64", "float64", "float64"),
        ("float64", "float32", "float32"),
        ("float32", "float32", "complex128"),
    ],
)
def test_solutions_have_the_common_dtype(
    double: Engine, of_factor: str, of_values: str, of_b: str
) -> None:
    A, b = random_definite(N, 0.2, 1).astype(of_values), numbers((N, 2), of_b)
    common = np.result_type(of_factor, of_values, of_b)
    factor = cholesky(A, dtype=of_factor, engine=double)
    check(A, factor.solve(b), b, common, of_factor)
    check(A, pg.asnumpy(factor.solve(on_device(double, b))), b, common, of_factor)
    check(A, factor.solve(b, refine="auto"), b, common, common if of_b[0] == "c" else of_values)
    assert factor.as_linear_operator().dtype == np.result_type(of_factor, of_values)
    L = scipy.linalg.cholesky(A.toarray()[np.ix_(factor.perm, factor.perm)], lower=True)
    y = factor.solve(b, "L")
    assert y.dtype == common
    assert np.allclose(L @ y, b, atol=1e-4)


def test_a_complex_factor_of_real_values(double: Engine, tmp_path: Any) -> None:
    """After a refactorisation, of a stack, and from the disk."""
    A, real = random_definite(N, 0.2, 1, np.complex128), random_definite(N, 0.2, 1)
    real = sp.csr_array((real.data, A.indices, A.indptr), shape=A.shape)
    b = numbers((N, 2), "float64")
    factor = cholesky(A, engine=double).refactorize(real)
    check(real, factor.solve(b), b, "complex128", "float64")
    assert np.allclose(factor.inv_diag(), np.diag(np.linalg.inv(real.toarray())))
    stack = FactorStack(analyze(A), 2, np.complex128, double)
    result = stack.refactorize(np.stack([real.data, 2 * real.data])).solve(np.stack([b, b]))
    check(real, result[0], b, "complex128", "float64")
    check(2 * real, result[1], b, "complex128", "float64")
    spilled = Factor(factor.symbolic, np.complex128, double, memory_limit=1 << 13)
    assert np.array_equal(spilled.refactorize(real).solve(b), factor.solve(b))


@pytest.mark.parametrize("kind", ["float64", "complex128", "int32"])
def test_permutations_round_nothing(double: Engine, kind: str) -> None:
    factor = cholesky(random_definite(N, 0.2, 1, np.float32), engine=double)
    b = numbers((N, 3), kind if kind != "int32" else "float64")
    b = np.rint(1e8 * b).astype(kind) if kind == "int32" else b
    for operand in (b, b[:, 0], on_device(double, b)):
        host = pg.asnumpy(operand)
        result = pg.asnumpy(factor.solve(operand, "P"))
        assert result.dtype == np.result_type(np.float32, kind)
        assert np.array_equal(result, host[factor.perm])
        assert np.array_equal(pg.asnumpy(factor.solve(result, "Pt")), host)


@pytest.mark.parametrize("kind", [np.int8, np.uint64, bool])
def test_integer_right_sides(double: Engine, kind: Any) -> None:
    A = (grid(5, 6) * 2).astype(np.int64)
    b = np.arange(N).astype(kind)
    factor = cholesky(A, engine=double)
    x = factor.solve(b)
    check(A, x, b, "float64", "float64")
    assert np.array_equal(spsolve(A, b, engine=double), x)
    if kind is not bool:
        assert np.array_equal(pg.asnumpy(factor.solve(on_device(double, b))), x)


@pytest.mark.parametrize("of", [sp.csr_array, sp.coo_matrix])
def test_sparse_right_sides(double: Engine, of: Any) -> None:
    A = sp.block_diag([random_definite(N, 0.2, 1), grid(7)]).tocsr()
    B = sp.random(N + 7, 150, 0.01, random_state=0)
    B = of(sp.vstack([B.tocsr()[:N], sp.csr_array((7, 150))]))
    factor = cholesky(A, engine=double)
    X = factor.solve(B)
    assert isinstance(X, sp.csc_matrix if of is sp.coo_matrix else sp.csc_array)
    assert X.shape == B.shape
    assert not X[N:].nnz  # blocks do not reach each other
    assert np.array_equal(np.diff(X.indptr) > 0, np.diff(B.tocsc().indptr) > 0)
    assert np.allclose(X.toarray(), sp.linalg.spsolve(A.tocsc(), B.tocsc()).toarray(), rtol=1e-12)
    assert np.array_equal(factor.solve(B, "P").toarray(), B.toarray()[factor.perm])
    assert np.array_equal(spsolve(A, B, engine=double).toarray(), X.toarray())
    assert factor.solve(of((N + 7, 3))).nnz == 0
    with pytest.raises(ShapeError, match=r"b has shape \(2, 3\); a sparse one is \(37, k\)"):
        factor.solve(of((2, 3)))
    with pytest.raises(ArgumentError, match="out is an array"):
        factor.solve(B, out=np.zeros(B.shape))


@pytest.mark.parametrize("kind", ["float32", "complex64"])
def test_one_triangle_counts(engine: Engine, kind: str) -> None:
    A = random_definite(N, 0.2, 1, kind)
    b = np.ones(N, kind)
    wrong = {
        "lower": sp.csr_array(sp.tril(A) + 3 * sp.triu(A, 1)),
        "upper": sp.csr_array(sp.triu(A) + 3 * sp.tril(A, -1)),
    }
    for triangle, operand in wrong.items():
        with pytest.raises(ArgumentError, match="A is not symmetric"):
            analyze(operand)
        x = spsolve(operand, b, triangle=triangle, engine=engine)
        check(A, x, b, kind, kind)
        # of an analysis of both triangles, by values of the host and of the device
        factor = cholesky(operand, symbolic=analyze(A), triangle=triangle, engine=engine)
        check(A, factor.solve(b), b, kind, kind)
        factor.refactorize(on_device(engine, operand.data), triangle=triangle)
        check(A, factor.solve(b), b, kind, kind)
        factor = Factor(analyze(operand, triangle=triangle), kind, engine)
        for item in (operand.data, operand, operand.tocoo(), operand.tocsc()):
            check(A, factor.refactorize(item).solve(b), b, kind, kind)


def indefinite_in_float32() -> Any:
    """A matrix with a factor in float64 alone: its Schur complement is 1e-10."""
    return sp.csr_array(np.array([[1.0, 1.0, 0], [1.0, 1.0 + 1e-10, 0], [0, 0, 1]]))


def test_another_precision_where_one_fails(double: Engine) -> None:
    A, b = indefinite_in_float32(), np.ones(3)
    says = "in float32; the values are float64, and a factor of dtype='float64' may exist"
    with pytest.raises(NotPositiveDefiniteError, match=says):
        cholesky(A, dtype=np.float32, engine=double)
    with pytest.raises(NotPositiveDefiniteError, match=says):
        spsolve(A, b, dtype=np.float32, refine=2, engine=double)
    with pytest.raises(NotPositiveDefiniteError, match=r"is -1 in float64$"):
        spsolve(-A, b, dtype=np.float32, refine="auto", engine=double)
    stack = FactorStack(analyze(A), 2, np.float32, double)
    with pytest.raises(NotPositiveDefiniteError, match=f"matrix 1 of the stack .* {says}"):
        stack.refactorize(np.stack([np.eye(3)[A.nonzero()] + A.data, A.data]))
    x = spsolve(A, b, dtype=np.float32, refine="auto", engine=double)
    check(A, x, b, "float64", "float64")
    B = random_definite(N, 0.2, 1)
    x = spsolve(B, np.ones(N), dtype=np.float32, refine="auto", engine=double)
    check(B, x, np.ones(N), "float64", "float64")


@pytest.mark.parametrize("ordering", ["natural", "given", "amd"])
def test_the_order_of_the_user(engine: Engine, ordering: str) -> None:
    """Everything that shows columns of L uses one permutation."""
    A = random_definite(N, 0.12, 3, np.float32)
    order = np.random.default_rng(0).permutation(N)
    method = order if ordering == "given" else ordering
    plain, retained = analyze(A, method), analyze(A, method, postorder=False)
    assert not np.array_equal(plain.columns, np.arange(N))  # there is something to keep
    assert np.array_equal(plain.perm, retained.perm[plain.columns])
    if ordering != "amd":
        assert np.array_equal(retained.perm, order if ordering == "given" else np.arange(N))
    factor, dense = cholesky(A, symbolic=retained, engine=engine), A.toarray()
    P = retained.perm
    L = scipy.linalg.cholesky(dense[np.ix_(P, P)], lower=True)
    result = factor.L()
    assert np.allclose(result.toarray(), L, atol=1e-5)
    assert np.array_equal(np.diff(result.indptr), retained.column_counts)
    below = [np.flatnonzero(L[k + 1 :, k]) for k in range(N)]
    assert retained.parent.tolist() == [
        k + 1 + int(r[0]) if r.size else -1 for k, r in enumerate(below)
    ]
    b = numbers((N, 2), "float32")
    for system, expected in (
        ("L", np.linalg.solve(L, b)), ("Lt", np.linalg.solve(L.T, b)), ("P", b[P]),
        ("Pt", b[np.argsort(P)]), ("A", np.linalg.solve(dense, b)),
    ):  # fmt: skip
        assert np.allclose(factor.solve(b, system), expected, atol=1e-5)
    other = cholesky(A, symbolic=plain, engine=engine)
    assert np.array_equal(other.solve(b), factor.solve(b))
    assert np.array_equal(other.inv_diag(), factor.inv_diag())
    assert np.allclose(factor.inv_diag(), np.diag(np.linalg.inv(dense)), atol=1e-5)
    broken = A.tolil()
    broken[P[20], P[20]] = -50
    stack = FactorStack(retained, 2, np.float32, engine)
    for call in (
        lambda: factor.refactorize(broken.tocsr()),
        lambda: stack.refactorize(np.stack([A.data, broken.tocsr().data])),
    ):
        with pytest.raises(NotPositiveDefiniteError) as caught:
            call()
        assert caught.value.variable == P[20]
        assert caught.value.column == 20
        assert f"variable {P[20]} (column 20 of" in str(caught.value)
    with pytest.raises(ArgumentTypeError, match="postorder is 'no'"):
        analyze(A, postorder="no")  # type: ignore[arg-type]
