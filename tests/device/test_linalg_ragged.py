"""Factors and solves of matrices of different sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_arrays import from_device, on_device

import portable_gpu as pg
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    NotPositiveDefiniteError,
    OverlapError,
    ShapeError,
    SingularMatrixError,
)
from portable_gpu.linalg import ragged
from portable_gpu.linalg.ragged import Ragged

SIZES = (3, 0, 8, 9, 1, 16, 31, 5, 64, 65, 128, 129, 12, 200, 3)
#: Sizes that most devices do not factorise by recursive halving.
SMALL = (3, 0, 8, 9, 1, 16, 31, 5, 17, 64, 33)
OPS = {"N": lambda x: x, "T": lambda x: x.T, "C": lambda x: x.conj().T}


def _random(shape: Any, dtype: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def _positive(n: int, dtype: Any) -> Any:
    x = _random((n, n), dtype, n)
    return (x @ x.conj().T / max(n, 1) + np.eye(n)).astype(dtype)


def _triangle(n: int, dtype: Any, lower: bool) -> Any:
    x = np.tril(_random((n, n), dtype, n) / max(n, 1)) + 2 * np.eye(n, dtype=dtype)
    return x if lower else x.T.copy()


def _close(got: Any, expected: Any) -> None:
    tolerance = {"f": 2e-5, "d": 1e-12, "F": 4e-5, "D": 2e-12}[np.asarray(got).dtype.char]
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("dtype", "sizes", "lower"),
    [
        ("float64", SIZES, True), ("float64", SIZES, False), ("float32", SMALL, True),
        ("complex64", SMALL, False), ("complex128", SMALL, True),
    ],
)  # fmt: skip
def test_cholesky_and_cho_solve(dtype: str, sizes: Any, lower: bool) -> None:
    matrices = [_positive(n, dtype) for n in sizes]
    factors = ragged.cholesky(matrices, lower=lower)
    assert len(factors) == len(matrices)
    for a, f in zip(matrices, factors, strict=True):
        expected = np.linalg.cholesky(a)
        _close(f, expected if lower else expected.conj().T)
    right = [_random((n, k % 4), dtype, k) for k, n in enumerate(sizes)]
    solutions = ragged.cho_solve(factors, right, lower)
    for a, b, x in zip(matrices, right, solutions, strict=True):
        assert x.shape == b.shape
        _close(a @ x, b)


@pytest.mark.parametrize("trans", ["N", "T", "C"])
@pytest.mark.parametrize("lower", [True, False])
def test_solve_triangular(trans: str, lower: bool) -> None:
    dtype = "complex128" if trans == "C" else "float64"
    sizes = SMALL if trans == "C" else SIZES
    matrices = [_triangle(n, dtype, lower) for n in sizes]
    right = [_random(n if k % 3 else (n, 70), dtype, k) for k, n in enumerate(sizes)]
    solutions = ragged.solve_triangular(matrices, right, trans, lower)
    for a, b, x in zip(matrices, right, solutions, strict=True):
        assert x.shape == b.shape
        _close(OPS[trans](a) @ x, b)
    ones = [a - np.diag(np.diag(a)) for a in matrices]
    solutions = ragged.solve_triangular(ones, right, trans, lower, unit_diagonal=True)
    for a, b, x in zip(ones, right, solutions, strict=True):
        _close((OPS[trans](a) + np.eye(len(a))) @ x, b)


def _fronts(dtype: str) -> tuple[Any, Ragged]:
    """Matrices with gaps between their rows and around them, and all else NaN."""
    rng = np.random.default_rng(0)
    leading = [n + int(rng.integers(0, 4)) for n in SMALL]
    offsets = np.cumsum([7, *(n * ld + 3 for n, ld in zip(SMALL, leading, strict=True))])
    buffer = np.full(int(offsets[-1]) + 9, np.nan, dtype)
    fronts = Ragged(buffer, SMALL, offsets[:-1], leading)
    for k, n in enumerate(SMALL):
        fronts[k][...] = _positive(n, dtype)
    return buffer, fronts


def test_one_buffer_in_place(engine: Any) -> None:
    buffer, fronts = _fronts("float64")
    before = buffer.copy()
    result = ragged.cholesky(fronts, overwrite_a=True, lower=True)
    assert result.buffer is buffer
    touched = np.zeros(buffer.shape, bool)
    inside = fronts.like(touched.astype("float64"))
    for k, n in enumerate(SMALL):
        _close(np.tril(result[k]), np.linalg.cholesky(_positive(n, "float64")))
        inside[k][...] = np.tri(n)
    outside = inside.buffer == 0
    np.testing.assert_array_equal(buffer[outside], before[outside])

    array = on_device(engine, before, rim=64)
    on = fronts.like(array)
    made = ragged.cholesky(on, lower=True)
    assert isinstance(made.buffer, pg.Array)
    np.testing.assert_array_equal(made.buffer.get(), buffer)
    np.testing.assert_array_equal(from_device(array), before)
    ragged.cholesky(on, overwrite_a=True, lower=True)
    np.testing.assert_array_equal(from_device(array), buffer)

    right = Ragged(np.ones(2 * sum(SMALL)), SMALL, columns=2)
    expected = ragged.cho_solve(result, right, lower=True)
    x = on_device(engine, right.buffer)
    ragged.cho_solve(on, right.like(x), overwrite_b=True, lower=True)
    np.testing.assert_array_equal(from_device(x), expected.buffer)


def test_a_plan_serves_new_values(engine: Any) -> None:
    _, fronts = _fronts("float64")
    ragged.cholesky(fronts, lower=True)
    plans = len(engine._plans)
    other = fronts.buffer.copy()
    repeated = fronts.like(other)
    for k, n in enumerate(SMALL):
        repeated[k][...] = 4 * _positive(n, "float64")
    result = ragged.cholesky(repeated, lower=True)
    assert len(engine._plans) == plans
    for k, n in enumerate(SMALL):
        _close(np.tril(result[k]), 2 * np.linalg.cholesky(_positive(n, "float64")))


def test_lists_of_device_arrays(engine: Any) -> None:
    matrices = [_positive(n, "float32") for n in SMALL]
    on = [on_device(engine, a if k % 2 else a.T) for k, a in enumerate(matrices)]
    for lower in (True, False):
        factors = ragged.cholesky(on, lower=lower)
        for f, expected in zip(factors, ragged.cholesky(matrices, lower=lower), strict=True):
            assert isinstance(f, pg.Array)
            _close(from_device(f), expected)
        right = [on_device(engine, np.ones(n, np.float32)) for n in SMALL]
        for a, x in zip(matrices, ragged.cho_solve(factors, right, lower), strict=True):
            _close(a @ from_device(x), np.ones(len(a), np.float32))


def test_not_positive_definite(engine: Any) -> None:
    matrices = [np.eye(n) for n in SIZES]
    matrices[6][17, 17] = -3.0
    matrices[13][150, 150] = -1.0
    with pytest.raises(NotPositiveDefiniteError) as caught:
        ragged.cholesky(matrices)
    assert (caught.value.index, caught.value.column, caught.value.pivot) == ((6,), 17, -3.0)
    matrices[6][17, 17] = 1
    with pytest.raises(NotPositiveDefiniteError) as caught:
        ragged.cholesky(matrices, lower=False)
    assert (caught.value.index, caught.value.column, caught.value.pivot) == ((13,), 150, -1.0)
    factors = ragged.cholesky([on_device(engine, a) for a in matrices])
    with pytest.raises(NotPositiveDefiniteError):
        factors[0].get()
    with pytest.raises(NotPositiveDefiniteError):
        ragged.cho_solve(factors, [on_device(engine, np.ones(n)) for n in SIZES])[0].get()


@pytest.mark.parametrize("lower", [True, False])
def test_singular(lower: bool) -> None:
    matrices = [np.eye(n) for n in SIZES]
    matrices[5][3, 3] = matrices[5][9, 9] = 0
    matrices[13][180, 180] = 0
    right = [np.ones((n, 2)) for n in SIZES]
    with pytest.raises(SingularMatrixError) as caught:
        ragged.solve_triangular(matrices, right, lower=lower)
    assert (caught.value.index, caught.value.column) == ((5,), 3)


def test_empty() -> None:
    assert ragged.cholesky([]) == []
    assert ragged.cho_solve([], []) == []
    nothing = Ragged(np.zeros(0, "complex64"), [])
    assert ragged.cho_solve(nothing, []) == []
    assert len(ragged.cho_solve([], nothing)) == 0
    (result,) = ragged.cholesky([np.zeros((0, 0))])
    assert result.shape == (0, 0)


def test_wrong_arguments(engine: Any) -> None:
    square = np.eye(3)
    with pytest.raises(ArgumentTypeError, match="list"):
        ragged.cholesky(square)
    with pytest.raises(ShapeError, match=r"a\[1\] has shape \(3, 2\)"):
        ragged.cholesky([square, square[:, :2]])
    with pytest.raises(DTypeError, match=r"a\[1\] is float32"):
        ragged.cholesky([square, square.astype("float32")])
    with pytest.raises(ArgumentTypeError, match="one kind"):
        ragged.cholesky([square, on_device(engine, square)])
    with pytest.raises(DTypeError):
        ragged.cholesky([np.eye(3, dtype=int)])
    with pytest.raises(ShapeError, match="matrix 1 of a has 3 rows, that of b 4"):
        ragged.cho_solve([square, square], [np.ones(3), np.ones(4)])
    with pytest.raises(ShapeError, match="a has 2 matrices and b 1"):
        ragged.cho_solve([square, square], [np.ones(3)])
    with pytest.raises(ShapeError, match=r"matrix 1 .* ends at 13"):
        Ragged(np.ones(12), [2, 3])
    with pytest.raises(ArgumentError, match=r"leading\[0\] is 1"):
        Ragged(np.ones(12), [2], leading=[1])
    with pytest.raises(ArgumentError, match="negative"):
        Ragged(np.ones(12), [-2])
    with pytest.raises(ArgumentError, match="integers"):
        Ragged(np.ones(12), [1.5])
    with pytest.raises(ArgumentError, match="2 numbers for 1"):
        Ragged(np.ones(12), [2], offsets=[0, 4])
    with pytest.raises(ShapeError, match="one axis"):
        Ragged(square, [3])
    with pytest.raises(ShapeError, match="3 x 2; square"):
        ragged.cholesky(Ragged(np.ones(6), [3], columns=2))
    x = Ragged(np.ones(9), [3])
    with pytest.raises(OverlapError):
        ragged.solve_triangular(x, x, overwrite_b=True)
    with pytest.raises(ArgumentError, match="for a Ragged"):
        ragged.cholesky([square], overwrite_a=True)
