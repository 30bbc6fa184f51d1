"""Convolutions by kernels of GPUs, against sums of NumPy; exact on whole numbers.

They are products of gathered windows, or sums of several channels at a time.

The class is forced, so that the kernels of GPUs run on a CPU too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from layers.convolution import by_channels
from sampling import FEW, compile_fast

from portable_gpu import Engine, nn
from portable_gpu.ops.conv import few_channels, implicit, variants
from portable_gpu.ops.conv.problem import ConvProblem
from portable_gpu.ops.variant import Variant
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

FORWARD = {1: nn.conv1d, 2: nn.conv2d, 3: nn.conv3d}
BY_INPUT = {1: nn.conv1d_input, 2: nn.conv2d_input, 3: nn.conv3d_input}
BY_WEIGHT = {1: nn.conv1d_weight, 2: nn.conv2d_weight, 3: nn.conv3d_weight}


@pytest.fixture(scope="module")
def gpu(engine: Engine) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        compile_fast(patch, engine, exchanges=False)
        yield Engine(queue=engine.queue, device_class="gcn")


PLAIN = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}


class Layer(NamedTuple):
    """A convolution: shapes of x and w, and the options of the function."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    options: dict[str, Any]
    channels_last: bool

    def numbers(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        """Small whole numbers, in the layout of the images."""
        values = rng.integers(-4, 5, shape).astype(np.float32)
        return by_channels(values) if self.channels_last else values


def drawn(rng: np.random.Generator) -> Layer:
    rank, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 3]))
    channels, filters = int(rng.choice([1, 3, 4, 8])), int(rng.choice([1, 2, 5, 8]))
    kernel, stride, dilation, padding = (
        tuple(int(n) for n in rng.integers(low, high, rank))
        for low, high in ((1, 4), (1, 4), (1, 3), (0, 3))
    )
    min_extents = [
        max(1, d * (k - 1) + 1 - 2 * p) for d, k, p in zip(dilation, kernel, padding, strict=True)
    ]
    size = [int(rng.integers(n, n + 6)) for n in min_extents]
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return Layer(
        (int(rng.integers(1, 4)), groups * channels, *size),
        (groups * filters, channels, *kernel),
        options, bool(rng.integers(2)),
    )  # fmt: skip


def convolved(layer: Layer, x: Any, w: Any) -> Any:
    """The sum over all taps, by the definition."""
    stride, padding, dilation, groups = layer.options.values()
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *((p, p) for p in padding)])
    sizes = zip(x.shape[2:], w.shape[2:], dilation, stride, strict=True)
    extents = [(n - d * (k - 1) - 1) // s + 1 for n, k, d, s in sizes]
    parts = []
    for images, filters in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True):
        total = np.zeros((x.shape[0], len(filters), *extents))
        for tap in product(*(range(k) for k in w.shape[2:])):
            at = tuple(
                slice(r * d, r * d + (n - 1) * s + 1, s)
                for r, d, n, s in zip(tap, dilation, extents, stride, strict=True)
            )
            weights = filters[(slice(None), slice(None), *tap)].astype(np.float64)
            total += np.einsum("nc...,kc->nk...", images[(slice(None), slice(None), *at)], weights)
        parts.append(total)
    return np.concatenate(parts, 1)


@pytest.mark.parametrize("seed", (1, 2) if FEW else (1, 2, 3, 4))
def test_forward_and_gradients(gpu: Engine, seed: int) -> None:
    rng = np.random.default_rng(seed)
    check(gpu, drawn(rng), rng)


@pytest.mark.parametrize(
    "layer",
    [
        Layer((3, 8, 4, 6), (5, 8, 1, 1), {**PLAIN}, False),
        Layer((2, 4, 7, 6), (8, 4, 3, 2), {**PLAIN, "stride": (2, 2), "padding": (1, 0)}, False),
    ],
    ids=["1 x 1", "residues of one tap"],
)
def test_operands_without_tables_of_many_axes(gpu: Engine, layer: Layer) -> None:
    """Four adjacent places of images at a time; weights from their tap on, by two strides."""
    check(gpu, layer, np.random.default_rng(5))


