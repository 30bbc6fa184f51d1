"""Convolutions on an NVIDIA GPU, run from their PTX: in pieces of bfloat16, and all variants."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import pytest
from emulator.device import Emulator

from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.dtypes import element
from portable_gpu.isa.compilers import find_compilers
from portable_gpu.ops.conv import implicit, in_pieces
from portable_gpu.ops.conv.commands.cases import all_shapes, problem, reference
from portable_gpu.ops.conv.direct import direct_kernel
from portable_gpu.ops.conv.problem import Direction, ImageStrides, StageArray
from portable_gpu.ops.conv.products import inputs_at_once, products_of
from portable_gpu.ops.conv.sliding_weight import sliding_weight_kernel
from portable_gpu.ops.conv.variants import variants as all_variants
from portable_gpu.ops.conv.weight import weight_kernel
from portable_gpu.ops.gemm.matrix.plan import MatrixPlan
from portable_gpu.ops.gemm.matrix.policy import WgmmaPolicy
from portable_gpu.ops.gemm.tiling import Tiling
from portable_gpu.runtime.views import contiguous_strides

missing = find_compilers().missing.get("NVIDIA")
pytestmark = pytest.mark.skipif(missing is not None, reason=str(missing))

F32 = element(np.float32)
CANARY = np.float32(7)


@dataclass(frozen=True)
class Case:
    """One convolution: its sizes N C (space) K (taps), how arrays are stored, and their values.

    ``wide`` says which array has values of all pieces: the first or the second that is read, or
    both.  Of all arrays, every ``apart``-th element in memory is used.  ``residual`` says which
    array in the order (N, C, space) is added: ``whole``, or with ``one channel`` or ``one column``.
    Negative sums are then replaced by 0.
    """

    direction: Direction
    extents: tuple[int, ...]
    stride: int = 1
    padding: int = 1
    dilation: int = 1
    groups: int = 1
    last: bool = False
    filters_last: bool = False
    precision: str = "bf16x6"
    bias: bool = False
    wide: str = "first"
    apart: int = 1
    residual: str = ""


def where(shape: tuple[int, ...], strides: ImageStrides) -> Any:
    """The offset of each element of an array (outer, channels, space)."""
    steps = (strides.outer, strides.channel, *strides.space[5 - len(shape) :])
    return sum(step * index for step, index in zip(steps, np.indices(shape), strict=True))


def spread(strides: ImageStrides, apart: int) -> ImageStrides:
    steps = tuple(apart * step for step in strides.space)
    return ImageStrides(
        apart * strides.outer, apart * strides.channel, steps, 16 if apart == 1 else 4
    )  # type: ignore[arg-type]


def whole_numbers(rng: Any, shape: tuple[int, ...], bits: int, terms: int) -> Any:
    """Draw integers of ``bits`` bits; with ``terms``, about 12 in ``terms`` of them are not 0."""
    values = rng.integers(-(2**bits) + 1, 2**bits, shape)
    return (values * (rng.random(shape) < 12 / terms) if terms else values).astype(np.float32)


def operands(case: Case, rng: Any, shapes: list[tuple[int, ...]], terms: int) -> list[Any]:
    """The arrays that are read, of whole numbers whose sums are exact in float32."""
    bits = {"first": (17, 1), "second": (1, 17), "both": (9, 9)}[case.wide]
    if case.precision == "bf16x3":
        bits = {"first": (15, 1), "second": (1, 15), "both": (12, 6)}[case.wide]
    few = (0, terms) if case.wide == "first" else (terms, 0)
    return [whole_numbers(rng, s, b, n) for s, b, n in zip(shapes, bits, few, strict=True)]


def check(gpu: Emulator, case: Case, every: Any = in_pieces.variants, bound: float = 0) -> None:
    """Compare variants with NumPy; an access outside of an array is an error of the emulator."""
    c, rng = case, np.random.default_rng(sum(case.extents))
    asked = {
        "stride": c.stride, "padding": c.padding, "dilation": c.dilation, "groups": c.groups,
    }  # fmt: skip
    p = problem(c.direction, c.extents, F32, asked, c.last, c.precision, c.bias, c.filters_last)
    x, w, g = all_shapes(c.extents, asked)
    p = replace(p, x=spread(p.x, c.apart), w=spread(p.w, c.apart), y=spread(p.y, c.apart))
    arrays = {"x": (x, p.x), "w": (w, p.w), "y": ((x[0], w[0], *g.y_size[5 - len(x) :]), p.y)}
    read, written = {"forward": ("xw", "y"), "input": ("wy", "x"), "weight": ("xy", "w")}[
        c.direction
    ]
    terms = {
        "forward": prod(w[1:]), "input": w[0] // c.groups * prod(w[2:]),
        "weight": x[0] * prod(g.y_size),
    }[c.direction]  # fmt: skip
    values = operands(c, rng, [arrays[name][0] for name in read], terms)
    memory = []
    for array, name in zip(values, read, strict=True):
        at = where(array.shape, arrays[name][1])
        memory.append(np.full(at.max() + 1, np.nan, np.float32))
        memory[-1][at] = array
    if c.direction == "input":
        memory.reverse()
    bias = [whole_numbers(rng, w[:1], 8, 0)] * c.bias
    expected = reference(c.direction, *values, x, w, g)
    assert reference(c.direction, *map(abs, values), x, w, g).max(initial=0) < 2**23
    if bias:
        expected += bias[0].reshape(-1, *[1] * (len(x) - 2))
    if c.residual:
        axis_of_one = {"one channel": 1, "one column": len(x) - 1}.get(c.residual)
        shape = tuple(1 if k == axis_of_one else n for k, n in enumerate(arrays[written][0]))
        bias.append(whole_numbers(rng, shape, 8, 0))
        ones = [1] * (5 - len(shape))
        whole = (*shape[:2], *ones, *shape[2:])
        steps = zip(whole, contiguous_strides(whole), strict=True)
        outer, channel, *space = (step if n > 1 else 0 for n, step in steps)
        added = StageArray(F32, ImageStrides(outer, channel, (space[0], space[1], space[2])))
        p = replace(p, epilogue=Epilogue().add(0).relu().stages, extras=(added,))
        expected = np.maximum(expected + bias[-1], 0)
    at = where(*arrays[written])
    variants = list(every(p, gpu.target, gpu.table))
    assert variants
    for variant in variants:
        out = np.full(at.max() + 33, CANARY)
        plan = variant.bind(gpu)
        offsets = (*[0] * (2 + len(bias)), 16)
        plan.enqueue(gpu, [*memory, *bias, out], offsets)
        assert (out[:16] == CANARY).all()
        assert (out[-16:] == CANARY).all()
        error = np.abs(out[16:-16][at] - expected).max()
        assert error <= bound * np.abs(expected).max(), (variant.name, error)


def drawn_case(draw: random.Random) -> Case:
    rank, groups = draw.choice((1, 2, 2, 2, 3)), draw.choice((1, 1, 1, 2, 3))
    channels, filters = (draw.randint(1, 40) for _ in range(2))
    if groups > 1:
        channels, filters = (8 * groups * draw.randint(1, 3) for _ in range(2))
    taps = [draw.randint(1, 3) for _ in range(rank)]
    dilation, padding = draw.choice((1, 1, 2)), draw.choice((0, 1, 1, 2))
    space = [max(1, dilation * (t - 1) + 1 - 2 * padding) + draw.randint(0, 6) for t in taps]
    return Case(
        draw.choice(("forward", "input", "weight")),
        (draw.randint(1, 3), channels, *space, filters, *taps), draw.choice((1, 1, 2, 3)), padding,
        dilation, groups, draw.random() < 0.5, draw.random() < 0.5,
        draw.choice(("bf16x6", "bf16x6", "bf16x3")), False,
        draw.choice(("first", "second", "both")),
    )  # fmt: skip


CASES = {
    "a bias": Case("forward", (2, 40, 5, 6, 20, 3, 2), last=True, bias=True),
    "groups and strides": Case(
        "forward", (2, 16, 9, 7, 24, 3, 3), stride=2, groups=2, wide="second"
    ),
    "a residual in another layout": Case(
        "forward", (2, 16, 5, 7, 24, 3, 3), last=True, bias=True, residual="whole"
    ),
    "a residual in residues of the stride": Case(
        "input", (2, 16, 6, 5, 8, 3, 3), stride=2, last=True, residual="one column"
    ),
    "few channels, and one axis": Case("forward", (2, 3, 30, 70, 7), padding=3, dilation=2),
    "a bias, and results of adjacent places": Case("forward", (3, 16, 4, 7, 24, 3, 3), bias=True),
    "three axes, two pieces": Case("forward", (1, 8, 3, 4, 5, 8, 2, 2, 3), precision="bf16x3"),
    "residues": Case("input", (2, 10, 7, 6, 20, 3, 3), stride=2, filters_last=True),
    "a residual in residues in one launch": Case(
        "input", (2, 16, 6, 8, 8, 3, 3), stride=2, last=True, residual="one column"
    ),
    "residues with a bias, and of one tap": Case(
        "input", (2, 8, 6, 8, 8, 2, 2), stride=2, padding=0, last=True, bias=True
    ),
    "elements apart, and residues without taps": Case(
        "input", (2, 8, 10, 16, 1), stride=3, padding=0, apart=2, wide="both"
    ),
    "weights": Case("weight", (3, 20, 6, 7, 12, 3, 3), wide="both"),
    "weights in the order of the product, filled up": Case(
        "weight", (2, 16, 6, 2, 13, 2, 2), dilation=2, last=True, filters_last=True
    ),
    "weights of groups": Case("weight", (2, 16, 5, 5, 16, 1, 3), groups=2, last=True),
}
#: Convolutions of float32: each gradient has a variant that fills its result by strides.
PLAIN = {
    "by Winograd and Fourier": Case("input", (2, 3, 7, 5, 2, 3, 3), precision="ieee"),
    "residues of groups": Case(
        "input", (2, 6, 10, 4, 5), stride=3, padding=2, groups=2, last=True, filters_last=True,
        precision="ieee",
    ),
    "weights of groups": Case("weight", (3, 4, 9, 6, 3), 2, 1, 2, 2, precision="ieee"),
    "a residual": Case("forward", (2, 4, 7, 6, 6, 3, 3), precision="ieee", residual="one channel"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_in_pieces(name: str) -> None:
    check(Emulator.of("sm_90", late=name != "weights"), CASES[name])


@pytest.mark.parametrize("name", PLAIN)
def test_variants_stay_within_their_arrays(name: str) -> None:
    """Sums are exact, except in the transforms of Winograd and Fourier."""
    check(Emulator.of("sm_90"), PLAIN[name], all_variants, bound=1e-5)


def test_precisions_without_pieces_have_no_such_variant() -> None:
    """Nor have groups whose channels are no whole chunks."""
    gpu = Emulator.of("sm_90")
    asked = {"stride": 1, "padding": 1, "dilation": 1, "groups": 2}
    for precision, channels in (("ieee", 16), ("tf32", 16), ("tf32x3", 16), ("bf16x6", 8)):
        p = problem("forward", (1, channels, 6, 6, 16, 3, 3), F32, asked, precision=precision)
        assert not list(in_pieces.variants(p, gpu.target, gpu.table))


@pytest.mark.parametrize(
    "case",
    [
        Case("forward", (2, 4, 5, 9, 4, 3, 3), 2, groups=4, last=True, precision="ieee", bias=True),
        Case("input", (1, 6, 7, 6, 3), 3, groups=6, last=True, filters_last=True, precision="ieee"),
    ],
)
def test_sums_of_adjacent_channels(case: Case) -> None:
    """A work-item of ``direct`` has two channels, which it loads at once."""

    def direct(problem: Any, target: Any, table: Any) -> list[Any]:
        assert direct_kernel(problem, target).context["wide"] == 2
        return [one for one in all_variants(problem, target, table) if one.name == "direct"]

    check(Emulator.of("sm_90"), case, direct)


@pytest.mark.parametrize(
    "case",
    [
        Case("weight", (4, 3, 14, 6, 3, 3, 3), groups=3, precision="ieee"),
        Case("weight", (3, 24, 19, 30, 24, 2, 3), 2, groups=24, last=True, precision="ieee"),
    ],
)
def test_gradients_of_depthwise_filters(case: Case) -> None:
    """Several groups share a block of channels."""

    def direct(problem: Any, target: Any, table: Any) -> list[Any]:
        kernel = sliding_weight_kernel(problem, target)
        assert kernel is not None
        assert kernel.parts > 1
        return [one for one in all_variants(problem, target, table) if one.name == "direct"]

    check(Emulator.of("sm_90"), case, direct)


@pytest.mark.parametrize("kernel", [sliding_weight_kernel, weight_kernel])
def test_lanes_of_small_groups(kernel: Any) -> None:
    """A group of the device has fewer work-items than there are channels."""
    gpu = Emulator.of("sm_90")
    channels, groups = (9, 9) if kernel is sliding_weight_kernel else (8, 1)
    gpu.target = replace(gpu.target, max_work_group_size=8)
    extents = (1, channels, 4, 3, channels, 2, 2)
    case = Case("weight", extents, groups=groups, last=True, precision="ieee")

    def direct(problem: Any, target: Any, table: Any) -> list[Any]:
        assert kernel(problem, target).context["G"] <= 8
        return [one for one in all_variants(problem, target, table) if one.name == "direct"]

    check(gpu, case, direct)


@pytest.mark.parametrize(
    ("places", "last", "taps"), [((4, 6), False, 1), ((5, 8), False, 1), ((5, 6), True, 3)]
)
def test_gradients_of_16_bit_filters(places: tuple[int, int], last: bool, taps: int) -> None:
    """Places are adjacent, several images to a step; or channels are, with taps in the columns."""
    gpu, rng = Emulator.of("sm_90"), np.random.default_rng(taps)
    elem, extents = element(np.float16), (3, 24, *places, 72, taps, taps)
    asked = {"stride": 1, "padding": taps // 2, "dilation": 1, "groups": 1}
    p = problem("weight", extents, elem, asked, last, filters_last=last)
    x, w, g = all_shapes(extents, asked)
    item, *others = products_of(p)
    assert not others
    assert all(operand.reader is not None for operand in (item.problem.a, item.problem.b)[last:])
    values = [rng.integers(-2, 3, shape).astype(np.float32) for shape in (x, (3, 72, *places))]
    memory = []
    for array, strides in zip(values, (p.x, p.y), strict=True):
        memory.append(np.full(array.size, np.nan, np.float16))
        memory[-1][where(array.shape, strides)] = array
    policy = replace(WgmmaPolicy.for_shape_class("tiny"), bulk=False)
    plan = MatrixPlan(gpu, item.problem, Tiling("", policy))  # type: ignore[arg-type]
    out = np.full(p.w_elements + 32, np.nan, np.float16)
    plan.enqueue(gpu, [*memory[::-1], out], (0, 0, 16), (1.0, 0.0))  # type: ignore[arg-type]
    assert np.isnan(out[:16]).all()
    assert np.isnan(out[-16:]).all()
    expected = reference("weight", *values, x, w, g)
    result = out[16:-16].reshape(72, taps, taps, 24) if last else out[16:-16].reshape(w)
    np.testing.assert_array_equal(result.transpose(0, 3, 1, 2) if last else result, expected)


@pytest.mark.parametrize(
    ("space", "name", "shares"),
    [((6, 10), "tiny", 0), ((10, 14), "64x192", 0), ((6, 10), "tiny", 3)],
)
def test_results_of_adjacent_places(space: tuple[int, int], name: str, shares: int) -> None:
    """Chunks of 8 bytes have four places of one image; rows of a warp are of several images."""
    gpu, rng = Emulator.of("sm_90"), np.random.default_rng(len(name))
    elem, extents = element(np.float16), (3, 16, *space, 20, 3, 3)
    asked = {"stride": 1, "padding": 1, "dilation": 1, "groups": 1}
    p = problem("forward", extents, elem, asked, bias=True)
    p = replace(
        p,
        x=implicit.channels_last(p).x,
        w=problem("forward", extents, elem, asked, True, filters_last=True).w,
    )
    x, w, g = all_shapes(extents, asked)
    (item,) = products_of(p)
    assert item.problem.c.reader is not None
    assert (item.problem.c.row, item.copied) == (1, None)
    values = [rng.integers(-2, 3, shape).astype(np.float32) for shape in (x, w)]
    memory = []
    for array, strides in zip(values, (p.x, p.w), strict=True):
        memory.append(np.full(array.size, np.nan, np.float16))
        memory[-1][where(array.shape, strides)] = array
    bias = rng.integers(-4, 5, w[0]).astype(np.float16)
    policy = replace(WgmmaPolicy.for_shape_class(name), bulk=False)
    plan = MatrixPlan(gpu, item.problem, Tiling("", policy, shares=shares))  # type: ignore[arg-type]
    out = np.full(p.y_elements + 32, np.nan, np.float16)
    plan.enqueue(gpu, [*memory, bias, out], (0, 0, 0, 16), (1.0, 0.0))  # type: ignore[arg-type]
    assert np.isnan(out[:16]).all()
    assert np.isnan(out[-16:]).all()
    expected = reference("forward", *values, x, w, g) + bias.reshape(-1, 1, 1)
    np.testing.assert_array_equal(out[16:-16].reshape(expected.shape), expected)


@pytest.mark.parametrize(
    ("taps", "space", "last", "name", "producers"),
    [(3, (6, 10), True, "tiny", 1), (3, (4, 6), False, "small", 2), (1, (6, 10), True, "tiny", 2)],
)
def test_residues_of_the_stride_in_one_launch(
    taps: int, space: tuple[int, int], last: bool, name: str, producers: int
) -> None:
    """Each has a part of k, and with one tap three of four have none; a group has several tiles."""
    gpu, rng = Emulator.of("sm_90"), np.random.default_rng(taps)
    gpu.target = replace(gpu.target, compute_units=1)
    elem, extents = element(np.float16), (3, 136, *space, 72, taps, taps)
    asked = {"stride": 2, "padding": taps // 2, "dilation": 1, "groups": 1}
    p = problem("input", extents, elem, asked, True, filters_last=last)
    x, w, g = all_shapes(extents, asked)
    item = inputs_at_once(p)
    assert item is not None
    assert item.problem.k_parts == ((288, 144, 144, 72) if taps == 3 else (72, 0, 0, 0))
    weights = rng.integers(-2, 3, w).astype(np.float32)
    dy = rng.integers(-2, 3, (3, 72, *(n // 2 for n in space))).astype(np.float32)
    read = np.full(dy.size, np.nan, np.float16)
    read[where(dy.shape, p.y)] = dy
    filters = np.full(weights.size, np.nan, np.float16)
    filters[where(w, p.w)] = weights
    if item.copied is not None:
        steps = np.indices(item.copied.extents).reshape(len(item.copied.extents), -1)
        filters = filters[np.array(item.copied.strides) @ steps]
    policy = replace(WgmmaPolicy.for_shape_class(name), bulk=False, producers=producers)
    plan = MatrixPlan(gpu, item.problem, Tiling("", policy))  # type: ignore[arg-type]
    out = np.full(p.x_elements + 32, np.nan, np.float16)
    offsets = (0, 0, 16 + item.result_start)
    plan.enqueue(gpu, [read, filters, out], offsets, (1.0, 0.0))  # type: ignore[arg-type]
    assert np.isnan(out[:16]).all()
    assert np.isnan(out[-16:]).all()
    expected = reference("input", weights, dy, x, w, g)
    np.testing.assert_array_equal(out[16:-16][where(x, p.x)], expected)
