"""Cases of convolutions: what they cost, their operands and options, and their oracle.

A size is N x C x H x W x K x R x S: images, channels, their extents, filters and their extents;
with one axis of space N x C x W x K x S, with three N x C x D x H x W x K x T x R x S.
Its variant has letters with numbers: ``s2`` the stride, ``d2`` the dilation, ``g64`` the groups,
``p1`` the padding, which is ``d (k - 1) / 2`` without it; then letters: ``w`` is depthwise, ``b``
adds a bias (forward), ``r`` adds an array like the result and replaces negative sums by 0, in the
epilogue of the call (forward), ``l`` is of channels-last images and filters.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.operands import Array, Operands
from portable_gpu.checking.oracle import (
    SPLIT_ERRORS,
    Oracle,
    bound_of_sums,
    root_mean_square,
    within,
)
from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.dtypes import Element, dtype_of, element
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.conv.api import check_stages, of_stage
from portable_gpu.ops.conv.problem import ConvProblem, Direction, ImageStrides, StageArray
from portable_gpu.ops.conv.shapes import ConvExtents, Options, geometry
from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.ops.sizes import Size, parse_sizes, random_extent
from portable_gpu.runtime.views import Shape, View, as_array, contiguous_strides

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


_VARIANT = re.compile(r"(?:[sdgp]\d+)*w?b?r?l?")
#: Layers of networks, without the batch.
_RESNET50 = (
    "3x224x224x64x7x7/s2,64x56x56x64x1x1,64x56x56x64x3x3,64x56x56x256x1x1,256x56x56x64x1x1,"
    "256x56x56x128x1x1,128x56x56x128x3x3/s2,128x28x28x512x1x1,256x56x56x512x1x1/s2,"
    "512x28x28x128x1x1,128x28x28x128x3x3,512x28x28x256x1x1,256x28x28x256x3x3/s2,"
    "256x14x14x1024x1x1,512x28x28x1024x1x1/s2,1024x14x14x256x1x1,256x14x14x256x3x3,"
    "1024x14x14x512x1x1,512x14x14x512x3x3/s2,512x7x7x2048x1x1,1024x14x14x2048x1x1/s2,"
    "2048x7x7x512x1x1,512x7x7x512x3x3"
)
_MOBILENET_V2 = (
    "32x112x112x32x3x3/w,96x112x112x96x3x3/s2w,144x56x56x144x3x3/w,144x56x56x144x3x3/s2w,"
    "192x28x28x192x3x3/w,192x28x28x192x3x3/s2w,384x14x14x384x3x3/w,576x14x14x576x3x3/w,"
    "576x14x14x576x3x3/s2w,960x7x7x960x3x3/w"
)
#: The direction of each operation.
DIRECTIONS: dict[str, Direction] = {
    "conv2d": "forward",
    "conv2d_input": "input",
    "conv2d_weight": "weight",
}


def layers_of(layers: str, size: Size) -> list[Size]:
    """The layers of a network, with the batch and the letters of a size."""
    return [
        Size((size.batch or 1, *layer.extents), variant=layer.variant + size.variant)
        for layer in parse_sizes(layers)
    ]


#: The layers of networks by their names.
NAMED = {
    "resnet50": partial(layers_of, _RESNET50),
    "mobilenet_v2": partial(layers_of, _MOBILENET_V2),
}


def options(case: Case) -> dict[str, Any]:
    """Stride, padding, dilation and groups of a case."""
    numbers = {letter: int(n) for letter, n in re.findall(r"([sdgp])(\d+)", case.trans)}
    dilation, rank = numbers.get("d", 1), (len(case.extents) - 3) // 2
    padding = [dilation * (k - 1) // 2 for k in case.extents[-rank:]]
    if "p" in numbers:
        padding = [numbers["p"]] * rank
    return {
        "stride": numbers.get("s", 1), "padding": tuple(padding), "dilation": dilation,
        "groups": case.extents[1] if "w" in case.trans else numbers.get("g", 1),
    }  # fmt: skip


def is_last(case: Case) -> bool:
    """Whether channels are adjacent."""
    return case.trans.endswith("l")


def has_bias(case: Case) -> bool:
    """Whether a bias is added."""
    return "b" in case.trans and DIRECTIONS[case.operation] == "forward"


def has_residual(case: Case) -> bool:
    """Whether an array is added in the epilogue, and negative sums are replaced by 0."""
    return "r" in case.trans and DIRECTIONS[case.operation] == "forward"


def section(case: Case) -> str:
    """The batch, whether it is depthwise, and the layout."""
    following = ["with an epilogue"] if has_residual(case) else []
    kind = ["depthwise"] if "w" in case.trans else ["grouped"] if "g" in case.trans else []
    layout = "channels last" if is_last(case) else "contiguous"
    return ", ".join((f"batch {case.extents[0]}", *kind, *following, layout))


def all_shapes(extents: Sequence[int], asked: dict[str, Any]) -> tuple[Shape, Shape, ConvExtents]:
    """Return the shapes of x and w, and the extents of the convolution."""
    if len(extents) not in (5, 7, 9) or min(extents) < 1:
        raise ArgumentError(
            f"a convolution has the 7 sizes N C H W K R S, or 5 or 9 with one or three axes of "
            f"space; got {tuple(extents)}"
        )
    rank = (len(extents) - 3) // 2
    n, c, *x = extents[: 2 + rank]
    k, *w = extents[2 + rank :]
    o = Options(rank, *(asked[name] for name in ("stride", "padding", "dilation", "groups")))
    x_shape, w_shape = (n, c, *x), (k, c // max(1, o.groups), *w)
    return x_shape, w_shape, geometry(o, x_shape, w_shape, None, ("input", "weight", "result"))


def problem(
    direction: Direction,
    extents: Sequence[int],
    elem: Element,
    asked: dict[str, Any],
    channels_last: bool = False,
    precision: str = "ieee",
    bias: bool = False,
    filters_last: bool = False,
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
        direction=direction, elem=elem, batch=g.batch, groups=g.groups, channels=g.channels,
        filters=g.filters, x_size=g.x_size, w_size=g.w_size, y_size=g.y_size, stride=g.stride,
        dilation=g.dilation, before=g.before,
        x=operand(g.batch, g.channels, g.x_size, channels_last),
        w=operand(g.filters, w_shape[1], g.w_size, filters_last),
        y=operand(g.batch, g.filters, g.y_size, channels_last), bias=1 if bias else None,
        precision=precision,
    )  # fmt: skip


def with_epilogue(p: ConvProblem, epilogue: Epilogue) -> ConvProblem:
    """Return a convolution along two axes followed by an epilogue.

    Raises:
        ArgumentError: It is a gradient, or a stage has names or arrays of rows.
        ShapeError, DTypeError: An array does not fit the result.
    """
    if p.direction != "forward":
        raise ArgumentError("epilogue is given for a gradient, which takes none")
    arrays = [as_array(array, "an array of the epilogue") for array in epilogue.arrays]
    shape = p.batch, p.filters, *p.y_size[1:]
    reading = check_stages(epilogue.stages, arrays, p.elem, shape, p.filters)
    extras = []
    for array, stage in zip(arrays, reading, strict=True):
        strides = tuple(step // array.dtype.itemsize for step in array.strides)
        view = View(None, 0, array.shape, strides, array.dtype, array.dtype.itemsize)
        extras.append(of_stage(view, stage, 2))
    return replace(p, epilogue=epilogue.stages, extras=tuple(extras))


def problem_of(case: Case) -> ConvProblem:
    """The problem of a case."""
    elem = element(dtype_of(case.dtype))
    direction, asked = DIRECTIONS[case.operation], options(case)
    last, bias = is_last(case), has_bias(case)
    p = problem(direction, case.extents, elem, asked, last, case.precision, bias, last)
    if not has_residual(case):
        return p
    added = StageArray(elem, replace(p.y, aligned=1))
    return replace(p, epilogue=Epilogue().add(0).relu().stages, extras=(added,))


def y_shape(x: Shape, g: ConvExtents) -> Shape:
    """The shape of y."""
    return (g.batch, g.filters, *g.y_size[5 - len(x) :])


def moved_bytes(case: Case) -> int:
    """The least traffic."""
    p = problem_of(case)
    return p.bytes + p.extra_bytes


def shapes(case: Case) -> tuple[Shape, ...]:
    """The shapes of the arrays that are read, as they are stored."""
    x, w, g = all_shapes(case.extents, options(case))
    y = y_shape(x, g)
    both: tuple[Shape, ...]
    both = {"forward": (x, w), "input": (w, y), "weight": (x, y)}[DIRECTIONS[case.operation]]
    if is_last(case):
        both = tuple([(outer, *space, channels) for outer, channels, *space in both])
        y = (y[0], *y[2:], y[1])
    return (*both, *[(g.filters,)] * has_bias(case), *[y] * has_residual(case))


def nbytes(case: Case) -> tuple[int, ...]:
    """The bytes of each operand and of the result, in the order of plans."""
    p = problem_of(case)
    x, w, y = (p.elem.itemsize * count for count in (p.x_elements, p.w_elements, p.y_elements))
    return {"forward": (x, w, y), "input": (y, w, x), "weight": (x, y, w)}[p.direction]


def _as_images(case: Case, arrays: Sequence[Any]) -> list[Any]:
    """The operands with their axes in the order N, C, space."""
    if not is_last(case):
        return list(arrays)
    return [
        x if x.ndim == 1 else x.transpose((0, x.ndim - 1, *range(1, x.ndim - 1))) for x in arrays
    ]


def variants(case: Case, variant: str, alone: bool) -> Iterator[Case]:
    """The case with the options of its variant.

    Raises:
        ArgumentError: They cannot be read.
    """
    if _VARIANT.fullmatch(variant) is None:
        raise ArgumentError(
            f"{case.operation} has no variant {variant!r}; "
            "expected letters of s (stride), d (dilation), "
            "g (groups) and p (padding) with numbers, and w (depthwise), b (bias), r (a residual "
            "and relu), l (channels last): s2p1wl"
        )
    yield replace(case, trans=variant)


def call(case: Case, on_host: bool) -> PublicCall:
    """Our call."""
    asked = {**options(case), "precision": case.precision}
    x, w, _ = all_shapes(case.extents, options(case))
    name, direction = f"nn.{_name(case, x)}", DIRECTIONS[case.operation]
    image = "L" if is_last(case) else "N"
    order = 2 * image + "N" * has_bias(case) + image * has_residual(case)
    if direction == "input":
        return PublicCall(name, asked, leading=(x,), transposed=order)
    if direction == "weight":
        asked["weight_size"] = w
        return PublicCall(name, asked, names=("input", "grad_output"), transposed=order)
    stages = ("add", "relu") if has_residual(case) else ()
    return PublicCall(name, asked, transposed=order, epilogue=stages)


def _name(case: Case, x: Shape) -> str:
    """The name of the public function."""
    return case.operation.replace("2d", f"{len(x) - 2}d")


def like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """PyTorch's; NumPy and CuPy have none."""
    nn = getattr(library, "nn", None)
    if nn is None:
        return None
    asked, direction = options(case), DIRECTIONS[case.operation]
    x, w, _ = all_shapes(case.extents, asked)
    if is_last(case):
        order = (0, len(x) - 1, *range(1, len(x) - 1))
        arrays = [item if item.ndim == 1 else item.permute(order) for item in arrays]
    if direction == "forward":
        function = getattr(nn.functional, _name(case, x))
        if not has_residual(case):
            return partial(function, *arrays, **asked)
        *operands, residual = arrays
        return lambda: (function(*operands, **asked) + residual).relu_()
    rank = len(x) - 2
    step, dilation = ([asked[name]] * rank for name in ("stride", "dilation"))
    # The layout of the gradient is that of the array which it is the gradient of.
    like = torch_like(arrays[0], x if direction == "input" else w, is_last(case))
    first, second = (like, arrays[0]) if direction == "input" else (arrays[0], like)
    requested = [direction == "input", direction == "weight", False]
    backward = partial(
        library.ops.aten.convolution_backward, arrays[1], first, second, None, step,
        list(asked["padding"]), dilation, False, [0] * rank, asked["groups"], requested,
    )  # fmt: skip
    place = requested.index(True)
    return lambda: backward()[place]


