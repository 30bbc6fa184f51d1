"""Expressions in a given dtype, with numbers, and of complex numbers, against NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from device_arrays import from_device, on_device
from sampling import FORCED, computes, needs, sample

import portable_gpu as pg
from portable_gpu.errors import ArgumentError, BuildError, OverlapError, UnsupportedError
from portable_gpu.ops.elementwise import evaluate
from portable_gpu.runtime.engine import Engine

RNG = np.random.default_rng(36)
CONVERSIONS = [
    ("float64", "uint16"), ("float32", "uint32"), ("int8", "complex64"), ("complex64", "bool"),
    ("complex128", "float32"), ("bool", "complex64"), ("uint64", "int8"), ("float32", "bool"),
    ("int64", "float16"), ("float16", "int8"), ("complex64", "complex128"), ("complex64", "int16"),
]  # fmt: skip


def small(dtype: Any, shape: Any = 37) -> Any:
    """Whole numbers, of which complex ones have two parts."""
    low = 0 if np.dtype(dtype).kind in "ub" else -5
    values = RNG.integers(low, 6, (2, *np.atleast_1d(shape)))
    is_complex = np.dtype(dtype).kind == "c"
    return (values[0] + 1j * values[1] if is_complex else values[0]).astype(dtype)


@pytest.mark.parametrize(
    ("given", "to"), sample(CONVERSIONS, "('float32', 'uint32')", "('complex64', 'bool')")
)
def test_conversions(engine: Engine, given: str, to: str) -> None:
    """As NumPy's unsafe casts on a PC, before and after."""
    needs(engine, given)
    needs(engine, to)
    x = small(given)
    if x.dtype.kind in "iu":
        x *= np.iinfo(given).max
    elif x.dtype.kind in "fc":
        x *= x.dtype.type(1.75)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of imaginary parts
        expected = x.astype(to)
    for options in ({"compute": to}, {"compute": given, "dtype": to}):
        got = evaluate("x", {"x": x}, engine=engine, **options)
        assert got.dtype == to
        np.testing.assert_array_equal(got, expected, err_msg=str(options))


def test_numbers(engine: Engine) -> None:
    """Negative ones, and truth values, of every integer dtype; another value builds nothing."""
    for dtype in ("int8", "int64", "uint64", "int32"):
        x = small(dtype)
        numbers = [True, np.bool_(True), 7, *([] if dtype == "int8" else [np.uint8(3)])]
        numbers += [-5, np.int8(-3)] if dtype[0] == "i" else [2**64 - 1]
        built = None
        for number in numbers:
            for array in (x, on_device(engine, x)):
                for _ in range(2):
                    got = pg.elementwise("x + k", x=array, k=number, dtype="int64", engine=engine)
                    got = got if isinstance(got, np.ndarray) else from_device(got)
                    whole = x + x.dtype.type(int(number))
                    np.testing.assert_array_equal(got, whole.astype("i8"), err_msg=repr(number))
            built = built or len(engine.programs)
        assert len(engine.programs) == built
    x = small("int8")
    got = evaluate("x + k", {"x": x, "k": np.int64(300)}, compute="int8", engine=engine)
    np.testing.assert_array_equal(got, x + np.int8(44))
    with pytest.raises(ArgumentError, match="k is 300; expected a number from -128 to 127"):
        evaluate("x + k", {"x": x, "k": 300}, compute="int8", engine=engine)
    with pytest.raises(ArgumentError, match="k is 2j; expected a number that float32"):
        evaluate("x + k", {"x": x, "k": 2j}, compute="float32", engine=engine)


def test_integers_wrap_in_their_own_width(engine: Engine) -> None:
    for dtype in sample(("int8", "uint8", "int16", "uint16"), "int8"):
        info = np.iinfo(dtype)
        x = RNG.integers(info.min, info.max, 101, dtype, endpoint=True)
        x[0] = np.array(-89).astype(dtype)
        for result in ("int32", "float32"):
            got = pg.elementwise("x * 7 - -x", x=x, dtype=result, engine=engine)
            np.testing.assert_array_equal(got, (x * x.dtype.type(7) - -x).astype(result))
    add = pg.BinaryOp("add", "0", "a + b")
    x = np.full(100, -89, "i1")
    assert pg.reduce(x, add, "x * 7", dtype="int32", engine=engine) == -11100
    total = pg.reduce(x, add, "abs(x) if x < k else x ** 2", k=-1, engine=engine)
    assert total == np.array(8900).astype("i1")


