"""Checks of convolutions against sums in float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from portable_gpu.checking.check import Check, Condition, gamma, rounding, unit
from portable_gpu.checking.inputs import Input
from portable_gpu.checking.operands import Array
from portable_gpu.checking.oracle import within
from portable_gpu.dtypes import is_float16_like
from portable_gpu.ops.conv import functions
from portable_gpu.ops.conv.commands.cases import DIRECTIONS, all_shapes, reference
from portable_gpu.runtime.engine import Engine


def conv2d(operation: str, sizes: Sequence[int], dtype: Any, groups: int, stride: int) -> Check:
    """A check of one direction of a convolution whose filters are padded by one."""
    dtype = np.dtype(dtype)
    asked: dict[str, Any] = {"stride": stride, "padding": 1, "dilation": 1, "groups": groups}
    x, w, g = all_shapes(sizes, asked)
    y = g.batch, g.filters, *g.y_size[1:]
    direction = DIRECTIONS[operation]
    first, second = {"forward": (x, w), "input": (w, y), "weight": (x, y)}[direction]
    a, b = Input(dtype, first, "device"), Input(dtype, second, "device", seed=1)

    def run(engine: Engine) -> Any:
        left, right = a.array(engine), b.array(engine)
        if direction == "forward":
            return functions.conv2d(left, right, **asked, engine=engine)
        if direction == "input":
            return functions.conv2d_input(x, left, right, **asked, engine=engine)
        return functions.conv2d_weight(left, w, right, **asked, engine=engine)

    def expected() -> Condition:
        values = reference(direction, a.host(), b.host(), x, w, g)
        size = reference(direction, abs(a.host()), abs(b.host()), x, w, g)
        terms = max(w[1] * 9, w[0] * 9, g.batch * g.y_size[1] * g.y_size[2])
        bound: Array = gamma(terms + 2, unit(dtype)) * size + 2 * rounding(dtype) * abs(values)
        shape = {"forward": y, "input": x, "weight": w}[direction]
        return Condition(within(values, bound + 1e-7), shape, dtype)

    n, c, h, width, k = sizes[:5]
    case = f"{dtype} {n} x {c} x {h} x {width} to {k}, groups {groups}, stride {stride}"
    return Check(operation, case, run, expected)


def checks(dtypes: Sequence[np.dtype[Any]]) -> Iterator[Check]:
    """Each direction: depthwise and whole in float32, one in each other floating dtype."""
    for operation in DIRECTIONS:
        yield conv2d(operation, (2, 24, 14, 17, 24, 3, 3), np.float32, 24, 1)
        yield conv2d(operation, (3, 8, 15, 12, 20, 3, 3), np.float32, 1, 2)
    for dtype in dtypes:
        if (dtype.kind == "f" or is_float16_like(dtype)) and dtype != np.float32:
            yield conv2d("conv2d", (2, 24, 14, 17, 24, 3, 3), dtype, 24, 1)