@pytest.mark.parametrize(
    ("channels", "stride", "size", "dtype"),
    [
        (6, 1, (5, 6), np.float32), (8, 2, (4, 9), np.float16), (6, 1, (3, 4), np.float16),
    ],
)  # fmt: skip
def test_sums_of_adjacent_channels_with_a_filter_each(
    gpu: Engine, channels: int, stride: int, size: tuple[int, ...], dtype: Any
) -> None:
    """A work-item loads 8 bytes of channels where their number is a multiple of that."""
    options = {
        "stride": (stride,) * 2, "padding": (1, 1), "dilation": (1, 1), "groups": channels,
    }  # fmt: skip
    layer = Layer((2, channels, *size), (channels, 1, 3, 3), options, True)
    check(gpu, layer, np.random.default_rng(channels), "direct", dtype)


def check(
    gpu: Engine,
    layer: Layer,
    rng: np.random.Generator,
    algo: str = "implicit_gemm",
    dtype: Any = np.float32,
) -> None:
    rank = len(layer.x) - 2
    call = {**layer.options, "algo": algo, "engine": gpu}
    x, x_other = (layer.numbers(rng, layer.x).astype(dtype) for _ in range(2))
    w, w_other = (rng.integers(-4, 5, layer.w).astype(dtype) for _ in range(2))
    bias = rng.integers(-4, 5, layer.w[0]).astype(dtype)
    expected = convolved(layer, x, w)
    y = FORWARD[rank](x, w, bias, **call)
    np.testing.assert_array_equal(y, expected + bias.reshape(-1, *[1] * rank))
    # <dy, J x> = <J' dy, x>, exactly: for two x and two w.
    dy = layer.numbers(rng, expected.shape).astype(dtype)
    dx = np.asarray(BY_INPUT[rank](x.shape, w, dy, **call), np.float64)
    dw = np.asarray(BY_WEIGHT[rank](x, w.shape, dy, **call), np.float64)
    for other in (x, x_other):
        assert (convolved(layer, other, w) * dy).sum() == (dx * other).sum()
    for other in (w, w_other):
        assert (convolved(layer, x, other) * dy).sum() == (dw * other).sum()


