"""Dropout by Philox4x32-10: published vectors, masks on any strides, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from device_arrays import from_device, on_device

from portable_gpu import nn
from portable_gpu.dtypes import element
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    OverlapError,
    ShapeError,
)
from portable_gpu.ops.random.commands.family import kept_elements
from portable_gpu.ops.random.plan import DropoutProblem, render
from portable_gpu.runtime.engine import Engine

#: Counter, key and result of philox4x32 10 in the file kat_vectors of Random123.
VECTORS = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]  # fmt: skip


@pytest.mark.tiny
def test_published_vectors(engine: Engine) -> None:
    problem = DropoutProblem(element(np.float32), (8,), ((1,), (1,)), 16)
    spec = render(problem, engine.target)
    text = (
        spec.text
        + """
    __kernel void one(__global uint *out, uint8 given)
    {
        vstore4(philox_4x32_10(given.s0123, given.s45), 0, out);
    }
    """
    )
    program = cl.Program(engine.context, text).build(list(spec.options))
    kernel = program.one
    buffer = cl.Buffer(engine.context, cl.mem_flags.READ_WRITE, 16)
    for counter, key, expected in VECTORS:
        operand = np.array([*counter, *key, 0, 0], np.uint32)
        kernel(engine.queue, (1,), None, buffer, operand.tobytes())
        result = np.empty(4, np.uint32)
        cl.enqueue_copy(engine.queue, result, buffer)
        assert result.tolist() == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_masks(engine: Engine, dtype: Any) -> None:
    """The mask depends on the index, the seed and the offset alone, and is that of NumPy's text."""
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((3, 7, 11)) + 10).astype(dtype)
    seed, p = 0x123456789ABCDEF, 0.3
    mask = kept_elements(x.size, p, seed).reshape(x.shape)
    factor = np.float32(1 / (1 - p))
    expected = np.where(mask, (x.astype(np.float32) * factor).astype(dtype), dtype(0))
    got = nn.dropout(x, p, seed=seed, engine=engine)
    assert np.array_equal(got, expected)
    sliced = on_device(engine, np.repeat(x, 2, axis=1)[:, ::2], rim=3)
    assert np.array_equal(from_device(nn.dropout(sliced, p, seed=seed)), expected)
    assert nn.dropout_backward(sliced, p, seed=seed, out=sliced) is sliced
    assert np.array_equal(from_device(sliced), expected)
    odd = on_device(engine, x.reshape(-1)[:-1], rim=1)
    assert np.array_equal(from_device(nn.dropout(odd, p, seed=seed)), expected.reshape(-1)[:-1])
    other = nn.dropout(x, p, seed=seed, offset=1, engine=engine)
    assert 0.3 < np.mean((other != 0) == mask) < 0.8


def test_limits_and_rate(engine: Engine) -> None:
    x = np.full(40_000, 2, np.float32)
    y = nn.dropout(x, 0.1, seed=1, engine=engine)
    deviation = np.sqrt(0.1 * 0.9 / x.size)
    assert abs(np.mean(y == 0) - 0.1) < 5 * deviation
    assert np.array_equal(nn.dropout(x, 0, seed=1, engine=engine), x)
    assert np.array_equal(nn.dropout(x, 0.9, False, seed=1, engine=engine), x)
    assert not nn.dropout(np.full(10, np.nan, np.float32), 1, seed=1, engine=engine).any()
    assert nn.dropout(np.zeros((0, 3), np.float32), seed=1, engine=engine).shape == (0, 3)
    place = x.copy()
    assert nn.dropout(place, 0.1, seed=1, out=place, engine=engine) is place
    assert np.array_equal(place, y)


def test_whole_channels(engine: Engine) -> None:
    """The mask of ``dropout`` for (batch, channels); dropped channels are 0 also where NaN was."""
    x = np.random.default_rng(3).standard_normal((3, 50, 2, 3)).astype(np.float32)
    mask = nn.dropout(np.ones((3, 50), np.float32), 0.25, seed=9, offset=2, engine=engine)
    dropped = mask == 0
    assert 0 < dropped.sum() < dropped.size
    x[dropped] = np.nan
    y = nn.dropout2d(x, 0.25, seed=9, offset=2, engine=engine)
    expected = np.where(dropped[..., None, None], 0, x * mask[..., None, None])
    assert np.array_equal(y, expected)
    there = on_device(engine, x[:, :, 0])
    assert nn.dropout2d_backward(there, 0.25, seed=9, offset=2, out=there) is there
    assert np.array_equal(from_device(there), expected[:, :, 0])
    ones = np.ones(50, np.float32)
    alone = nn.dropout(ones, 0.25, seed=9, offset=2, engine=engine)[:, None]
    image = np.ones((50, 3), np.float32)
    y = nn.dropout1d(image, 0.25, seed=9, offset=2, engine=engine)
    assert np.array_equal(y, image * alone)
    y = nn.dropout3d(image[:, None, :, None], 0.25, seed=9, offset=2, engine=engine)
    assert np.array_equal(y[:, 0, :, 0], image * alone)


def test_wrong_arguments(engine: Engine) -> None:
    x = np.ones((3, 4), np.float32)
    for error, message, call in (
        (ArgumentError, "p is 1.5", lambda: nn.dropout(x, 1.5, seed=0)),
        (ArgumentError, "p is nan", lambda: nn.dropout(x, float("nan"), seed=0)),
        (ArgumentTypeError, "p is '0'", lambda: nn.dropout(x, "0", seed=0)),
        (ArgumentTypeError, "seed is 0.5", lambda: nn.dropout(x, seed=0.5)),
        (ArgumentError, "seed is -1", lambda: nn.dropout(x, seed=-1)),
        (ArgumentError, "offset is", lambda: nn.dropout(x, seed=0, offset=1 << 64)),
        (DTypeError, "grad_output is int8", lambda: nn.dropout_backward(x.astype("i1"), seed=0)),
        (ShapeError, "out", lambda: nn.dropout(x, seed=0, out=np.ones(4, np.float32))),
        (ShapeError, r"3 axes of space .* or channels before 3", lambda: nn.dropout3d(x, seed=0)),
        (ShapeError, "or batch and channels before 1", lambda: nn.dropout2d(x, seed=0)),
        (ArgumentError, "p is 2", lambda: nn.dropout1d(x, 2, seed=0)),
        (DTypeError, "grad_output is", lambda: nn.dropout1d_backward(x.astype("i1"), seed=0)),
        (ShapeError, "out", lambda: nn.dropout1d(x, seed=0, out=np.ones(4, np.float32))),
        (OverlapError, "out", lambda: nn.dropout(x[1:], seed=0, out=x[:-1])),
    ):
        with pytest.raises(error, match=message):
            call()
    assert np.all(x == 1)
