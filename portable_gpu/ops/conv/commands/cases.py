"""Cases of convolutions: what they cost, their operands and options, and their oracle.

A size is N x C x H x W x K x R x S: images, channels, their extents, filters and their extents.
Its variant has letters with numbers: ``s2`` the stride, ``d2`` the dilation, ``g64`` the groups,
``p1`` the padding, which is ``d (k - 1) / 2`` without it; ``w`` at the end is depthwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.operands import Array, Operands
from portable_gpu.checking.oracle import Oracle, bound_of_sums, root_mean_square, within
from portable_gpu.dtypes import Element, dtype_of, element
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.conv.problem import ConvProblem, Direction, ImageStrides
from portable_gpu.ops.conv.shapes import ConvExtents, Options, geometry
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.runtime.views import Shape, contiguous_strides

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case

_VARIANT = re.compile(r"(?:[sdgp]\d+)*w?")
#: The direction of each operation.
DIRECTIONS: dict[str, Direction] = {
    "conv2d": "forward",
    "conv2d_input": "input",
    "conv2d_weight": "weight",
}


def options(case: Case) -> dict[str, Any]:
    """Stride, padding, dilation and groups of a case."""
    numbers = {letter: int(n) for letter, n in re.findall(r"([sdgp])(\d+)", case.trans)}
    dilation = numbers.get("d", 1)
    padding = [dilation * (k - 1) // 2 for k in case.extents[5:]]
    if "p" in numbers:
        padding = [numbers["p"]] * 2
    return {
        "stride": numbers.get("s", 1), "padding": tuple(padding), "dilation": dilation,
        "groups": case.extents[1] if case.trans.endswith("w") else numbers.get("g", 1),
    }  # fmt: skip


def all_shapes(extents: Sequence[int], asked: dict[str, Any]) -> tuple[Shape, Shape, ConvExtents]:
    """Return the shapes of x and w, and the extents of the convolution."""
    if len(extents) != 7 or min(extents) < 1:
        raise ArgumentError(f"a convolution has the 7 sizes N C H W K R S; got {tuple(extents)}")
    n, c, h, w, k, r, s = extents
    o = Options(2, *(asked[name] for name in ("stride", "padding", "dilation", "groups")))
    x_shape, w_shape = (n, c, h, w), (k, c // max(1, o.groups), r, s)
    return x_shape, w_shape, geometry(o, x_shape, w_shape, None, ("input", "weight", "result"))


def problem(
    direction: Direction,
    extents: Sequence[int],
    elem: Element,
    asked: dict[str, Any],
    channels_last: bool = False,
    precision: str = "ieee",
) -> ConvProblem:
    """Return the problem of contiguous arrays, or of channels-last ones."""
    _, w_shape, g = all_shapes(extents, asked)

    def operand(outer: int, channels: int, space: Sequence[int], last: bool) -> ImageStrides:
        if last:
            steps = contiguous_strides((outer, *space, channels))
            first, *inner, channel = steps
        else:
            first, channel, *inner = contiguous_strides((outer, channels, *space))
        first_axis, second_axis, third_axis = inner
        return ImageStrides(first, channel, (first_axis, second_axis, third_axis), 16)

    return ConvProblem(
        direction, elem, g.batch, g.groups, g.channels, g.filters, g.x_size, g.w_size, g.y_size,
        g.stride, g.dilation, g.before,
        operand(g.batch, g.channels, g.x_size, channels_last),
        operand(g.filters, w_shape[1], g.w_size, False),
        operand(g.batch, g.filters, g.y_size, channels_last), None, precision,
    )  # fmt: skip


def problem_of(case: Case) -> ConvProblem:
    """The problem of a case."""
    elem = element(dtype_of(case.dtype))
    direction = DIRECTIONS[case.operation]
    return problem(direction, case.extents, elem, options(case), precision=case.precision)


def shapes(case: Case) -> tuple[Shape, ...]:
    """The shapes of the two arrays that are read."""
    x, w, g = all_shapes(case.extents, options(case))
    y = g.batch, g.filters, *g.y_size[1:]
    return {"forward": (x, w), "input": (w, y), "weight": (x, y)}[DIRECTIONS[case.operation]]


def variants(case: Case, variant: str, alone: bool) -> Iterator[Case]:
    """The case with the options of its variant.

    Raises:
        ArgumentError: They cannot be read.
    """
    if _VARIANT.fullmatch(variant) is None:
        raise ArgumentError(
            f"{case.operation} has no variant {variant!r}; letters of s (stride), d (dilation), "
            "g (groups) and p (padding) with numbers, and w (depthwise), would do: s2p1w"
        )
    yield replace(case, trans=variant)


def call(case: Case, on_host: bool) -> PublicCall:
    """Our call."""
    name, asked = f"nn.{case.operation}", {**options(case), "precision": case.precision}
    x, w, _ = all_shapes(case.extents, options(case))
    direction = DIRECTIONS[case.operation]
    if direction == "input":
        return PublicCall(name, asked, leading=(x,))
    if direction == "weight":
        return PublicCall(name, {**asked, "weight_size": w}, names=("input", "grad_output"))
    return PublicCall(name, asked)


def like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """PyTorch's; NumPy and CuPy have none."""
    nn = getattr(library, "nn", None)
    if nn is None:
        return None
    x, w, _ = all_shapes(case.extents, options(case))
    first, second = arrays
    direction = DIRECTIONS[case.operation]
    if direction == "forward":
        return partial(nn.functional.conv2d, first, second, None, **options(case))
    if direction == "input":
        return partial(nn.grad.conv2d_input, x, first, second, **options(case))
    return partial(nn.grad.conv2d_weight, first, w, second, **options(case))


