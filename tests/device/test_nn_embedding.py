"""Embeddings against NumPy's indexing, and their gradient against sums in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_arrays import from_device, on_device

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.errors import (
    ArgumentError,
    ArrayIndexError,
    DTypeError,
    OverlapError,
    ShapeError,
)
from portable_gpu.runtime.engine import Engine


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_values_and_gradients(engine: Engine, dtype: Any) -> None:
    """Repeated and absent rows, strides, empty shapes, and a row of padding."""
    rng = np.random.default_rng(1)
    for shape, rows, columns in (((5, 60), 37, 24), ((2000,), 3, 7), ((0, 4), 5, 8), ((), 1, 1)):
        weight = rng.standard_normal((rows, columns)).astype(dtype)
        indices = rng.integers(0, rows, shape).astype(np.int32 if rows == 3 else np.int64)
        assert np.array_equal(nn.embedding(indices, weight, engine=engine), weight[indices])
        grad = rng.standard_normal((*shape, columns)).astype(dtype)
        exact, terms = np.zeros((2, rows, columns))
        np.add.at(exact, indices, grad.astype(np.float64))
        np.add.at(terms, indices, np.abs(grad.astype(np.float64)))
        exact[-1] = terms[-1] = 0
        got = nn.embedding_backward(grad, indices, rows, -1, engine=engine)
        count = np.bincount(indices.ravel(), minlength=rows).max(initial=1)
        bound = count * np.finfo(np.float32).eps * terms
        if dtype == np.float16:
            bound += 2.0**-11 * (np.abs(exact) + bound) + 2.0**-24
        assert np.all(np.abs(got - exact) <= bound)
        x, g = on_device(engine, indices, rim=1), on_device(engine, grad, rim=1)
        again = nn.embedding_backward(g, x, rows, rows - 1)
        assert np.array_equal(from_device(again), got)


def test_strides_and_out(engine: Engine) -> None:
    rng = np.random.default_rng(2)
    weight = rng.standard_normal((24, 2 * 37)).astype(np.float32).T[::2]
    indices = rng.integers(0, 37, (5, 12))[:, ::-2]
    out = np.empty((24, 6, 5), np.float32).transpose(2, 1, 0)
    assert nn.embedding(indices, weight, out=out, engine=engine) is out
    assert np.array_equal(out, weight[indices])
    plain = np.empty((5, 6, 24), np.float32)[:3]
    assert nn.embedding(indices[:3], weight, out=plain, engine=engine) is plain
    assert np.array_equal(plain, weight[indices[:3]])
    exact = np.zeros((37, 24))
    np.add.at(exact, indices, out)
    for target in (np.empty((24, 37), np.float32).T, np.empty((37, 24), np.float32)):
        got = nn.embedding_backward(out, indices, 37, out=target, engine=engine)
        assert got is target
        np.testing.assert_allclose(target, exact, atol=1e-5)


def test_indices_of_no_row(engine: Engine) -> None:
    weight = np.ones((37, 24), np.float32)
    indices = np.arange(600) % 37
    indices[[400, 500]] = 37, -1
    grad = np.ones((600, 24), np.float32)
    message = r"index 37 at position 400 \(in C order\), which is no row; there are 37"
    with pytest.raises(ArrayIndexError, match=f"input has {message}"):
        nn.embedding(indices, weight, engine=engine)
    with pytest.raises(ArrayIndexError, match=f"indices has {message}"):
        nn.embedding_backward(grad, indices, 37, engine=engine)
    late = nn.embedding(on_device(engine, indices), on_device(engine, weight))
    with pytest.raises(ArrayIndexError, match=message):
        pg.asnumpy(late)


def test_module(engine: Engine) -> None:
    layer = nn.Embedding(37, 24, padding_idx=2, engine=engine)
    values = pg.asnumpy(layer.weight.data)
    assert not values[2].any()
    assert abs(values[3:].std() - 1) < 0.1
    indices = np.array([[1, 2], [1, 36]])
    assert np.array_equal(pg.asnumpy(layer(indices)), values[indices])
    layer.backward(pg.asarray(np.ones((2, 2, 24), np.float32), engine=engine))
    sums = pg.asnumpy(layer.weight.grad).sum(1)
    assert sums[[1, 2, 36, 0]].tolist() == [48, 0, 24, 0]


def test_wrong_arguments(engine: Engine) -> None:
    weight, indices = np.ones((3, 4), np.float32), np.zeros(3, np.int64)
    for error, message, call in (
        (DTypeError, "input is float32", lambda: nn.embedding(weight[0], weight)),
        (DTypeError, "weight is int64", lambda: nn.embedding(indices, indices[:, None])),
        (ShapeError, r"weight has shape \(4,\)", lambda: nn.embedding(indices, weight[0])),
        (ArgumentError, "padding_idx is 3", lambda: nn.embedding(indices, weight, 3)),
        (ShapeError, "out", lambda: nn.embedding(indices, weight, out=weight[:2])),
        (OverlapError, "out", lambda: nn.embedding(indices, weight, out=weight)),
        (ShapeError, r"indices \(3,\)", lambda: nn.embedding_backward(weight[:2], indices, 3)),
        (ArgumentError, "num_weights", lambda: nn.embedding_backward(weight, indices, -1)),
        (ArgumentError, "num_embeddings", lambda: nn.Embedding(0, 4)),
    ):
        with pytest.raises(error, match=message):
            call()
    assert np.all(weight == 1)