def torch_like(tensor: Any, shape: Shape, last: bool) -> Any:
    """An empty tensor of a shape, channels-last or not."""
    if not last:
        return tensor.new_empty(shape)
    outer, channels, *space = shape
    order = (0, len(shape) - 1, *range(1, len(shape) - 1))
    return tensor.new_empty((outer, *space, channels)).permute(order)


def oracle(case: Case, inputs: Operands) -> Oracle:
    """The sums tap by tap, in float64."""
    x, w, g = all_shapes(case.extents, options(case))
    direction, dtype = DIRECTIONS[case.operation], dtype_of(case.dtype)
    first, second, *others = _as_images(case, inputs)
    expected = reference(direction, first, second, x, w, g)
    if has_bias(case):
        expected += others[0].astype(np.float64).reshape((-1, *(1,) * (len(x) - 2)))
    if has_residual(case):
        expected = np.maximum(expected + others[-1], 0)
    terms = {
        "forward": prod(w[1:]) + len(others), "input": w[0] // g.groups * prod(w[2:]),
        "weight": g.batch * prod(g.y_size),
    }[direction]  # fmt: skip
    scale = root_mean_square(dtype) ** 2
    bound = bound_of_sums(dtype, terms, scale, expected)
    return within(expected, bound + 8 * SPLIT_ERRORS[case.precision] * sqrt(terms) * scale)


