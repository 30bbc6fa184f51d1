"""Convolutions and correlations against sums in extended precision."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from device_arrays import from_device, on_device
from sampling import in_pairs

import portable_gpu as pg
from portable_gpu import signal
from portable_gpu.errors import AxisError, DTypeError, PortableGPUError, ShapeError
from portable_gpu.runtime.engine import Engine

WIDER = {"f": np.longdouble, "c": np.clongdouble}
FUNCTIONS = ("fftconvolve", "oaconvolve")


def _random(rng: np.random.Generator, shape: Any, dtype: Any) -> Any:
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def _oracle(a: Any, b: Any, mode: str, axes: Any = None) -> Any:
    """The sums, a number of the smaller input after the other; then what the mode keeps."""
    wide = WIDER[np.result_type(a, b).kind]
    a, b = a.astype(wide), b.astype(wide)
    axes = [k % a.ndim for k in (range(a.ndim) if axes is None else np.atleast_1d(axes))]
    axes = [k for k in axes if a.shape[k] != 1 and b.shape[k] != 1]
    shape = [
        n + m - 1 if k in axes else max(n, m)
        for k, (n, m) in enumerate(zip(a.shape, b.shape, strict=True))
    ]
    full = np.zeros(shape, wide)
    for at in itertools.product(*(range(b.shape[k]) for k in axes)):
        goal, selected = [slice(None)] * a.ndim, [slice(None)] * a.ndim
        for k, item in zip(axes, at, strict=True):
            goal[k], selected[k] = slice(item, item + a.shape[k]), slice(item, item + 1)
        full[tuple(goal)] += a * b[tuple(selected)]
    expected = list(full.shape)
    if mode == "same":
        expected = list(a.shape)
    elif mode == "valid":
        for k in axes:
            expected[k] = abs(a.shape[k] - b.shape[k]) + 1
    starts = [(n - w) // 2 for n, w in zip(full.shape, expected, strict=True)]
    return full[tuple(slice(s, s + w) for s, w in zip(starts, expected, strict=True))]


def _check(got: Any, exact: Any, dtype: Any, points: int) -> None:
    """Relative error in the 2-norm: a few roundings for each level of the transforms."""
    assert got.shape == exact.shape
    assert got.dtype == dtype
    eps = np.finfo(dtype).eps
    error = np.linalg.norm((got - exact).ravel().astype(np.clongdouble))
    scale = np.linalg.norm(exact.ravel().astype(np.clongdouble))
    assert error <= 2 * eps * np.log2(max(points, 2)) * scale


def _turned(b: Any) -> Any:
    return np.conj(b[(slice(None, None, -1),) * b.ndim])


CASES: list[tuple[Any, Any, Any, Any]] = [
    ((300,), (41,), None, "float64"),
    ((41,), (300,), None, "float64"),
    ((5, 300), (5, 40), 1, "float32"),
    ((5, 300), (1, 40), -1, "float64"),
    ((1, 300), (5, 40), (1,), "float64"),
    ((60, 70), (9, 12), None, "float32"),
    ((60, 70), (9, 12), None, "complex64"),
    ((60, 70, 3), (9, 12, 1), (0, 1), "float64"),
    ((2, 60, 70), (2, 9, 12), (-1, -2), "complex128"),
    ((9, 3, 40), (4, 1, 6), (0, 2), "float64"),
    ((20_000,), (350,), None, "float64"),
]


@pytest.mark.parametrize(
    ("case", "mode", "name"), in_pairs(CASES, ("full", "same", "valid"), FUNCTIONS), ids=str
)
def test_modes_shapes_and_dtypes(engine: Engine, name: str, mode: str, case: Any) -> None:
    rng = np.random.default_rng([len(name), len(mode)])
    a_shape, b_shape, axes, dtype = case
    a, b = _random(rng, a_shape, dtype), _random(rng, b_shape, dtype)
    got = getattr(signal, name)(a, b, mode, axes, engine=engine)
    _check(got, _oracle(a, b, mode, axes), dtype, 4 * a.size)


def test_random_sizes(engine: Engine) -> None:
    rng = np.random.default_rng(7)
    for _ in range(40):
        ndim = int(rng.integers(1, 3))
        a_shape = tuple(int(n) for n in rng.integers(1, 60, ndim))
        b_shape = tuple(int(n) for n in rng.integers(1, 60, ndim))
        mode = str(rng.choice(["full", "same"]))
        if all(n >= m for n, m in zip(a_shape, b_shape, strict=True)):
            mode = str(rng.choice(["full", "same", "valid"]))
        name = str(rng.choice(FUNCTIONS))
        a, b = _random(rng, a_shape, "float64"), _random(rng, b_shape, "float64")
        got = getattr(signal, name)(a, b, mode, engine=engine)
        _check(got, _oracle(a, b, mode), "float64", 4 * max(a.size, b.size))


def test_blocks_of_all_lengths(engine: Engine) -> None:
    rng = np.random.default_rng(3)
    b = _random(rng, 30, "float64")
    for n in (1000, 1023, 1024, 1025, 2047, 3001):
        a = _random(rng, n, "float64")
        for mode in ("full", "same", "valid"):
            _check(signal.oaconvolve(a, b, mode, engine=engine), _oracle(a, b, mode), "float64", n)
    a, b = _random(rng, (700, 20), "float64"), _random(rng, (9, 4), "float64")
    _check(signal.oaconvolve(a, b, engine=engine), _oracle(a, b, "full"), "float64", a.size)


@pytest.mark.parametrize("method", ["direct", "fft", "auto"])
def test_methods(engine: Engine, method: str) -> None:
    rng = np.random.default_rng(5)
    for dtype in ("float64", "complex128"):
        a, b = _random(rng, (60, 70), dtype), _random(rng, (9, 12), dtype)
        for mode in ("full", "same", "valid"):
            got = signal.convolve(a, b, mode, method, engine=engine)
            _check(got, _oracle(a, b, mode), dtype, 4 * a.size)
            got = signal.correlate(a, b, mode, method, engine=engine)
            _check(got, _oracle(a, _turned(b), mode), dtype, 4 * a.size)
            if mode != "same":
                got = signal.correlate(b, a, mode, method, engine=engine)
                _check(got, _oracle(b, _turned(a), mode), dtype, 4 * a.size)
    mixed = signal.correlate(a.real, b, "full", method, engine=engine)
    _check(mixed, _oracle(a.real, _turned(b), "full"), "complex128", 4 * a.size)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "bool"])
def test_integers_are_exact(engine: Engine, dtype: str) -> None:
    rng = np.random.default_rng(6)
    a = rng.integers(0, 2 if dtype == "bool" else 100, 400).astype(dtype)
    b = rng.integers(0, 2 if dtype == "bool" else 100, 31).astype(dtype)
    for method in ("auto", "direct") + (("fft",) if dtype in ("int32", "int64") else ()):
        got = signal.convolve(a, b, method=method, engine=engine)
        np.testing.assert_array_equal(got, np.convolve(a, b))
        assert got.dtype == dtype
    got = signal.convolve(a, b, "same", "direct", engine=engine)
    np.testing.assert_array_equal(got, np.convolve(a, b, "same"))
    large = np.full(300, 2**40, np.int64)  # no double holds the sums
    sums = signal.convolve(large + np.arange(300), large, engine=engine)
    np.testing.assert_array_equal(sums, np.convolve(large + np.arange(300), large))


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_integers_wrap_around(engine: Engine, dtype: str) -> None:
    """By transforms as by sums: the sums are beyond the dtype, and exact in float64."""
    rng = np.random.default_rng(21)
    lowest, limit = np.iinfo(dtype).min, np.iinfo(dtype).max
    a, b = (rng.integers(lowest, limit, n).astype(dtype) for n in (430, 103))
    expected = np.convolve(a.astype(np.int64), b.astype(np.int64)).astype(dtype)
    for method in ("auto", "direct", "fft"):
        assert np.array_equal(signal.convolve(a, b, method=method, engine=engine), expected)
    operand = (on_device(engine, x) for x in (a, b))
    result = signal.convolve(*operand, method="fft", engine=engine)
    assert np.array_equal(from_device(result), expected)


def test_dtypes_as_scipy(engine: Engine) -> None:
    rng = np.random.default_rng(8)
    a, b = _random(rng, 300, "float64"), _random(rng, 40, "float64")
    for item, other, expected in (
        ("float16", "float16", "float32"),
        ("float16", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("complex64", "float32", "complex64"),
        ("complex64", "float64", "complex128"),
    ):
        x, y = a.astype(item), b.astype(other)
        got = signal.fftconvolve(x, y, engine=engine)
        _check(got, np.convolve(x.astype("c16"), y.astype("c16")), expected, 400)
    x, y = (np.round(item * 10).astype("int16") for item in (a, b))
    _check(signal.fftconvolve(x, y, engine=engine), np.convolve(x, y), "float64", 400)
    half = signal.convolve(a.astype("f2"), b.astype("f2"), engine=engine)
    assert half.dtype == np.float16


@pytest.mark.parametrize("name", ["fftconvolve", "oaconvolve", "convolve", "correlate"])
def test_device_arrays_and_strides(engine: Engine, name: str) -> None:
    rng = np.random.default_rng(9)
    memory = _random(rng, (130, 141), "float64")
    a, b = memory[128:7:-2, ::2].T, _random(rng, (12, 9), "float64")[:, ::-1]
    function = getattr(signal, name)
    exact = _oracle(a, _turned(b) if name == "correlate" else b, "same")
    _check(function(a, b, "same", engine=engine), exact, "float64", 4 * a.size)
    x, y = on_device(engine, a, rim=3), on_device(engine, b, rim=5)
    for _ in range(2):  # the second call is one that is remembered
        got = function(x, y, "same")
        assert isinstance(got, pg.Array)
        _check(from_device(got), exact, "float64", 4 * a.size)
    mixed = function(x, b, "same")
    assert isinstance(mixed, pg.Array)
    _check(from_device(mixed), exact, "float64", 4 * a.size)


@pytest.mark.parametrize("kind", [pg.Array, cla.Array])
def test_conversions_take_account_of_strides(engine: Engine, kind: Any) -> None:
    """One input is converted to the other's complex dtype."""
    rng = np.random.default_rng(36)
    a, b = _random(rng, (9, 14), "float64").T, _random(rng, (4, 3), "complex128")
    x = pg.asarray(np.ascontiguousarray(a.T), engine=engine)
    x = x.T if kind is pg.Array else x.to_pyopencl().T
    assert not x.flags.c_contiguous
    for method in ("direct", "fft"):
        got = signal.convolve(x, pg.asarray(b, engine=engine), method=method)
        _check(got.get(), _oracle(a, b, "full"), "complex128", 4 * a.size)


