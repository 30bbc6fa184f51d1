"""Cosine and sine transforms against their sums in extended precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_arrays import from_device, on_device
from sampling import dealt

import portable_gpu as pg
from portable_gpu import fft
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    DTypeError,
    PortableGPUError,
    ShapeError,
)
from portable_gpu.ops.fft import cosine
from portable_gpu.runtime.engine import Engine

TYPES = (1, 2, 3, 4)
_PI = 4 * np.arctan(np.longdouble(1))


def _matrix(name: str, kind: int, n: int) -> Any:
    """The sums of a transform without scale, and what M is, as SciPy defines them."""
    k, j = np.arange(n)[:, None], np.arange(n)[None]
    if name == "dct":
        if kind == 1:
            result = 2 * _cos(j * k, 2 * (n - 1))
            result[:, [0, -1]] /= 2
            return result, 2 * (n - 1)
        if kind == 2:
            return 2 * _cos((2 * j + 1) * k, 4 * n), 2 * n
        if kind == 3:
            result = 2 * _cos(j * (2 * k + 1), 4 * n)
            result[:, 0] /= 2
            return result, 2 * n
        return 2 * _cos((2 * j + 1) * (2 * k + 1), 8 * n), 2 * n
    if kind == 1:
        return 2 * _sin((j + 1) * (k + 1), 2 * (n + 1)), 2 * (n + 1)
    if kind == 2:
        return 2 * _sin((2 * j + 1) * (k + 1), 4 * n), 2 * n
    if kind == 3:
        result = 2 * _sin((j + 1) * (2 * k + 1), 4 * n)
        result[:, -1] /= 2
        return result, 2 * n
    return 2 * _sin((2 * j + 1) * (2 * k + 1), 8 * n), 2 * n


def _cos(part: Any, whole: int) -> Any:
    return np.cos(2 * _PI * (part % whole) / whole)


def _sin(part: Any, whole: int) -> Any:
    return np.sin(2 * _PI * (part % whole) / whole)


def _orthogonal(matrix: Any, name: str, kind: int) -> Any:
    """The matrix with its outer rows and columns scaled."""
    result = matrix.copy()
    rows, columns = {
        ("dct", 1): ([0, -1], [0, -1]), ("dct", 2): ([0], []), ("dct", 3): ([], [0]),
        ("dst", 2): ([-1], []), ("dst", 3): ([], [-1]),
    }.get((name, kind), ([], []))  # fmt: skip
    result[rows] *= np.sqrt(np.longdouble(0.5))
    result[:, columns] *= np.sqrt(np.longdouble(2))
    return result


def _oracle(
    x: Any, name: str, kind: int, axis: int, norm: str | None = None, orthogonal: bool | None = None
) -> Any:
    """The result of dct, idct, dst or idst."""
    base = name.removeprefix("i")
    inverse = name != base
    kind = {2: 3, 3: 2}.get(kind, kind) if inverse else kind
    matrix, size = _matrix(base, kind, x.shape[axis])
    if orthogonal if orthogonal is not None else norm == "ortho":
        matrix = _orthogonal(matrix, base, kind)
    if norm == "ortho":
        matrix = matrix / np.sqrt(np.longdouble(size))
    elif (norm in (None, "backward")) == inverse:
        matrix = matrix / size
    return np.moveaxis(np.tensordot(matrix, x.astype(np.longdouble), (1, axis)), 0, axis)


def _check(got: Any, exact: Any, dtype: Any) -> None:
    assert got.shape == exact.shape
    assert got.dtype == dtype
    error = np.linalg.norm((got - exact).ravel().astype(float))
    points = max(2, exact.size)
    bound = 2 * np.finfo(got.dtype).eps * np.log2(points)
    assert error <= bound * np.linalg.norm(exact.ravel().astype(float))


NAMES = ("dct", "idct", "dst", "idst")
#: Axes and lengths: each type is of every length, each function of even and of odd ones.
LINES = [(axis, n) for axis in (0, 1) for n in (2, 3, 4, 5, 12, 15, 40, 45)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", TYPES)
def test_types_lengths_and_axes(engine: Engine, kind: int, name: str) -> None:
    rng = np.random.default_rng([kind, len(name)])
    turn = len(NAMES) * TYPES.index(kind) + NAMES.index(name)
    for axis, n in dealt(LINES, turn, 3):
        x = rng.standard_normal((n, 3) if axis == 0 else (3, n))
        for norm, orthogonal in (
            (None, None), ("ortho", None), ("forward", None), ("ortho", False), (None, True)
        ):  # fmt: skip
            got = getattr(fft, name)(
                x, kind, None, axis, norm, orthogonalize=orthogonal, engine=engine
            )
            _check(got, _oracle(x, name, kind, axis, norm, orthogonal), "float64")


@pytest.mark.parametrize("kind", TYPES)
def test_precision_and_prime_lengths(engine: Engine, kind: int) -> None:
    rng = np.random.default_rng(kind)
    for n in dealt((17, 130, 130, 17), kind, 1):
        x = rng.standard_normal((4, n)).astype(np.float32)
        _check(fft.dct(x, kind, engine=engine), _oracle(x, "dct", kind, 1), "float32")
    dtypes = (("float16", "float32"), ("int16", "float64"), ("bool", "float64"))
    for dtype, expected in dealt(dtypes, kind, 1):
        x = (rng.standard_normal((4, 12)) * 3).astype(dtype)
        _check(fft.dst(x, kind, engine=engine), _oracle(x, "dst", kind, 1), expected)


def test_one_number(engine: Engine) -> None:
    for kind in TYPES:
        for name in ("dct", "dst"):
            if (name, kind) != ("dct", 1):
                x = np.array([[1.5], [2.0]])
                got = getattr(fft, name)(x, kind, engine=engine)
                _check(got, _oracle(x, name, kind, 1), "float64")


@pytest.mark.parametrize("kind", TYPES)
def test_several_axes_and_lengths(engine: Engine, kind: int) -> None:
    rng = np.random.default_rng(11)
    x = rng.standard_normal((5, 12, 15))
    for name in ("dctn", "idctn", "dstn", "idstn"):
        item = name.removesuffix("n")
        padded = np.zeros((5, 15, 12))
        padded[:, :12] = x[:, :, :12]
        exact = _oracle(_oracle(padded, item, kind, 2, "ortho"), item, kind, 1, "ortho")
        got = getattr(fft, name)(x, kind, (15, 12), norm="ortho", engine=engine)
        _check(got, exact, "float64")
        back = getattr(fft, ("" if name[0] == "i" else "i") + name.removeprefix("i"))
        repeated = back(got, kind, axes=(1, 2), norm="ortho", engine=engine)
        np.testing.assert_allclose(repeated, padded, atol=1e-13)
    z = x + 1j * x[::-1]
    exact = _oracle(z.real, "dct", kind, 1) + 1j * _oracle(z.imag, "dct", kind, 1)
    got = fft.dct(z, kind, axis=1, engine=engine)
    np.testing.assert_allclose(got, exact.astype(complex), atol=1e-12)
    assert fft.dctn(x, kind, axes=(), engine=engine).tolist() == x.tolist()


@pytest.mark.parametrize("kind", TYPES)
def test_device_arrays_and_strides(engine: Engine, kind: int) -> None:
    rng = np.random.default_rng(12)
    x = rng.standard_normal((30, 41))[::-2, 1::3].T
    exact = _oracle(x, "dst", kind, 0)
    _check(fft.dst(x, kind, axis=0, engine=engine), exact, "float64")
    operand = on_device(engine, x, rim=3)
    for _ in range(2):  # the second call is one that is remembered
        got = fft.dst(operand, kind, axis=0)
        assert isinstance(got, pg.Array)
        _check(from_device(got), exact, "float64")
    z = x + 2j * x
    got = from_device(fft.dct(on_device(engine, z), kind, axis=0))
    _check(got.imag, _oracle(2 * x, "dct", kind, 0), "float64")
    contiguous = np.ascontiguousarray(x)
    assert fft.dst(contiguous, kind, axis=0, overwrite_x=True, engine=engine) is contiguous
    _check(contiguous, exact, "float64")


@pytest.mark.parametrize("in_one_pass", [True, False])
def test_passes(engine: Engine, in_one_pass: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Type II takes one pass for lines that scratch holds, or three steps on devices without it."""
    if not in_one_pass:
        monkeypatch.setattr(cosine, "one_pass_plan", lambda *_: None)
    new_engine = Engine(queue=engine.queue)  # it has no plans yet
    x = np.random.default_rng(14).standard_normal((37, 60))
    for axis, n in ((1, 60), (0, 60), (1, 50), (1, 45)):
        padded = np.zeros((37, n) if axis else (n, 60))
        padded[: x.shape[0], : x.shape[1]] = x[: padded.shape[0], : padded.shape[1]]
        for norm in (None, "ortho"):
            got = fft.dct(x, 2, n, axis, norm, engine=new_engine)
            _check(got, _oracle(padded, "dct", 2, axis, norm), "float64")


