"""Depthwise convolutions on GPUs, row by row, of small integers, whose sums are exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from layers.convolution import Kind, by_channels, extents_of, forward, gradients
from sampling import in_pairs

from portable_gpu import nn
from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.dtypes import element
from portable_gpu.ops.conv.commands.cases import problem
from portable_gpu.ops.conv.sliding_weight import sliding_weight_kernel
from portable_gpu.ops.conv.weight import weight_kernel
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


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "filters", "last", "dtype", "device_class"),
    in_pairs(
        [(3, 3), (5, 4)], [1, 2], [1, 2], [1, 2], [False, True],
        [np.float16, np.float32, np.float64], ["gcn", "generic"],
    ),
)  # fmt: skip
def test_gradients_by_weights_in_parts(
    optimised: Engine, kernel: tuple[int, int], stride: int, dilation: int, filters: int,
    last: bool, dtype: Any, device_class: str,
) -> None:  # fmt: skip
    """Several work-groups share a block of channels, and several blocks share the device."""
    gpu = Engine(queue=optimised.queue, device_class=device_class)
    gpu.target = replace(gpu.target, compute_units=48)
    channels, images, rng = 40 if last else 3, (47, 38), np.random.default_rng(kernel[0])
    kind = Kind(kernel, (stride, stride), (dilation, dilation), [(dilation, dilation)] * 2)
    sizes = (4, channels, *images, channels * filters, *kernel)
    asked = {"stride": stride, "padding": dilation, "dilation": dilation, "groups": channels}
    made = sliding_weight_kernel(problem("weight", sizes, element(dtype), asked, last), gpu.target)
    assert made is not None
    assert min(made.parts, made.blocks) > 1
    x = rng.integers(-3, 4, (4, channels, *images)).astype(dtype)
    w = np.zeros((channels * filters, 1, *kernel))
    dy = rng.integers(-2, 3, (4, len(w), *extents_of(x, kind))).astype(dtype)
    _, expected = gradients(x.astype(float), w, dy.astype(float), kind, channels)
    laid_out = by_channels if last else np.ascontiguousarray
    arguments = laid_out(x), w.shape, laid_out(dy)
    got = [nn.conv2d_weight(*arguments, **asked, algo="direct", engine=gpu) for _ in range(3)]
    np.testing.assert_array_equal(got, [expected.astype(dtype)] * 3)


def test_gradients_of_groups_by_weights_in_parts(optimised: Engine) -> None:
    gpu, rng = Engine(queue=optimised.queue, device_class="gcn"), np.random.default_rng(0)
    gpu.target = replace(gpu.target, compute_units=48)
    kind = Kind((3, 3), (1, 1), (1, 1), [(1, 1)] * 2)
    sizes, asked = (12, 4, 47, 38, 6, 3, 3), {"stride": 1, "padding": 1, "dilation": 1, "groups": 2}
    made = weight_kernel(problem("weight", sizes, element(np.float32), asked), gpu.target)
    assert made.parts > 1
    x, w = rng.integers(-3, 4, (12, 4, 47, 38)).astype(np.float32), np.zeros((6, 2, 3, 3))
    dy = rng.integers(-2, 3, (12, 6, 47, 38)).astype(np.float32)
    _, expected = gradients(x.astype(float), w, dy.astype(float), kind, 2)
    got = nn.conv2d_weight(x, w.shape, dy, **asked, algo="direct", engine=gpu)
    np.testing.assert_array_equal(got, expected)