def reference(
    direction: Direction, first: Array, second: Array, x: Shape, w: Shape, g: ConvExtents
) -> Array:
    """Return a convolution, or a gradient, in float64."""
    first, second = first.astype(np.float64), second.astype(np.float64)
    skipped = 5 - len(x)
    out, stride, dilation, before = (
        item[skipped:] for item in (g.y_size, g.stride, g.dilation, g.before)
    )
    size = [max((q - 1) * s + (k - 1) * d + 1, n + p) for q, s, k, d, n, p in zip(
        out, stride, w[2:], dilation, x[2:], before, strict=True)]  # fmt: skip
    whole = np.zeros((*x[:2], *size))
    every: tuple[Any, ...] = (slice(None), slice(None))
    inner = whole[(*every, *(slice(p, p + n) for p, n in zip(before, x[2:], strict=True)))]
    weights = second if direction == "forward" else first if direction == "input" else np.zeros(w)
    y = np.zeros((g.batch, g.filters, *out)) if direction == "forward" else second
    if direction != "input":
        inner[...] = first
    G, K, C = g.groups, g.filters // g.groups, w[1]
    y = y.reshape(g.batch, G, K, -1)
    for tap_at in product(*(range(n) for n in w[2:])):
        axes = zip(tap_at, dilation, out, stride, strict=True)
        at = (*every, *(slice(a * d, a * d + (q - 1) * s + 1, s) for a, d, q, s in axes))
        part = whole[at].reshape(g.batch, G, C, -1)
        tap = weights[(*every, *tap_at)].reshape(G, K, C)
        if direction == "forward":
            y += tap @ part
        elif direction == "input":
            whole[at] += (tap.swapaxes(1, 2) @ y).reshape(*x[:2], *out)
        else:
            weights[(*every, *tap_at)] = (y @ part.swapaxes(2, 3)).sum(0).reshape(w[:2])
    if direction == "forward":
        return y.reshape(g.batch, g.filters, *out)
    return inner.copy() if direction == "input" else weights


