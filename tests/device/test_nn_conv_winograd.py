"""Winograd's convolutions against sums in float64, within the bound of docs/nn.md."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from layers.convolution import (
    Kind,
    amplified,
    amplified_weights,
    forward,
    gradients,
    laid_out,
    padded,
    turned,
)
from reference import assert_within, unit_roundoff
from sampling import FEW, needs

from portable_gpu import nn
from portable_gpu.errors import ArgumentError
from portable_gpu.runtime.engine import Engine

#: Batch, channels, rows, columns, filters, groups, padding; layouts and dtypes in turns.
CASES: list[tuple[tuple[int, ...], Any, str, str]] = [
    ((3, 9, 14, 31, 10, 1), ((1, 1), (1, 1)), "float32", "planes"),
    ((2, 18, 9, 20, 24, 2), ((0, 3), (2, 1)), "float32", "channels"),
    ((2, 6, 5, 13, 4, 2), ((2, 0), (0, 2)), "float32", "sliced"),
    ((1, 20, 8, 16, 18, 1), ((1, 1), (1, 1)), "float64", "planes"),
    ((2, 3, 4, 170, 2, 1), ((0, 0), (5, 0)), "float32", "planes"),
]  # fmt: skip


def largest(x: Any, kind: Kind) -> Any:
    """The largest magnitudes of the tiles of 4 x 4 that results are computed from, at least."""
    x = np.pad(padded(abs(x), kind.pads), [(0, 0), (0, 0), (1, 1), (1, 1)])
    return np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3)).max((-1, -2))


def check(got: Any, x: Any, w: Any, expected: Any, bias: Any, kind: Kind, groups: int) -> None:
    """``|error| <= (C + 12) u (amplified + |bias|)``, and ``amplified <= 16 (max |x| * |w|)``."""
    size, terms = amplified(x, w, kind, groups), w.shape[1] + 12
    assert_within(got, expected, terms * unit_roundoff(got.dtype) * (size + abs(bias)))
    same = Kind((3, 3), (1, 1), (1, 1), [(0, 0), (0, 0)])
    assert (size <= 16 * forward(largest(x, kind), abs(w), same, groups) * (1 + 1e-12)).all()


@pytest.mark.path
@pytest.mark.parametrize("case", range(2 if FEW else len(CASES)))
def test_within_the_bound(engine: Engine, case: int) -> None:
    """Forward with a bias, both gradients, the transposed convolution; bits repeat."""
    (batch, channels, *size, filters, groups), pads, dtype, layout = CASES[case]
    needs(engine, np.dtype(dtype))
    rng, kind = np.random.default_rng(case), Kind((3, 3), (1, 1), (1, 1), pads)
    x, w, b, back = (
        rng.standard_normal(shape).astype(dtype)
        for shape in ((batch, channels, *size), (filters, channels // groups, 3, 3), (filters,),
                      (channels,))
    )  # fmt: skip
    options: dict[str, Any] = {
        "padding": pads, "groups": groups, "algo": "winograd", "engine": engine,
    }  # fmt: skip
    X, W = x.astype(np.float64), w.astype(np.float64)
    expected = forward(X, W, kind, groups) + b[:, None, None]
    w = laid_out(w, layout)
    y = nn.conv2d(laid_out(x, layout), w, b, **options)
    check(y, X, W, expected, b[:, None, None], kind, groups)
    dy = rng.standard_normal(y.shape).astype(dtype)
    DY = dy.astype(np.float64)
    dx, dw = gradients(X, W, DY, kind, groups)
    got = nn.conv2d_input(x.shape, w, laid_out(dy, layout), **options)
    source, filters_of_x = turned(DY, W, pads, groups)
    same = Kind((3, 3), (1, 1), (1, 1), [(0, 0), (0, 0)])
    check(got, source, filters_of_x, dx, 0, same, groups)
    repeated = nn.conv_transpose2d(laid_out(dy, layout), w, back, **options)
    np.testing.assert_array_equal(repeated, got + back[:, None, None])
    np.testing.assert_array_equal(nn.conv2d(laid_out(x, layout), w, b, **options), y)
    if not engine.target.is_cpu:
        return
    of_w = laid_out(x, layout), w.shape, laid_out(dy, layout)
    out = laid_out(np.full(w.shape, np.nan, dtype), layout)
    nn.conv2d_weight(*of_w, out=out, **options)
    magnitudes = amplified_weights(X, DY, pads, groups)
    tiles = batch * prod(-(-extent // 2) for extent in dy.shape[2:])
    assert_within(out, dw, (tiles + 9) * unit_roundoff(out.dtype) * magnitudes)
    most = 16 * abs(X).max() * abs(DY).sum((0, 2, 3))
    assert (magnitudes <= most[:, None, None, None] * (1 + 1e-12)).all()
    np.testing.assert_array_equal(nn.conv2d_weight(*of_w, **options), out)


@pytest.mark.tiny
def test_chunks_and_layouts(engine: Engine) -> None:
    """One image at a time or all, ``out=`` of any strides, an array without batch."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 9, 6, 17)).astype(np.float32)
    w = rng.standard_normal((8, 9, 3, 3)).astype(np.float32)
    options: dict[str, Any] = {"padding": 1, "algo": "winograd", "engine": engine}
    expected = nn.conv2d(x, w, **options)
    out = np.full((3, 8, 6, 2 * 17), 7, np.float32)
    nn.conv2d(x, w, out=out[..., ::2], **options)
    np.testing.assert_array_equal(out[..., ::2], expected)
    assert (out[..., 1::2] == 7).all()
    np.testing.assert_array_equal(nn.conv2d(x[1], w, **options), nn.conv2d(x[1:2], w, **options)[0])
    with pytest.raises(ArgumentError, match=r"'winograd', which needs (\d+) bytes .* is 64 bytes"):
        nn.conv2d(x, w, workspace_limit=64, **options)
    limited = nn.conv2d(x, w, workspace_limit=250_000, **options)
    np.testing.assert_allclose(limited, expected, rtol=1e-5, atol=1e-5)
    if engine.target.is_cpu:
        x, dy = (rng.standard_normal((3, n, 12, 34)).astype(np.float32) for n in (9, 8))
        dw = nn.conv2d_weight(x, w.shape, dy, **options)
        limited = nn.conv2d_weight(x, w.shape, dy, workspace_limit=250_000, **options)
        assert (limited != dw).any()  # sums of one image after the other
        np.testing.assert_allclose(limited, dw, rtol=1e-4, atol=1e-3)


def test_what_it_does_not_take(engine: Engine) -> None:
    x, w = np.ones((1, 2, 9, 9), np.float32), np.ones((2, 2, 3, 3), np.float32)
    half = np.float16
    for arrays, options in (
        ((x, w), {"stride": 2}), ((x, w), {"dilation": 2}), ((x, w[..., :2]), {}),
        ((x.astype(half), w.astype(half)), {}), ((x, w), {"precision": "bf16x6"}),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match="winograd needs filters of 3 x 3"):
            nn.conv2d(*arrays, algo="winograd", engine=engine, **options)
    if not engine.target.is_cpu:
        with pytest.raises(ArgumentError, match="for the gradient of the weights a CPU"):
            nn.conv2d_weight(
                x, w.shape, np.ones((1, 2, 7, 7), np.float32), algo="winograd", engine=engine
            )
