"""Matrices for tests of factors and solves: LAPACK's recipes, layouts, ratios."""

from __future__ import annotations

from typing import Any

import numpy as np
from reference import unit_roundoff, wider

DTYPES = [np.dtype(name) for name in ("float32", "float64", "complex64", "complex128")]
LAYOUTS = ("plain", "transposed", "negative", "stepped")
#: The values around and between the elements of a stepped array.
CANARY = 77


def numbers(shape: Any, dtype: Any, seed: int = 0) -> Any:
    """Normal numbers, their imaginary parts too."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def adjoint(x: Any) -> Any:
    return np.swapaxes(x, -2, -1).conj()


def definite(n: int, dtype: Any, cond: float = 10.0, batch: Any = (), seed: int = 0) -> Any:
    """Random Hermitian matrices of norm 1 and this condition number (xLATMS, mode 3)."""
    wide = np.result_type(dtype, np.float64)
    if n == 0:
        return np.zeros((*batch, 0, 0), dtype)
    q, _ = np.linalg.qr(numbers((*batch, n, n), wide, seed))
    a = q * np.geomspace(1, 1 / cond, n) @ adjoint(q)
    a = (a + adjoint(a)) / 2
    a = a.astype(dtype)
    return (a + adjoint(a)) / 2


def triangle(x: Any, lower: bool, unit: bool = False) -> Any:
    x = np.tril(x) if lower else np.triu(x)
    if unit:
        every = np.arange(x.shape[-1])
        x[..., every, every] = 1
    return x


def other_nan(x: Any, lower: bool, unit: bool = False) -> Any:
    """A copy that is NaN wherever nothing may be read."""
    n = x.shape[-1]
    mask = np.tri(n, k=-1 if unit else 0, dtype=bool)
    return np.where(mask if lower else mask.T, x, np.nan).astype(x.dtype)


def laid(x: Any, layout: str) -> Any:
    """A copy of matrices in memory of another order."""
    if layout == "transposed":
        return np.swapaxes(np.swapaxes(x, -2, -1).copy(), -2, -1)
    if layout == "negative":
        return x[..., ::-1, ::-1].copy()[..., ::-1, ::-1]
    if layout == "stepped":
        *batch, rows, columns = x.shape
        memory = np.full((*batch, 2 * rows + 1, 3 * columns + 2), CANARY, x.dtype)
        view = memory[..., 1 : 2 * rows + 1 : 2, 2::3]
        view[...] = x
        return view
    return x.copy()


def gamma(steps: int, dtype: Any) -> float:
    """Higham's gamma of some roundings; for complex numbers two more, and twice that."""
    is_complex = np.dtype(dtype).kind == "c"
    steps = steps + 2 * is_complex
    u = unit_roundoff(dtype)
    return steps * u / (1 - steps * u) * (1 + is_complex)


def assert_factor(a: Any, factor: Any, lower: bool, rows: Any = slice(None)) -> None:
    """``|A - L L^H| <= gamma(n + 3) |L| |L^H|``, element by element of some rows of the triangle.

    Sums of float64 are compared in long double, of float32 in float64.
    """
    dtype, n = factor.dtype, factor.shape[-1]
    wide = wider if dtype.name in ("float64", "complex128") else double
    part = wide(triangle(factor, lower))
    left = part if lower else adjoint(part)
    diagonal = np.diagonal(part, 0, -2, -1)
    assert np.all(diagonal.imag == 0)
    assert np.all(diagonal.real > 0)
    expected = wide(a) if lower else adjoint(wide(a))
    product = left[..., rows, :] @ adjoint(left)
    allowed = gamma(n + 3, dtype) * (np.abs(left[..., rows, :]) @ np.abs(adjoint(left)))
    error = np.abs(product - expected[..., rows, :])
    inside = np.tri(n, dtype=bool)[rows]
    tiny = np.finfo(dtype).smallest_normal * (n + 1)
    assert np.all((error <= allowed + tiny) | ~inside), float(
        np.max(np.where(inside, error / (allowed + tiny), 0))
    )


def double(x: Any) -> Any:
    return x.astype(np.result_type(x.dtype, np.float64))


def assert_solution(t: Any, x: Any, b: Any) -> None:
    """``|B - T X| <= gamma(n + 2) |T| |X|``, element by element."""
    wide = wider if x.dtype.name in ("float64", "complex128") else double
    error = np.abs(wide(b) - wide(t) @ wide(x))
    allowed = gamma(t.shape[-1] + 2, x.dtype) * (np.abs(wide(t)) @ np.abs(wide(x)))
    tiny = np.finfo(x.dtype).smallest_normal * (t.shape[-1] + 1)
    assert x.shape[-2:] == b.shape[-2:]
    assert np.all(error <= allowed + tiny), float(np.max(error / (allowed + tiny)))


def one_norm(x: Any) -> float:
    return float(np.abs(x).sum(-2).max()) if x.size else 0.0


def ratio(residual: Any, *factors: Any) -> float:
    """LAPACK's: the 1-norm of a residual over n, eps and the norms of what it is made of."""
    scale = residual.shape[-1] * float(np.finfo(residual.dtype).eps)
    for item in factors:
        scale *= one_norm(item)
    return one_norm(residual) / scale


def backward_error(a: Any, x: Any, b: Any) -> float:
    """The largest of all columns, in units of eps of x's dtype: |B - A X| / (|A| |X| + |B|)."""
    a, wide, rhs = double(a), double(x), double(b)
    off = np.abs(rhs - a @ wide).max(-2)
    size = np.abs(a).sum(-1).max(-1)[..., None] * np.abs(wide).max(-2) + np.abs(rhs).max(-2)
    return float(np.max(off / size)) / float(np.finfo(x.dtype).eps)


def by_normal_equations(a: Any, b: Any) -> Any:
    """In long double, by elimination, and corrected once."""
    a, b = wider(a), wider(b)
    n, x = a.shape[-1], 0
    for _ in range(2):
        rows = np.concatenate([adjoint(a) @ a, adjoint(a) @ (b - a @ x if _ else b)], 1)
        for k in range(n):
            rows[k] /= rows[k, k]
            others = np.arange(n) != k
            rows[others] -= rows[others, k : k + 1] * rows[k]
        x = x + rows[:, n:]
    return double(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))


def assert_least_squares(a: Any, x: Any, b: Any, cond: float) -> None:
    """As good as a QR factorisation's where cond(A)^2 u is below 1: Wedin's bound, times 10."""
    exact, eps = by_normal_equations(a, b), float(np.finfo(x.dtype).eps)
    off, size = double(b) - double(a) @ exact, np.linalg.norm(exact, axis=0)
    allowed = 10 * eps * cond * (1 + cond * np.linalg.norm(off, axis=0) / size)
    assert np.all(np.linalg.norm(x - exact, axis=0) / size <= allowed)


def packed_triangle(a: Any) -> Any:
    """Lower triangles packed, as docs/linalg_packed.md draws it."""
    n, pieces = a.shape[-1], []
    for r0 in range(0, n, 128):
        r1 = min(r0 + 128, n)
        pieces.append(a[..., r0:r1, :r0].reshape(*a.shape[:-2], -1))
        pieces.extend(a[..., i, r0 : i + 1] for i in range(r0, r1))
    return np.concatenate(pieces, axis=-1) if n else np.zeros((*a.shape[:-2], 0), a.dtype)
