"""Losses and their gradients, against NumPy in double precision."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from layers.losses import Classes

import portable_gpu as pg
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.runtime.engine import Engine

RNG = np.random.default_rng(12)


def close(got: Any, want: Any, size: float) -> None:
    got = pg.asnumpy(got)
    eps = np.finfo(np.float32 if got.dtype != np.float64 else np.float64).eps
    rounded = np.finfo(got.dtype).eps * np.abs(want) + (1e-7 if got.dtype == np.float16 else 0)
    assert got.shape == np.shape(want)
    assert (np.abs(got.astype(np.float64) - want) <= eps * size + rounded).all()


@pytest.mark.tiny
@pytest.mark.path
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_classes(engine: Engine, dtype: type) -> None:
    """Indices and probabilities, weights, smoothing, ignored targets; classes on axis 1 or last."""
    rng = random.Random(f"classes {dtype}")
    for turn in range(8 if dtype is np.float32 else 3):
        rows, classes = rng.choice((1, 7, 60)), rng.choice((2, 10, 300))
        x = (3 * RNG.standard_normal((rows, classes))).astype(dtype)
        w = None if turn % 2 else RNG.uniform(0.5, 2, classes).astype(dtype)
        smoothing = rng.choice((0.0, 0.0, 0.1))
        reduction = rng.choice(("none", "sum", "mean"))
        target = RNG.integers(0, classes, rows)
        target[rows // 2] = -100 if rows > 1 else target[0]
        if turn % 4 == 3:
            target = RNG.dirichlet(np.ones(classes), rows).astype(dtype)
        want = Classes(x, w, smoothing, -100)
        shown, aims, places = x, target, ()
        if rng.random() < 0.5 and rows > 1:  # places on the last axis: rows that are interleaved
            shown = np.ascontiguousarray(x.T)[None]
            aims = target.T[None] if target.ndim == 2 else target[None]
            places = (1, rows)
        options = {"reduction": reduction, "label_smoothing": smoothing, "engine": engine}
        loss = pg.nn.cross_entropy(shown, aims, w, **options)
        size = (classes + 60) * 30.0 * (rows if reduction == "sum" else 1)
        expected = want.loss(target, reduction)
        close(loss, expected.reshape(places) if places and reduction == "none" else expected, size)
        g = RNG.standard_normal(rows if reduction == "none" else ()).astype(dtype)
        passed = g.reshape(places) if places and reduction == "none" else g
        grad = pg.nn.cross_entropy_backward(passed, shown, aims, w, **options)
        grad = grad[0].T if places else grad
        close(grad, want.gradient(target, g, reduction), (classes + 60) * 30.0)
        if target.ndim == 2 or smoothing:
            continue
        log = want.log.astype(dtype)
        shown = np.ascontiguousarray(log.T)[None] if places else log
        p, weights = want.fractions(target)
        losses = -(p * log.astype(np.float64)).sum(axis=1)
        total = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / weights.sum()}
        options.pop("label_smoothing")
        loss = pg.nn.nll_loss(shown, aims, w, **options)
        expected = total[reduction]
        close(loss, expected.reshape(places) if places and reduction == "none" else expected, size)
        grad = pg.nn.nll_loss_backward(passed, shown, aims, w, **options)
        scale = np.asarray(g, np.float64).reshape(-1, 1)
        scale = scale / weights.sum() if reduction == "mean" else scale
        close(grad[0].T if places else grad, -scale * p, 30.0)


def test_squares(engine: Engine) -> None:
    for shape in ((), (3, 5), (200_001,)):
        x, y = RNG.standard_normal((2, *shape)).astype(np.float32)
        wide = (x.astype(np.float64) - y) ** 2
        for reduction, want in (("none", wide), ("sum", wide.sum()), ("mean", wide.mean())):
            got = pg.nn.mse_loss(x, y, reduction, engine=engine)
            np.testing.assert_allclose(got, want, rtol=2e-5)
            g = np.ones(np.shape(want), np.float32)
            scale = 2 / x.size if reduction == "mean" else 2
            grad = pg.nn.mse_loss_backward(g, x, y, reduction, engine=engine)
            np.testing.assert_allclose(grad, scale * (x - y), rtol=1e-6)


def test_gradient_of_a_mean_of_many_squares(engine: Engine) -> None:
    """The factor of 1,500,000 elements is not a number of float16; it is not rounded to one."""
    x, y = (8 * RNG.standard_normal((2, 1_500_000))).astype(np.float16)
    grad = pg.nn.mse_loss_backward(np.ones((), np.float16), x, y, engine=engine)
    want = 2 / x.size * (x.astype(np.float64) - y)
    assert (np.abs(grad - want) <= 2.0**-11 * np.abs(want) + 1.01 * 2.0**-25).all()


def test_wrong_targets(engine: Engine) -> None:
    """The first wrong target is named, of NumPy at once, of the device with the values."""
    x = RNG.standard_normal((6, 4)).astype(np.float32)
    good = np.arange(6) % 4
    bad = good.copy()
    bad[[2, 5]] = 4, -7
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"target\[2\] is 4; expected 0 to 3 for 4 classes"):
            pg.nn.cross_entropy(x, bad, engine=engine)
        with pytest.raises(ArgumentError, match=r"target\[5\] is -7"):
            pg.nn.nll_loss(x, np.where(bad == 4, 0, bad), engine=engine)
    on_device = [pg.Array.of(cla.to_device(engine.queue, a)) for a in (x, bad, good)]
    loss = pg.nn.cross_entropy(*on_device[:2])
    with pytest.raises(ArgumentError, match=r"target\[2\] is 4"):
        loss.get()
    want = pg.nn.cross_entropy(x, good, engine=engine)
    for _ in range(2):
        assert pg.nn.cross_entropy(on_device[0], on_device[2]).get() == want
    assert np.isnan(pg.nn.cross_entropy(x, np.full(6, -100), engine=engine))
    for call, error, words in (
        (lambda: pg.nn.cross_entropy(x, good[:5], engine=engine), ShapeError, "target has shape"),
        (lambda: pg.nn.cross_entropy(x, x[:5], engine=engine), ShapeError, "target has shape"),
        (lambda: pg.nn.cross_entropy(x, x, ignore_index=1), ArgumentError, "ignore_index is 1 and"),
        (
            lambda: pg.nn.nll_loss(x, x, engine=engine),
            DTypeError,
            "target is float32; expected integers",
        ),
        (lambda: pg.nn.cross_entropy(x, good, reduction="max"), ArgumentError, "reduction is"),
        (lambda: pg.nn.cross_entropy(x, good, label_smoothing=2), ArgumentError, "label_smoothing"),
        (lambda: pg.nn.mse_loss(x, x[:5]), ShapeError, "target has shape"),
    ):
        with pytest.raises(error, match=words):
            call()


@pytest.mark.parametrize(("smoothing", "last"), [(0.0, True), (0.1, False)])
def test_gradients_of_ignored_targets_are_zero(
    engine: Engine, smoothing: float, last: bool
) -> None:
    """Also where the logits of the row have no softmax."""
    x = RNG.standard_normal((9, 10)).astype(np.float32)
    x[1, 3], x[2, 4], x[3], x[4, 5] = np.nan, np.inf, -np.inf, -np.inf
    target = np.arange(9)
    target[1:5] = -100
    passed, aims = (x, target) if last else (np.ascontiguousarray(x.T)[None], target[None])
    grad = pg.nn.cross_entropy_backward(
        np.float32(1), passed, aims, reduction="sum", label_smoothing=smoothing, engine=engine
    )
    grad = grad if last else grad[0].T
    assert not grad[1:5].any()
    counted = [0, 5, 6, 7, 8]
    want = Classes(x[counted], None, smoothing, -100).gradient(target[counted], 1, "sum")
    close(grad[counted], want, 70 * 30.0)
