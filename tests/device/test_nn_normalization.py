"""Normalisations and their gradients, against NumPy in double precision."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from layers.normalization import EPS, Reference

import portable_gpu as pg
from portable_gpu.errors import (
    ArgumentError,
    ContextMismatchError,
    DeviceMemoryError,
    DTypeError,
    OverlapError,
    ShapeError,
)
from portable_gpu.ops.normalize import batch, norms
from portable_gpu.ops.normalize.programs import program
from portable_gpu.runtime.engine import Engine

RNG = np.random.default_rng(8)


def unit(dtype: Any) -> float:
    return float(np.finfo(np.float64 if dtype == np.float64 else np.float32).eps)


def close(got: Any, want: Any, bound: Any) -> None:
    """Within a bound in units of the arithmetic's rounding, and one rounding to 16 bits."""
    got = pg.asnumpy(got)
    rounded = np.finfo(got.dtype).eps * np.abs(want) if got.dtype == np.float16 else 0
    assert got.shape == want.shape
    error = np.abs(got.astype(np.float64) - want)
    limit = unit(got.dtype) * bound + rounded + (1e-7 if got.dtype == np.float16 else 1e-30)
    assert (error <= limit).all(), float((error / limit).max())


def far(reference: Reference, dtype: Any) -> Any:
    """Bounds of y: those of the mean, of the variance, and of the element itself."""
    terms = reference.count + 30
    lost = (np.abs(reference.x).max() + 1) * reference.rstd * np.abs(reference.w)
    return terms * lost + terms * np.abs(reference.hat * reference.w) + np.abs(reference.b)


def check_gradients(reference: Reference, dy: Any, got: Any, axes: tuple[int, ...]) -> None:
    dx, dw, db, size = reference.gradients(dy, axes)
    terms = reference.count + 40
    lost = 1 + (np.abs(reference.x).max() + 1) * reference.rstd
    close(got[0], dx, terms * size * lost)
    many = dy.size
    close(
        got[1].reshape(-1), dw.reshape(-1), many * float(np.abs(dy).max()) * 6.0 * float(lost.max())
    )
    if got[2] is not None:
        close(got[2].reshape(-1), db.reshape(-1), many * float(np.abs(dy).max()))


def strided(array: Any, rng: random.Random) -> Any:
    """Return the values as they are, with reversed axes, stepped, or channels last."""
    kind = rng.randrange(4)
    if kind == 1:
        return np.asfortranarray(array)
    if kind == 2:
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if kind == 3 and array.ndim > 2:
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
    return array


@pytest.mark.path
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_layer_and_rms(engine: Engine, dtype: type) -> None:
    rng = random.Random(f"layer {dtype}")
    for turn in range(6 if dtype is np.float32 else 2):
        shape = (rng.choice((1, 3, 40)), rng.choice((1, 5)), rng.choice((1, 8, 50, 1025)))
        k = rng.choice((1, 2)) if turn else 1
        ends = shape[-k:]
        x = strided((RNG.standard_normal(shape) + 3).astype(dtype), rng)
        dy = strided(RNG.standard_normal(shape).astype(dtype), rng)
        w, b = (RNG.standard_normal(ends).astype(dtype) for _ in range(2))
        axes = tuple(range(3 - k, 3))
        want = Reference(x, axes, w.astype(np.float64), b.astype(np.float64))
        y, mean, rstd = pg.nn.native_layer_norm(x, ends, w, b, engine=engine)
        close(y, want.y, far(want, dtype))
        assert mean.shape == (*shape[:-k], *(1,) * k)
        # Two kernels: their compilers may contract other products.
        close(pg.nn.layer_norm(x, ends, w, b, engine=engine), want.y, far(want, dtype))
        got = pg.nn.layer_norm_backward(dy, x, ends, mean, rstd, w, b, engine=engine)
        check_gradients(want, dy, got, axes)
        want = Reference(x, axes, w.astype(np.float64), 0, centred=False)
        y, rstd = pg.nn.native_rms_norm(x, ends, w, EPS, engine=engine)
        close(y, want.y, far(want, dtype))
        dx, dw = pg.nn.rms_norm_backward(dy, x, ends, rstd, w, engine=engine)
        check_gradients(want, dy, (dx, dw, None), axes)


