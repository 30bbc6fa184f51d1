"""One check: run an operation twice; compare it with the expected values and with itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_gpu.checking.operands import Array
from portable_gpu.dtypes import is_float16_like
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine


@dataclass(frozen=True)
class Expected:
    """The expected result of an operation.

    Attributes:
        value: The values, in higher precision if the operation rounds.
        bound: The largest error of each value; ``None`` for exact results.
        dtype: The result's dtype.
    """

    value: Any
    bound: Any
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Condition:
    """A condition on a result that has no unique expected value.

    Attributes:
        error: Returns the error of a result in units of its bound: above 1 it is wrong.
        shape, dtype: Those of the result.
    """

    error: Callable[[Array], float]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Check:
    """One operation on one input.

    Attributes:
        operation: Name of the public function.
        case: dtype, shape, axis, view ...
        run: Makes the call on an engine.
        expected: Returns the expected result, or a condition on it.
    """

    operation: str
    case: str
    run: Callable[[Engine], Any]
    expected: Callable[[], Expected | Condition]

    def __call__(self, engine: Engine) -> CheckResult:
        """Run it.  Every failure is reported in the result."""
        begin = time.perf_counter()
        error, message = 0.0, ""
        try:
            first, second = (_host(self.run(engine)) for _ in range(2))
            error, message = compare(first, self.expected())
            if not message and first.tobytes() != second.tobytes():
                message = "a second run gives other bits"
        except Exception as failure:  # a check that cannot run is a check that failed
            lines = str(failure).splitlines() or [""]
            message = f"{type(failure).__name__}: {lines[0]}"
        seconds = time.perf_counter() - begin
        return CheckResult(self.operation, self.case, not message, error, message, seconds)


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    Attributes:
        operation, case: As in :class:`Check`.
        passed: Whether the check passed.
        error: The largest error, in units of its bound (0 for exact results).
        message: What is wrong; empty if it passed.
        seconds: The time taken, with kernel builds.
    """

    operation: str
    case: str
    passed: bool
    error: float
    message: str
    seconds: float


def compare(result: Array, expected: Expected | Condition) -> tuple[float, str]:
    """The largest error in units of its bound, and what is wrong with ``result``, if anything."""
    if isinstance(expected, Condition):
        return _fulfils(result, expected)
    expected_value = np.asarray(expected.value)
    if result.dtype != expected.dtype:
        return 0.0, f"dtype is {result.dtype}, not {expected.dtype}"
    if result.shape != expected_value.shape:
        return 0.0, f"shape is {result.shape}, not {expected_value.shape}"
    if expected.bound is None:
        equal = (result == expected_value) | (
            (result != result) & (expected_value != expected_value)
        )
        return 0.0, "" if equal.all() else _worst(result, expected_value, ~equal)
    if not result.size:
        return 0.0, ""
    difference = _difference(result, expected_value)
    bound = np.broadcast_to(expected.bound, expected_value.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(difference == 0, 0, difference / bound)
    ratio = np.where(np.isnan(ratio), np.inf, ratio).astype(np.float64)
    largest = float(ratio.max())
    message = (
        "" if largest <= 1 else f"{_worst(result, expected_value, ratio)}: {largest:.3g} bounds off"
    )
    return largest, message


def _fulfils(result: Array, condition: Condition) -> tuple[float, str]:
    if (result.dtype, result.shape) != (condition.dtype, condition.shape):
        return 0.0, f"{result.dtype} {result.shape}, not {condition.dtype} {condition.shape}"
    error = condition.error(result)
    return error, "" if error <= 1 else f"{error:.3g} bounds off"


def _difference(result: Array, expected: Array) -> Array:
    """|result - expected| by components; 0 if both are the same infinity or NaN."""
    if result.dtype.kind == "c":
        parts = [
            _difference(np.ascontiguousarray(f), np.ascontiguousarray(w))
            for f, w in ((result.real, expected.real), (result.imag, expected.imag))
        ]
        return np.asarray(np.maximum(*parts))
    wide = result.astype(np.longdouble)
    same = (wide == expected) | (np.isnan(wide) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        return np.where(same, 0, np.abs(wide - expected))


def _worst(result: Array, expected: Array, score: Array) -> str:
    where = np.unravel_index(int(np.argmax(score)), score.shape)
    place = f" at {tuple(int(i) for i in where)}" if where else ""
    return f"{result[where]} instead of {expected[where]}{place}"


def _host(value: Any) -> Array:
    return value.get() if isinstance(value, DEVICE_KINDS) else np.asarray(value)


# -- rounding


def unit(dtype: np.dtype[Any]) -> float:
    """Unit roundoff of the type that sums of a dtype have (float32 for 16-bit floats)."""
    single = is_float16_like(dtype) or dtype in (np.float32, np.complex64)
    return 2.0**-24 if single else 2.0**-53


def rounding(dtype: np.dtype[Any]) -> float:
    """Unit roundoff of a result of a dtype."""
    if is_float16_like(dtype):
        return 2.0**-11 if dtype == np.float16 else 2.0**-8
    return unit(dtype)


def rounding_errors(dtype: np.dtype[Any], values: Array) -> Array:
    """The largest errors of values that are rounded to a dtype.

    They are relative to the values, and absolute near 0: half of the least float16, and for wider
    exponents the least normal number, because devices may flush smaller ones to 0.
    """
    absolute = 2.0**-25
    if dtype != np.float16:
        single = unit(dtype) == unit(np.dtype(np.float32))
        absolute = float(np.finfo(np.float32 if single else np.float64).tiny)
    return np.asarray(np.maximum(rounding(dtype) * np.abs(values), absolute))


def gamma(k: int, u: float) -> float:
    """``k u / (1 - k u)``: the error of k roundings (Higham, 2002, section 3.1)."""
    return k * u / (1 - k * u)


def wide(x: Array) -> Array:
    """``x`` in NumPy's highest precision; integers unchanged."""
    if x.dtype.kind == "c":
        return x.astype(np.clongdouble)
    return x.astype(np.longdouble) if x.dtype.kind == "f" or is_float16_like(x.dtype) else x
