"""Straight code of small transforms, run by Python: against the direct sum, and counted."""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np
import pytest

from portable_gpu.ops.fft.butterflies import RADICES, butterfly

Array = np.ndarray[Any, Any]


def run(radix: int, values: Array) -> Array:
    """The results of the statements for complex numbers along the first axis, in long double."""
    wide = values.astype(np.clongdouble)
    names: dict[str, Any] = {"re": [*wide.real.copy()], "im": [*wide.imag.copy()]}
    for statement in butterfly(radix, ""):
        exec(statement.removeprefix("const vec_t ").rstrip(";"), names)
    return np.array(names["re"]) + 1j * np.array(names["im"])


def direct(values: Array) -> Array:
    """The sum that defines a transform, in long double."""
    n = len(values)
    powers = np.outer(np.arange(n), np.arange(n)) % n
    angles = powers * (-8 * np.arctan(np.longdouble(1)) / n)
    return (np.cos(angles) + 1j * np.sin(angles)) @ values.astype(np.clongdouble)


def operations(radix: int) -> tuple[int, int]:
    """Additions and products of the statements; signs are free."""
    additions = products = 0
    for statement in butterfly(radix, ""):
        tree = ast.parse(statement.removeprefix("const vec_t ").rstrip(";"))
        result = [type(node.op) for node in ast.walk(tree) if isinstance(node, ast.BinOp)]
        additions += result.count(ast.Add) + result.count(ast.Sub)
        products += result.count(ast.Mult)
    return additions, products


@pytest.mark.parametrize("radix", sorted({*RADICES, *range(2, 17), 17, 19, 23, 27, 29, 31, 37}))
def test_the_direct_sum(radix: int) -> None:
    units = np.eye(radix) * (1 + 0j)
    rng = np.random.default_rng(radix)
    some = rng.standard_normal((radix, 20)) + 1j * rng.standard_normal((radix, 20))
    # A constant is off by half an ulp of a double, a product of two of them by a little more.
    assert np.abs(run(radix, units) - direct(units)).max() < 2.5e-16
    assert np.abs(run(radix, 1j * units) - 1j * direct(units)).max() < 2.5e-16
    assert np.abs(run(radix, some) - direct(some)).max() < 1e-15 * radix


@pytest.mark.parametrize(
    ("radix", "additions", "products"), [(2, 4, 0), (4, 16, 0), (8, 52, 4), (16, 144, 24)]
)
def test_how_many_operations(radix: int, additions: int, products: int) -> None:
    assert operations(radix) == (additions, products)


@pytest.mark.parametrize("radix", [3, 5, 7, 11, 13, 17, 37])
def test_odd_primes_take_half_of_the_products(radix: int) -> None:
    half = (radix - 1) // 2
    assert operations(radix)[1] == 4 * half**2


@pytest.mark.parametrize("radix", RADICES)
def test_single_precision_is_the_same_text(radix: int) -> None:
    number = re.compile(r"\d+\.\d+(e-?\d+)?f")
    for single, double in zip(butterfly(radix, "f"), butterfly(radix, ""), strict=True):
        assert number.sub(lambda found: found[0][:-1], single) == double
        assert len(re.findall(r"\d\.\d", single)) == len(number.findall(single))


def test_results_come_after_all_reads() -> None:
    for radix in RADICES:
        lines = butterfly(radix, "")
        stores = [line for line in lines if not line.startswith("const")]
        assert lines[-2 * radix :] == tuple(stores)
        assert not any("[" in line.partition("=")[2] for line in stores)
