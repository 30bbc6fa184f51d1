"""Oracles, written for reading: NumPy in higher precision, and bounds on the error."""

from __future__ import annotations

from typing import Any

import numpy as np

# -- matrix products


def wider(array: Any) -> Any:
    """``array`` in longdouble (or clongdouble), in which oracles compute; integers stay."""
    array = np.asarray(array)
    if array.dtype.kind in "biu":
        return array
    return array.astype(np.clongdouble if array.dtype.kind == "c" else np.longdouble)


def unit_roundoff(dtype: Any) -> float:
    """The unit roundoff u of a floating dtype; of the components of a complex one."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "fc":  # bfloat16: 8 bits of precision
        return 2.0**-8
    return float(np.finfo(dtype).eps) / 2


def product_bound(a: Any, b: Any, sums: Any, alpha: Any = 1, beta: Any = 0, c: Any = None) -> Any:
    """Bound the error of ``alpha * a @ b + beta * c``, summed in ``sums`` in any order.

    gamma(k) = k u / (1 - k u) of Higham, Accuracy and Stability of Numerical Algorithms, 3.1; the
    scaling by alpha and beta takes 3 roundings more, complex arithmetic 2 more and a factor of 2.
    """
    k = np.asarray(a).shape[-1]
    is_complex = np.dtype(sums).kind == "c"
    u = unit_roundoff(sums)
    steps = k + 3 + 2 * is_complex
    gamma = steps * u / (1 - steps * u) * (1 + is_complex)
    size = abs(alpha) * (np.abs(wider(a)) @ np.abs(wider(b)))
    if c is not None and beta != 0:
        size = size + abs(beta) * np.abs(wider(c))
    return gamma * size


def assert_within(got: Any, expected: Any, bound: Any) -> None:
    """Elementwise ``|got - expected| <= bound`` and one rounding to the dtype of ``got``."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    small = {2: 2.0**-24, 4: 2.0**-149, 8: 5e-324}
    floor = small.get(got.dtype.itemsize // (2 if got.dtype.kind == "c" else 1), 0.0)
    if got.dtype.kind not in "fc":
        floor = 1e-40
    allowed = bound + 2 * unit_roundoff(got.dtype) * np.abs(expected) + floor
    error = np.abs(wider(got) - expected)
    assert np.all(error <= allowed), (
        f"{np.count_nonzero(~(error <= allowed))} of {error.size} elements are off, "
        f"the worst by {float(np.max(error / allowed))} bounds"
    )


# -- reductions


def add(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """``sum``, in longdouble or with integers wrapping round in 64 bits."""
    return np.sum(wider(x), axis=axis, keepdims=keepdims)


def sum_bound(x: Any, sums: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Bound the error of a sum in ``sums`` at any length: 16 u sum|x|.

    portable_gpu.codegen.reductions folds at most BLOCK elements of a lane by plain additions (one
    rounding less than that, for the first is 0 + x) and the U <= 8 states of a lane by 7 more at
    most; these sums are added as double words, whose errors are of the order of n u^2; one more
    rounding joins hi and lo.  The product of ``dot`` or the conversion of an element takes 1, the
    division of ``mean`` 1.  With BLOCK = 4 that is 13.
    """
    return 16 * unit_roundoff(sums) * np.sum(np.abs(wider(x)), axis=axis, keepdims=keepdims)


def product_of_all_bound(x: Any, products: Any, axis: Any = None) -> Any:
    """gamma(n) |product|; a complex multiplication is off by sqrt(8) u (Higham, lemma 3.5)."""
    x = wider(x)
    count = x.size if axis is None else x.shape[axis]
    steps = (count + 1) * (3 if x.dtype.kind == "c" else 1)
    u = unit_roundoff(products)
    return steps * u / (1 - steps * u) * np.abs(np.prod(x, axis=axis))


def variance(x: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    """``sum |x - mean|^2 / max(n - ddof, 0)`` in longdouble."""
    x = wider(x)
    x = x.astype(np.longdouble) if x.dtype.kind in "biu" else x
    squares = np.abs(x - np.mean(x, axis=axis, keepdims=True)) ** 2
    total = np.sum(squares, axis=axis, keepdims=keepdims)
    return total / max(x.size // max(total.size, 1) - ddof, 0)


def variance_bound(x: Any, sums: Any, axis: Any = None, ddof: float = 0) -> Any:
    """Bound the error of two passes in ``sums``.

    The first pass misses the mean by up to delta = 16 u mean|x|; the second sums squares about
    that centre, 21 u of their sum (16 for the sum, 2 for each square, 1 for each difference that
    is squared, and the division), and takes n delta^2 off again.
    """
    u = unit_roundoff(sums)
    delta = 17 * u * np.mean(np.abs(wider(x)), axis=axis)
    spread = variance(x, axis) + delta**2
    count = np.asarray(x).size // max(np.size(spread), 1)
    return 21 * u * spread * count / max(count - ddof, 0)


def norm(x: Any, axis: Any = None) -> Any:
    """Euclidean norm, in longdouble, whose exponents hold the square of any double."""
    return np.sqrt(np.sum(np.abs(wider(x).astype(np.clongdouble)) ** 2, axis=axis))


def norm_bound(x: Any, sums: Any, axis: Any = None) -> Any:
    """Half of the relative error of the sum of squares (16 u), and 3 u of the end."""
    return 11 * unit_roundoff(sums) * norm(x, axis)


# -- factorisations and triangular solves


def _gamma(steps: int, dtype: Any) -> float:
    dtype = np.dtype(dtype)
    if dtype.kind == "c":  # a complex product is off by sqrt(8) u, and a sum by u (lemma 3.5)
        steps *= 4
    u = unit_roundoff(dtype)
    return steps * u / (1 - steps * u)


def factor_bound(factor: Any) -> Any:
    """Bound the error of ``factor @ factor^H``: gamma(n + 9) |L| |L^H|.

    Higham's theorem 10.3 has n + 1, with a root that is rounded once.  OpenCL's ``rsqrt`` is off
    by 2 ulp (4 u), its product with the pivot by 1 more, and L L^H has both twice.
    """
    size = np.abs(wider(factor))
    return _gamma(factor.shape[-1] + 9, factor.dtype) * (size @ np.swapaxes(size, -1, -2))


def solve_bound(triangle: Any, x: Any) -> Any:
    """Bound the error of ``triangle @ x``: gamma(n + 5) |T| |X|.

    Theorem 8.5 has n.  A reciprocal is off by 2.5 ulp (5 u) in single precision, its product by 1.
    """
    return _gamma(x.shape[-2] + 5, x.dtype) * (np.abs(wider(triangle)) @ np.abs(wider(x)))


# -- Fourier transforms


def fourier(x: Any, axis: int = -1, inverse: bool = False) -> Any:
    """The transform along an axis, unscaled, in long double: direct sums of a factor at a time."""
    wide = np.moveaxis(np.asarray(x).astype(np.clongdouble), axis, -1)
    return np.moveaxis(_fourier(wide, inverse), -1, axis)


def _fourier(x: Any, inverse: bool) -> Any:
    n = x.shape[-1]
    p = max((d for d in range(2, 33) if n % d == 0), default=n)
    columns = x.reshape(*x.shape[:-1], p, n // p)
    k = np.arange(p)
    columns = np.einsum("kj,...jm->...km", _turns(np.outer(k, k), p, inverse), columns)
    if p < n:
        columns = columns * _turns(np.outer(k, np.arange(n // p)), n, inverse)
        columns = _fourier(columns, inverse)
    return np.swapaxes(columns, -1, -2).reshape(x.shape)


def _turns(powers: Any, n: int, inverse: bool) -> Any:
    angle = powers % n * (8 * np.arctan(np.longdouble(1)) / n)
    return np.cos(angle) + (1j if inverse else -1j) * np.sin(angle)


def fourier_bound(dtype: Any, n: int) -> float:
    """Bound the error of a transform, relative to the result, in the 2-norm.

    Each of log2(n) stages adds some roundings to each number, and they add up as the steps of a
    random walk do: its root would be the law, its multiple is a bound with room.  Of lengths with
    other primes than 2 ... 13 there are three transforms of twice the length.
    """
    eps = float(np.finfo(dtype).eps)
    bound = eps * (1 + 0.25 * np.log2(max(2, n)))
    for prime in (2, 3, 5, 7, 11, 13):
        while n % prime == 0:
            n //= prime
    return bound if n == 1 else 3 * bound
