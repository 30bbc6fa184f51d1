"""Convolutions by transforms against sums in float64, within the bound of docs/nn.md."""

from __future__ import annotations

from math import log2, prod
from typing import Any

import numpy as np
import pytest
from layers.convolution import Kind, forward, gradients, laid_out, norms
from reference import assert_within, unit_roundoff
from sampling import FEW, needs

from portable_gpu import nn
from portable_gpu.errors import ArgumentError
from portable_gpu.runtime.engine import Engine

#: Batch, groups, channels and filters of each, extents, filters, padding; dtype, layout.  Lengths
#: of transforms are the same in all directions.
CASES: list[tuple[tuple[int, ...], Any, Any, Any, str, str]] = [
    ((3, 2, 3, 4), (14, 14), (5, 5), ((2, 2), (2, 2)), "float32", "planes"),
    ((2, 5, 1, 1), (14, 14), (5, 5), ((4, 0), (1, 3)), "float32", "channels"),
    ((2, 1, 2, 3), (14, 14), (5, 5), ((2, 2), (2, 2)), "float64", "sliced"),
    ((1, 1, 3, 2), (31,), (10,), ((0, 0),), "float32", "planes"),
    ((2, 1, 2, 1), (3, 6, 14), (2, 3, 5), ((0, 1), (1, 1), (2, 2)), "float32", "planes"),
]


def check(got: Any, expected: Any, size: Any, terms: int, extents: Any, extra: Any = 0.0) -> None:
    """``|error| <= (21 log2 L + terms + 5) u sum_c |x_c| |w_c|``, with 2-norms of planes."""
    length = prod(2 * n + 2 for n in extents)
    factor = (21 * log2(length) + terms + 5) * unit_roundoff(got.dtype)
    assert_within(got, expected, np.broadcast_to(factor * (size + abs(extra)), expected.shape))


@pytest.mark.path
@pytest.mark.parametrize("case", range(2 if FEW else len(CASES)))
def test_within_the_bound(engine: Engine, case: int) -> None:
    """All directions, with a bias where there is one; images one at a time; bits repeat."""
    (batch, groups, of_group, filters), size, taps, pads, dtype, layout = CASES[case]
    needs(engine, np.dtype(dtype))
    rng, rank = np.random.default_rng(case), len(size)
    ones = (1,) * rank
    kind = Kind(taps, ones, ones, pads)
    x, w, b, back = (
        rng.standard_normal(shape).astype(dtype)
        for shape in ((batch, groups * of_group, *size), (groups * filters, of_group, *taps),
                      (groups * filters,), (groups * of_group,))
    )  # fmt: skip
    X, W = x.astype(np.float64), w.astype(np.float64)
    conv, transposed, by_input, by_weight = (
        getattr(nn, name.format(rank))
        for name in ("conv{}d", "conv_transpose{}d", "conv{}d_input", "conv{}d_weight")
    )
    options: dict[str, Any] = {
        "padding": pads, "groups": groups, "algo": "fft", "engine": engine,
    }  # fmt: skip
    shift = b.reshape(-1, *ones)
    y = conv(laid_out(x, layout), w, b, **options)
    point = Kind(ones, ones, ones, ((0, 0),) * rank)
    size_y = forward(norms(x), norms(w), point, groups)
    check(y, forward(X, W, kind, groups) + shift, size_y, of_group, size, shift)
    dy = rng.standard_normal(y.shape).astype(dtype)
    dx, dw = gradients(X, W, dy.astype(np.float64), kind, groups)
    size_x, size_w = gradients(norms(x), norms(w), norms(dy), point, groups)
    got = by_input(x.shape, w, laid_out(dy, layout), **options)
    check(got, dx, size_x, filters, size)
    repeated = transposed(laid_out(dy, layout), w, back, **options)
    check(repeated, dx + back.reshape(-1, *ones), size_x, filters, size, back.reshape(-1, *ones))
    got = by_weight(laid_out(x, layout), w.shape, laid_out(dy, layout), **options)
    check(got, dw, size_w, batch, size)
    np.testing.assert_array_equal(conv(laid_out(x, layout), w, b, **options), y)
    if case == 0:
        options["workspace_limit"] = 200_000
        check(conv(x, w, b, **options), forward(X, W, kind, groups) + shift, size_y, of_group,
              size, shift)  # fmt: skip
        check(by_weight(x, w.shape, dy, **options), dw, size_w, batch, size)
        with pytest.raises(ArgumentError, match=r"'fft', which needs \d+ bytes .* is 999 bytes"):
            conv(x, w, b, **options | {"workspace_limit": 999})


@pytest.mark.path
@pytest.mark.parametrize(("size", "taps"), [((9, 13), (3, 5)), ((37,), (6,))])
def test_images_are_independent(engine: Engine, size: Any, taps: Any) -> None:
    """NaN, infinities and large numbers in some images change no bit of the others' results."""
    rng, rank = np.random.default_rng(7), len(size)
    x = rng.standard_normal((6, 1, *size)).astype(np.float32)
    w = rng.standard_normal((3, 1, *taps)).astype(np.float32)
    spoilt, others = x.copy(), [0, 2, 5]
    spoilt[1, ..., 3], spoilt[3, ..., 0], spoilt[4] = np.nan, np.inf, 1e30
    for function in (getattr(nn, f"conv{rank}d"), getattr(nn, f"conv_transpose{rank}d")):
        filters = w if function is getattr(nn, f"conv{rank}d") else w.swapaxes(0, 1)
        good, bad = (function(a, filters, algo="fft", engine=engine) for a in (x, spoilt))
        assert np.isnan(bad[[1, 3]]).all()
        np.testing.assert_array_equal(bad[others], good[others])


def test_what_it_does_not_take(engine: Engine) -> None:
    x, w = np.ones((1, 2, 9, 9), np.float32), np.ones((2, 2, 3, 3), np.float32)
    half = np.float16
    for arrays, options in (
        ((x, w), {"stride": 2}), ((x, w), {"dilation": 2}), ((x, w), {"padding": 3}),
        ((x.astype(half), w.astype(half)), {}), ((x, w), {"precision": "bf16x6"}),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match="fft needs stride and dilation 1"):
            nn.conv2d(*arrays, algo="fft", engine=engine, **options)