def test_one_number_and_none(engine: Engine) -> None:
    assert signal.convolve(3, 4, engine=engine) == 12
    assert signal.fftconvolve(np.float64(3), np.float64(4), engine=engine) == 12
    assert signal.correlate(2j, 3j, engine=engine) == 6
    for name in ("convolve", "correlate", "fftconvolve", "oaconvolve"):
        empty = getattr(signal, name)(np.zeros(0), np.ones(3), engine=engine)
        assert empty.shape == (0,)
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(signal.fftconvolve(a, [[2.0]], engine=engine), 2 * a)
    np.testing.assert_allclose(signal.fftconvolve(a[:, :1], [[1.0, 2, 3]], "same"), a[:, :1] * 2)


@pytest.mark.path
def test_kernels_of_every_class(engine: Engine) -> None:
    """The product and the crop within passes, of real and of complex inputs."""
    rng = np.random.default_rng(10)
    for dtype in ("float32", "complex64"):
        a, b = _random(rng, (2, 20, 30), dtype), _random(rng, (1, 5, 7), dtype)
        for mode in ("full", "same", "valid"):
            x, y = on_device(engine, a), on_device(engine, b)
            got = from_device(signal.fftconvolve(x, y, mode, (1, 2)))
            _check(got, _oracle(a, b, mode, (1, 2)), dtype, 4 * a.size)
        got = signal.correlate(a[0], b[0], "same", "fft", engine=engine)
        _check(got, _oracle(a[0], _turned(b[0]), "same"), dtype, 4 * a.size)