def test_dtypes_of_results(engine: Engine) -> None:
    x, z = small("int16"), small("complex64")
    for text, expected in {
        "x > 300000": np.zeros(37, bool), "x + 1": x + np.int16(1), "not x": x == 0,
        "~(x > 0)": ~(x > 0), "x if x > 0 else 2": np.where(x > 0, x, np.int16(2)),
    }.items():  # fmt: skip
        got = evaluate(text, {"x": x}, engine=engine)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected, err_msg=text)
    for text, expected in {
        "real(z)": z.real, "z == conj(z)": z == z.conj(), "-z": -z,
    }.items():  # fmt: skip
        got = evaluate(text, {"z": z}, engine=engine)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected, err_msg=text)
    masks = {"p": small(bool), "q": small(bool)}
    for text, expected in {
        "p + q": masks["p"] | masks["q"], "p * q": masks["p"] & masks["q"],
        "p ^ ~q": masks["p"] ^ ~masks["q"], "p < q": masks["p"] < masks["q"],
    }.items():  # fmt: skip
        got = evaluate(text, masks, dtype="int32", engine=engine)
        np.testing.assert_array_equal(got, expected.astype("i4"), err_msg=text)
    got = evaluate("p ? 3 : 5", masks, dtype="int32", engine=engine)
    np.testing.assert_array_equal(got, np.where(masks["p"], 3, 5))


