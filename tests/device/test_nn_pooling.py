"""Pooling against loops over windows in float64, and gradients against the adjoint identity."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from layers.pooling import Windows, adaptive_windows
from sampling import computes

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.dtypes import bfloat16
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    PortableGPUError,
    ShapeError,
)
from portable_gpu.runtime.engine import Engine

BFLOAT16 = bfloat16()

Values = np.ndarray[Any, Any]
EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def host(x: Any) -> Values:
    return x if isinstance(x, np.ndarray) else np.asarray(x.get())


def function(name: str, axes: int, *more: str) -> Any:
    return getattr(nn, "_".join((f"{name}{axes}d", *more)))


def laid(x: Values, turn: int, engine: Engine) -> Any:
    """Return the values in one of several layouts."""
    if turn % 4 == 1:
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    if turn % 4 == 2:
        return pg.asarray(x, engine=engine)
    if turn % 4 == 3:
        return np.repeat(x, 2, axis=1)[:, ::2]
    return x


@pytest.mark.path
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_largest_elements(engine: Engine, axes: int) -> None:
    random = np.random.default_rng(axes)
    for turn in range(12):
        w = Windows(random, axes, dilated=True)
        x = random.integers(-9, 9, (2, 3, *w.extents)).astype(np.float32)
        if turn % 3 == 0:
            x.flat[random.integers(0, x.size, 3)] = np.nan
        expected = np.full((2, 3, *w.shape()), -np.inf, np.float32)
        chosen = np.full(expected.shape, -1, np.int64)
        for index, places, _ in w.all():
            for place in places:
                value = x[(..., *place)]
                at = (..., *index)
                more = (value > expected[at]) | np.isnan(value)
                flat = np.ravel_multi_index(place, w.extents)
                expected[at] = np.where(more, value, expected[at])
                chosen[at] = np.where(more, flat, chosen[at])
        passed = laid(x, turn, engine)
        pool = function("max_pool", axes)
        values, indices = pool(passed, **w.options, return_indices=True, engine=engine)
        np.testing.assert_array_equal(host(values), expected, f"{turn} {w.options}")
        np.testing.assert_array_equal(host(indices), chosen, f"{turn} {w.options}")
        alone = pool(passed, **w.options, engine=engine)
        np.testing.assert_array_equal(host(alone), expected)
        assert turn % 4 != 1 or min(alone.shape) < 2 or alone.strides[1] == x.itemsize
        g = random.standard_normal(expected.shape).astype(np.float32)
        back = function("max_pool", axes, "backward")
        grads = [back(g, chosen, shape, **w.options, engine=engine) for shape in (x, list(x.shape))]
        reference = np.zeros(x.shape)
        flat = reference.reshape(2, 3, -1)
        for b, c in product(range(2), range(3)):
            is_chosen = chosen[b, c] >= 0
            np.add.at(flat[b, c], chosen[b, c][is_chosen], g[b, c][is_chosen].astype(float))
        bound = 2.0**-23 * len(chosen.flat) * np.abs(g).max()
        np.testing.assert_allclose(grads[0], reference, 0, bound)
        assert grads[0].tobytes() == grads[1].tobytes()


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16])
def test_gradients_of_maxima_are_rounded_once(engine: Engine, dtype: Any) -> None:
    """Neighbouring windows choose one place, and sums are float32 until they are complete."""
    if dtype is None:
        pytest.skip("bfloat16 needs ml_dtypes")
    random = np.random.default_rng(6)
    x = random.standard_normal((2, 70, 11, 9)).astype(dtype)
    options = {"kernel_size": 4, "stride": 1, "padding": 1}
    y, indices = nn.max_pool2d(x, **options, return_indices=True, engine=engine)
    g = random.standard_normal(y.shape).astype(dtype)
    sums, magnitudes = np.zeros((2, 2, 70, 99))
    for place in np.ndindex(2, 70):
        added = g[place].astype(float).ravel()
        np.add.at(sums[place], indices[place].ravel(), added)
        np.add.at(magnitudes[place], indices[place].ravel(), abs(added))
    half = 2.0 ** (-8 if dtype == BFLOAT16 else -11)  # of the distance of neighbours, relative
    bound = half * abs(sums) + 16 * 2.0**-24 * magnitudes + 2.0**-25
    for laid_out in (g, np.ascontiguousarray(g.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)):
        back = nn.max_pool2d_backward(laid_out, indices, x, **options, engine=engine)
        assert (abs(back.astype(float).reshape(sums.shape) - sums) <= bound).all()


@pytest.mark.path
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_means(engine: Engine, axes: int) -> None:
    random = np.random.default_rng(10 + axes)
    dtypes = [np.dtype(np.float32)] * 9 + [np.dtype(np.float16)]
    dtypes += [BFLOAT16] if BFLOAT16 is not None else []
    dtypes += [np.dtype(np.float64)] if computes(engine, np.float64) else []
    for turn, dtype in enumerate(dtypes if axes == 2 else dtypes[:6]):
        w = Windows(random, axes, dilated=turn % 2 == 0)
        include = bool(turn % 2)
        divisor = 5 if turn % 5 == 4 else None
        x = random.standard_normal((2, 3, *w.extents)).astype(np.float32).astype(dtype)
        wide = x.astype(np.float64)
        expected, magnitude = np.zeros((2, 2, 3, *w.shape()))
        for index, places, padded in w.all():
            count = divisor or (padded if include else len(places))
            for place in places:
                expected[(..., *index)] += wide[(..., *place)] / count
                magnitude[(..., *index)] += np.abs(wide[(..., *place)]) / count
        options = w.options | {"count_include_pad": include, "divisor_override": divisor}
        actual = function("avg_pool", axes)(laid(x, turn, engine), **options, engine=engine)
        assert actual.dtype == dtype
        taps = int(np.prod(w.kernel))
        unit = EPS["float64" if dtype == np.float64 else "float32"]
        bound = (taps + 5) * unit * magnitude + EPS[dtype.name] * np.abs(expected)
        error = np.abs(host(actual).astype(np.float64) - expected)
        assert (error <= bound).all(), (turn, options, (error - bound).max())
        g = random.standard_normal(expected.shape).astype(np.float32).astype(dtype)
        back = function("avg_pool", axes, "backward")(g, x, **options, engine=engine)
        assert back.shape == x.shape
        forward = (g.astype(float) * expected).sum()
        backward = (back.astype(float) * wide).sum()
        size = (np.abs(g.astype(float)) * magnitude).sum()
        assert abs(forward - backward) <= (40 * unit + EPS[dtype.name]) * size


def test_adaptive_windows(engine: Engine) -> None:
    random = np.random.default_rng(3)
    for turn, sizes in enumerate([(3, 5), (1, 4), (7, 11), (1, 1), (2, None)]):
        x = random.standard_normal((2, 3, 7, 11)).astype(np.float32)
        rows, columns = (m or n for n, m in zip(x.shape[2:], sizes, strict=True))
        expected, largest = np.zeros((2, 2, 3, rows, columns))
        for (i, r), (j, c) in product(
            enumerate(adaptive_windows(7, rows)), enumerate(adaptive_windows(11, columns))
        ):
            window = x[:, :, r.start : r.stop, c.start : c.stop].astype(float)
            expected[:, :, i, j] = window.mean((2, 3))
            largest[:, :, i, j] = window.max((2, 3))
        passed = laid(x, turn, engine)
        actual = nn.adaptive_avg_pool2d(passed, sizes, engine=engine)
        np.testing.assert_allclose(host(actual), expected, 0, 1e-5)
        np.testing.assert_array_equal(
            host(nn.adaptive_max_pool2d(passed, sizes, engine=engine)), largest
        )
        values, indices = nn.adaptive_max_pool2d(passed, sizes, return_indices=True, engine=engine)
        flat = np.take_along_axis(x.reshape(2, 3, -1), host(indices).reshape(2, 3, -1), 2)
        np.testing.assert_array_equal(host(values), largest)
        np.testing.assert_array_equal(flat.reshape(largest.shape), largest)
        g = random.standard_normal(expected.shape).astype(np.float32)
        back = nn.adaptive_avg_pool2d_backward(g, x, engine=engine)
        assert abs((back * x).sum() - (g * expected).sum()) < 1e-4
        back = nn.adaptive_max_pool2d_backward(g, host(indices), x.shape, engine=engine)
        assert abs((back * x).sum() - (g * largest).sum()) < 1e-4
    x = random.standard_normal((4, 9)).astype(np.float32)
    three = nn.adaptive_avg_pool1d(x, 3, engine=engine)
    np.testing.assert_allclose(three, x.reshape(4, 3, 3).mean(2), 0, 1e-6)
    assert nn.adaptive_max_pool3d(np.ones((2, 1, 4, 4, 4), "f4"), 2, engine=engine).shape == (
        (2, 1, 2, 2, 2)
    )


@pytest.mark.path
@pytest.mark.parametrize("axes", [1, 2])
def test_roots_of_sums_of_squares(engine: Engine, axes: int) -> None:
    """All layouts; squares of float16 above 256 are no float16, and are not rounded."""
    random = np.random.default_rng(20 + axes)
    for turn, dtype in enumerate([np.float32] * 4 + [np.float16] * 2):
        w = Windows(random, axes, dilated=turn > 2, most=14)
        x = (300 * random.standard_normal((2, 8, *w.extents))).astype(dtype)
        expected, terms = np.zeros((2, 8, *w.shape())), 0
        for index, places, _ in w.all():
            expected[(..., *index)] = sum(x[(..., *at)].astype(float) ** 2 for at in places)
            terms = max(terms, len(places))
        expected = np.sqrt(expected)
        got = function("lp_pool", axes)(laid(x, turn, engine), 2, **w.options, engine=engine)
        # Half of the relative error of a sum of positive terms, then the root, then the rounding.
        bound = 2.0**-24 * (terms + 8) + (2.0**-11 if dtype == np.float16 else 0)
        error = np.abs(host(got).astype(float) - expected)
        assert (error <= bound * expected).all(), (turn, w.options)


def test_norms(engine: Engine) -> None:
    random = np.random.default_rng(5)
    x = random.standard_normal((2, 3, 9, 8))
    x[:, :, :2, :2] = 0
    for p, options in ((2, {"stride": 2}), (3.5, {"ceil_mode": True}), (1, {}), (3, {})):
        kernel = (3, 2)
        single = x.astype(np.float32)
        sums = nn.avg_pool2d(
            np.abs(single.astype(np.float32)) ** p, kernel, divisor_override=1, engine=engine,
            **options,
        )  # fmt: skip
        expected = sums.astype(float) ** (1 / p)
        actual = nn.lp_pool2d(single, p, kernel, engine=engine, **options)
        np.testing.assert_allclose(actual, expected, 1e-5)
        g = random.standard_normal(actual.shape).astype(np.float32)
        back = nn.lp_pool2d_backward(g, single, actual, p, kernel, engine=engine, **options)
        assert np.isfinite(back).all()
        # Norms are homogeneous: <g, y> = <back, x>.
        assert abs((g * expected).sum() - (back * single).sum()) < 1e-3
    for scale in (1e10, 1e-10):  # powers are products, and logarithms of their sums are large
        single = (x * scale).astype(np.float32)
        sums = nn.avg_pool2d(np.abs(single.astype(float)) ** 3, (3, 2), divisor_override=1)
        actual = nn.lp_pool2d(single, 3, (3, 2), engine=engine)
        # Two roundings of a power and five of a sum, a third each; two of the root.
        np.testing.assert_allclose(actual, np.cbrt(sums), 5 * 2.0**-24)
    infinite = np.array([[np.inf, 1, 0, 0]], "f4")
    np.testing.assert_array_equal(nn.lp_pool1d(infinite, 3, 2, engine=engine), [[np.inf, 0]])
    if BFLOAT16 is not None:  # its 1 / 2.5 would be 0.3 % off, and the norm 2.6 %
        large = np.full((1, 4), 1e12, BFLOAT16)
        norms = nn.lp_pool1d(large, 2.5, 1, engine=engine).astype(float)
        assert norms.shape == (1, 4)
        assert abs(norms / large.astype(float) - 1).max() <= 2.0**-7
    assert nn.lp_pool1d(np.ones((1, 4), "f4"), 2, 2, engine=engine).shape == (1, 2)
    assert nn.lp_pool3d(np.ones((1, 4, 4, 4), "f4"), 2, 2, engine=engine).shape == (1, 2, 2, 2)


@pytest.mark.parametrize("p", [1, 2, 3, 2.5, 8])
def test_norms_of_16_bits_have_powers_of_32(engine: Engine, p: float) -> None:
    """Powers and quotients leave float16's range, and their sums have no roundings to 16 bits."""
    for dtype in (np.float16, BFLOAT16):
        for size in (3e-5, 0.4, 50.0):  # 50^3 is above float16's largest number, 1 / 3e-5 is near
            if dtype is None or size**p < 1e-36:
                continue
            x = (size * np.random.default_rng(3).uniform(0.5, 1, (1, 6, 64))).astype(dtype)
            wide = x.astype(float).reshape(1, 6, 16, 4)
            y = (wide**p).sum(-1) ** (1 / p)
            smallest, unit = (2.0**-24, 2.0**-11) if dtype == np.float16 else (0.0, 2.0**-8)
            got = nn.lp_pool1d(x, p, 4, engine=engine)
            error = np.abs(got.astype(float) - y)
            assert (error <= 1.01 * unit * y + smallest).all(), (dtype, size)
            stored = got.astype(float)[..., None]
            exact = 2 * (wide / stored) ** (p - 1)
            g = np.full(got.shape, 2, dtype)
            gradient = nn.lp_pool1d_backward(g, x, got, p, 4, engine=engine)
            error = np.abs(gradient.astype(float).reshape(exact.shape) - exact)
            assert (error <= 1.01 * unit * exact + smallest).all(), (dtype, size)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16])
