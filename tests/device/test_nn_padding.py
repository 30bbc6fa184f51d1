"""Padding and pixel shuffles against NumPy, and gradients against the adjoint identity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layers.padding import NUMPYS, padded, shuffled
from sampling import computes

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    PortableGPUError,
    ShapeError,
)
from portable_gpu.runtime.engine import Engine

Values = np.ndarray[Any, Any]


def layouts(x: Values, engine: Engine) -> dict[str, Any]:
    """Return the values in several layouts."""
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    spread = np.zeros(tuple(2 * n for n in x.shape), x.dtype)
    spread[tuple(slice(None, None, 2) for _ in x.shape)] = x
    return {
        "C": x,
        "channels-last": np.moveaxis(last, -1, 1),
        "reversed": x[..., ::-1].copy()[..., ::-1],
        "stepped": spread[tuple(slice(None, None, 2) for _ in x.shape)],
        "device": pg.asarray(x, engine=engine),
    }


def host(x: Any) -> Values:
    return x if isinstance(x, np.ndarray) else np.asarray(x.get())


@pytest.mark.path
@pytest.mark.parametrize("mode", NUMPYS)
def test_random_paddings(engine: Engine, mode: str) -> None:
    random = np.random.default_rng(7)
    for turn in range(16):
        shape = (2, *random.integers(3, 9, 3))
        x = random.standard_normal(shape).astype(np.float32)
        low, high = (-1, 3)
        numbers = tuple(int(n) for n in random.integers(low, high, 4))
        y = padded(x, numbers, mode)
        for name, operand in layouts(x, engine).items():
            if turn % 4 and name != "C":
                continue
            result = nn.pad(operand, numbers, mode, engine=engine)
            np.testing.assert_array_equal(host(result), y, f"{name} {shape} {numbers}")
            if name == "channels-last" and 0 not in y.shape:
                assert result.strides[1] == x.itemsize
        g = random.standard_normal(y.shape).astype(np.float32)
        back = nn.pad_backward(g, numbers, mode, engine=engine)
        assert back.shape == x.shape
        same = nn.pad_backward(g, numbers, mode, engine=engine)
        assert same.tobytes() == back.tobytes()
        forward, backward = (g * y.astype(float)).sum(), (back * x.astype(float)).sum()
        assert abs(forward - backward) <= 40 * 2.0**-24 * np.abs(g * y).sum()


@pytest.mark.tiny
def test_values_of_all_dtypes(engine: Engine) -> None:
    for dtype in (np.bool_, np.int8, np.uint16, np.float16, np.complex64, np.int64, np.complex128):
        if not computes(engine, dtype):
            continue
        x = np.array([[1, 0, 1], [0, 0, 1]]).astype(dtype)
        value = 1 if dtype is np.bool_ else 3 - 2j if np.dtype(dtype).kind == "c" else 5
        result = nn.pad(x, (1, 2), value=value, engine=engine)
        np.testing.assert_array_equal(result, padded(x, (1, 2), "constant", value))
    x = np.zeros((2, 2), np.float32)
    for value in (0.0, -0.0, float("nan"), float("inf")):
        assert nn.pad(x, (1, 0), value=value, engine=engine)[0, 0].tobytes() == (
            np.float32(value).tobytes()
        )
    infinite = np.full((1, 3, 4), np.inf, np.float32)
    assert (nn.pad(infinite, (1, 1), engine=engine)[..., [0, -1]] == 0).all()


@pytest.mark.tiny
def test_empty_arrays(engine: Engine) -> None:
    assert nn.pad(np.ones((0, 3, 4), np.float32), (1, 1), engine=engine).shape == (0, 3, 6)
    ones = nn.pad(np.ones((2, 0), np.float32), (1, 2), value=1, engine=engine)
    np.testing.assert_array_equal(ones, np.ones((2, 3)))
    assert nn.pad_backward(np.ones((2, 3), np.float32), (1, 2), engine=engine).shape == (2, 0)


def test_pixel_shuffles(engine: Engine) -> None:
    x = np.arange(2 * 12 * 3 * 5, dtype=np.float32).reshape(2, 12, 3, 5)
    y = shuffled(x, 2)
    for name, operand in layouts(x, engine).items():
        result = nn.pixel_shuffle(operand, 2, engine=engine)
        np.testing.assert_array_equal(host(result), y, name)
        assert name != "channels-last" or result.strides[1] == x.itemsize
        np.testing.assert_array_equal(host(nn.pixel_unshuffle(result, 2, engine=engine)), x)
        out = np.empty((*y.shape[:1], 6, *y.shape[2:]), np.float32)[:, ::2]
        if name != "device":
            assert nn.pixel_shuffle(operand, 2, out=out, engine=engine) is out
            np.testing.assert_array_equal(out, y)
    np.testing.assert_array_equal(nn.pixel_shuffle_backward(y, 2, engine=engine), x)
    np.testing.assert_array_equal(nn.pixel_unshuffle_backward(x, 2, engine=engine), y)


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (ArgumentError, "3 integers", lambda x: nn.pad(x, (1, 2, 3))),
        (ArgumentError, "pairs for at most the 3 axes of input", lambda x: nn.pad(x, (1,) * 8)),
        (ArgumentTypeError, "pad is 1;", lambda x: nn.pad(x, 1)),
        (ArgumentTypeError, "pad is 0.5", lambda x: nn.pad(x, (0.5, 1))),
        (ArgumentError, "mode is 'edge'", lambda x: nn.pad(x, (1, 1), "edge")),
        (ArgumentError, "value is 2", lambda x: nn.pad(x, (1, 1), "reflect", 2)),
        (ArgumentError, "value is 1j", lambda x: nn.pad(x, (1, 1), value=1j)),
        (ArgumentError, "value is 300", lambda x: nn.pad(x.astype("i1"), (1, 1), value=300)),
        (ShapeError, "reflect takes at most 3", lambda x: nn.pad(x, (4, 0), "reflect")),
        (ShapeError, "circular takes at most 4", lambda x: nn.pad(x, (0, 5), "circular")),
        (ShapeError, "fewer than 0", lambda x: nn.pad(x, (-3, -2))),
        (ShapeError, "no axes", lambda x: nn.pad(np.float32(1), (1, 1))),
        (DTypeError, "int32", lambda x: nn.pad_backward(x.astype("i4"), (1, 1), "reflect")),
        (ShapeError, "more than grad_output", lambda x: nn.pad_backward(x, (3, 3))),
        (ShapeError, "12 channels|3 channels", lambda x: nn.pixel_shuffle(x, 2)),
        (ShapeError, "downscale_factor 3", lambda x: nn.pixel_unshuffle(x, 3)),
        (ArgumentError, "upscale_factor is 0", lambda x: nn.pixel_shuffle(x, 0)),
        (ShapeError, "out has shape", lambda x: nn.pixel_unshuffle(x, 2, out=x)),
    ],
)
def test_bad_arguments(error: type[PortableGPUError], words: str, call: Any) -> None:
    with pytest.raises(error, match=words):
        call(np.zeros((3, 6, 4), np.float32))
