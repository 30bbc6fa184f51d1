"""Activations and their gradients against the formulas in wider precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from device_arrays import from_device, on_device
from layers.activations import CASES, LD

import portable_gpu as pg
from portable_gpu.dtypes import bfloat16
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    OverlapError,
    PortableGPUError,
    ShapeError,
)
from portable_gpu.runtime.engine import Engine

BFLOAT16 = bfloat16()

DTYPES = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16]


def _check(
    got: Any, terms: tuple[Any, ...], argument_error: Any, dtype: Any, less: Any = 0
) -> None:
    """Allow 16 ulp of the worst function, 16 of other operations, and the argument's error."""
    exact = sum(terms)
    computed = np.float64 if dtype == np.float64 else np.float32
    bound = (
        32 * np.finfo(computed).eps * (1 + argument_error) * sum(np.abs(t) for t in terms) + less
    )
    bound = bound + 4 * np.finfo(computed).tiny
    if np.dtype(dtype).itemsize == 2:
        rounding, smallest = (2.0**-11, 2.0**-25) if dtype == np.float16 else (2.0**-8, 0.0)
        bound = bound * (1 + rounding) + rounding * np.abs(exact) + smallest
    assert got.dtype == dtype
    error = np.abs(got.astype(LD) - exact)
    assert np.all(error <= bound), float(np.max(error / bound))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0] + str(c[1].get("approximate", "")))
def test_values_and_gradients(engine: Engine, case: Any) -> None:
    """All of a dense range and its tails, on sliced arrays; other dtypes and layouts for some."""
    name, options, of_result, function, derivative, argument_error = case
    forward, backward = getattr(pg.nn, name), getattr(pg.nn, f"{name}_backward")
    rng = np.random.default_rng(len(name))
    other = {6: DTYPES[1], 2: DTYPES[2], 7: DTYPES[3]}.get(CASES.index(case))
    for dtype in [np.dtype(np.float32), *([other] if other is not None else [])]:
        if dtype == np.float64 and not engine.target.fp64:
            continue
        parts = (rng.uniform(-9, 9, 700), rng.uniform(-95, 95, 100), [0.0, 3.0, -3.0, 1e-30, -1e-6])
        values = np.concatenate(parts)[: 8 * 100].reshape(5, 16, 10).astype(dtype)
        x, g = values[:, ::2], rng.standard_normal((5, 8, 10)).astype(dtype)
        wide = x.astype(LD)
        got = forward(x, **options, engine=engine)
        _check(got, function(wide), argument_error(wide), dtype)
        retained = got if of_result else x
        slope = tuple(g.astype(LD) * t for t in derivative(wide))
        # A gradient of the result has the error of the rounded result.
        eps = np.finfo(np.float32).eps if dtype != np.float64 else np.finfo(np.float64).eps
        eps = {2: 2.0**-8}.get(dtype.itemsize, 32 * eps)
        rounded = of_result and name not in ("relu", "relu6")
        less = 2 * eps * np.abs(g.astype(LD)) if rounded else 0
        _check(
            backward(g, retained, **options, engine=engine),
            slope,
            argument_error(wide),
            dtype,
            less,
        )
        if dtype == np.float32 and CASES.index(case) % 3 == 0:
            _repeats_in_place(engine, forward, backward, options, x, g, got, retained)


def _repeats_in_place(
    engine: Engine, forward: Any, backward: Any, options: Any, x: Any, g: Any, y: Any, kept: Any
) -> None:
    """Check that bits repeat on the device, with axes in another order, and in place."""
    gradient = backward(g, kept, **options, engine=engine)
    transposed = on_device(engine, np.ascontiguousarray(x.transpose(2, 0, 1)), rim=4)
    last = pg.Array.of(transposed).transpose(1, 2, 0)
    got = forward(last, **options)
    assert got.strides == last.strides
    assert np.array_equal(pg.asnumpy(got), y)
    assert forward(last, **options, out=last) is last
    assert np.array_equal(from_device(last), y)
    place = g.transpose(2, 1, 0).copy().transpose(2, 1, 0)
    assert backward(place, kept, **options, out=place, engine=engine) is place
    assert np.array_equal(place, gradient)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0] + str(c[1].get("approximate", "")))
def test_limits(engine: Engine, case: Any) -> None:
    """NaN stays, infinities and huge numbers give limits; nothing overflows."""
    name, options, of_result, *_ = case
    forward, backward = getattr(pg.nn, name), getattr(pg.nn, f"{name}_backward")
    huge = np.float32(3e38)
    x = np.array([np.nan, np.inf, -np.inf, huge, -huge, 0], np.float32)
    y = forward(x, **options, engine=engine)
    ends = {
        "elu": (None, -1.5), "hardsigmoid": (1, 0), "hardtanh": (0.5, -2.5), "relu6": (6, 0),
        "sigmoid": (1, 0), "tanh": (1, -1),
    }  # fmt: skip
    upper, lower = ends.get(name, (None, 0))
    high = x[[1, 3]] if upper is None else np.float32([upper, upper])
    low = x[[2, 4]] / 8 if name == "leaky_relu" else np.float32([lower, lower])
    assert np.isnan(y[0])
    ulp = 5 * np.finfo(np.float32).eps if name == "tanh" else 0  # OpenCL's tanh need not be 1
    assert np.all(np.abs(y[[1, 3]] - high) <= ulp) or np.array_equal(y[[1, 3]], high)
    assert np.all(np.abs(y[[2, 4]] - low) <= ulp) or np.array_equal(y[[2, 4]], low)
    gradient = backward(np.ones_like(x), y if of_result else x, **options, engine=engine)
    of_pieces = name in ("hardsigmoid", "hardtanh", "leaky_relu", "relu", "relu6")
    assert of_pieces or np.isnan(gradient[0])
    slope = 0 if upper is not None else 1
    assert np.all(np.abs(gradient[[1, 3]] - slope) <= 2 * ulp)
    left = 0.125 if name == "leaky_relu" else 0
    assert np.all(np.abs(gradient[[2, 4]] - left) <= 2 * ulp)