def test_channels_side_by_side(engine: Engine, dtype: Any) -> None:
    """Channels-last images, with more channels than blocks, against other kernels in float64."""
    random = np.random.default_rng(3)
    x = random.integers(-9, 9, (2, 6, 7, 141)).astype(dtype).transpose(0, 3, 1, 2)
    x[1, ::3, 2:4, 5] = np.nan
    dy = random.integers(-9, 9, (2, 3, 4, 141)).astype(dtype).transpose(0, 3, 1, 2)

    def indices(x: Any) -> Any:
        return nn.max_pool2d(x, 3, 2, 1, return_indices=True, engine=engine)[1]

    calls = {
        "mean": lambda x, dy: nn.avg_pool2d(x, 3, 2, 1, engine=engine),
        "mean's gradient": lambda x, dy: nn.avg_pool2d_backward(
            dy, x.shape, 3, 2, 1, engine=engine
        ),
        "root": lambda x, dy: nn.lp_pool2d(x, 2.0, 2, engine=engine),
        "cubes": lambda x, dy: nn.lp_pool2d(x, 3.0, 2, engine=engine),
        "largest": lambda x, dy: nn.max_pool2d(x, 3, 2, 1, engine=engine),
        "indices": lambda x, dy: indices(x),
        "largest's gradient": lambda x, dy: nn.max_pool2d_backward(
            dy, indices(x), x.shape, 3, 2, 1, engine=engine
        ),
        "unpooled": lambda x, dy: nn.max_unpool2d(
            dy, indices(x), 3, 2, 1, output_size=(6, 7), engine=engine
        ),
        "bilinear": lambda x, dy: nn.interpolate(
            x, scale_factor=2, mode="bilinear", engine=engine
        ),
        "nearest": lambda x, dy: nn.interpolate(x, scale_factor=2, engine=engine),
        "padded": lambda x, dy: nn.pad(x, (1, 2, 0, 1), value=3.0, engine=engine),
    }  # fmt: skip
    for name, call in calls.items():
        expected = call(*(np.ascontiguousarray(a).astype(np.float64) for a in (x, dy)))
        for part in (slice(None), slice(3, 140), slice(0, 141, 2), slice(7, 28), slice(5)):
            got = call(x[:, part], dy[:, part])
            np.testing.assert_allclose(
                got.astype(np.float64), expected[:, part], err_msg=name,
                rtol=8 * EPS[np.dtype(dtype).name], atol=1e-5,
            )  # fmt: skip