def oracle(case: Case, inputs: Operands) -> Oracle:
    """The sums tap by tap, in float64."""
    x, w, g = all_shapes(case.extents, options(case))
    expected = reference(DIRECTIONS[case.operation], inputs[0], inputs[1], x, w, g)
    dtype = dtype_of(case.dtype)
    terms = {
        "forward": prod(w[1:]), "input": w[0] // g.groups * prod(w[2:]),
        "weight": g.batch * prod(g.y_size),
    }[DIRECTIONS[case.operation]]  # fmt: skip
    scale = root_mean_square(dtype) ** 2
    return within(expected, bound_of_sums(dtype, terms, scale, expected))


def reference(
    direction: Direction, first: Array, second: Array, x: Shape, w: Shape, g: ConvExtents
) -> Array:
    """Return a convolution along two axes, or a gradient, in float64."""
    first, second = first.astype(np.float64), second.astype(np.float64)
    _, *out = g.y_size
    (top, left), (down, right), (low, far) = g.before[1:], g.stride[1:], g.dilation[1:]
    size = [max((q - 1) * s + (k - 1) * d + 1, n + p) for q, s, k, d, n, p in zip(
        out, g.stride[1:], w[2:], g.dilation[1:], x[2:], g.before[1:], strict=True)]  # fmt: skip
    whole = np.zeros((*x[:2], *size))
    inner = whole[:, :, top : top + x[2], left : left + x[3]]
    weights = second if direction == "forward" else first if direction == "input" else np.zeros(w)
    y = np.zeros((g.batch, g.filters, *out)) if direction == "forward" else second
    if direction != "input":
        inner[...] = first
    G, K, C = g.groups, g.filters // g.groups, w[1]
    y = y.reshape(g.batch, G, K, -1)
    for a, b in product(range(w[2]), range(w[3])):
        at = (
            ..., slice(a * low, a * low + (out[0] - 1) * down + 1, down),
            slice(b * far, b * far + (out[1] - 1) * right + 1, right),
        )  # fmt: skip
        part = whole[at].reshape(g.batch, G, C, -1)
        tap = weights[:, :, a, b].reshape(G, K, C)
        if direction == "forward":
            y += tap @ part
        elif direction == "input":
            whole[at] += (tap.swapaxes(1, 2) @ y).reshape(*x[:2], *out)
        else:
            weights[:, :, a, b] = (y @ part.swapaxes(2, 3)).sum(0).reshape(w[:2])
    if direction == "forward":
        return y.reshape(g.batch, g.filters, *out)
    return inner.copy() if direction == "input" else weights