#: The limit of the multiply-adds of a size, by whether the device is a CPU.
_MAX_PRODUCTS = {True: 1 << 30, False: 1 << 35}
_KERNELS = (1, 3, 3, 5, 7)


def layer(rng: random.Random, on_cpu: bool) -> Size:
    """A layer of a network, with one group, four groups or one for each channel."""
    while True:
        n, c, k = random_extent(rng, 64), random_extent(rng, 1024), random_extent(rng, 1024)
        h, taps, stride = random_extent(rng, 224), rng.choice(_KERNELS), rng.choice((1, 1, 2))
        groups = rng.choice((1, 1, 1, 4, c))
        c, k = (max(1, m // groups) * groups for m in (c, k))
        products = n * k * (h // stride + 1) ** 2 * c // groups * taps**2
        if (
            h >= taps
            and products <= _MAX_PRODUCTS[on_cpu]
            and n * max(c, k) * h * h <= _MAX_PRODUCTS[on_cpu] // 8
        ):
            return Size((n, c, h, h, k, taps, taps), variant=f"s{stride}g{groups}")


def any_kind(rng: random.Random, on_cpu: bool) -> Size:
    """A convolution of any kind: along one to three axes, of any stride, dilation and groups."""
    max_products = _MAX_PRODUCTS[on_cpu] >> 2
    while True:
        rank = rng.choice((1, 2, 2, 2, 3))
        n, c, k = random_extent(rng, 32), random_extent(rng, 512), random_extent(rng, 512)
        space = [random_extent(rng, (4096, 224, 32)[rank - 1]) for _ in range(rank)]
        taps = [rng.choice(_KERNELS) for _ in range(rank)]
        stride, dilation = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 1, 2))
        groups = rng.choice((1, 1, 1, 1, 2, 4, 8, 32, c))
        c, k = (max(1, m // groups) * groups for m in (c, k))
        out = [m // stride + 1 for m in space]
        products = n * k * prod(out) * c // groups * prod(taps)
        fits = all(m >= dilation * (r - 1) + 1 for m, r in zip(space, taps, strict=True))
        if fits and products <= max_products and n * max(c, k) * prod(space) <= max_products // 8:
            layout = rng.choice(("", "l"))  # "l": channels-last
            variant = f"s{stride}d{dilation}g{groups}{layout}"
            return Size((n, c, *space, k, *taps), variant=variant)


RANDOM = (RandomSizes("layer", ("float32", "float16"), layer),)
