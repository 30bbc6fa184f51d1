"""Indices and reshapes of layouts, compared with NumPy's, without a device."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from portable_gpu.errors import ArgumentTypeError, ArrayIndexError, ShapeError
from portable_gpu.runtime import layout
from portable_gpu.runtime.layout import Layout

SHAPES = ((), (1,), (5,), (3, 4), (2, 1, 4), (2, 3, 4), (0, 3), (3, 0))
STEPS = (None, 1, 2, -1, -2, 3)


def drawn_key(draw: random.Random, ndim: int) -> tuple[Any, ...]:
    """A basic index, now and then out of range or too long."""
    key: list[Any] = []
    for _ in range(draw.randint(0, ndim + (draw.random() < 0.1))):
        if draw.random() < 0.35:
            key.append(draw.randint(-4, 3))
        else:
            start, stop = (draw.choice((None, *range(-6, 7))) for _ in "ab")
            key.append(slice(start, stop, draw.choice(STEPS)))
    if draw.random() < 0.4:
        key.insert(draw.randint(0, len(key)), ...)
    for _ in range(draw.choice((0, 0, 1, 2))):
        key.insert(draw.randint(0, len(key)), None)
    return tuple(key)


def drawn_view(draw: random.Random) -> Any:
    """A view of an array, with axes in any order and steps of any sign."""
    x = np.zeros(draw.choice(SHAPES), np.int32)
    order = list(range(x.ndim))
    draw.shuffle(order)
    return x.transpose(order)[(..., *(slice(None, None, draw.choice((1, 2, -1))) for _ in order))]


def of(view: Any, base: Any) -> Layout:
    return Layout(view.ctypes.data - base.ctypes.data, view.shape, view.strides)


def test_indices() -> None:
    draw = random.Random(36)
    for _ in range(3000):
        view = drawn_view(draw)
        key = drawn_key(draw, view.ndim)
        try:
            expected = view[key]
        except IndexError:
            with pytest.raises(ArrayIndexError):
                layout.indexed(of(view, view), key)
            continue
        result = layout.indexed(of(view, view), key)
        # NumPy gives an array that has all integers as its index as a number: no view.
        assert result.shape == np.shape(expected), key
        if isinstance(expected, np.ndarray) and expected.size:
            target_result = of(expected, view)
            assert result.offset == target_result.offset, key
            used = [k for k, n in enumerate(result.shape) if n > 1]
            assert [result.strides[k] for k in used] == [target_result.strides[k] for k in used], (
                key
            )


@pytest.mark.parametrize(
    "key", [[0, 1], True, np.array([0, 1]), np.array([True, False]), 1.0, "0", (0, [1]), slice("a")]
)
def test_what_is_no_basic_index(key: Any) -> None:
    with pytest.raises(ArrayIndexError) as raised:
        layout.indexed(Layout(0, (2, 2), (8, 4)), key)
    assert isinstance(raised.value, IndexError)


def divisors(draw: random.Random, size: int) -> tuple[int, ...]:
    """A random shape of ``size`` elements."""
    shape = []
    while size > 1 and draw.random() < 0.8:
        n = draw.choice([k for k in range(1, size + 1) if size % k == 0])
        shape.append(n)
        size //= n
    return (*shape, size)


def test_reshapes() -> None:
    draw = random.Random(37)
    copies = 0
    for _ in range(3000):
        view = drawn_view(draw)
        new = divisors(draw, view.size) if view.size else (0, 2)
        strides = layout.reshaped(view.shape, view.strides, new, view.itemsize)
        expected = view.reshape(new)
        is_view = not view.size or np.shares_memory(expected, view)
        assert (strides is not None) == is_view, (view.shape, view.strides, new)
        copies += strides is None
        if strides is not None and view.size:
            used = [k for k, n in enumerate(new) if n > 1]
            assert [strides[k] for k in used] == [expected.strides[k] for k in used]
    assert 100 < copies < 2000


@pytest.mark.parametrize(
    ("shape", "error"),
    [
        ((2, -1, -1), ShapeError),
        ((3, -1), ShapeError),
        ((2.0, 2), ArgumentTypeError),
        ((5,), ShapeError),
    ],
)
def test_shapes_that_do_not_fit(shape: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        layout.as_shape(shape, 4)


def test_flags() -> None:
    draw = random.Random(38)
    for _ in range(500):
        view = drawn_view(draw)
        flags = layout.Flags(view.shape, view.strides, view.itemsize)
        for name in ("c_contiguous", "f_contiguous", "forc"):
            assert getattr(flags, name) == getattr(view.flags, name), (
                name,
                view.shape,
                view.strides,
            )
