"""Convolutions and their gradients against sums of NumPy in float64, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from device_arrays import from_device, on_device
from layers.convolution import Kind, by_channels, forward, gradients
from reference import assert_within, unit_roundoff
from sampling import FEW, needs

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.dtypes import bfloat16
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    OverlapError,
    PortableGPUError,
    ShapeError,
)
from portable_gpu.runtime.engine import Engine

BFLOAT16 = bfloat16()

KINDS = {
    "1d": Kind((3,), (1,), (2,), [(2, 1)]),
    "1d, long": Kind((13,), (3,), (1,), [(6, 5)]),
    "2d": Kind((3, 3), (1, 1), (1, 1), [(1, 1), (1, 1)]),
    "2d, stride": Kind((2, 3), (2, 2), (1, 2), [(0, 2), (1, 0)]),
    "2d, points": Kind((1, 1), (1, 1), (1, 1), [(0, 0), (0, 0)]),
    "3d": Kind((2, 3, 3), (1, 2, 1), (1, 1, 1), [(1, 0), (1, 1), (0, 2)]),
}
#: Groups, and channels and filters of each; depthwise, grouped and whole.
CHANNELS = ((1, 3, 5), (20, 1, 1), (3, 2, 1), (2, 1, 3))


def sliced(a: Any) -> Any:
    """Return the same array as a view of every second element, backwards along the first axis."""
    whole = np.full((*a.shape[:-1], 2 * a.shape[-1]), np.nan, a.dtype)
    view = whole[::-1, ..., ::2]
    view[...] = a
    return view


LAYOUTS: tuple[Callable[[Any], Any], ...] = (np.ascontiguousarray, by_channels, sliced)
DTYPES = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16)]
DTYPES += [BFLOAT16] if BFLOAT16 is not None else []


def draw(rng: Any, kind: Kind, channels: tuple[int, int, int], batch: int, dtype: Any) -> Any:
    """Random x, w and bias; extents from the smallest that the kernel fits on."""
    groups, of_group, filters = channels
    max_extent = 40 if len(kind.kernel) < 3 else 9
    min_extents = [
        max(1, d * (k - 1) + 1 - sum(pad))
        for k, d, pad in zip(kind.kernel, kind.dilation, kind.pads, strict=True)
    ]
    space = [int(rng.integers(n, n + max_extent)) for n in min_extents]
    shapes = (
        (batch, groups * of_group, *space), (groups * filters, of_group, *kind.kernel),
        (groups * filters,),
    )  # fmt: skip
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def check(got: Any, expected: Any, size: Any, terms: int, dtype: Any) -> None:
    """``|got - expected| <= (terms + 2) eps |terms|``, and a rounding to 16 bits."""
    sums = np.float32 if dtype.itemsize == 2 else dtype
    assert got.dtype == dtype
    assert_within(got, expected, (terms + 2) * 2 * unit_roundoff(sums) * size)


@pytest.mark.path
@pytest.mark.parametrize("name", KINDS)
def test_against_sums(engine: Engine, name: str) -> None:
    """All directions: layouts, groups, batches and dtypes in turns, and the adjoint identities."""
    kind, turn = KINDS[name], list(KINDS).index(name)
    rng = np.random.default_rng(turn)
    rank = len(kind.kernel)
    conv, transposed, by_input, by_weight, by_bias = (
        getattr(nn, text.format(rank))
        for text in ("conv{}d", "conv_transpose{}d", "conv{}d_input", "conv{}d_weight",
                     "conv{}d_bias")
    )  # fmt: skip
    for case, channels in enumerate(CHANNELS[: 2 if FEW else None]):
        dtype = DTYPES[0] if case != 2 else DTYPES[turn % len(DTYPES)]
        needs(engine, dtype)
        batch, layout = (turn + 3 * case) % 4, LAYOUTS[(turn + case) % 3]
        stored = LAYOUTS[(turn + case // 2) % 3]
        x, w, b = draw(rng, kind, channels, batch, dtype)
        options = {
            "stride": kind.stride, "padding": tuple(kind.pads), "dilation": kind.dilation,
            "groups": channels[0], "engine": engine,
            "algo": "auto" if layout is sliced or case == 1 else "im2col",
        }  # fmt: skip
        X, W, B = (a.astype(np.float64) for a in (x, w, b))
        B = B.reshape(-1, *[1] * rank)
        expected = forward(X, W, kind, channels[0])
        size = forward(abs(X), abs(W), kind, channels[0]) + abs(B)
        y = conv(layout(x), stored(w), b, **options)
        check(y, expected + B, size, w[0].size, dtype)
        dy = rng.standard_normal(y.shape).astype(dtype)
        DY = dy.astype(np.float64)
        dx, dw = gradients(X, W, DY, kind, channels[0])
        dx_size, dw_size = gradients(abs(X), abs(W), abs(DY), kind, channels[0])
        got_dx = by_input(x.shape, stored(w), layout(dy), **options)
        check(got_dx, dx, dx_size, w[:, 0].size // channels[0] * w[0, 0].size, dtype)
        got_dw = by_weight(layout(x), w.shape, layout(dy), **options)
        check(got_dw, dw, dw_size, dy[:, 0].size, dtype)
        np.testing.assert_array_equal(by_weight(layout(x), w.shape, layout(dy), **options), got_dw)
        if dtype == np.float32:  # <dy, J x> = <J^T dy, x>, within the bounds of both sides
            forth, slack = np.sum(DY * (y - B)), np.sum(abs(DY) * size)
            for back, of, bound in ((got_dx, X, dx_size), (got_dw, W, dw_size)):
                terms = (dy.size + w.size + 2) * 2 * unit_roundoff(dtype)
                allowed = terms * (np.sum(bound * abs(of)) + slack)
                assert abs(forth - np.sum(back.astype(np.float64) * of)) <= allowed
        spans = [
            (q - 1) * s - sum(p) + d * (k - 1) + 1
            for q, s, p, d, k in zip(
                dy.shape[2:], kind.stride, kind.pads, kind.dilation, kind.kernel, strict=True
            )
        ]
        extra = [n - least for n, least in zip(x.shape[2:], spans, strict=True)]
        bias = rng.standard_normal(x.shape[1]).astype(dtype)
        repeated = transposed(layout(dy), stored(w), bias, output_padding=extra, **options)
        shift = bias.astype(np.float64).reshape(-1, *[1] * rank)
        check(repeated, dx + shift, dx_size + abs(shift), w[:, 0].size, dtype)
        db = by_bias(layout(dy), engine=engine)
        over = (0, *range(2, rank + 2))
        check(db, DY.sum(over), abs(DY).sum(over), 16, dtype)


@pytest.mark.parametrize(("channels", "stride"), [(36, 1), (72, 2)])
def test_gpus_load_adjacent_channels(engine: Engine, channels: int, stride: int) -> None:
    """Depthwise, channels-last: a work-item has four channels in all directions."""
    gpu, rng = Engine(queue=engine.queue, device_class="gcn"), np.random.default_rng(channels)
    x, w = (
        rng.integers(-3, 4, s).astype(np.float16)
        for s in ((2, channels, 9, 6), (channels, 1, 3, 3))
    )
    kind = Kind((3, 3), (stride, stride), (1, 1), [(1, 1), (1, 1)])
    options = {"stride": stride, "padding": 1, "groups": channels, "algo": "direct", "engine": gpu}
    X, W = x.astype(np.float64), w.astype(np.float64)
    y = nn.conv2d(by_channels(x), w, **options)
    np.testing.assert_array_equal(y, forward(X, W, kind, channels))
    dy = rng.integers(-2, 3, y.shape).astype(np.float16)
    dx, dw = gradients(X, W, dy.astype(np.float64), kind, channels)
    np.testing.assert_array_equal(nn.conv2d_input(x.shape, w, by_channels(dy), **options), dx)
    got = nn.conv2d_weight(by_channels(x), w.shape, by_channels(dy), **options)
    np.testing.assert_array_equal(got, dw)


@pytest.mark.parametrize(
    ("channels", "extents", "kernel", "stride", "dtype"),
    [
        (17, (2, 7), (1, 3), (1, 1), np.float16),  # rows outside of the image, odd addresses
        (35, (33, 40), (3, 3), (2, 1), np.float32),  # lines of the next row are prefetched
        (33, (9, 13), (3, 5), (3, 2), np.float32),  # rows between which there are elements
        (16, (11, 9), (7, 5), (1, 3), np.float32),  # weights that are not kept
    ],
)
def test_cpus_load_adjacent_channels(
    engine: Engine, channels: int, extents: tuple[int, int], kernel: tuple[int, int],
    stride: tuple[int, int], dtype: Any,
) -> None:  # fmt: skip
    """Depthwise, channels-last: vectors are channels, forward and by the input."""
    rng, pads = np.random.default_rng(channels), tuple(k - 1 for k in kernel)
    x, w = (
        rng.integers(-3, 4, s).astype(dtype)
        for s in ((2, channels, *extents), (channels, 1, *kernel))
    )
    kind = Kind(kernel, stride, (1, 1), [(pad, pad) for pad in pads])
    X, W = x.astype(np.float64), w.astype(np.float64)
    options = {"stride": stride, "padding": pads, "groups": channels, "engine": engine}
    y = nn.conv2d(by_channels(x), w, algo="direct", **options)
    np.testing.assert_array_equal(y, forward(X, W, kind, channels))
    dy = rng.integers(-2, 3, y.shape).astype(dtype)
    dx, _ = gradients(X, W, dy.astype(np.float64), kind, channels)
    got = nn.conv2d_input(x.shape, w, by_channels(dy), algo="direct", **options)
    np.testing.assert_array_equal(got, dx)


@pytest.mark.parametrize("stride", [(1, 1), (2, 2)])
def test_windows_of_few_adjacent_channels(engine: Engine, stride: tuple[int, int]) -> None:
    """Taps of a row are adjacent in channels-last images; windows reach beyond all sides."""
    rng = np.random.default_rng(stride[0])
    kind = Kind((3, 5), stride, (1, 1), [(2, 1), (4, 3)])
    x = rng.integers(-3, 4, (3, 3, 8, 9)).astype(np.float32)
    w = rng.integers(-3, 4, (4, 3, 3, 5)).astype(np.float32)
    X, W = x.astype(np.float64), w.astype(np.float64)
    options = {"stride": stride, "padding": kind.pads, "algo": "im2col", "engine": engine}
    expected = forward(X, W, kind, 1)
    np.testing.assert_array_equal(nn.conv2d(by_channels(x), w, **options), expected)
    dy = rng.integers(-2, 3, expected.shape).astype(np.float32)
    _, dw = gradients(X, W, dy.astype(np.float64), kind, 1)
    size = {"workspace_limit": 4000, **options}  # several products add to zeros
    for limited in (options, size):
        got = nn.conv2d_weight(by_channels(x), w.shape, by_channels(dy), **limited)
        np.testing.assert_array_equal(got, dw)


@pytest.mark.tiny
def test_layouts_and_outputs(engine: Engine) -> None:
    """Device arrays, ``out=`` of any strides, arrays without batch, channels-last results."""
    kind, rng = KINDS["2d"], np.random.default_rng(5)
    x, w, b = draw(rng, kind, (2, 2, 3), 2, np.dtype(np.float32))
    options: dict[str, Any] = {"padding": "same", "groups": 2, "engine": engine}
    expected = nn.conv2d(x, w, b, **options)
    for layout in LAYOUTS:
        np.testing.assert_allclose(
            nn.conv2d(layout(x), w, b, **options), expected, rtol=1e-5, atol=1e-5
        )
    last = nn.conv2d(by_channels(x), w, b, **options)
    assert last.strides[1] == last.itemsize
    on = nn.conv2d(*(on_device(engine, a) for a in (x, w, b)), padding="same", groups=2)
    np.testing.assert_array_equal(from_device(on), expected)
    canvas = np.full((*expected.shape[:-1], 2 * expected.shape[-1] + 1), 7, np.float32)
    out = canvas[..., 1::2]
    assert nn.conv2d(x, w, b, out=out, **options) is out
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)  # other strides, other variant
    assert (canvas[..., ::2] == 7).all()
    options["algo"] = "im2col"  # two images may take another variant than one
    expected = nn.conv2d(x, w, b, **options)
    np.testing.assert_array_equal(nn.conv2d(x[0], w, b, **options), expected[0])
    dy = rng.standard_normal(expected.shape).astype(np.float32)
    single = nn.conv2d_input(x.shape[1:], w, dy[1], **options)
    np.testing.assert_array_equal(single, nn.conv2d_input(x.shape, w, dy, **options)[1])
    chunks = nn.conv2d(x, w, b, workspace_limit=4 * 9 * x[0].size, **options)
    np.testing.assert_allclose(chunks, expected, rtol=1e-5, atol=1e-5)
    size = {"workspace_limit": 4 * 9 * x[0].size + 4 * dy[0].size, **options}
    parts = nn.conv2d_weight(x, w.shape, dy, **size)
    whole = nn.conv2d_weight(x, w.shape, dy, **{**options, "algo": "direct"})
    np.testing.assert_allclose(parts, whole, rtol=1e-4, atol=1e-4)
    canvas = np.full((*w.shape, 2), np.nan, np.float32)  # products add to zeros, not to what it has
    np.testing.assert_array_equal(
        nn.conv2d_weight(x, w.shape, dy, out=canvas[..., 0], **size), parts
    )
    np.testing.assert_allclose(
        nn.conv2d_weight(by_channels(x), w.shape, dy, **size), whole, rtol=1e-4, atol=1e-4
    )
    few = {"workspace_limit": 3 * 4 * 9 * x[0, :, 0].size, **options}  # bands of three rows
    np.testing.assert_allclose(nn.conv2d(x, w, b, **few), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        nn.conv2d_input(x.shape, w, dy, **few), nn.conv2d_input(x.shape, w, dy, **options),
        rtol=1e-5, atol=1e-5,
    )  # fmt: skip
    np.testing.assert_allclose(nn.conv2d_weight(x, w.shape, dy, **few), whole, rtol=1e-4, atol=1e-4)
    mixed = nn.conv2d(x.astype(np.float16), w, b, **options)
    assert mixed.dtype == np.float32


def test_empty(engine: Engine) -> None:
    w = np.ones((4, 2, 3, 3), np.float32)
    x, dy = np.zeros((0, 2, 9, 9), np.float32), np.zeros((0, 4, 7, 7), np.float32)
    assert nn.conv2d(x, w, engine=engine).shape == (0, 4, 7, 7)
    assert nn.conv2d_input(x.shape, w, dy, engine=engine).shape == x.shape
    np.testing.assert_array_equal(nn.conv2d_weight(x, w.shape, dy, engine=engine), 0)
    flat = np.zeros((2, 2, 0, 9), np.float32)
    assert nn.conv2d(flat, w, engine=engine).shape == (2, 4, 0, 7)
    bias = np.arange(4, dtype=np.float32)
    only = nn.conv2d(flat, w, bias, padding=(2, 0), engine=engine)
    np.testing.assert_array_equal(only, np.broadcast_to(bias.reshape(-1, 1, 1), (2, 4, 2, 7)))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_empty_planes(engine: Engine, axes: int) -> None:
    """Each axis without elements in turn; zeros around it give the bias, and gradients are 0."""
    bias, kernel, options = np.arange(4, dtype=np.float32), (2, 3, 2)[:axes], {"engine": engine}
    w = np.ones((4, 2, *kernel), np.float32)
    expected = bias.reshape(-1, *(1,) * axes)
    for axis in range(axes):
        space = [0 if k == axis else 3 for k in range(axes)]
        x = pg.asarray(np.ones((2, 2, *space), np.float32), engine=engine)
        pads = {"padding": [kernel[k] - 1 if k == axis else 0 for k in range(axes)], **options}
        y = getattr(nn, f"conv{axes}d")(x, w, bias, **pads)
        assert y.size > 0
        assert (y.get() == expected).all()
        dw = getattr(nn, f"conv{axes}d_weight")(x, w.shape, y, **pads)
        assert not dw.get().any()
        assert getattr(nn, f"conv{axes}d_input")(x.shape, w, y, **pads).size == 0
        v = w.swapaxes(0, 1)
        z = getattr(nn, f"conv_transpose{axes}d")(x, v, bias, **options)
        assert (z.get() == expected).all()


def zeros(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


X, W, TWO = zeros(2, 4, 9, 9), zeros(6, 2, 3, 3), {"groups": 2}
SMALL = {"algo": "im2col", "workspace_limit": 99}
Refused = tuple[type[PortableGPUError], str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]
REFUSED: list[Refused] = [
    (ArgumentError, "groups is 4, .* the 6 filters", nn.conv2d, (X, W), {"groups": 4}),
    (ShapeError, "with 4 channels; .* groups 1 need 2", nn.conv2d, (X, W), {}),
    (ShapeError, r"\(9, 9\) are below .*\(11, 11\)", nn.conv2d, (X, W), TWO | {"dilation": 5}),
    (ShapeError, "weight has shape", nn.conv3d, (X, W), {}),
    (ShapeError, r"bias has shape \(5,\)", nn.conv2d, (X, W, zeros(5)), TWO),
    (ArgumentError, "stride is 0", nn.conv2d, (X, W), TWO | {"stride": 0}),
    (ArgumentError, "padding is -1", nn.conv2d, (X, W), TWO | {"padding": -1}),
    (ArgumentError, "'same'", nn.conv2d, (X, W), TWO | {"padding": "same", "stride": 2}),
    (ArgumentError, "padding is 'all'", nn.conv2d, (X, W), TWO | {"padding": "all"}),
    (ArgumentTypeError, "dilation is 1.5", nn.conv2d, (X, W), TWO | {"dilation": 1.5}),
    (ArgumentError, "algo is 'fastest'", nn.conv2d, (X, W), TWO | {"algo": "fastest"}),
    (ArgumentError, "workspace_limit is -1", nn.conv2d, (X, W), TWO | {"workspace_limit": -1}),
    (ArgumentError, "needs 1008 bytes .* is 99 bytes", nn.conv2d, (X, W), TWO | SMALL),
    (DTypeError, "input is int32", nn.conv2d, (X.astype(np.int32), W), TWO),
    (ShapeError, r"be \(2, 6, 7, 7\)", nn.conv2d_input, (X.shape, W, zeros(2, 6, 9, 7)), TWO),
    (ShapeError, "weight_size is", nn.conv2d_weight, (X, (6, 2, 3), X), {}),
    (
        ArgumentError, "output_padding is", nn.conv_transpose2d, (zeros(1, 6, 4, 4), W),
        {"output_padding": 1},
    ),
    (OverlapError, "shares memory", nn.conv2d, (X, W[:4]), TWO | {"padding": 1, "out": X}),
    (ShapeError, "out has shape", nn.conv2d, (X, W), TWO | {"out": zeros(2, 6, 7, 8)}),
    (ShapeError, "grad_output has shape", nn.conv2d_bias, (zeros(3),), {}),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_is_refused(case: int) -> None:
    error, match, function, arrays, options = REFUSED[case]
    with pytest.raises(error, match=match):
        function(*arrays, **options)
