"""Tables that kernels read: roots of unity and orders of rows, computed by the host.

Angles are reduced in integers before they are multiplied by pi, in long double if the host has it,
so that a root of any order has an error of half a unit in the last place of double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from math import isqrt
from typing import Any

import numpy as np

Table = np.ndarray[Any, Any]
_PI = 4 * np.arctan(np.longdouble(1))


def is_smooth(n: int) -> bool:
    """Whether kernels of all devices have butterflies for the prime factors of n."""
    return largest_prime(n) <= 13


@lru_cache(maxsize=1024)
def largest_prime(n: int) -> int:
    """The largest prime factor of n, if it is at most 37; else some number above 37."""
    largest = 1
    for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        while n % prime == 0:
            n //= prime
            largest = prime
    return largest if n == 1 else max(n, 38)


@lru_cache(maxsize=1024)
def is_prime(n: int) -> bool:
    """Whether n is a prime number."""
    return n > 1 and all(n % d for d in range(2, isqrt(n) + 1))


@lru_cache(maxsize=1024)
def divisors(n: int) -> tuple[int, ...]:
    """The divisors of n except 1 and n, in ascending order."""
    small = [d for d in range(2, isqrt(n) + 1) if n % d == 0]
    return tuple(sorted({*small, *(n // d for d in small)}))


def fast_length(min_length: int) -> int:
    """The smallest fast length from ``min_length`` on.

    It is a product of powers of 2, 3 and 5, and above 64 a multiple of 8.  Other radices cost more
    per number, and kernels with fewer radices compile faster.
    """
    step = 8 if min_length > 64 else 1
    n = -(-min_length // step) * step
    while True:
        rest = n
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return n
        n += step


@lru_cache(maxsize=1024)
def radices(n: int, preferred: tuple[int, ...] = (4, 8, 2, 3, 5, 7, 11, 13)) -> tuple[int, ...]:
    """The radices of the stages of a transform of n, in order.

    In a power of two, one 8 replaces 4 and 2.
    """
    result: list[int] = []
    twos = (n & -n).bit_length() - 1
    if 4 in preferred and 8 in preferred and twos % 2 and twos >= 3:
        result.append(8)
        n //= 8
    for radix in preferred:
        if radix == 8 and 4 in preferred[: preferred.index(8)]:
            continue
        while n % radix == 0:
            result.append(radix)
            n //= radix
    if n != 1:
        raise ValueError(f"{n} has no butterfly")
    return tuple(sorted(result, key=lambda radix: (radix in (2, 4, 8, 16), radix)))


def roots(powers: Table, order: int) -> Table:
    """exp(-2 pi i p / order) for each power p, in double precision."""
    reduced = np.asarray(powers, np.int64) % order
    quarter = (8 * reduced + order) // (2 * order)  # the nearest; the angle is at most pi / 4
    angle = (4 * reduced - quarter * order) * (-_PI / (2 * order))
    reduced_roots = (np.cos(angle) + 1j * np.sin(angle)).astype(np.complex128)
    result: Table = reduced_roots * np.array([1, -1j, -1, 1j])[quarter % 4]
    return result


def stage_roots(stages: Sequence[int]) -> Table:
    """The roots of each stage but the last: exp(-2 pi i j r / (R M)) for j < M and 0 < r < R.

    R is the radix of the stage.  It divides transforms of R M into R transforms of M.
    """
    length = int(np.prod(stages, dtype=np.int64))
    tables = [np.zeros(0, complex)]
    for radix in stages:
        part = length // radix
        if part > 1:
            tables.append(roots(np.outer(np.arange(part), np.arange(1, radix)), length).ravel())
        length = part
    return np.concatenate(tables)


def places(stages: Sequence[int]) -> Table:
    """The index of row k of the result after stages that are computed in place.

    The digits of an index in the mixed radix of the stages are those of its row in reverse.
    """
    n = int(np.prod(stages, dtype=np.int64))
    digits, row, weight, length = np.arange(n), np.zeros(n, np.int64), 1, n
    for radix in stages:
        length //= radix
        row += digits // length * weight
        digits = digits % length
        weight *= radix
    result = np.empty(n, np.int64)
    result[row] = np.arange(n)
    return result


def fine_roots(n: int, length: int, lanes: int) -> Table:
    """exp(-2 pi i k l / length) of row k < n and lane l of a strip: shape (n, lanes)."""
    return roots(np.outer(np.arange(n), np.arange(lanes)), length)


def coarse_roots(n: int, length: int, lanes: int, strips: int) -> Table:
    """exp(-2 pi i k l / length) of row k < n and the first lane l of each strip: (strips, n)."""
    return roots(np.outer(np.arange(strips) * lanes, np.arange(n)), length)


def chirp(n: int, inverse: bool, count: int) -> Table:
    """exp(-pi i j^2 / n) of Bluestein's method, or its conjugate, for j < count."""
    j = np.arange(count, dtype=np.int64) % (2 * n)
    squares = np.array([int(index) * int(index) % (2 * n) for index in j]) if n > 2**31 else j * j
    result = roots(squares, 2 * n)
    return result.conj() if inverse else result


def chirp_filter(n: int, inverse: bool, m: int) -> Table:
    """The transform, of length m and divided by m, of the filter of Bluestein's convolution."""
    conjugate = chirp(n, inverse, n).conj()
    wrapped = np.zeros(m, complex)
    wrapped[:n] = conjugate
    if n > 1:
        wrapped[m - n + 1 :] = conjugate[:0:-1]
    result: Table = np.fft.fft(wrapped) / m
    return result


def powers_of_generator(p: int) -> Table:
    """g^m modulo a prime p > 2, for m = 0 ... p - 1, where g is the least primitive root."""
    primes = [q for q in range(2, p) if (p - 1) % q == 0 and is_prime(q)]
    g = next(g for g in range(2, p) if all(pow(g, (p - 1) // q, p) != 1 for q in primes))
    return np.array(list(accumulate(range(1, p), lambda power, _: power * g % p, initial=1)))


def rader_filter(p: int) -> Table:
    """The transform, divided by p - 1, of the filter of Rader's convolution."""
    result: Table = np.fft.fft(roots(powers_of_generator(p)[:0:-1], p)) / (p - 1)
    return result


def bluestein_length(n: int) -> int:
    """The least length of at least 2 n - 1 that is a product of small powers of 2, 3, 5 and 7."""
    min_length = 2 * n - 1
    best = 1 << (min_length - 1).bit_length()
    for three in (1, 3, 9, 27):
        for five in (1, 5, 25):
            for seven in (1, 7):
                odd = three * five * seven
                size = odd * max(1, 1 << (max(1, -(-min_length // odd)) - 1).bit_length())
                if min_length <= size < best:
                    best = size
    return best


@lru_cache(maxsize=1024)
def chirp_length(n: int) -> int:
    """The cheapest length of at least 2 n - 1 for work-groups, for which powers of two are faster.

    The weights are measured: docs/experiments/fft.md.
    """
    min_length = 2 * n - 1
    lengths = [odd << max(1, (-(-min_length // odd) - 1).bit_length()) for odd in (1, 3, 5, 9, 15)]
    return min(lengths, key=lambda m: (m * m.bit_length() * (2 if m & (m - 1) == 0 else 3), m))


def as_components(values: Table, real: str) -> Table:
    """Return complex values as pairs of real numbers, in the working precision."""
    flat = np.ascontiguousarray(values).ravel()
    rounded: Table = flat.astype("complex64" if real == "float" else "complex128")
    return rounded.view(rounded.real.dtype)
