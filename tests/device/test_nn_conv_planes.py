"""Depthwise convolutions on CPUs, over padded copies of planes, of small integers: exact sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layers.convolution import Kind, forward, gradients

from portable_gpu import nn
from portable_gpu.dtypes import element
from portable_gpu.ops.conv.commands.cases import problem
from portable_gpu.ops.conv.planes import planes_kernel
from portable_gpu.runtime.engine import Engine

#: Shape of x, filters of a channel, kernel, stride, dilation, pads, dtype.
CASES: dict[str, Any] = {
    "rows shorter than a vector": (
        (2, 5, 7, 7), 1, (3, 3), (1, 1), (1, 1), [(1, 1), (1, 1)], np.float32,
    ),
    "bands, two filters, pads wider than the filter": (
        (1, 2, 37, 150), 2, (2, 3), (1, 1), (3, 2), [(4, 0), (6, 1)], np.float64,
    ),
    "even and odd rows and columns": (
        (2, 3, 40, 61), 1, (3, 5), (2, 2), (1, 1), [(1, 2), (2, 1)], np.float16,
    ),
    "even and odd columns of one element": (
        (3, 4, 6, 2), 1, (3, 2), (1, 2), (1, 1), [(0, 1), (1, 0)], np.float32,
    ),
    "a tap of one of two columns, bands": (
        (1, 2, 90, 75), 1, (3, 1), (2, 2), (1, 1), [(0, 2), (0, 0)], np.float32,
    ),
    "even and odd rows": (
        (1, 3, 24, 18), 1, (2, 3), (2, 1), (2, 1), [(1, 0), (0, 0)], np.float32,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_all_results(engine: Engine, name: str) -> None:
    shape, filters, kernel, stride, dilation, pads, dtype = CASES[name]
    rng, channels = np.random.default_rng(len(name)), shape[1]
    kind, asked = Kind(kernel, stride, dilation, pads), {
        "stride": stride, "padding": tuple(pads), "dilation": dilation, "groups": channels,
    }  # fmt: skip
    x = rng.integers(-3, 4, shape).astype(dtype)
    w = rng.integers(-3, 4, (channels * filters, 1, *kernel)).astype(dtype)
    bias = rng.integers(-3, 4, channels * filters).astype(dtype)
    sizes = (*shape, channels * filters, *kernel)
    if engine.target.is_cpu:
        assert planes_kernel(problem("forward", sizes, element(dtype), asked), engine.target)
        by_input = planes_kernel(problem("input", sizes, element(dtype), asked), engine.target)
        assert (by_input is not None) == (filters == 1)  # a plane of x is in one filter's sums
    options = {**asked, "algo": "direct", "engine": engine}
    X, W = x.astype(float), w.astype(float)
    expected = forward(X, W, kind, channels)
    # Rows of the arrays are further apart, and what is between them stays as it is.
    apart = np.zeros((*shape[:3], shape[3] + 3), dtype)[..., 2:-1]
    apart[...] = x
    around = np.full((*expected.shape[:3], expected.shape[3] + 2), 9, dtype)
    got = nn.conv2d(apart, w, bias, out=around[..., 1:-1], **options)
    np.testing.assert_array_equal(got, expected + bias.reshape(-1, 1, 1))
    assert (around[..., [0, -1]] == 9).all()
    dy = rng.integers(-2, 3, expected.shape).astype(dtype)
    dx, _ = gradients(X, W, dy.astype(float), kind, channels)
    np.testing.assert_array_equal(nn.conv2d_input(shape, w, dy, **options), dx)


@pytest.mark.tiny
def test_one_axis_of_space(engine: Engine) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 4, (2, 3, 45)).astype(np.float32)
    w = rng.integers(-3, 4, (3, 1, 4)).astype(np.float32)
    got = nn.conv1d(x, w, padding=((2, 0),), groups=3, algo="direct", engine=engine)
    kind = Kind((4,), (1,), (1,), [(2, 0)])
    np.testing.assert_array_equal(got, forward(x.astype(float), w.astype(float), kind, 3))