def test_long_lines(engine: Engine) -> None:
    """Lines of two passes are compared with a transform of half the length that is tested above."""
    x = np.random.default_rng(13).standard_normal(20_000)
    folded = np.concatenate([x, x[::-1]])
    k = np.arange(20_000)
    exact = (np.exp(-0.5j * np.pi * k / 20_000) * np.fft.fft(folded)[:20_000]).real
    got = fft.dct(x, engine=engine)
    np.testing.assert_allclose(got, exact, atol=1e-11 * abs(exact).max())
    np.testing.assert_allclose(fft.idct(got, engine=engine), x, atol=1e-12)


def test_wrong_arguments(engine: Engine) -> None:
    x = np.ones((4, 5))
    wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ArgumentError, "type is 5", {"type": 5}),
        (ArgumentTypeError, "type is 'II'", {"type": "II"}),
        (ArgumentError, "norm is 'x'", {"norm": "x"}),
        (ArgumentError, "workers", {"workers": 0}),
        (ArgumentTypeError, "orthogonalize", {"orthogonalize": "yes"}),
        (DTypeError, "x", {"x": np.ones(3, np.longdouble)}),
    ]
    for name in ("dct", "idct", "dst", "idst"):
        lines = [
            (ArgumentError, "number of data points", {"n": 0}),
            (ArgumentTypeError, "n is 2.5; expected an integer", {"n": 2.5}),
            (AxisError, "axis 2", {"axis": 2}),
        ]
        arrays = [
            (ArgumentError, "number of data points", {"s": (0, 3)}),
            (ShapeError, "3 lengths", {"s": (1, 2, 3)}),
            (AxisError, "axis 2", {"axes": (2,)}),
            (ArgumentError, "once", {"axes": (0, 0)}),
        ]
        for called, more in ((name, lines), (name + "n", arrays)):
            for kind, words, operand in wrong + more:
                with pytest.raises(kind, match=words) as caught:
                    getattr(fft, called)(**{"x": x, **operand}, engine=engine)
                assert isinstance(caught.value, PortableGPUError)
    with pytest.raises(ArgumentError, match="2 or more"):
        fft.dct(np.ones((3, 1)), 1, engine=engine)


@pytest.mark.parametrize("function", ["dct", "idct", "dst", "idst"])
@pytest.mark.parametrize("n", [-1, 0])
def test_lengths_below_one_are_refused(function: str, n: Any, engine: Engine) -> None:
    with pytest.raises(ArgumentError, match="invalid number of data points: n is"):
        getattr(fft, function)(np.ones(8, np.float32), n=n, engine=engine)
    with pytest.raises(ArgumentTypeError, match="n is True; expected an integer"):
        getattr(fft, function)(np.ones(8, np.float32), n=True, engine=engine)