def test_batches_by_running_statistics_in_place(engine: Engine) -> None:
    """Other eps and arrays in repeated calls; ``out`` is the input, or shares no memory with it."""
    statistics = [RNG.standard_normal(6).astype(np.float32) ** 2 + 0.5 for _ in range(2)]
    mean, variance = (pg.asarray(values, engine=engine) for values in statistics)
    tail = (1, 6, 1, 1)
    for eps in (1e-3, 0.5, 0.5):
        x = RNG.standard_normal((2, 5, 4, 6)).astype(np.float32).transpose(0, 3, 1, 2)
        centred = x.astype(np.float64) - statistics[0].reshape(tail)
        want = centred / np.sqrt(statistics[1].astype(np.float64).reshape(tail) + eps)
        on_device = pg.asarray(x, engine=engine)
        fresh = pg.nn.batch_norm(on_device, mean, variance, eps=eps)
        close(pg.asnumpy(fresh), want, 20 * np.abs(want))
        assert fresh.strides == on_device.strides
        assert pg.nn.batch_norm(on_device, mean, variance, eps=eps, out=on_device) is on_device
        np.testing.assert_array_equal(pg.asnumpy(on_device), pg.asnumpy(fresh))
    memory = np.zeros(500, np.float32)
    x, later = (memory[k : k + 240].reshape(2, 6, 4, 5) for k in (0, 1))
    with pytest.raises(OverlapError, match="out shares memory with input"):
        pg.nn.batch_norm(x, *statistics, out=later, engine=engine)
    with pytest.raises(OverlapError, match="out shares memory with running_var"):
        pg.nn.batch_norm(x, statistics[0], memory[300:306], out=memory[240:480].reshape(x.shape))


def test_batches_by_running_statistics_of_another_byte_order(engine: Engine) -> None:
    arrays = [np.float32(RNG.random((3, 4, 5))), *np.float32(RNG.random((4, 4)) + 0.5)]
    want = pg.nn.batch_norm(*arrays, engine=engine)
    for number, array in enumerate(arrays):
        inputs: list[Any] = [*arrays]
        inputs[number] = array.astype(array.dtype.newbyteorder())
        np.testing.assert_array_equal(pg.nn.batch_norm(*inputs, engine=engine), want)


