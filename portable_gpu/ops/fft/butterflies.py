"""Small transforms as straight-line code: the statements that compute them, for any real type.

Statements are generated from arithmetic on pairs of names.  The formulas are the usual ones: sum
and difference for 2; two factors for composite lengths (Cooley and Tukey); symmetric and
antisymmetric sums for odd primes.  Multiplications by powers of -i generate no statements, because
signs and the order of a pair are tracked; odd powers of the eighth root of unity take two additions
and two products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np

from portable_gpu.ops.fft.tables import roots

#: Radices that have straight-line code, the preferred ones first.
RADICES = (8, 4, 16, 2, 3, 5, 7, 11, 13)


@dataclass(frozen=True)
class _Real:
    """A name, or its negative."""

    name: str
    negative: bool = False

    def __neg__(self) -> _Real:
        return _Real(self.name, not self.negative)


@dataclass(frozen=True)
class _Number:
    """A complex number as two names."""

    re: _Real
    im: _Real

    def times_minus_i(self) -> _Number:
        """Multiply by -i."""
        return _Number(self.im, -self.re)

    def __neg__(self) -> _Number:
        return _Number(-self.re, -self.im)


class _Statements:
    """Statements, each of which names a new value."""

    def __init__(self, suffix: str) -> None:
        self.lines: list[str] = []
        self._suffix = suffix

    def new(self, expression: str) -> _Real:
        name = f"t{len(self.lines)}"
        self.lines.append(f"const vec_t {name} = {expression};")
        return _Real(name)

    def constant(self, value: float) -> str:
        return f"{value!r}{self._suffix}"

    def sum(self, a: _Real, b: _Real) -> _Real:
        if a.negative and b.negative:
            return -self.sum(-a, -b)
        if a.negative:
            a, b = b, a
        return self.new(f"{a.name} {'-' if b.negative else '+'} {b.name}")

    def times(self, a: _Real, factor: float) -> _Real:
        return self.new(f"{a.name} * {self.constant(-factor if a.negative else factor)}")

    def add(self, a: _Number, b: _Number) -> _Number:
        return _Number(self.sum(a.re, b.re), self.sum(a.im, b.im))

    def combine(self, first: _Real | None, terms: Sequence[tuple[_Real, float]]) -> _Real:
        """Add multiples of values to a value, as a chain that compilers contract to multiply-adds.

        The chain has no subtractions: with these, Intel's OpenCL for CPUs (2026.2) lost terms in
        kernels of many registers (lengths 507, 845, 1001 by work-groups).
        """
        text = "" if first is None else ("-" if first.negative else "") + first.name
        for value, factor in terms:
            factor = -factor if value.negative else factor
            if not text:
                text = f"{value.name} * {self.constant(factor)}"
            else:
                text = f"({text}) + {value.name} * {self.constant(factor)}"
        return self.new(text)

    def times_root(self, a: _Number, power: int, order: int) -> _Number:
        """Multiply a number by exp(-2 pi i power / order)."""
        power %= order
        if 4 * power % order == 0:
            for _ in range(4 * power // order):
                a = a.times_minus_i()
            return a
        if 8 * power % order == 0:
            eighth = 8 * power // order
            for _ in range(eighth // 2):
                a = a.times_minus_i()
            half = sqrt(0.5)  # times (1 - i) / sqrt(2)
            return _Number(
                self.times(self.sum(a.re, a.im), half), self.times(self.sum(a.im, -a.re), half)
            )
        c, s = _root(power, order)
        return _Number(
            self.combine(None, ((a.re, c), (a.im, -s))), self.combine(None, ((a.im, c), (a.re, s)))
        )

    def transform(self, x: Sequence[_Number]) -> list[_Number]:
        n = len(x)
        if n == 1:
            return list(x)
        if n == 2:
            return [self.add(x[0], x[1]), self.add(x[0], -x[1])]
        factor = next((p for p in (4, 2, 3, 5, 7) if n % p == 0 and p < n), n)
        if n == 4:
            factor = 2
        return self._odd(x) if factor == n else self._composite(x, factor)

    def _composite(self, x: Sequence[_Number], p: int) -> list[_Number]:
        n = len(x)
        q = n // p
        parts = [self.transform(x[r::p]) for r in range(p)]
        results: list[_Number | None] = [None] * n
        for k in range(q):
            for m, value in enumerate(
                self.transform([self.times_root(parts[r][k], r * k, n) for r in range(p)])
            ):
                results[k + q * m] = value
        return [value for value in results if value is not None]

    def _odd(self, x: Sequence[_Number]) -> list[_Number]:
        n = len(x)
        half = range(1, (n + 1) // 2)
        sums = [self.add(x[j], x[n - j]) for j in half]
        differences = [self.add(x[j], -x[n - j]) for j in half]
        first = x[0]
        for pair in sums:
            first = self.add(first, pair)
        results = [first] * n
        for k in half:
            factors = [_root(-j * k, n) for j in half]
            even = [
                self.combine(
                    part(x[0]), [(part(s), c) for s, (c, _) in zip(sums, factors, strict=True)]
                )
                for part in (_re, _im)
            ]
            odd = [
                self.combine(
                    None, [(part(g), d) for g, (_, d) in zip(differences, factors, strict=True)]
                )
                for part in (_re, _im)
            ]
            antisymmetric = _Number(*odd).times_minus_i()
            results[k] = self.add(_Number(*even), antisymmetric)
            results[n - k] = self.add(_Number(*even), -antisymmetric)
        return results


def _root(power: int, order: int) -> tuple[float, float]:
    """exp(-2 pi i power / order), each part to half a unit in the last place."""
    value = complex(roots(np.array(power), order))
    return value.real, value.imag


def _re(a: _Number) -> _Real:
    return a.re


def _im(a: _Number) -> _Real:
    return a.im


@lru_cache(maxsize=64)
def butterfly(radix: int, suffix: str) -> tuple[str, ...]:
    """Statements that replace ``re[0 ... radix - 1]`` and ``im[...]`` by their transform.

    The transform is ``sum_j x[j] exp(-2 pi i j k / radix)``, in the natural order.

    Args:
        radix: The length of the transform.
        suffix: The suffix of constants in C: ``"f"`` for single precision.
    """
    code = _Statements(suffix)
    results = code.transform([_Number(_Real(f"re[{r}]"), _Real(f"im[{r}]")) for r in range(radix)])
    for k, value in enumerate(results):
        for array, part in (("re", value.re), ("im", value.im)):
            code.lines.append(f"{array}[{k}] = {'-' if part.negative else ''}{part.name};")
    return tuple(code.lines)
