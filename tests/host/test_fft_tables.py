"""Roots of one, orders of rows and chirps, against arithmetic with integers."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest

from portable_gpu.ops.fft.tables import (
    bluestein_length,
    chirp,
    chirp_filter,
    coarse_roots,
    fine_roots,
    is_prime,
    is_smooth,
    places,
    powers_of_generator,
    rader_filter,
    radices,
    roots,
    stage_roots,
)

Array = np.ndarray[Any, Any]
_BITS = 160
_ONE = 1 << _BITS


@cache
def _pi() -> int:
    """Pi times 2^160, by Machin's formula."""

    def arctan_of_inverse(x: int) -> int:
        term = result = _ONE // x
        k = 1
        while term:
            term //= -x * x
            k += 2
            result += term // k
        return result

    return 16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)


def exact(power: int, of: int) -> tuple[int, int]:
    """The cosine and the sine of ``-2 pi power / of``, times 2^160, by their series."""
    angle = -2 * _pi() * (power % of) // of
    result, term, k = [0, 0], _ONE, 0
    while term:
        result[k % 2] += term if k % 4 < 2 else -term
        k += 1
        term = term * angle // (_ONE * k)
        term += term < 0  # -1 would stay
    return result[0], result[1]


def off(value: complex, power: int, of: int) -> float:
    """By how many units in the last place of a double a root is off, or by 2^-150 of zero."""
    worst = 0.0
    for part, want in zip((value.real, value.imag), exact(power, of), strict=True):
        if abs(want) < 1 << 20:
            worst = max(worst, 0.0 if part == 0 else np.inf)
            continue
        numerator, denominator = float(part).as_integer_ratio()
        gap = abs(numerator * _ONE // denominator - want)
        worst = max(worst, gap / (float(np.spacing(abs(want / _ONE))) * _ONE))
    return worst


@pytest.mark.parametrize("of", [1, 2, 3, 4, 5, 8, 12, 13, 96, 1009, 4096, 10**6 + 3, 2**20, 2**33])
def test_roots_are_within_one_ulp(of: int) -> None:
    rng = np.random.default_rng(of % 1000)
    powers = [*range(min(of, 40)), *(int(p) for p in rng.integers(0, of, 60)), of, -1, -of // 3]
    powers += [of * k // 8 + d for k in range(9) for d in (-1, 0, 1)]
    worst = max(
        off(value, p, of) for value, p in zip(roots(np.array(powers), of), powers, strict=True)
    )
    assert worst <= 1


SMOOTH = [n for n in range(1, 400) if is_smooth(n)] + [1001, 1024, 2048, 2187, 4096, 3125, 2197]


def test_smooth_numbers() -> None:
    for n in range(1, 2000):
        primes = [p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, p))]
        assert is_smooth(n) == (max(primes, default=1) <= 13)


def staged(x: Array, stages: tuple[int, ...]) -> Array:
    """The stages of cl_kernels/fft/_stages, of the rows of ``x``, in place."""
    s, n, at, done = x.astype(complex), len(x), 0, 1
    w, part = stage_roots(stages), n
    for radix in stages:
        part //= radix
        rows = s.reshape(done, radix, part)
        powers = np.outer(np.arange(radix), np.arange(radix))
        rows = np.einsum("kr,brj->bkj", np.exp(-2j * np.pi * powers / radix), rows)
        if part > 1:
            stage = w[at : at + part * (radix - 1)].reshape(part, radix - 1)
            at += stage.size
            rows[:, 1:] *= stage.T
        s, done = rows.reshape(n), done * radix
    assert at == len(w)
    return s


@pytest.mark.parametrize("n", SMOOTH)
def test_stages_and_places_make_a_transform(n: int) -> None:
    stages = radices(n)
    assert prod(stages) == n
    assert sum(radix in (2, 8) for radix in stages) <= 1  # fours otherwise
    order = places(stages)
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    rng = np.random.default_rng(n)
    x = rng.standard_normal(n) + 1j * rng.standard_normal(n)
    np.testing.assert_allclose(staged(x, stages)[order], np.fft.fft(x), atol=1e-12 * n)


def test_stages_go_from_odd_ones_to_powers_of_two() -> None:
    assert radices(1) == ()
    assert radices(2**7) == (4, 4, 8)
    assert radices(13 * 9 * 2) == (3, 3, 13, 2)
    with pytest.raises(ValueError, match="17"):
        radices(17)
    assert max(len(radices(n)) for n in (2**40, 3**25, 13**11)) < 64  # ORDER_AT of kernels


def test_other_preferred_radices() -> None:
    for preferred in ((8, 4, 2, 3, 5), (16, 4, 2, 3, 5), (2, 3, 5)):
        stages = radices(2**5 * 3 * 5, preferred)
        assert prod(stages) == 480
        assert set(stages) <= set(preferred)


@pytest.mark.parametrize(("n", "whole", "lanes"), [(8, 96, 4), (30, 3000, 8), (16, 2**24, 16)])
def test_twiddles_are_products_of_two_roots(n: int, whole: int, lanes: int) -> None:
    strips = 3
    fine, coarse = fine_roots(n, whole, lanes), coarse_roots(n, whole, lanes, strips)
    assert fine.shape == (n, lanes)
    assert coarse.shape == (strips, n)
    for lane in range(strips * lanes):
        got = coarse[lane // lanes] * fine[:, lane % lanes]
        want = np.exp(-2j * np.pi * np.arange(n) * lane / whole)
        assert np.abs(got - want).max() < 1e-15  # the last one's angle is rounded


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("n", [1, 2, 17, 1009, 2**20 + 7, 10**6 + 3])
def test_chirps(n: int, inverse: bool) -> None:
    result = chirp(n, inverse, n)
    rng = np.random.default_rng(n)
    for j in {0, n - 1, *(int(item) for item in rng.integers(0, n, 30))}:
        value = result[j].conjugate() if inverse else result[j]
        assert off(complex(value), j * j, 2 * n) <= 1


@pytest.mark.parametrize("n", [2**31 - 1, 2**31 + 11, 2**33 + 17, 3 * 2**40 + 1])
def test_chirps_of_lengths_beyond_32_bits(n: int) -> None:
    for j, value in enumerate(chirp(n, False, 70)):
        assert off(complex(value), j * j, 2 * n) <= 1


@pytest.mark.parametrize("p", [3, 5, 17, 101, 257, 4093, 65537])
def test_powers_of_a_generator_are_all_numbers_but_zero(p: int) -> None:
    powers = powers_of_generator(p)
    assert (len(powers), powers[0], powers[-1]) == (p, 1, 1)
    np.testing.assert_array_equal(np.sort(powers[:-1]), np.arange(1, p))
    np.testing.assert_array_equal(powers[1:], powers[:-1] * powers[1] % p)


@pytest.mark.parametrize("p", [3, 5, 17, 101, 1009])
def test_a_cyclic_convolution_is_a_transform_of_a_prime_length(p: int) -> None:
    powers, rng = powers_of_generator(p), np.random.default_rng(p)
    x = rng.standard_normal(p) + 1j * rng.standard_normal(p)
    folded = np.fft.fft(x[powers[:-1]]) * rader_filter(p)
    got = np.full(p, x.sum())
    got[powers[:0:-1]] = x[0] + np.fft.ifft(folded) * (p - 1)
    np.testing.assert_allclose(got, np.fft.fft(x), atol=1e-13 * p)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 1369, 4093, 4087, 999983])
def test_primes(n: int) -> None:
    assert is_prime(n) == (n in (2, 3, 4093, 999983))


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 17, 59, 101])
def test_a_convolution_with_the_chirp_is_a_transform(n: int, inverse: bool) -> None:
    m = bluestein_length(n)
    rng = np.random.default_rng(n)
    x = rng.standard_normal(n) + 1j * rng.standard_normal(n)
    chirped = chirp(n, inverse, n)
    folded = np.fft.fft(x * chirped, m) * chirp_filter(n, inverse, m)
    got = chirped * np.fft.ifft(folded)[:n] * m
    want = np.fft.ifft(x) * n if inverse else np.fft.fft(x)
    np.testing.assert_allclose(got, want, atol=1e-13 * n)


def test_lengths_of_convolutions() -> None:
    for n in [*range(1, 3000), 10**6 + 3, 2**20 + 7, 10**9 + 7]:
        m = bluestein_length(n)
        assert 2 * n - 1 <= m <= 1 << (2 * n - 2).bit_length()
        assert is_smooth(m)