def test_images_copied_with_adjacent_channels(gpu: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of images copied by channels, as on GPUs with matrix units, are exact in float32."""

    def only(
        problem: ConvProblem, target: Target, table: TuningTable, limit: int | None
    ) -> list[Variant]:
        return [implicit.by_copies(problem, implicit.channels_last(problem), target, table)]

    monkeypatch.setattr(variants, "variants", only)
    fresh = Engine(queue=gpu.queue, device_class="gcn")
    options = {"stride": (1, 2), "padding": (1, 0), "dilation": (1, 1), "groups": 2}
    layer = Layer((2, 8, 6, 7), (6, 4, 3, 2), options, False)
    rng = np.random.default_rng(3)
    x, w = layer.numbers(rng, layer.x), rng.integers(-4, 5, layer.w).astype(np.float32)
    expected = convolved(layer, x, w)
    np.testing.assert_array_equal(nn.conv2d(x, w, **options, engine=fresh), expected)
    dy = layer.numbers(rng, expected.shape)
    dx = np.asarray(nn.conv2d_input(x.shape, w, dy, **options, engine=fresh), np.float64)
    dw = np.asarray(nn.conv2d_weight(x, w.shape, dy, **options, engine=fresh), np.float64)
    assert (expected * dy).sum() == (dx * x).sum() == (dw * w).sum()


def few_channels_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the variant that merges few channels with taps or residues, for any GPU."""

    def only(
        problem: ConvProblem, target: Target, table: TuningTable, limit: int | None
    ) -> list[Variant]:
        merged = few_channels.variant(problem, target, table, implicit.best_by_windows)
        assert merged is not None
        return [merged]

    monkeypatch.setattr(variants, "variants", only)


FEW_CHANNELS = [
    # Channels, filters, kernel, stride, padding, dilation, extents of x, channels last.
    (3, 8, (3, 5), (2, 2), (1, 2), (1, 1), (8, 10), False),
    (1, 8, (2, 3), (1, 1), (0, 1), (2, 1), (5, 4), True),
    (12, 16, (3, 2), (1, 4), (2, 0), (1, 1), (5, 8), True),
    (2, 8, (2, 3, 4), (1, 2, 3), (1, 0, 1), (1, 1, 1), (3, 6, 9), False),
]


@pytest.mark.parametrize("case", FEW_CHANNELS[:2] if FEW else FEW_CHANNELS)
def test_few_channels_are_merged(
    gpu: Engine, monkeypatch: pytest.MonkeyPatch, case: tuple[Any, ...]
) -> None:
    """Taps become channels; residues of the stride become filters; sums are exact in float16."""
    channels, filters, kernel, stride, padding, dilation, size, last = case
    few_channels_only(monkeypatch)
    fresh = Engine(queue=gpu.queue, device_class="gcn")
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": 1}
    layer = Layer((2, channels, *size), (filters, channels, *kernel), options, last)
    rank, rng = len(size), np.random.default_rng(channels)
    x, w = rng.integers(-2, 3, layer.x), rng.integers(-2, 3, layer.w)
    bias = rng.integers(-4, 5, filters).astype(np.float16)
    halves = [by_channels(each) if last else each for each in (x.astype(np.float16),)]
    expected = convolved(layer, x, w)
    call = {**options, "engine": fresh}
    half_w = w.astype(np.float16)
    y = FORWARD[rank](halves[0], half_w, bias, **call)
    np.testing.assert_array_equal(y, expected + bias.reshape(-1, *[1] * rank))
    dy = rng.integers(-1, 2, expected.shape).astype(np.float16)
    dw = np.asarray(BY_WEIGHT[rank](halves[0], w.shape, dy, **call), np.float64)
    assert (expected * dy).sum() == (dw * w).sum()
    other = rng.integers(-2, 3, layer.w)
    assert (convolved(layer, x, other) * dy).sum() == (dw * other).sum()
    if max(stride) > 1:
        dx = np.asarray(BY_INPUT[rank](x.shape, half_w, dy, **call), np.float64)
        assert (expected * dy).sum() == (dx * x).sum()
        other = rng.integers(-2, 3, layer.x)
        assert (convolved(layer, other, w) * dy).sum() == (dx * other).sum()


def test_bits_repeat_and_halves(gpu: Engine) -> None:
    rng = np.random.default_rng(9)
    x = rng.standard_normal((2, 16, 9, 9)).astype(np.float16)
    w = rng.standard_normal((8, 16, 3, 3)).astype(np.float16)
    call = {"padding": 1, "algo": "implicit_gemm", "engine": gpu}
    first, second = (np.asarray(nn.conv2d(x, w, **call)) for _ in range(2))
    assert first.dtype == np.float16
    np.testing.assert_array_equal(first, second)
    options = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    layer = Layer(x.shape, w.shape, options, False)
    exact, size = convolved(layer, x, w), convolved(layer, abs(x), abs(w))
    terms = 16 * 9 + 2
    bound = terms * 2.0**-24 * size + 2.0**-11 * abs(exact) + 2.0**-24
    assert (abs(first.astype(np.float64) - exact) <= bound).all()


@pytest.mark.parametrize("shape", [(40, 4, 5, 5), (300, 4, 3, 3)])
def test_images_that_are_one_image_in_memory(gpu: Engine, shape: tuple[int, ...]) -> None:
    """Strides of 0: the table of places is read for every image, from the same memory."""
    batch, channels, *size = shape
    rng = np.random.default_rng(batch)
    x, dy = (
        np.broadcast_to(rng.integers(-3, 4, (1, n, *size)).astype(np.float32), (batch, n, *size))
        for n in (channels, 6)
    )
    options = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    call = {**options, "algo": "implicit_gemm", "engine": gpu}
    dw = np.asarray(nn.conv2d_weight(x, (6, channels, 3, 3), dy, **call), np.float64)
    w = rng.integers(-3, 4, dw.shape).astype(np.float32)
    layer = Layer(x.shape, w.shape, options, False)
    assert (convolved(layer, x, w) * dy).sum() == (dw * w).sum()
    np.testing.assert_array_equal(nn.conv2d(x, w, **call), convolved(layer, x, w))
