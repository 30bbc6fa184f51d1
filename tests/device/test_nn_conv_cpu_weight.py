"""Gradients of the weights on CPUs from copied tiles, of small integers, whose sums are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layers.convolution import Kind, by_channels, extents_of, gradients

from portable_gpu import nn
from portable_gpu.dtypes import element
from portable_gpu.ops.conv.commands.cases import problem
from portable_gpu.ops.conv.cpu_weight import cpu_weight_kernel
from portable_gpu.runtime.engine import Engine

#: Shape of x, groups, filters, kernel, stride, dilation, pads, channels last, dtype.
CASES: dict[str, Any] = {
    "places, rows and columns in tiles": (
        (3, 2, 70, 131), 1, 6, (3, 7), (2, 2), (1, 1), [(1, 1), (3, 2)], False, np.float32,
    ),
    "places, one channel of each group": (
        (5, 20, 7, 7), 20, 40, (3, 3), (1, 1), (1, 1), [(1, 1), (1, 1)], False, np.float16,
    ),
    "filters in vectors, channels apart": (
        (2, 5, 23, 40), 1, 40, (3, 2), (1, 3), (2, 2), [(2, 0), (1, 1)], True, np.float32,
    ),
    "depthwise in vectors, the last ones again": (
        (2, 41, 30, 33), 41, 41, (3, 3), (1, 2), (1, 1), [(1, 1), (0, 2)], True, np.float64,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_small_integers(engine: Engine, name: str) -> None:
    if not engine.target.is_cpu:
        pytest.skip("a kernel of CPUs")
    shape, groups, filters, kernel, stride, dilation, pads, last, dtype = CASES[name]
    rng, kind = np.random.default_rng(len(name)), Kind(kernel, stride, dilation, pads)
    asked = {"stride": stride, "padding": tuple(pads), "dilation": dilation, "groups": groups}
    w = np.zeros((filters, shape[1] // groups, *kernel))
    sizes = (*shape, filters, *kernel)
    made = cpu_weight_kernel(problem("weight", sizes, element(dtype), asked, last), engine.target)
    assert made is not None
    assert made.parts * made.blocks > 1
    x = rng.integers(-3, 4, shape).astype(dtype)
    dy = rng.integers(-2, 3, (shape[0], filters, *extents_of(x, kind))).astype(dtype)
    _, expected = gradients(x.astype(float), w, dy.astype(float), kind, groups)
    laid_out = by_channels if last else np.ascontiguousarray
    arguments = laid_out(x), w.shape, laid_out(dy)
    got = nn.conv2d_weight(*arguments, **asked, algo="direct", engine=engine)
    np.testing.assert_array_equal(got, expected.astype(dtype))