def test_gradients_from_results(engine: Engine) -> None:
    rng = np.random.default_rng(1)
    x, g = (rng.standard_normal(50).astype(np.float32) for _ in range(2))
    by_result = pg.nn.elu_backward(g, pg.nn.elu(x, 0.5, engine=engine), 0.5, True, engine=engine)
    direct = pg.nn.elu_backward(g, x, 0.5, engine=engine)
    assert np.all(np.abs(by_result - direct) <= 8 * np.finfo(np.float32).eps * np.abs(g))
    y = pg.nn.leaky_relu(x, engine=engine)
    by_result = pg.nn.leaky_relu_backward(g, y, self_is_result=True, engine=engine)
    assert np.array_equal(by_result, pg.nn.leaky_relu_backward(g, x, engine=engine))


def test_numbers_are_not_rounded_to_16_bits(engine: Engine) -> None:
    """A slope of 0.01 differs from that of float16 by 2e-4, most of an ulp of a result."""
    x = -np.linspace(0.1, 9, 500).astype(np.float16)
    got = pg.nn.leaky_relu(x, 0.01, engine=engine)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, (x.astype(np.float32) * np.float32(0.01)).astype(np.float16))


def test_gradients_of_the_largest_numbers_do_not_overflow(engine: Engine) -> None:
    """The largest number times a slope below 1 is finite: slopes are computed first."""
    largest = np.full(96, np.finfo(np.float32).max, np.float32)
    x = np.linspace(-2.9, 0.4, 96, dtype=np.float32)  # where no slope reaches 1
    for name, options, _, _, derivative, _ in CASES:
        if name in ("relu", "sigmoid", "tanh", "relu6", "hardtanh"):  # slopes are 0, 1, of results
            continue
        slope = sum(derivative(x.astype(LD)))
        got = getattr(pg.nn, f"{name}_backward")(largest, x, **options, engine=engine)
        inside = np.abs(slope) < 0.99
        assert np.isfinite(got[inside]).all(), name
        assert inside.sum() > 50, name


def test_empty_and_threshold(engine: Engine) -> None:
    assert pg.nn.relu(np.zeros((0, 3), np.float32), engine=engine).shape == (0, 3)
    x = np.float32([-1, 0.5, 2])
    y = pg.nn.softplus(x, 1, 1.5, engine=engine)
    assert y[2] == 2
    assert y[1] == pytest.approx(np.log1p(np.exp(0.5)))


def test_wrong_arguments(engine: Engine) -> None:
    x = np.ones((3, 4), np.float32)
    nn = pg.nn
    wrong: list[tuple[type[PortableGPUError], str, Callable[[], Any]]] = [
        (DTypeError, "input is int64", lambda: nn.relu(np.ones(3, np.int64))),
        (DTypeError, "input is complex64", lambda: nn.gelu(np.ones(3, np.complex64))),
        (ArgumentTypeError, "input is a str", lambda: nn.tanh("x")),
        (ArgumentError, "approximate is 'no'", lambda: nn.gelu(x, "no")),
        (ArgumentTypeError, "alpha is 1j", lambda: nn.elu(x, 1j)),
        (ArgumentError, "alpha is NaN", lambda: nn.elu(x, float("nan"))),
        (ArgumentTypeError, "negative_slope", lambda: nn.leaky_relu(x, np.ones(4))),
        (ArgumentError, "beta is 0", lambda: nn.softplus(x, 0)),
        (ArgumentError, "beta is 0", lambda: nn.Softplus(0)),
        (ArgumentError, "min_val is 2.0 and max_val 1.0", lambda: nn.hardtanh(x, 2)),
        (ArgumentError, "negative_slope is -1", lambda: nn.leaky_relu_backward(x, x, -1, True)),
        (ArgumentError, "alpha is -1", lambda: nn.elu_backward(x, x, -1, True)),
        (ShapeError, r"grad_output has shape \(4,\)", lambda: nn.relu_backward(x[0], x)),
        (DTypeError, "out", lambda: nn.relu(x, out=np.ones((3, 4)))),
        (ShapeError, "out", lambda: nn.relu(x.T, out=x)),
        (OverlapError, "out", lambda: nn.relu(x[1:], out=x[:-1])),
    ]
    for error, message, call in wrong:
        with pytest.raises(error, match=message):
            call()
    assert np.all(x == 1)


def test_pieces_are_accurate_where_they_vanish(unoptimised: Engine) -> None:
    """``(x + 3) / 6`` near -3 and ``(2 x + 3) / 6`` near -1.5, within a few ulp of the result."""
    distance = 2.0 ** -np.arange(2, 21, dtype=np.float32)
    x = np.concatenate([-3 + distance, -1.5 - distance, -1.5 + distance])
    wide = x.astype(np.float64)
    y = pg.nn.hardsigmoid(x, engine=unoptimised)
    np.testing.assert_allclose(y, (wide + 3) / 6, rtol=2.0**-21)
    dx = pg.nn.hardswish_backward(np.ones_like(x), x, engine=unoptimised)
    np.testing.assert_allclose(dx, (2 * wide + 3) / 6, rtol=2.0**-21)
