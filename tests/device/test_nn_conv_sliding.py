"""Depthwise convolutions on GPUs, row by row, of small integers, whose sums are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layers.convolution import Kind, by_channels, forward, gradients

from portable_gpu import nn
from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.runtime.engine import Engine

#: Shape of x, filters of a channel, kernel, stride, dilation, pads, channels last, dtype.
CASES: dict[str, Any] = {
    "four channels, parts of rows": (
        (2, 36, 41, 9), 1, (3, 3), (1, 1), (1, 1), [(1, 1), (1, 1)], True, np.float16,
    ),
    "between elements": (
        (3, 24, 10, 13), 1, (3, 3), (2, 2), (1, 1), [(1, 1), (0, 2)], True, np.float32,
    ),
    "narrow, five rows open": (
        (1, 10, 9, 6), 1, (5, 2), (1, 1), (1, 1), [(2, 1), (0, 1)], True, np.float32,
    ),
    "vectors along a row": (
        (2, 5, 12, 16), 1, (3, 3), (1, 1), (1, 1), [(1, 1), (1, 1)], False, np.float16,
    ),
    "two filters of a channel, apart": (
        (2, 3, 11, 14), 2, (3, 4), (2, 1), (2, 2), [(2, 1), (3, 3)], False, np.float32,
    ),
    "one column, rows skipped": (
        (2, 6, 14, 3), 1, (2, 3), (3, 2), (1, 1), [(1, 0), (0, 1)], True, np.float32,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_all_directions(engine: Engine, name: str) -> None:
    shape, filters, kernel, stride, dilation, pads, last, dtype = CASES[name]
    gpu, rng = Engine(queue=engine.queue, device_class="gcn"), np.random.default_rng(len(name))
    channels = shape[1]
    kind = Kind(kernel, stride, dilation, pads)
    x = rng.integers(-3, 4, shape).astype(dtype)
    w = rng.integers(-3, 4, (channels * filters, 1, *kernel)).astype(dtype)
    bias = rng.integers(-3, 4, channels * filters).astype(dtype)
    options = {
        "stride": stride, "padding": tuple(pads), "dilation": dilation, "groups": channels,
        "algo": "direct", "engine": gpu,
    }  # fmt: skip
    laid_out = by_channels if last else np.ascontiguousarray
    X, W = x.astype(float), w.astype(float)
    expected = forward(X, W, kind, channels) + bias.reshape(-1, 1, 1)
    residual = rng.integers(-3, 4, expected.shape).astype(dtype)
    epilogue = Epilogue().add(residual).relu()
    np.testing.assert_array_equal(nn.conv2d(laid_out(x), w, bias, **options), expected)
    got = nn.conv2d(laid_out(x), w, bias, epilogue=epilogue, **options)
    np.testing.assert_array_equal(got, np.maximum(expected + residual, 0))
    dy = rng.integers(-2, 3, expected.shape).astype(dtype)
    dx, dw = gradients(X, W, dy.astype(float), kind, channels)
    np.testing.assert_array_equal(nn.conv2d_input(x.shape, w, laid_out(dy), **options), dx)
    got = nn.conv2d_weight(laid_out(x), w.shape, laid_out(dy), **options)
    np.testing.assert_array_equal(got, dw)
