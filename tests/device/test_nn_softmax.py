"""Softmax, its logarithm and their gradients, against NumPy in double precision."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest

import portable_gpu as pg
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    OverlapError,
    ShapeError,
)
from portable_gpu.runtime.engine import Engine

RNG = np.random.default_rng(5)


def reference(x: Any, dim: int) -> Any:
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=dim, keepdims=True))
    return powers / powers.sum(axis=dim, keepdims=True)


def close(got: Any, want: Any, bound: Any) -> None:
    """Within a bound in units of the dtype's rounding, of 16-bit floats after float32."""
    dtype = got.dtype
    unit = np.finfo(np.float64 if dtype == np.float64 else np.float32).eps
    limit = unit * bound + (np.finfo(dtype).eps * np.abs(want) if dtype == np.float16 else 0) + 1e-7
    assert got.shape == want.shape
    assert (np.abs(got.astype(np.float64) - want) <= limit).all()


def arrays(rng: random.Random, dtype: type) -> tuple[Any, Any, int]:
    """Two arrays of one random shape, as they are, transposed, stepped or reversed; an axis."""
    shape = [rng.choice((1, 2, 5, 17, 33)) for _ in range(rng.randint(1, 3))]
    dim = rng.randrange(len(shape))
    shape[dim] = rng.choice((1, 3, 16, 100, 1024, 2050))
    kind = rng.randrange(4)
    if kind == 1:
        memory = [RNG.standard_normal(shape[::-1]).T for _ in range(2)]
        return memory[0].astype(dtype, order="K"), memory[1].astype(dtype, order="K"), dim
    if kind == 2:
        wide = RNG.standard_normal((2, *shape[:-1], 2 * shape[-1])).astype(dtype)[..., ::2]
        return wide[0], wide[1], dim - len(shape)
    x, dy = RNG.standard_normal((2, *shape)).astype(dtype)
    return (x[::-1], dy, dim) if kind == 3 else (4 * x, dy, dim)


@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(np.float32, marks=[pytest.mark.tiny, pytest.mark.path]),
        np.float64,
        np.float16,
    ],
)
def test_random_shapes(engine: Engine, dtype: type) -> None:
    """Each function within its bound; gradients are the adjoints of the Jacobian."""
    rng = random.Random(str(dtype))
    for _ in range(12 if dtype is np.float32 else 4):
        x, dy, dim = arrays(rng, dtype)
        terms = x.shape[dim] + 40
        y, log_y = pg.nn.softmax(x, dim, engine=engine), pg.nn.log_softmax(x, dim, engine=engine)
        want = reference(x, dim)
        close(y, want, terms * want)
        close(log_y, np.log(want), terms + np.abs(np.log(want)))
        wide, grad = y.astype(np.float64), dy.astype(np.float64)
        dx = pg.nn.softmax_backward(dy, y, dim, engine=engine)
        total = (grad * wide).sum(axis=dim, keepdims=True)
        size = wide * (np.abs(grad) + (np.abs(grad) * wide).sum(axis=dim, keepdims=True))
        close(dx, wide * (grad - total), terms * size)
        dx = pg.nn.log_softmax_backward(dy, log_y, dim, engine=engine)
        power = np.exp(log_y.astype(np.float64))
        size = power * np.abs(grad).sum(axis=dim, keepdims=True) * (terms + np.abs(log_y))
        close(dx, grad - power * grad.sum(axis=dim, keepdims=True), np.abs(grad) + size)


def test_long_rows_and_limits(engine: Engine) -> None:
    """Rows that several groups share; infinite elements; empty arrays; repeated bits; ``out``."""
    x = RNG.standard_normal((2, 300_001)).astype(np.float32)
    y = pg.nn.softmax(x, engine=engine)
    close(y, reference(x, 1), 4000 * reference(x, 1))
    assert y.tobytes() == pg.nn.softmax(x, engine=engine).tobytes()
    on_device = pg.nn.softmax(cla.to_device(engine.queue, x)).get()
    np.testing.assert_array_equal(on_device, y)
    odd = np.array([[0, -np.inf, 1e30], [-np.inf] * 3, [np.inf, 0, 1], [np.nan, 0, 1]], np.float32)
    got = pg.nn.softmax(odd, engine=engine)
    np.testing.assert_array_equal(got[0], [0, 0, 1])
    assert np.isnan(got[1:]).all()
    np.testing.assert_array_equal(pg.nn.log_softmax(odd[:1], engine=engine)[0, 1:], [-np.inf, 0])
    assert pg.nn.softmax(np.zeros((0, 4), np.float32), engine=engine).shape == (0, 4)
    assert pg.nn.softmax(np.zeros((4, 0), np.float32), engine=engine).shape == (4, 0)
    assert pg.nn.softmax(np.float32(3), 0, engine=engine) == 1
    out = np.zeros((4, 6), np.float32)[:, ::2]
    assert pg.nn.softmax(odd, out=out, engine=engine) is out
    np.testing.assert_array_equal(out, got)


def test_wrong_arguments(engine: Engine) -> None:
    x = np.ones((3, 4), np.float32)
    for call, error, words in (
        (lambda: pg.nn.softmax(x, 2, engine=engine), ArgumentError, "dim is 2; the input has axes"),
        (lambda: pg.nn.softmax(x, 1.5, engine=engine), ArgumentTypeError, "dim is 1.5"),  # type: ignore[arg-type]
        (lambda: pg.nn.softmax(x.astype(int), engine=engine), DTypeError, "input is int64"),
        (lambda: pg.nn.softmax(x, out=x, engine=engine), OverlapError, "out shares memory"),
        (lambda: pg.nn.softmax_backward(x, x[:2], engine=engine), ShapeError, "grad_output has"),
        (
            lambda: pg.nn.softmax(x, out=np.ones((2, 4), np.float32), engine=engine),
            ShapeError,
            "out has shape",
        ),
    ):
        with pytest.raises(error, match=words):
            call()