@pytest.mark.path
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_groups_and_batches(engine: Engine, dtype: type) -> None:
    """Channels first and channels last; running statistics; the gradient of fixed statistics."""
    rng = random.Random(f"groups {dtype}")
    for _ in range(4 if dtype is np.float32 else 1):
        shape = (rng.choice((2, 5)), 6, rng.choice((1, 7)), rng.choice((3, 40)))
        x = strided((RNG.standard_normal(shape) * 2 - 1).astype(dtype), rng)
        dy = strided(RNG.standard_normal(shape).astype(dtype), rng)
        w, b = (RNG.standard_normal(6).astype(np.float32) for _ in range(2))
        groups = rng.choice((1, 2, 6))
        split = (shape[0], groups, 6 // groups, *shape[2:])
        wide = [p.astype(np.float64).reshape(1, groups, 6 // groups, 1, 1) for p in (w, b)]
        want = Reference(x.reshape(split), (2, 3, 4), *wide)
        y, mean, rstd = pg.nn.native_group_norm(x, groups, w, b, engine=engine)
        close(y.reshape(split), want.y, far(want, dtype))
        got = pg.nn.group_norm_backward(dy, x, groups, mean, rstd, w, b, engine=engine)
        check_gradients(want, dy.reshape(split), (got[0].reshape(split), *got[1:]), (1, 2))
        wide = [p.astype(np.float64).reshape(1, 6, 1, 1) for p in (w, b)]
        want = Reference(x, (0, 2, 3), *wide)
        running = [np.full(6, 2, np.float32), np.full(6, 3, np.float32)]
        y, mean, rstd = pg.nn.native_batch_norm(x, w, b, *running, True, 0.1, EPS, engine=engine)
        close(y, want.y, far(want, dtype))
        unbiased = want.var.ravel() * want.count / (want.count - 1)
        np.testing.assert_allclose(running[0], 1.8 + 0.1 * want.mean.ravel(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(running[1], 2.7 + 0.1 * unbiased, rtol=1e-5)
        got = pg.nn.batch_norm_backward(
            dy, x, w, None, None, mean, rstd, True, EPS, b, engine=engine
        )
        check_gradients(want, dy, got, (1,))
        y = pg.nn.batch_norm(x, mean, running[1], w, b, engine=engine)
        scale = 1 / np.sqrt(running[1].astype(np.float64) + EPS)
        hat = (x - mean.reshape(1, 6, 1, 1).astype(np.float64)) * scale.reshape(1, 6, 1, 1)
        close(y, hat * wide[0] + wide[1], 20 * (np.abs(hat * wide[0]) + np.abs(wide[1]) + 3))
        dx, dw, _ = pg.nn.batch_norm_backward(
            dy, x, w, mean, running[1], None, None, False, EPS, engine=engine
        )
        fixed = dy * wide[0] * scale.reshape(1, 6, 1, 1)
        close(dx, fixed, 20 * np.abs(fixed))
        close(dw, (dy * hat).sum(axis=(0, 2, 3)), dy.size * 60)
        dx, dw, db = pg.nn.batch_norm_backward(
            dy, x, None, mean, running[1], None, None, False, EPS, engine=engine
        )
        close(dx, fixed / wide[0], 20 * np.abs(fixed / wide[0]))
        assert dw is None
        assert db is None


def test_running_statistics_of_instances(engine: Engine) -> None:
    """Updates by means over the batch; then by them; the module and its gradient."""
    x = (RNG.standard_normal((3, 4, 5, 6)) * 2 + 1).astype(np.float32)
    running = [np.full(4, 2, np.float32), np.full(4, 3, np.float32)]
    y = pg.nn.instance_norm(x, *running, momentum=0.25, engine=engine)
    want = Reference(x, (2, 3), 1.0, 0.0)
    close(y, want.y, far(want, np.float32))
    unbiased = want.var.reshape(3, 4).mean(axis=0) * 30 / 29
    np.testing.assert_allclose(running[0], 1.5 + 0.25 * want.mean.reshape(3, 4).mean(0), rtol=1e-5)
    np.testing.assert_allclose(running[1], 2.25 + 0.25 * unbiased, rtol=1e-5)
    by_them = pg.nn.instance_norm(x, *running, use_input_stats=False, engine=engine)
    np.testing.assert_array_equal(by_them, pg.nn.batch_norm(x, *running, engine=engine))
    module = pg.nn.InstanceNorm2d(4, momentum=0.25, track_running_stats=True, engine=engine)
    module(x)
    mean = 0.25 * want.mean.reshape(3, 4).mean(axis=0)
    np.testing.assert_allclose(module.state_dict()["running_mean"], mean, rtol=1e-5, atol=1e-6)
    for call, error, words in (
        (lambda: pg.nn.instance_norm(x, running[0]), ArgumentError, "running_var is None"),
        (lambda: pg.nn.instance_norm(x, *[r[:2] for r in running]), ShapeError, "running_mean has"),
        (lambda: pg.nn.instance_norm(x[..., :1, :1], *running), ArgumentError, "at least two"),
    ):
        with pytest.raises(error, match=words):
            call()


def test_running_variances_far_below_eps(engine: Engine) -> None:
    """The running variance is computed from the input, and not from ``1 / sqrt(var + eps)``."""
    x = (RNG.standard_normal((3, 4, 5, 6)) * 1e-4).astype(np.float32)
    running = [np.zeros(4, np.float32), np.ones(4, np.float32)]
    pg.nn.instance_norm(x, *running, momentum=1.0, engine=engine)
    exact = x.astype(np.float64).var((2, 3), ddof=1).mean(axis=0)
    np.testing.assert_allclose(running[1], exact, rtol=2 * (30 + 3) * np.finfo(np.float32).eps)


def test_running_statistics_of_instances_change_together(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both, or none: not where they share memory, and not where a later step has no memory."""
    x = RNG.standard_normal((3, 4, 5, 6)).astype(np.float32)
    memory = np.ones(20, np.float32)
    mean, var, on = memory[:4], memory[4:8], {"engine": engine}
    for call, words in (
        (lambda: pg.nn.instance_norm(x, mean, mean, **on), "running_var .* with running_mean"),
        (lambda: pg.nn.instance_norm(x, mean, memory[3:7], **on), "running_var .* running_mean"),
        (lambda: pg.nn.instance_norm(x, x[0, 0, 0, :4], var, **on), "running_mean .* with input"),
        (lambda: pg.nn.instance_norm(x, mean, var, out=x, **on), "shares memory"),
    ):
        with pytest.raises(OverlapError, match=words):
            call()
    real, calls = batch.averaged, iter(range(2))

    def failing(*arguments: Any, **options: Any) -> Any:
        if next(calls):
            raise DeviceMemoryError("no memory")
        return real(*arguments, **options)

    monkeypatch.setattr(batch, "averaged", failing)
    with pytest.raises(DeviceMemoryError):
        pg.nn.instance_norm(x, mean, var, **on)
    np.testing.assert_array_equal(memory, 1)
    monkeypatch.undo()
    mine, other = cl.CommandQueue(engine.context), cl.CommandQueue(cl.Context([engine.device]))
    x_on_device, mean, var = (
        pg.asarray(values, queue=queue)
        for values, queue in ((x, mine), (memory[:4], mine), (memory[4:8], other))
    )
    with pytest.raises(ContextMismatchError, match=r"running_mean, running_var: .* two OpenCL"):
        pg.nn.instance_norm(x_on_device, mean, var)
    np.testing.assert_array_equal(mean.get(), 1)


@pytest.mark.path
@pytest.mark.parametrize(
    ("kind", "device"), [("layer_norm", ""), ("rms_norm", ""), ("layer_norm", "gcn")]
)
def test_gradients_of_many_rows(engine: Engine, kind: str, device: str) -> None:
    """Several work-groups, each of which adds the parameters' gradients of its rows."""
    if device:  # in registers, of two rows side by side
        engine = Engine(queue=engine.queue, device_class=device)
    extents = (3, 87)
    x, dy = RNG.standard_normal((2, 203, *extents)).astype(np.float32)
    w = RNG.standard_normal(extents).astype(np.float32)
    wide, g = x.astype(np.float64), dy.astype(np.float64)
    mean = wide.mean((1, 2), keepdims=True) * (kind == "layer_norm")
    rstd = 1 / np.sqrt(((wide - mean) ** 2).mean((1, 2), keepdims=True) + EPS)
    hat, slope = (wide - mean) * rstd, g * w
    shift = slope.mean((1, 2), keepdims=True) * (kind == "layer_norm")
    dx = rstd * (slope - shift - hat * (slope * hat).mean((1, 2), keepdims=True))
    stats = [s.astype(np.float32) for s in ((mean, rstd) if kind == "layer_norm" else (rstd,))]
    back = getattr(pg.nn, f"{kind}_backward")
    bias = (True,) if kind == "layer_norm" else ()
    got = back(dy, x, extents, *stats, w, *bias, engine=engine)
    size = float(np.abs(g).max() * (1 + np.abs(hat).max()))
    close(got[0], dx, 300 * size * float(rstd.max()))
    close(got[1], (g * hat).sum(0), 203 * size)
    if bias:
        close(got[2], g.sum(0), 203 * size)
    repeated = back(dy, x, extents, *stats, w, *bias, engine=engine)
    for first, other in zip(got[: 2 + len(bias)], repeated, strict=False):
        np.testing.assert_array_equal(first, other)
    out = np.zeros((87, 3), np.float32).T
    chosen = (None, out, None)[: 2 + len(bias)]
    back(dy, x, extents, *stats, w, *bias, out=chosen, engine=engine)
    np.testing.assert_array_equal(out, got[1])
    half = back(
        dy.astype("f2"), x.astype("f2"), extents, *stats, w.astype("f2"), *bias, engine=engine
    )
    assert half[1].dtype == np.float16
    np.testing.assert_allclose(half[1].astype(float), got[1], rtol=0, atol=0.02 * size)


@pytest.mark.path
@pytest.mark.parametrize(
    ("shape", "groups", "dtype"),
    [
        ((2, 36, 40, 30), 12, np.float32),  # few samples: groups share each
        ((5, 36, 7, 9), 36, np.float32),
        ((5, 36, 7, 9), 12, np.float16),
    ],
)
def test_channels_side_by_side(
    engine: Engine, shape: tuple[int, ...], groups: int, dtype: type
) -> None:
    """Channels are neighbours, as many as vectors and a rest; parameters are neighbours or not."""
    x, dy = (RNG.standard_normal((2, *shape)) - 2).astype(dtype)
    x, dy = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for a in (x, dy))
    for step in (1, 2):
        w, b = RNG.standard_normal((2, shape[1] * step)).astype(dtype)[:, ::step]
        split = (shape[0], groups, shape[1] // groups, *shape[2:])
        wide = [p.astype(np.float64).reshape(1, *split[1:3], 1, 1) for p in (w, b)]
        want = Reference(x.reshape(split), (2, 3, 4), *wide)
        y, mean, rstd = pg.nn.native_group_norm(x, groups, w, b, engine=engine)
        close(y.reshape(split), want.y, far(want, dtype))
        got = pg.nn.group_norm_backward(dy, x, groups, mean, rstd, w, b, engine=engine)
        check_gradients(want, dy.reshape(split), (got[0].reshape(split), *got[1:]), (1, 2))
        wide = [p.astype(np.float64).reshape(1, -1, 1, 1) for p in (w, b)]
        want = Reference(x, (0, 2, 3), *wide)
        running = np.ones((2, shape[1] * step), np.float32)[:, ::step]
        y, mean, rstd = pg.nn.native_batch_norm(x, w, b, *running, True, 0.5, EPS, engine=engine)
        close(y, want.y, far(want, dtype))
        unbiased = want.var.ravel() * want.count / (want.count - 1)
        np.testing.assert_allclose(running[0], (1 + want.mean.ravel()) / 2, rtol=1e-5)
        np.testing.assert_allclose(running[1], (1 + unbiased) / 2, rtol=1e-5)
        got = pg.nn.batch_norm_backward(
            dy, x, w, None, None, mean, rstd, True, EPS, b, engine=engine
        )
        check_gradients(want, dy, got, (1,))


@pytest.mark.path
@pytest.mark.parametrize(
    ("shape", "groups", "dtype", "bias"),
    [
        ((3, 6, 5, 7), 3, np.float32, True),
        ((5, 6, 9, 9), 2, np.float16, True),  # steps of several vectors, then one, then a place
        ((3, 4, 1, 3), 2, np.float64, None),  # fewer places than a vector of the CPU has
    ],
)
def test_groups_of_planes(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    groups: int,
    dtype: type,
    bias: bool | None,
) -> None:
    """Images in NCHW, with vectors and rests of planes, and gaps between the channels."""
    selected = []
    chosen = norms.cpu_planes_kernel
    monkeypatch.setattr(
        norms, "cpu_planes_kernel", lambda *a: selected.append(chosen(*a)) or selected[-1]
    )
    split = (shape[0], groups, shape[1] // groups, *shape[2:])
    x, dy = (RNG.standard_normal((2, *shape[:2], 2, *shape[2:])) - 2).astype(dtype)
    x, dy = x[:, :, 0], dy[:, :, 1]
    w = RNG.standard_normal(2 * shape[1]).astype(dtype)[::2]
    for weight in (w, None):
        wide = 1.0 if weight is None else w.astype(np.float64).reshape(1, *split[1:3], 1, 1)
        want = Reference(x.reshape(split), (2, 3, 4), wide, 0.0)
        _, mean, rstd = pg.nn.native_group_norm(x, groups, weight, engine=engine)
        wants_bias = bias or weight is None or None
        got = pg.nn.group_norm_backward(
            dy, x, groups, mean, rstd, weight, wants_bias, engine=engine
        )
        dx, dw, db, size = want.gradients(dy.reshape(split), (1, 2))
        lost = 1 + (np.abs(want.x).max() + 1) * want.rstd
        close(got[0].reshape(split), dx, (want.count + 40) * size * lost)
        most = dy.size * float(np.abs(dy).max())
        if weight is not None:
            close(got[1], dw.reshape(-1), most * 6.0 * float(lost.max()))
        if wants_bias:
            close(got[2], db.reshape(-1), most)
        else:
            assert got[2] is None
    if engine.target.is_cpu and 2 * shape[0] * groups > engine.target.compute_units:
        assert all(selected)
        assert len(selected) == 2


def test_rows_of_places_beside_those_of_other_channels(engine: Engine) -> None:
    """The rows of a place of all channels are adjacent, and are no channels with their weights."""
    x = RNG.standard_normal((130, 12, 30)).astype(np.float32).transpose(1, 0, 2)[None]
    w, b = RNG.standard_normal((2, 12)).astype(np.float32)
    want = Reference(x, (2, 3), w.reshape(1, 12, 1, 1), b.reshape(1, 12, 1, 1))
    got = pg.nn.instance_norm(x, weight=w, bias=b, engine=engine)
    close(got, want.y, far(want, np.float32))


def test_groups_of_one_channel_with_gaps_between_rows(engine: Engine) -> None:
    """Rows of places are no channels, each of which would have sums of its own."""
    x, dy = RNG.standard_normal((2, 5, 1, 8, 3)).astype(np.float32)
    with_gaps = np.zeros((5, 1, 8, 8), np.float32)
    with_gaps[..., :3] = dy
    _, mean, rstd = pg.nn.native_group_norm(x, 1, None, engine=engine)
    one = np.ones(1, np.float32)
    _, dw, db = pg.nn.group_norm_backward(
        with_gaps[..., :3], x, 1, mean, rstd, one, one, engine=engine
    )
    want = Reference(x.reshape(5, 24), (1,), 1.0, 0.0)
    most = dy.size * float(np.abs(dy).max())
    close(dw, np.array([(dy.reshape(5, 24) * want.hat).sum()]), most * 6.0)
    close(db, np.array([dy.astype(np.float64).sum()]), most)


@pytest.mark.path
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_gradients_of_single_channels(engine: Engine, dtype: type) -> None:
    """Groups of one channel, whose rows have the parts of the gradients of the parameters."""
    shape = (3, 5, 7, 9)
    x, dy = (RNG.standard_normal((2, *shape)) - 2).astype(dtype)
    w, b = RNG.standard_normal((2, 10)).astype(dtype)[:, ::2]
    split = (3, 5, 1, 7, 9)
    wide = [p.astype(np.float64).reshape(1, 5, 1, 1, 1) for p in (w, b)]
    for weight in (w, None):
        want = Reference(x.reshape(split), (2, 3, 4), wide[0] if weight is w else 1.0, wide[1])
        _, mean, rstd = pg.nn.native_group_norm(x, 5, weight, None, engine=engine)
        got = pg.nn.group_norm_backward(
            dy, x, 5, mean, rstd, weight, b if weight is w else None, engine=engine
        )
        if weight is w:
            check_gradients(want, dy.reshape(split), (got[0].reshape(split), *got[1:]), (1, 2))
        else:
            dx, *_, size = want.gradients(dy.reshape(split), (1, 2))
            lost = 1 + (np.abs(want.x).max() + 1) * want.rstd
            close(got[0].reshape(split), dx, (want.count + 40) * size * lost)


@pytest.mark.parametrize("axes", [(0, 2, 3), (0, 1, 2, 3), (2, 3)])
def test_gradients_that_repeat_elements(engine: Engine, axes: tuple[int, ...]) -> None:
    """The gradient of a mean has one value for each channel, image, or for all."""
    x = RNG.standard_normal((4, 32, 32, 32)).astype(np.float32).transpose(0, 3, 1, 2)
    one = RNG.standard_normal([1 if k in axes else n for k, n in enumerate(x.shape)])
    dy = np.broadcast_to(one.astype(np.float32), x.shape)
    weight = RNG.standard_normal(32).astype(np.float32)
    wide = x.astype(np.float64)
    mean, variance = wide.mean((0, 2, 3), keepdims=True), wide.var((0, 2, 3), keepdims=True)
    rstd = 1 / np.sqrt(variance + 1e-5)
    statistics = [each.reshape(32).astype(np.float32) for each in (mean, rstd)]
    dx, dw, db = pg.nn.batch_norm_backward(
        dy, x, weight, None, None, *statistics, True, 1e-5, weight, engine=engine
    )
    normal = (wide - mean) * rstd
    terms, count = [dy * each for each in (normal, np.ones(x.shape))], x.size // 32
    sums = [each.sum((0, 2, 3)) for each in terms]
    bounds = [count * np.abs(each).sum((0, 2, 3)) for each in terms]  # n eps sum(|terms|)
    for got, want, bound in zip((dw, db), sums, bounds, strict=True):
        close(got, want, bound)
    slopes = [each.reshape(1, 32, 1, 1) / count for each in (*sums, *bounds)]
    scale = weight.reshape(1, 32, 1, 1) * rstd
    size = 4 * (np.abs(dy) + slopes[3] + np.abs(normal) * slopes[2])
    close(dx, scale * (dy - slopes[1] - normal * slopes[0]), np.abs(scale) * size)


@pytest.mark.path
@pytest.mark.parametrize(
    ("shape", "channels_last"),
    [
        ((5, 32, 400), True),
        ((1, 32, 9000), True),
        ((2, 2, 70_001), False),
        ((1, 1, 200_000), False),  # groups share a row
    ],
)
@pytest.mark.parametrize("place", [0, 700])
def test_means_of_infinities(
    engine: Engine, shape: tuple[int, ...], channels_last: bool, place: int
) -> None:
    """Means are those of a sum, also where parts of a row, or of a channel, are merged."""
    for special in ([np.inf], [-np.inf, -np.inf], [np.inf, -np.inf], [np.inf, np.nan]):
        x = RNG.standard_normal(shape).astype(np.float32)
        for k, value in enumerate(special):
            x[-k % shape[0], 0, (place + 311 * k) % shape[2]] = value
        if channels_last:
            x = np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1)
        with np.errstate(invalid="ignore"):
            of_batch, of_images = (x.astype(np.float64).mean(axes) for axes in ((0, 2), 2))
        running = np.zeros(shape[1], np.float32), np.ones(shape[1], np.float32)
        _, mean, rstd = pg.nn.native_batch_norm(
            x, None, None, *running, True, 1.0, EPS, engine=engine
        )
        for got in (mean, running[0]):
            np.testing.assert_allclose(got, of_batch, rtol=0, atol=1e-5)
        np.testing.assert_array_equal(np.isnan(rstd), ~np.isfinite(of_batch))
        if channels_last:
            mean = pg.nn.native_group_norm(x, shape[1], engine=engine)[1]
            np.testing.assert_allclose(mean, of_images, rtol=0, atol=1e-5)


def test_large_means_and_long_rows(engine: Engine) -> None:
    """A variance of 1 about a mean of 10,000; few long rows; the same bits; the device's arrays."""
    x = (RNG.standard_normal((2, 3, 70_001)) + 1e4).astype(np.float32)
    want = Reference(x, (0, 2), 1.0, 0.0)
    y, mean, rstd = pg.nn.native_batch_norm(x, None, None, None, None, True, 0.1, EPS)
    np.testing.assert_allclose(rstd, want.rstd.ravel(), rtol=1e-3)
    np.testing.assert_allclose(mean, want.mean.ravel(), rtol=1e-6)
    on_device = cla.to_device(engine.queue, x)
    repeated = pg.nn.native_batch_norm(on_device, None, None, None, None, True, 0.1, EPS)
    np.testing.assert_array_equal(pg.asnumpy(repeated[0]), y)
    running = [cla.to_device(engine.queue, np.ones(3, np.float32)) for _ in range(2)]
    pg.nn.batch_norm(on_device, *running, training=True, momentum=0.5)
    plans = len(engine._plans)
    pg.nn.batch_norm(on_device, *running, training=True, momentum=0.25)
    assert len(engine._plans) == plans  # momentum is an argument of kernels
    np.testing.assert_allclose(pg.asnumpy(running[0]), 0.375 + 0.625 * mean, rtol=1e-5)
    with pytest.raises(ArgumentError, match="momentum is NaN"):
        pg.nn.batch_norm(on_device, *running, training=True, momentum=float("nan"))
    empty = np.zeros((0, 4), np.float32)
    y, mean, rstd = pg.nn.native_layer_norm(empty, 4, engine=engine)
    grads = pg.nn.layer_norm_backward(
        empty, empty, 4, mean, rstd, np.ones(4, np.float32), True, engine=engine
    )
    np.testing.assert_array_equal(grads[1], np.zeros(4))
    np.testing.assert_array_equal(grads[2], np.zeros(4))
    assert y.shape == grads[0].shape == (0, 4)
    z = pg.nn.instance_norm(x, engine=engine)
    np.testing.assert_allclose(z.mean(axis=2), 0, atol=2e-2)


def test_wrong_arguments(engine: Engine) -> None:
    x, five = np.ones((3, 4), np.float32), np.ones(5, np.float32)
    on: dict[str, Any] = {"engine": engine}
    for call, error, words in (
        (lambda: pg.nn.layer_norm(x, 3, **on), ShapeError, "normalized_shape is 3, and the input"),
        (lambda: pg.nn.layer_norm(x, (4,), five, **on), ShapeError, "weight has shape"),
        (lambda: pg.nn.layer_norm(x, 4, five[:4].astype(float), **on), DTypeError, "weight is"),
        (lambda: pg.nn.layer_norm(x, 4, eps=np.nan, **on), ArgumentError, "eps is NaN"),
        (lambda: pg.nn.group_norm(x, 3, **on), ArgumentError, "num_groups is 3, which does not"),
        (lambda: pg.nn.batch_norm(x, None, five[:4], **on), ArgumentError, "running_mean is None"),
        (lambda: pg.nn.batch_norm(x[:1], None, None, training=True), ArgumentError, "at least"),
        (lambda: pg.nn.batch_norm(x, None, None, training=True, eps=0), ArgumentError, "eps is 0"),
        (lambda: pg.nn.batch_norm(x, five[:4], five[:4], eps=-1), ArgumentError, "eps is -1"),
        (
            lambda: pg.nn.native_batch_norm(x, None, None, None, None, True, 0.1, -1e-5),
            ArgumentError, "eps is -1e-05",
        ),
        (
            lambda: pg.nn.layer_norm_backward(x, x, 4, five, five, **on),
            ShapeError, "mean has shape",
        ),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            call()


def test_flags_of_programs() -> None:
    """A program has the flags that it knows; gradients of weights are of weights of rows."""
    assert program("norm", frozenset({"rms", "w"})).element_names == ("x", "w", "y")
    for name, flags in (("norm", {"weight"}), ("total", {"w"}), ("norm_backward", {"w", "dw"})):
        with pytest.raises(AssertionError):
            program(name, frozenset(flags))
    fixed = program("norm_backward", frozenset({"fixed", "row_w"}))
    assert fixed.operands == ("dy", "rstd", "row_w", "dx")
    assert not fixed.phases
