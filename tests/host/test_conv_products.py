"""The operands of the products of a convolution."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from recorded_devices import RECORDED

from portable_gpu.dtypes import element
from portable_gpu.ops.conv.axis_taps import SpaceAxis
from portable_gpu.ops.conv.im2col import products
from portable_gpu.ops.conv.problem import ConvProblem, Direction, ImageStrides, Triple
from portable_gpu.ops.conv.products import products_of
from portable_gpu.ops.conv.variants import variants
from portable_gpu.ops.conv.windows import ColumnStrides, Windows
from portable_gpu.targets import detect
from portable_gpu.tuning.table import TuningTable


def dense(outer: int, channels: int, size: Triple) -> ImageStrides:
    """The strides of an array in C order; of an axis of one element, 0."""
    extents = (channels, *size)
    strides = [0 if n == 1 else int(np.prod(extents[k + 1 :])) for k, n in enumerate(extents)]
    channel, first, second, third = strides
    return ImageStrides(int(np.prod(extents)) * (outer > 1), channel, (first, second, third), 16)


def problem(direction: Direction, w_size: Triple, stride: int) -> ConvProblem:
    """Two images of 8 channels and 8 x 8 places, 16 filters."""
    x_size: Triple = (1, 8, 8)
    first, second, third = ((n - k) // stride + 1 for n, k in zip(x_size, w_size, strict=True))
    y_size: Triple = (first, second, third)
    return ConvProblem(
        direction, element(np.dtype(np.float32)), 2, 1, 8, 16, x_size, w_size, y_size,
        (1, stride, stride), (1, 1, 1), (0, 0, 0), dense(2, 8, x_size), dense(16, 8, w_size),
        dense(2, 16, y_size),
    )  # fmt: skip


def test_filters_of_one_tap_read_four_places_at_a_time() -> None:
    """An axis of one step does not spoil the alignment."""
    for direction in ("forward", "input"):
        (item,) = products_of(problem(direction, (1, 1, 1), 1))
        assert item.problem.a.reader is not None
        assert item.problem.a.reader.width == 4
        assert item.problem.b.reader is None


def test_residues_of_one_tap_read_weights_by_strides() -> None:
    items = list(products_of(problem("input", (1, 2, 2), 2)))
    assert [item.weights_start for item in items] == [0, 1, 2, 3]
    assert [item.result_start for item in items] == [0, 1, 8, 9]
    for item in items:
        assert item.copied is None
        assert item.problem.b.reader is None


@pytest.mark.parametrize(
    ("direction", "algo", "size", "programs"),
    [
        ("weight", "im2col", (1, 28, 28), {"conv/cpu_columns": 1, "gemm": 1}),
        ("weight", "fft", (8, 10, 10), {"fft/cpu": 1, "conv/spectra": 1}),
        ("forward", "fft", (8, 10, 10), {"fft/cpu": 1, "conv/spectra": 1}),
    ],
)
def test_steps_share_programs(
    direction: Direction, algo: str, size: Triple, programs: dict[str, int]
) -> None:
    """Products of all images are one program, and so are all transforms."""
    taps: Triple = (min(3, size[0]), 3, 3)
    before: Triple = (taps[0] // 2, 1, 1)
    image, filters = dense(8, 16, size), dense(16, 16, taps)
    convolution = ConvProblem(
        direction, element(np.dtype(np.float32)), 8, 1, 16, 16, size, taps, size, (1, 1, 1),
        (1, 1, 1), before, image, filters, image,
    )  # fmt: skip
    target = detect(RECORDED["PoCL"][0])
    every = variants(convolution, target, TuningTable.shipped())
    (variant,) = [item for item in every if item.name == algo]
    texts = {text.key: text.name for text in variant.texts()}
    counts = Counter("gemm" if name.startswith("gemm") else name for name in texts.values())
    assert counts == programs


def test_images_of_filters_of_one_tap_are_copied_as_one_row() -> None:
    """The gradient of the weights copies both arrays; neither copy stops at the ends of rows."""
    size: Triple = (1, 4, 4)
    convolution = ConvProblem(
        "weight", element(np.dtype(np.float32)), 2, 1, 32, 64, size, (1, 1, 1), size, (1, 1, 1),
        (1, 1, 1), (0, 0, 0), dense(2, 32, size), dense(64, 32, (1, 1, 1)), dense(2, 64, size),
    )  # fmt: skip
    made = products(convolution, detect(RECORDED["PoCL"][0]), TuningTable.shipped(), None)
    assert made is not None
    copies = [step[0] for step in made.steps if isinstance(step, tuple)]
    assert [copy.channels for copy in copies if isinstance(copy, Windows)] == [32, 64]
    for copy in copies:
        assert isinstance(copy, Windows)
        assert [axis.target for axis in copy.axes] == [1, 1, 16]


def test_zeros_have_the_text_of_the_copy() -> None:
    """A gradient of the weights compiles one program that copies windows and writes zeros."""
    target, elem = detect(RECORDED["PoCL"][0]), element(np.dtype(np.float32))
    for channels, stride, last in ((3, 2, True), (64, 1, True), (3, 1, False), (3, 2, False)):
        near, far = (1, channels) if last else (100, 1)
        row = SpaceAxis(9, 10, 3, stride, 1, -1, 1, far, far, 1)
        copy = Windows(
            elem, elem, False, 2, channels, (row, row, row),
            ImageStrides(channels * 100, near, (0, 10 * far, far), 16),
            ColumnStrides(1, near, channels if last else 81, 27 * channels if last else 1),
        )  # fmt: skip
        zeros = copy.zeros(16, 27 * channels, 1, 27 * channels)
        assert zeros is not None
        assert zeros.elements == 16 * 27 * channels
        assert zeros.specialization(target).key == copy.specialization(target).key
        assert bool(copy.run) == (last and channels == 3)
