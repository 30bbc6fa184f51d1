"""Random calls have the same values, dtypes, shapes and kinds of errors as NumPy's.

What docs/accuracy.md says is otherwise is left out of the draw.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest
from sampling import dealt

import portable_gpu as pg
from portable_gpu.runtime.engine import Engine

NAMES = (
    "sum", "prod", "min", "max", "mean", "std", "var", "any", "all", "argmin", "argmax",
    "count_nonzero",
)  # fmt: skip
DTYPES = ("?", "i2", "u8", "f2", "f4", ">f4", "c8")
SHAPES = ((), (0,), (1,), (7,), (3, 4), (2, 0), (2, 3, 2))
AXES = (0, -1, 1, (0,), (0, 1), (), None, (-1, 0), 3, "0", 1.0, (0, 0))
PAIRS = (
    ((3,), (3,)), ((0,), (0,)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((2, 0), (0, 3)), ((2,), (3,)),
)  # fmt: skip


def values(draw: random.Random, dtype: str, shape: tuple[int, ...]) -> Any:
    """Small numbers, so that a sum is exact in any dtype."""
    rng = np.random.default_rng(draw.getrandbits(32))
    kind = np.dtype(dtype).kind
    x = rng.integers(0 if kind in "bu" else -4, 5, shape)
    if kind == "c":
        x = x + 1j * rng.integers(-4, 5, shape)
    return np.asarray(x).astype(dtype)


def drawn(draw: random.Random) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """A call: the function's name and its arguments."""
    if draw.random() < 0.15:
        left, right = draw.choice(PAIRS)
        a, b = (values(draw, draw.choice(("i2", "f4", "c8")), shape) for shape in (left, right))
        return draw.choice(("dot", "matmul")), (a, b), {}
    name = draw.choice(NAMES)
    dtypes = dealt(DTYPES, NAMES.index(name), 2)  # so that calls share kernels
    x = values(draw, draw.choice(dtypes), draw.choice(SHAPES))
    options: dict[str, Any] = {}
    if draw.random() < 0.7:
        options["axis"] = draw.choice(AXES)
    if draw.random() < 0.3:
        options["keepdims"] = draw.choice((True, 1))
    if name in ("sum", "prod", "mean", "std", "var") and draw.random() < 0.4:
        options["dtype"] = "c8" if x.dtype.kind == "c" else draw.choice(("f4", "f8", "c8"))
    if name in ("std", "var") and draw.random() < 0.7:
        options["ddof"] = draw.choice((0, 1, 2, 5, 0.5, -1))
    if x.ndim == 0 and name in ("mean", "std", "var"):
        options.pop("axis", None)  # axis 0 of a scalar: an error in NumPy for these alone
    return name, (x,), options


def outcome(function: Any, *args: Any, **options: Any) -> Any:
    try:
        return function(*args, **options)
    except (TypeError, ValueError) as error:
        return error


def kinds(error: Exception) -> set[type[Exception]]:
    return {kind for kind in (TypeError, ValueError, IndexError) if isinstance(error, kind)}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_calls(unoptimised: Engine) -> None:
    draw = random.Random(14)
    for _ in range(40):
        name, args, options = drawn(draw)
        call = f"{name}({', '.join(map(repr, args))}, {options})"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = outcome(getattr(np, name), *args, **options)
        got = outcome(getattr(pg, name), *args, engine=unoptimised, **options)
        if isinstance(expected, Exception) or isinstance(got, Exception):
            assert isinstance(expected, Exception), (call, got)
            assert isinstance(got, Exception), (call, expected)
            assert kinds(expected) <= kinds(got), (call, expected, got)
            continue
        assert np.shape(got) == np.shape(expected), call
        assert got.dtype == expected.dtype, call
        assert isinstance(got, np.generic) == isinstance(expected, np.generic), call
        wide = np.asarray(got, np.result_type(got, np.float64)) if got.dtype != bool else got
        rtol = 2 * np.finfo(got.dtype).eps if got.dtype.kind in "fc" else 0
        np.testing.assert_allclose(wide, expected, rtol=8 * rtol, atol=4 * rtol, err_msg=call)


def test_variance_of_few(unoptimised: Engine) -> None:
    """Ddof beyond the count, nothing at all, and a complex dtype of real numbers."""
    x = np.array([1, 2, 4], np.float32)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = (0, 1, 2, 3, 5, -1)
        for data, few in (
            (x, every),
            (x[:1], (0, 1, 2)),
            (x[:0], every),
            (x.astype(np.complex64), (1, 3, 5)),
        ):
            for ddof in few:
                got, expected = pg.var(data, ddof=ddof, engine=unoptimised), np.var(data, ddof=ddof)
                assert got.dtype == expected.dtype
                np.testing.assert_allclose(got, expected, rtol=1e-6)
    for data in (x, x.astype(np.complex64)):
        got = pg.std(data, dtype=np.complex64, engine=unoptimised)
        assert got.dtype == np.complex64
        np.testing.assert_allclose(got, np.std(data, dtype=np.complex64), rtol=1e-6)


def test_masked_arrays_are_refused(engine: Engine) -> None:
    masked = np.ma.array([1.0, 2.0, 4.0], mask=[0, 1, 0])
    for wrong in (masked, np.ma.array([1.0, 2.0]), np.ma.masked):
        with pytest.raises(pg.errors.ArgumentTypeError, match="mask"):
            pg.sum(wrong, engine=engine)
    with pytest.raises(pg.errors.ArgumentTypeError, match="out is a MaskedArray"):
        pg.sum(np.ones((2, 3)), axis=0, out=np.ma.zeros(3), engine=engine)
    with pytest.raises(pg.errors.ArgumentTypeError, match="mask"):
        pg.gemm(
            np.ones((3, 3)), np.ones((3, 3)), epilogue=pg.Epilogue().bias(masked), engine=engine
        )
    assert pg.sum(masked.compressed(), engine=engine) == 5


def test_other_subclasses_count_as_their_memory(engine: Engine) -> None:
    x = np.arange(6.0).reshape(2, 3)
    got = pg.sum(x.view(np.matrix), axis=0, engine=engine)
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, x.sum(0))