def test_wrong_arguments(engine: Engine) -> None:
    a, b = np.ones((4, 5)), np.ones((2, 3))
    wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ShapeError, "dimensionality", {"in2": np.ones(3)}),
        (ShapeError, "'valid'", {"in2": np.ones((2, 9)), "mode": "valid"}),
        (ValueError, "mode is 'some'", {"mode": "some"}),
        (TypeError, "mode is 1", {"mode": 1}),
        (DTypeError, "in1", {"in1": np.ones((2, 2), np.longdouble)}),
        (DTypeError, "in2", {"in2": np.array([["a"]])}),
    ]
    for name in ("fftconvolve", "oaconvolve", "convolve", "correlate"):
        more = [(ValueError, "method is 'x'", {"method": "x"})]
        if name.endswith("tconvolve") or name == "oaconvolve":
            more = [
                (ShapeError, "incompatible shapes", {"axes": [0]}),
                (AxisError, "axes has 2", {"axes": 2}),
                (ValueError, "axes cannot be empty", {"axes": []}),
                (ValueError, "unique", {"axes": (0, -2)}),
                (TypeError, "whole numbers", {"axes": "ab"}),
            ]
        for kind, words, operand in wrong + more:
            with pytest.raises(kind, match=words) as caught:
                getattr(signal, name)(**{"in1": a, "in2": b, **operand}, engine=engine)
            assert isinstance(caught.value, PortableGPUError)
    with pytest.warns(RuntimeWarning, match="NaN"):
        signal.convolve(np.full(300, np.nan), np.ones(3), method="fft", engine=engine)


def test_module_is_public() -> None:
    assert pg.signal is signal
    assert set(signal.__all__) == {"convolve", "correlate", "fftconvolve", "oaconvolve"}


@pytest.mark.parametrize("function", ["convolve", "correlate"])
def test_valid_compares_axes_of_one_number_as_well(function: str, engine: Engine) -> None:
    short, tall = np.ones((1, 5), np.float32), np.ones((3, 2), np.float32)
    for a, b in ((short, tall), (tall, short)):
        with pytest.raises(ShapeError, match="at least as large as the other along every axis"):
            getattr(signal, function)(a, b, mode="valid", engine=engine)
    assert getattr(signal, function)(tall, short[:, :2], "valid", engine=engine).shape == (3, 1)