#: Expressions of x and y, NumPy's, and by how many units of rounding of their size they may differ.
COMPLEX: dict[str, tuple[Callable[..., Any], float]] = {
    "x * y - 2j * x": (lambda x, y: x * y - 2j * x, 12),
    "x / y": (lambda x, y: x / y, 12),
    "x ** 3 + y ** 2": (lambda x, y: x**3 + y**2, 60),
    "x ** y": (lambda x, y: x**y, 400),
    "sqrt(x)": (lambda x, y: np.sqrt(x), 8),
    "exp(x)": (lambda x, y: np.exp(x), 12),
    "log(x)": (lambda x, y: np.log(x), 12),
    "sin(x) + cos(y)": (lambda x, y: np.sin(x) + np.cos(y), 40),
    "tanh(x)": (lambda x, y: np.tanh(x), 40),
    "tan(x / 4)": (lambda x, y: np.tan(x / 4), 60),
    "sinh(x) * cosh(y)": (lambda x, y: np.sinh(x) * np.cosh(y), 60),
    "abs(x) * y": (lambda x, y: abs(x) * y, 12),
    "angle(x) * imag(y)": (lambda x, y: np.angle(x) * y.imag, 12),
    "sign(x)": (lambda x, y: np.sign(x), 8),
    "1 / x": (lambda x, y: 1 / x, 12),
    "where(abs(x) > abs(y), x, conj(y))": (lambda x, y: np.where(abs(x) > abs(y), x, y.conj()), 0),
    "square(x) if x != y and isfinite(x) else y": (lambda x, y: x * x, 12),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex(engine: Engine, dtype: str) -> None:
    needs(engine, dtype)
    x, y = (RNG.standard_normal((2, 2, 211)) * 2).astype(np.dtype(dtype).type(0).real.dtype)
    x, y = x[0] + 1j * x[1], y[0] + 1j * y[1]
    assert x.dtype == dtype
    wide = np.clongdouble if dtype == "complex128" else np.complex128
    texts = list(COMPLEX)[:: 4 if FORCED or dtype == "complex128" else 1]
    for text in texts:
        exact, units = COMPLEX[text]
        expected = np.asarray(exact(x.astype(wide), y.astype(wide)))
        got = evaluate(text, {"x": x, "y": y}, engine=engine)
        assert got.dtype.kind == expected.dtype.kind
        bound = units * np.finfo(dtype).eps / 2 * np.maximum(abs(expected), 0.1)
        assert (abs(got - expected) <= bound).all(), (text, (abs(got - expected) / bound).max())


def test_complex_edges(engine: Engine) -> None:
    """Whole parts: exact, whatever the strides; division by 0; comparisons; NaN."""
    x = small("complex64", (40, 30))
    views = (x[::2, ::-1], x.T[:20, :30], x[:1, :30])
    for view in views:
        other = np.resize(small("float32"), view.shape)
        for there in (view, on_device(engine, view)):
            result = pg.elementwise("z * y - 1j", z=there, y=other, engine=engine)
            got = result if isinstance(result, np.ndarray) else from_device(result)
            np.testing.assert_array_equal(got, view * other - np.complex64(1j))
    z = np.array([0, 1, -1j, 1 + 1j, np.nan, complex(np.inf, 1), complex(1, np.nan)], "c8")
    w = np.array([0, 1, 1, 1 + 2j, 1, 1, 1 + 1j], "c8")
    with np.errstate(all="ignore"):
        for text, expected in {
            "z / 0": z / np.complex64(0), "z < w": z < w, "z >= w": z >= w, "z == w": z == w,
            "z != w": z != w, "isnan(z)": np.isnan(z), "isinf(z) or !z": np.isinf(z) | (z == 0),
            "max(z, w)": np.maximum(z, w), "z ** 0": z ** np.complex64(0), "sign(z)": np.sign(z),
        }.items():  # fmt: skip
            got = evaluate(text, {"z": z, "w": w}, engine=engine)
            np.testing.assert_array_equal(got, expected, err_msg=text)
    edges = np.array([-4, complex(-4, -0.0), 3e38 + 3e38j, 1e-42j], "c8")
    got = pg.elementwise("sqrt(z)", z=edges, engine=engine)
    expected = np.sqrt(edges)
    if engine.target.is_cpu:  # others may flush what is below the least normal number
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    there = on_device(engine, z[:4].copy())
    numbers = (complex(2, 0.0), complex(2, -0.0), 1 + 2j, complex(-0.0, 1), 3, np.complex64(2j))
    for number in numbers:
        got = from_device(pg.elementwise("z * k", z=there, k=number))
        np.testing.assert_array_equal(got, z[:4] * np.complex64(number), err_msg=str(number))
    for text in ("z // 2", "z & 1", "~z", "z % w"):
        with pytest.raises(ArgumentError, match=r"real numbers|complex"):
            pg.elementwise(text, z=z, w=w, engine=engine)
    with pytest.raises(UnsupportedError, match="asin of complex numbers"):
        pg.elementwise("asin(z)", z=z, engine=engine)


def test_epilogues_and_maps(engine: Engine) -> None:
    """They have the same functions, and take places with values."""
    a, bias = np.full((5, 3), 2, "f4"), np.arange(4, dtype="f4")
    b = np.ones((3, 4), "f4") - np.eye(3, 4, dtype="f4") * 3
    row, col = np.indices((5, 4))
    product = a @ b
    text = "where(row == col, min(v, 3), abs(v) ** 2 * 0.5 if col % 2 else v) + e"
    others = np.where(col % 2, product**2 / 2, product)
    expected = np.where(row == col, np.minimum(product, 3), others)
    epilogue = pg.Epilogue().apply(text, bias, "column")
    got = pg.matmul(a, b, epilogue=epilogue, engine=engine)
    np.testing.assert_array_equal(got, expected + bias)
    with pytest.raises(BuildError, match=r"^map 'nope\(x\)' or .* does not compile: .*nope"):
        pg.reduce(a, pg.BinaryOp("add", "0", "a + b"), "nope(x)", engine=engine)


def test_repeated_calls(engine: Engine) -> None:
    """In place, with numbers that change; as other dtypes; where memory is shared."""
    x = small("float32", (20, 9))
    there, d = on_device(engine, x), on_device(engine, x[0])
    expected = x.copy()
    single = np.dtype("f4")
    for k in (1, 0.0, -0.0, 2.5, np.float32(3), -1):
        inputs = {"x": there, "k": k, "d": d}
        result = evaluate("x * k + d", inputs, compute=single, dtype=single, out=there)
        assert result is there
        expected = expected * np.float32(k) + x[0]
        np.testing.assert_array_equal(from_device(there), expected)
    for dtype in ("float32", "int32", None):
        got = from_device(evaluate("x > 0", {"x": there}, dtype=dtype))
        np.testing.assert_array_equal(got, (expected > 0).astype(dtype or bool))
    with pytest.raises(OverlapError, match="out shares memory with x"):
        evaluate("x + 1", {"x": there[:-1]}, out=there[1:])
    if computes(engine, "float64"):
        got = evaluate("x + k", {"x": x, "k": 0.1}, compute="float64", engine=engine)
        np.testing.assert_array_equal(got, x.astype("f8") + 0.1)