@pytest.mark.tiny
def test_integers_and_empty_batches(engine: Engine) -> None:
    x = np.array([[[3, -7, 5, 120]]], np.int8)
    np.testing.assert_array_equal(nn.max_pool1d(x, 2, engine=engine), [[[3, 120]]])
    assert nn.max_pool2d(np.zeros((0, 3, 8, 8), "f4"), 2, engine=engine).shape == (0, 3, 4, 4)
    assert nn.avg_pool2d(np.zeros((2, 0, 8, 8), "f4"), 2, engine=engine).shape == (2, 0, 4, 4)
    infinite = np.array([[np.inf, 1, 2, 3]], np.float32)
    np.testing.assert_array_equal(
        nn.avg_pool1d(infinite, 2, 1, engine=engine), [[np.inf, 1.5, 2.5]]
    )
    out = np.empty((1, 2), np.float32), np.empty((1, 2), np.int64)
    result = nn.max_pool1d(infinite, 2, return_indices=True, out=out, engine=engine)
    assert result[0] is out[0]
    assert result[1] is out[1]
    np.testing.assert_array_equal(out[1], [[0, 3]])


IMAGE = np.zeros((1, 2, 5, 6), np.float32)
INDICES = np.zeros((1, 2, 2, 3), np.int64)


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (ShapeError, "4 axes, or 3", lambda: nn.max_pool2d(IMAGE[0, 0], 2)),
        (ShapeError, "windows of 7", lambda: nn.max_pool2d(IMAGE, 7)),
        (ShapeError, "windows of 6", lambda: nn.avg_pool2d(IMAGE, (6, 2))),
        (ArgumentError, "kernel_size is 0", lambda: nn.max_pool2d(IMAGE, 0)),
        (ArgumentError, "stride is -1", lambda: nn.avg_pool2d(IMAGE, 2, -1)),
        (ArgumentError, "padding is 2 for windows of 2 places; expected integers from 0 to 1",
         lambda: nn.max_pool2d(IMAGE, 2, padding=2)),
        (ArgumentError, "expected an integer, or 2", lambda: nn.max_pool2d(IMAGE, (2, 2, 2))),
        (ArgumentError, "2 pairs", lambda: nn.max_pool2d(IMAGE, 2, padding=[(1, 0)])),
        (ArgumentTypeError, "kernel_size is 2.5", lambda: nn.avg_pool2d(IMAGE, 2.5)),
        (ArgumentTypeError, "ceil_mode", lambda: nn.avg_pool2d(IMAGE, 2, ceil_mode="yes")),
        (ArgumentError, "divisor_override is 0",
         lambda: nn.avg_pool2d(IMAGE, 2, divisor_override=0)),
        (DTypeError, "int32", lambda: nn.avg_pool2d(IMAGE.astype("i4"), 2)),
        (DTypeError, "complex64", lambda: nn.max_pool2d(IMAGE.astype("c8"), 2)),
        (ShapeError, "result of the forward call has",
         lambda: nn.avg_pool2d_backward(IMAGE, IMAGE, 2)),
        (ShapeError, "indices has shape",
         lambda: nn.max_pool2d_backward(IMAGE[:, :, :2, :3], INDICES[0], IMAGE, 2)),
        (DTypeError, "indices is int32",
         lambda: nn.max_pool2d_backward(IMAGE[:, :, :2, :3], INDICES.astype("i4"), IMAGE, 2)),
        (ArgumentError, "output_size is 0", lambda: nn.adaptive_avg_pool2d(IMAGE, 0)),
        (ArgumentError, "norm_type is -1", lambda: nn.lp_pool2d(IMAGE, -1, 2)),
        (ShapeError, "must not be empty",
         lambda: nn.adaptive_max_pool2d(IMAGE[:, :, :0], 2)),
    ],
)  # fmt: skip
def test_bad_arguments(error: type[PortableGPUError], words: str, call: Any) -> None:
    with pytest.raises(error, match=words):
        call()


