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
    ArgumentTypeError,
    ArrayIndexError,
    DTypeError,
    OverlapError,
    ReadOnlyError,
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
        without_padding = nn.embedding_backward(g, x, rows, rows - 1)
        assert np.array_equal(from_device(without_padding), got)


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
    message = r"index 37 at position 400 \(in C order\), which is not a row; there are 37"
    with pytest.raises(ArrayIndexError, match=f"input has {message}"):
        nn.embedding(indices, weight, engine=engine)
    with pytest.raises(ArrayIndexError, match=f"indices has {message}"):
        nn.embedding_backward(grad, indices, 37, engine=engine)
    late = nn.embedding(on_device(engine, indices), on_device(engine, weight))
    with pytest.raises(ArrayIndexError, match=message):
        pg.asnumpy(late)


@pytest.mark.parametrize("order", [2.0, float("inf")])
def test_rows_are_limited(engine: Engine, order: float) -> None:
    """In place, those that indices name, of any strides; not if an index is not a row."""
    rng = np.random.default_rng(3)
    start = rng.standard_normal((7, 2 * 37)).astype(np.float32).T[::2]
    weight, indices = start.copy(order="A"), rng.integers(0, 30, (5, 4))
    weight[indices[0, 0]] = np.nan
    norms = np.linalg.norm(weight.astype(np.float64), order, 1)
    limit = float(np.nanmedian(norms))
    scales = np.where(norms > limit, limit / (norms + 1e-7), 1)
    scales[np.setdiff1d(np.arange(37), indices)] = 1
    assert 0 < (scales < 1).sum() < 30
    exact, unchanged = weight * scales[:, None], weight.copy()
    got = nn.embedding(indices, weight, None, limit, order, engine=engine)
    np.testing.assert_array_equal(got, weight[indices])
    np.testing.assert_allclose(weight, exact, rtol=20 * np.finfo(np.float32).eps)
    np.testing.assert_array_equal(weight[scales == 1], unchanged[scales == 1])
    there = on_device(engine, unchanged, rim=1)
    nn.embedding(on_device(engine, indices), there, None, limit, order)
    np.testing.assert_array_equal(from_device(there), weight)
    indices[2, 1], before = 37, weight.copy()
    with pytest.raises(ArrayIndexError, match="input has index 37 at position 9"):
        nn.embedding(indices, weight, None, limit / 2, order, engine=engine)
    with pytest.raises(OverlapError, match="out"):
        nn.embedding(np.arange(37), weight, None, limit / 2, out=weight, engine=engine)
    np.testing.assert_array_equal(weight, before)


def test_gradients_by_frequency(engine: Engine) -> None:
    """Means of float16 gradients, whose sums are too large for float16."""
    indices = np.array([[4, 4, 2], [4, 0, 2]])
    grad = np.full((2, 3, 8), 30000, np.float16)
    got = nn.embedding_backward(grad, indices, 5, 0, True, engine=engine)
    assert got[:, 0].tolist() == [0, 0, 30000, 0, 30000]


def test_module(engine: Engine) -> None:
    layer = nn.Embedding(37, 24, padding_idx=2, scale_grad_by_freq=True, engine=engine)
    values = pg.asnumpy(layer.weight.data)
    assert not values[2].any()
    assert abs(values[3:].std() - 1) < 0.1
    indices = np.array([[1, 2], [1, 36]])
    assert np.array_equal(pg.asnumpy(layer(indices)), values[indices])
    layer.backward(pg.asarray(np.ones((2, 2, 24), np.float32), engine=engine))
    sums = pg.asnumpy(layer.weight.grad).sum(1)
    assert sums[[1, 2, 36, 0]].tolist() == [24, 0, 24, 0]
    layer.scale_grad_by_freq, layer.max_norm, layer.norm_type = False, 0.5, float("inf")
    assert np.abs(pg.asnumpy(layer(indices))).max() == pytest.approx(0.5)
    layer.backward(pg.asarray(np.ones((2, 2, 24), np.float32), engine=engine))
    assert pg.asnumpy(layer.weight.grad).sum(1)[[1, 2]].tolist() == [24 + 48, 0]
    assert np.abs(pg.asnumpy(layer.weight.data)[[1, 36]]).max() == pytest.approx(0.5)


def test_wrong_arguments(engine: Engine) -> None:
    weight, indices = np.ones((3, 4), np.float32), np.zeros(3, np.int64)
    read_only = weight.view()
    read_only.flags.writeable = False
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
        (ArgumentError, "max_norm is -1", lambda: nn.embedding(indices, weight, None, -1)),
        (ArgumentError, "norm_type is 0", lambda: nn.embedding(indices, weight, None, 1, 0)),
        (ArgumentTypeError, "norm_type is '2'", lambda: nn.Embedding(3, 4, norm_type="2")),
        (ArgumentTypeError, "changes it in place", lambda: nn.embedding([0], [[1.0]], None, 1)),
        (ReadOnlyError, "weight", lambda: nn.embedding(indices, read_only, None, 1)),
        (
            ArgumentTypeError,
            "scale_grad_by_freq is .no",
            lambda: nn.embedding_backward(weight, indices, 3, None, "no"),
        ),
    ):
        with pytest.raises(error, match=message):
            call()
    assert np.all(weight == 1)
