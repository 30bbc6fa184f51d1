"""Operands of products that a CPU packs once: of small integers, whose sums are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layers.convolution import Kind, by_channels, extents_of, forward, gradients

from portable_gpu import nn
from portable_gpu.dtypes import element
from portable_gpu.ops.conv.commands.cases import problem
from portable_gpu.ops.conv.im2col import ConvProduct, PackedWeights, products
from portable_gpu.ops.conv.problem import Direction
from portable_gpu.ops.conv.windows import Windows
from portable_gpu.runtime.engine import Engine

#: Direction, groups, filters of each, whether channels are last.  Products of many filters divide
#: k, within the taps of a channel.
CASES: dict[str, tuple[Direction, int, int, bool]] = {
    "forward, windows in panels": ("forward", 1, 512, False),
    "forward, groups": ("forward", 2, 64, False),
    "forward, channels last": ("forward", 1, 64, True),
    "by the input": ("input", 1, 64, False),
}


@pytest.mark.parametrize("name", CASES)
def test_operands_are_packed_once(engine: Engine, name: str) -> None:
    """The products of 5 images have 2, 2 and 1 of them; the first two share packed weights."""
    if not engine.target.is_cpu:
        pytest.skip("packed products are the CPU's")
    direction, groups, filters, last = CASES[name]
    kind = Kind((3, 3), (2, 2), (1, 1), [(1, 1), (1, 1)])
    x_shape, w_shape = (5, 250, 28, 28), (filters * groups, 250 // groups, 3, 3)
    asked: dict[str, Any] = {"stride": 2, "padding": (1, 1), "dilation": 1, "groups": groups}
    sizes = (*x_shape, w_shape[0], 3, 3)
    steps = products(
        problem(direction, sizes, element(np.float32), asked, last, filters_last=last),
        engine.target, engine.table, None,
    ).steps  # fmt: skip
    prepacked = [step.prepacked for step in steps if isinstance(step, ConvProduct)]
    panels = [
        step[0].panels is not None
        for step in steps
        if not isinstance(step, ConvProduct) and isinstance(step[0], Windows)
    ]
    if engine.target.compute_units <= 2:  # more units read operands of such products in place
        assert sum(isinstance(s, tuple) and isinstance(s[0], PackedWeights) for s in steps) == 1
        assert all("a" in names for names in prepacked[:2])
        assert panels[0] == ("in panels" in name)
    rng = np.random.default_rng(len(name))
    x, w = (rng.integers(-3, 4, shape).astype(np.float32) for shape in (x_shape, w_shape))
    dy = rng.integers(-2, 3, (5, w_shape[0], *extents_of(x, kind))).astype(np.float32)
    laid_out = by_channels if last else np.ascontiguousarray
    asked |= {"algo": "im2col", "engine": engine}
    for _ in range(2):  # the second call repeats recorded launches
        if direction == "forward":
            got = nn.conv2d(laid_out(x), laid_out(w), **asked)
            expected = forward(x, w, kind, groups)
        else:
            got = nn.conv2d_input(x_shape, laid_out(w), laid_out(dy), **asked)
            expected, _ = gradients(x, w, dy, kind, groups)
        np.testing.assert_array_equal(got, expected)
