"""Partial results of reductions, merged in pairs: NumPy's result of all elements is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from portable_gpu.multi.merging import merged_extremes, merged_moments, merged_norms

_SPECIAL = (np.inf, -np.inf, np.nan, 0.0, 1e200, 3.0)


def _tree(parts: list[Any], merge: Callable[[Any, Any], Any], rng: np.random.Generator) -> Any:
    """Merge neighbours until one part is left, in an order that is drawn."""
    while len(parts) > 1:
        at = int(rng.integers(len(parts) - 1))
        parts[at : at + 2] = [merge(*parts[at : at + 2])]
    return parts[0]


def _groups(rng: np.random.Generator) -> tuple[Any, list[slice]]:
    """Draw elements, of which some are special ones, and the bounds of groups."""
    x = rng.integers(-3, 4, (int(rng.integers(1, 12)), 2)).astype(np.float64)
    for _ in range(int(rng.integers(4))):
        x[rng.integers(len(x)), rng.integers(2)] = _SPECIAL[rng.integers(len(_SPECIAL))]
    cuts = np.unique([0, len(x), *rng.integers(0, len(x) + 1, 3)]).tolist()
    return x, [slice(*pair) for pair in pairwise(cuts)]


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    with np.errstate(all="ignore"):
        yield


def test_norms() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        x, groups = _groups(rng)
        scale = np.max(np.where(np.isfinite(x), np.abs(x), 0)) or 1.0
        norms = [np.sqrt(np.square(x[group] / scale).sum(0)) * scale for group in groups]
        expected = np.sqrt(np.square(x / scale).sum(0)) * scale
        got = _tree(norms, merged_norms, rng)
        np.testing.assert_allclose(got, expected, rtol=16 * np.finfo(float).eps)


def test_moments() -> None:
    rng = np.random.default_rng(2)
    for number in range(300):
        x, groups = _groups(rng)
        if number % 3 == 0:
            x = x * (1 + 2j)
        x = np.where(np.abs(x) == 1e200, 1.0, x)
        x = x + 2.0**40  # exact, as are means relative to a pivot
        parts = [
            (len(y), y[0], (y - y[0]).mean(0), (y - y[0]).var(0) * len(y))
            for y in (x[at] for at in groups)
        ]
        empty = (0, *[np.full(2, np.nan)] * 3)
        parts.insert(int(rng.integers(len(parts) + 1)), empty)
        count, pivot, mean, squares = _tree(parts, merged_moments, rng)
        assert count == len(x)
        bound = 100 * np.finfo(float).eps
        finite = np.isfinite(x).all(0)
        x = x - 2.0**40
        mean = (pivot - 2.0**40) + mean
        np.testing.assert_allclose(mean[finite], x.mean(0)[finite], rtol=bound, atol=bound)
        np.testing.assert_allclose(squares / count, x.var(0), rtol=bound, atol=bound)


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_indices_of_extremes(name: str) -> None:
    rng = np.random.default_rng(3)
    find, merge = (
        getattr(np, name),
        partial(merged_extremes, np.less if name == "argmin" else np.greater),
    )
    for _ in range(300):
        x, groups = _groups(rng)
        parts = [
            (find(x[at], 0) + at.start, np.take_along_axis(x[at], find(x[at], 0)[None], 0)[0])
            for at in groups
        ]
        index, value = _tree(parts, merge, rng)
        np.testing.assert_array_equal(index, find(x, 0))
        np.testing.assert_array_equal(value, np.take_along_axis(x, index[None], 0)[0])