@pytest.mark.path
def test_long_rows(engine: Engine) -> None:
    """Rows of several blocks, in the middle of which neighbours read neighbours."""
    x = np.random.default_rng(8).standard_normal((2, 3, 300)).astype(np.float32)
    for stride, before, after in ((1, 1, 1), (2, 0, 2), (2, 2, 1), (3, 1, 0)):
        options = {"kernel_size": 3, "stride": stride, "padding": [(before, after)]}
        more = np.pad(x, ((0, 0), (0, 0), (before, after)), constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(more, 3, 2)[:, :, ::stride]
        actual = nn.max_pool1d(x, **options, engine=engine)
        np.testing.assert_array_equal(actual, windows.max(3))
        both = nn.max_pool1d(x, **options, return_indices=True, engine=engine)
        flat = np.arange(windows.shape[2]) * stride - before + windows.argmax(3)
        np.testing.assert_array_equal(both[1], flat)
        sums = np.where(np.isinf(windows), 0, windows).astype(float).sum(3)
        means = nn.avg_pool1d(x, **options, engine=engine)
        np.testing.assert_allclose(means, sums / 3, 0, 1e-6)
        back = nn.max_pool1d_backward(actual, both[1], x, **options, engine=engine)
        assert abs((back * x).sum() - (actual.astype(float) ** 2).sum()) < 1e-3
    for mode in ("constant", "reflect", "replicate", "circular"):
        name = {"constant": "constant", "replicate": "edge", "circular": "wrap"}.get(mode, mode)
        expected = np.pad(x, ((0, 0), (0, 0), (70, 3)), name)  # type: ignore[call-overload]
        np.testing.assert_array_equal(nn.pad(x, (70, 3), mode, engine=engine), expected)


def test_sums_of_wide_images(engine: Engine) -> None:
    """Columns of which a CPU adds the rows first, and one more; parts of rows; a value of 1e38."""
    random = np.random.default_rng(12)
    for width in (1024, 1025):
        x = random.standard_normal((1, 1, 7, width)).astype(np.float32)
        x[0, 0, 3, 5] = 1e38
        windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (2, 3))
        terms = windows[:, :, ::2, ::2]
        got = nn.avg_pool2d(x, 3, 2, engine=engine)
        bound = 14 * 2.0**-23 * np.abs(terms).mean((4, 5))
        assert (np.abs(got - terms.mean((4, 5))) <= bound).all()
        dy = random.standard_normal(got.shape).astype(np.float32)
        dx = nn.avg_pool2d_backward(dy, x, 3, 2, engine=engine).astype(np.float64)
        exact, sizes = np.zeros(x.shape), np.zeros(x.shape)
        for down, along in np.ndindex(3, 3):
            place = np.s_[:, :, down : down + 5 : 2, along : along + 2 * dy.shape[3] - 1 : 2]
            exact[place] += dy.astype(np.float64) / 9
            sizes[place] += np.abs(dy.astype(np.float64)) / 9
        assert (np.abs(dx - exact) <= 9 * 2.0**-23 * sizes).all()


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_unpooling(engine: Engine, axes: int) -> None:
    random = np.random.default_rng(20 + axes)
    for turn, (kernel, stride, pad) in enumerate(((2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0))):
        extents = (7, 9, 8)[:axes]
        x = random.standard_normal((2, 3, *extents)).astype(np.float32)
        pool = {"kernel_size": kernel, "stride": stride, "padding": pad}
        values, indices = function("max_pool", axes)(x, **pool, return_indices=True, engine=engine)
        expected = np.zeros((2, 3, int(np.prod(extents))), np.float32)
        np.put_along_axis(expected, indices.reshape(2, 3, -1), values.reshape(2, 3, -1), 2)
        passed = laid(values, turn, engine)
        unpool = function("max_unpool", axes)
        actual = unpool(passed, indices, **pool, output_size=extents, engine=engine)
        np.testing.assert_array_equal(host(actual), expected.reshape(x.shape))
        g = random.standard_normal(x.shape).astype(np.float32)
        back = function("max_unpool", axes, "backward")(g, indices, **pool, engine=engine)
        picked = np.take_along_axis(g.reshape(2, 3, -1), indices.reshape(2, 3, -1), 2)
        np.testing.assert_array_equal(back, picked.reshape(values.shape))
    assert unpool(values, indices, 4, 4, engine=engine).shape[2:] == tuple(
        4 * n for n in values.shape[2:]
    )
    with pytest.raises(ArgumentError, match="output_size is"):
        unpool(values, indices, 2, 2, output_size=(99,) * axes, engine=engine)


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BFLOAT16])
def test_gradients_of_small_planes(engine: Engine, dtype: Any) -> None:
    """Their windows have one table; sources are NCHW, in planes with gaps, and in columns."""
    random = np.random.default_rng(5)
    options = {"kernel_size": 3, "stride": 2, "padding": 1}
    g = random.standard_normal((2, 5, 4, 4)).astype(dtype)
    which = random.integers(-1, 50, g.shape)
    expected, added = np.zeros((2, 2, 5, 49))
    for b, c, i, j in np.ndindex(g.shape):
        at = which[b, c, i, j] = which[b, c, i, j] if (i + j) % 3 else 14 * i + 2 * j
        if at >= 0 and abs(at // 7 - 2 * i) <= 1 and abs(at % 7 - 2 * j) <= 1:
            expected[b, c, at] += float(g[b, c, i, j])
            added[b, c, at] += abs(float(g[b, c, i, j]))
    bound = 6 * EPS[dtype.name] * added
    apart = np.zeros((2, 5, 4, 5), dtype)
    apart[..., :4] = g
    for source in (
        g,
        apart[..., :4],
        np.asfortranarray(g.transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2),
    ):
        back = nn.max_pool2d_backward(source, which, (2, 5, 7, 7), **options, engine=engine)
        assert (np.abs(host(back).astype(float).reshape(expected.shape) - expected) <= bound).all()
    one = random.standard_normal((2, 5, 1, 1)).astype(dtype)
    back = nn.adaptive_avg_pool2d_backward(one, (2, 5, 7, 9), engine=engine)
    error = np.abs(host(back).astype(float) - one.astype(float) / 63)
    assert (error <= 6 * EPS[dtype.name] * np.abs(one.astype(float))).all()


def test_gradients_of_one_row_with_gaps(engine: Engine) -> None:
    """The axis of one row between two others has the stride that a plane without gaps has."""
    random = np.random.default_rng(6)
    memory = random.integers(1, 9, (1, 5, 2, 1, 9)).astype(np.float32)
    options = {"kernel_size": (3, 1, 2), "stride": (1, 2, 1), "padding": (0, 0, 1)}
    x = random.standard_normal((1, 5, 4, 1, 3)).astype(np.float32)
    _, which = nn.max_pool3d(x, return_indices=True, **options, engine=engine)
    g, expected = memory[..., :4], np.zeros((5, 12), np.float32)
    for c, each, places in zip(range(5), g[0], which[0], strict=True):
        np.add.at(expected[c], places.ravel(), each.ravel())
    back = nn.max_pool3d_backward(g, which, x.shape, **options, engine=engine)
    assert np.array_equal(host(back).reshape(5, 12), expected)  # sums of small integers


@pytest.mark.path
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_indices_outside_of_windows(engine: Engine, axes: int) -> None:
    """Sources whose index is not in their window are left out, in every layout of the result."""
    random = np.random.default_rng(30 + axes)
    for turn in range(5):
        w = Windows(random, axes, dilated=True)
        plane = int(np.prod(w.extents))
        g = random.standard_normal((2, 3, *w.shape())).astype(np.float32)
        which = random.integers(-2, plane + 2, g.shape)
        expected = np.zeros((2, 3, plane))
        for index, places, _ in w.all():
            flats = [np.ravel_multi_index(place, w.extents) for place in places]
            for b, c in product(range(2), range(3)):
                if turn % 2:  # most of them are inside
                    which[(b, c, *index)] = random.choice([*flats, plane])
                to = which[(b, c, *index)]
                expected[b, c, to if to in flats else 0] += g[(b, c, *index)] * (to in flats)
        shape = (2, 3, *w.extents)
        out = np.full(shape, np.nan, np.float32, order="F" if turn == 4 else "C")
        back = function("max_pool", axes, "backward")
        laid_out = back(laid(g, turn, engine), which, shape, **w.options, engine=engine)
        back(g, which, shape, **w.options, out=out, engine=engine)
        bound = 2.0**-23 * g.size * np.abs(g).max()
        np.testing.assert_allclose(host(laid_out), expected.reshape(shape), 0, bound)
        np.testing.assert_array_equal(out, host(laid_out))
        if turn:
            continue
        half = back(g.astype(np.float16), which, shape, **w.options, engine=engine)
        np.testing.assert_allclose(half, expected.reshape(shape), 2e-3, 2e-3 * np.abs(g).max())
    values = np.arange(1.0, 13).reshape(1, 3, 4).astype(np.float32)
    which = np.array([[[0, 0, 0, 7]] * 3])  # windows of two places: 0-1, 1-2, 2-3, 3-4
    actual = nn.max_unpool1d(values, which, 2, 1, output_size=(5,), engine=engine)
    np.testing.assert_array_equal(actual[0], [[v, 0, 0, 0, 0] for v in (1, 5, 9)])
    actual = nn.max_unpool1d(values, which % 7 + 1, 2, 1, output_size=(5,), engine=engine)
    np.testing.assert_array_equal(actual[0], [[0, v, 0, 0, 0] for v in (2, 6, 10)])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_windows_of_lowest_values_have_an_index(engine: Engine, dtype: type) -> None:
    """It is the index of the first element of the window, as in torch."""
    x = np.full((1, 2, 4, 6), 0 if dtype is np.uint8 else -np.inf, dtype)
    got, indices = nn.max_pool2d(x, 2, return_indices=True, engine=engine)
    np.testing.assert_array_equal(got, x[..., ::2, ::2])
    expected = np.arange(24).reshape(4, 6)[::2, ::2]
    np.testing.assert_array_equal(indices, np.broadcast_to(expected, got.shape))
