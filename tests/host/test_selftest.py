"""The self-test finds what is wrong."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from portable_gpu.checking.check import Check, Expected, compare, gamma
from portable_gpu.checking.edges import Guarded
from portable_gpu.checking.inputs import Input
from portable_gpu.checking.products import product

SINGLE = np.dtype(np.float32)


def expected(value: Any, bound: Any = None, dtype: Any = SINGLE) -> Expected:
    return Expected(np.asarray(value, dtype), bound, np.dtype(dtype))


def test_exact_values_with_nan() -> None:
    target_result = expected([1, np.nan, 3])
    assert compare(np.array([1, np.nan, 3], SINGLE), target_result) == (0, "")
    _, message = compare(np.array([1, 2, 3], SINGLE), target_result)
    assert message == "2.0 instead of nan at (1,)"


@pytest.mark.parametrize(
    ("found", "passes"), [(1.0, True), (1.9, True), (2.1, False), (np.nan, False), (np.inf, False)]
)
def test_bounds(found: float, passes: bool) -> None:
    ratio, message = compare(np.array(found, SINGLE), expected(1.0, 1.0))
    assert (not message) == passes
    assert (ratio <= 1) == passes


def test_infinity_agrees_with_itself_only() -> None:
    expected = Expected(np.array([np.inf, -np.inf]), np.array([1.0, 1.0]), SINGLE)
    assert compare(np.array([np.inf, -np.inf], SINGLE), expected) == (0, "")
    assert compare(np.array([np.inf, np.inf], SINGLE), expected)[1]


def test_no_error_is_allowed_where_the_bound_is_zero() -> None:
    expected = Expected(np.zeros(2), np.zeros(2), SINGLE)
    assert compare(np.zeros(2, SINGLE), expected) == (0, "")
    assert compare(np.array([0, 1e-30], SINGLE), expected)[1]


def test_complex_components() -> None:
    target_result = expected([1 + 1j], np.array([0.5]), np.complex64)
    assert not compare(np.array([1.4 + 0.6j], np.complex64), target_result)[1]
    assert compare(np.array([1 + 1.6j], np.complex64), target_result)[1]


def test_dtype_and_shape() -> None:
    assert "dtype is float64" in compare(np.zeros(1), expected([0]))[1]
    assert "shape is (2,)" in compare(np.zeros(2, SINGLE), expected([0]))[1]


def test_a_check_reports_exceptions_and_changing_bits() -> None:
    def fail(engine: Any) -> Any:
        raise ValueError("too bad\nreally")

    engine: Any = None
    result = Check("sum", "case", fail, lambda: expected(0))(engine)
    assert (result.passed, result.message) == (False, "ValueError: too bad")
    values = iter((np.float32(0), np.float32(1)))
    result = Check("sum", "c", lambda _: next(values), lambda: expected(0, 2.0))(engine)
    assert result.message == "a second run gives other bits"


def test_inputs_are_the_same_every_time() -> None:
    for view in ("numpy", "stepped", "reversed", "fortran", "broadcast", "nan", "huge"):
        item = Input(SINGLE, (40, 30) if view == "broadcast" else (60,), view)
        assert item.host().shape == item.shape
        np.testing.assert_array_equal(item.host(), item.host())
    assert str(Input(SINGLE, (3, 4), "stepped")) == "float32 3 x 4, stepped"


def test_product_bound_holds_for_numpy() -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((50, 50)).astype(np.complex64) for _ in range(2))
    expected = product(a, b, a.dtype, 1, 0, None)
    ratio, message = compare(a @ b, expected)
    assert not message
    assert 0 < ratio < 1
    assert gamma(100, 2.0**-24) < 1e-5


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "float16", "float32", "complex128"])
def test_guards_of_every_dtype(dtype: str) -> None:
    engine: Any = None  # of memory on a device
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guarded = Guarded(engine, (2, 3), np.dtype(dtype), on_device=False)
    guarded.array[...] = np.ones((2, 3), dtype)
    assert (guarded.checked() == 1).all()
    for place in (0, -1):
        memory = guarded._memory.view(np.uint8)
        memory[place] ^= 1
        with pytest.raises(AssertionError, match="outside the result"):
            guarded.checked()
        memory[place] ^= 1
