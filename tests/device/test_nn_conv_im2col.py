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

#: Direction, groups, filters of each, whether channels are last, the operand that is packed before.
#: Products of many filters divide k, within the taps of a channel.
CASES: dict[str, tuple[Direction, int, int, bool, str]] = {
    "forward, windows in panels": ("forward", 1, 512, False, "b"),
    "forward, channels last": ("forward", 1, 64, True, "a"),
    "by the input": ("input", 1, 64, False, "a"),
    "by the input, groups": ("input", 2, 64, False, "a"),
}


@pytest.mark.parametrize("name", CASES)
def test_operands_are_packed_once(engine: Engine, name: str) -> None:
    """The products of 5 images have 2, 2 and 1 of them; the first two share packed weights."""
    if not engine.target.is_cpu:
        pytest.skip("packed products are the CPU's")
    direction, groups, filters, last, packed = CASES[name]
    kind = Kind((3, 3), (2, 2), (1, 1), [(1, 1), (1, 1)])
    x_shape, w_shape = (5, 250, 28, 28), (filters * groups, 250 // groups, 3, 3)
    asked: dict[str, Any] = {"stride": 2, "padding": (1, 1), "dilation": 1, "groups": groups}
    sizes = (*x_shape, w_shape[0], 3, 3)
    steps = products(
        problem(direction, sizes, element(np.float32), asked, last, filters_last=last),
        engine.target, engine.table, None,
    ).steps  # fmt: skip
    prepacked = [step.prepacked for step in steps if isinstance(step, ConvProduct)]
    others = [step[0] for step in steps if not isinstance(step, ConvProduct)]
    panels = [key.panels is not None for key in others if isinstance(key, Windows)]
    # More units read operands of such products in place; slower rows in place are packed.
    if engine.target.compute_units <= 2 and engine.target.rows_in_place >= 12:
        assert prepacked[:2] == [packed, packed]
        assert sum(isinstance(key, PackedWeights) for key in others) == (packed == "a")
        assert panels[0] == (packed == "b")
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
