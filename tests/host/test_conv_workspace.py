"""The workspace of convolutions, and the integers of those by transforms."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from portable_gpu.dtypes import element
from portable_gpu.ops.conv.bands import bands, rows_axis
from portable_gpu.ops.conv.chunks import chunks, images_within
from portable_gpu.ops.conv.cpu_weight import cpu_weight_kernel
from portable_gpu.ops.conv.im2col import variants as by_columns
from portable_gpu.ops.conv.problem import ConvProblem, Direction, ImageStrides, Triple
from portable_gpu.ops.conv.spectral import Spectral
from portable_gpu.ops.conv.spectral import variants as by_spectra
from portable_gpu.ops.conv.winograd import Winograd
from portable_gpu.ops.conv.winograd import variants as by_winograd
from portable_gpu.targets import example_target
from portable_gpu.tuning.table import TuningTable

TABLE = TuningTable([])


def strides(extents: tuple[int, ...]) -> ImageStrides:
    outer, channel, first, second, third = (
        int(np.prod(extents[k + 1 :])) for k in range(len(extents))
    )
    return ImageStrides(outer, channel, (first, second, third), 16)


def problem(
    direction: Direction, batch: int, channels: int, filters: int, places: int
) -> ConvProblem:
    """Filters of 3 x 3, padding of 1."""
    image: Triple = (1, places, places)
    return ConvProblem(
        direction, element(np.dtype(np.float32)), batch, 1, channels, filters, image, (1, 3, 3),
        image, (1, 1, 1), (1, 1, 1), (0, 1, 1), strides((batch, channels, *image)),
        strides((filters, channels, 1, 3, 3)), strides((batch, filters, *image)),
    )  # fmt: skip


def test_images_at_a_time() -> None:
    assert images_within(10, lambda n: 3 + 2 * n, 12) == 4
    assert images_within(10, lambda n: 3 + 2 * n, 4) == 1
    assert images_within(10, lambda n: 3 + 2 * n, 100) == 10
    assert chunks(10, 4) == [(0, 4), (4, 4), (8, 2)]


@pytest.mark.parametrize("name", ["cpu", "nvidia"])
def test_a_larger_limit_has_no_larger_workspace_than_itself(name: str) -> None:
    """If one image is within the limit, the chunk is; padding between matrices is not linear."""
    target, rng = example_target(name), random.Random(3)
    cases = [(8, 64, 64, 2, 282_624)] + [
        (rng.randint(1, 40), rng.randint(1, 64), rng.randint(1, 64), rng.randint(2, 30), 0)
        for _ in range(40)
    ]
    for batch, channels, filters, places, limit in cases:
        p = problem("forward", batch, channels, filters, places)
        for of, make in ((Winograd(p, target), by_winograd), (Spectral(p, target), by_spectra)):
            min_limit = of.workspace(1)
            max_limit = max(min_limit, limit or rng.randint(min_limit, 2 * of.workspace(batch)))
            (variant,) = make(p, target, TABLE, max_limit)
            assert variant.details["workspace"] <= max_limit


def test_launches_of_a_smaller_last_chunk_count() -> None:
    target = example_target("nvidia")
    p = problem("forward", 10, 8, 8, 12)
    (variant,) = by_spectra(p, target, TABLE, Spectral(p, target).workspace(4))
    assert variant.details["images at a time"] == 4
    (whole,) = by_spectra(p, target, TABLE, None)
    assert variant.launches == 1 + 3 * (whole.launches - 1)  # the filters once


def test_places_beyond_32_bits_have_long_indices() -> None:
    target = example_target("nvidia")
    p = problem("forward", 100, 4, 4, 8)
    far = replace(p, x=replace(p.x, outer=2**25 - 512))
    for q, index in ((p, "int"), (far, "long")):
        text = Winograd(q, target).tiles(100).specialization.text
        assert f"{index} s_batch" in text
    # 64 channels of 28 x 28, and 2^31 numbers of filters of depthwise gradients
    for q, index in (
        (problem("forward", 8, 64, 64, 28), "int"),
        (problem("weight", 8192, 512, 1, 20), "long"),
    ):
        text = Spectral(q, target).products(q.batch, adds=False).specialization.text
        assert f"{index} a_row" in text


def test_parts_of_rows_of_tiles_are_equal() -> None:
    """The last part overlaps the one before it; 65 columns are two parts of 33, not of 64."""
    constants = Winograd(problem("forward", 1, 4, 4, 130), example_target("cpu")).tiles(1).constants
    assert (constants["parts"], constants["count"]) == (2, 33)


def strided(rng: random.Random, direction: Direction) -> ConvProblem:
    """Two images of four channels, with any padding, stride and dilation along the rows."""
    rows, taps, stride, dilation, before = (rng.randint(1, n) for n in (40, 5, 4, 3, 3))
    size = max(1, (rows - 1) * stride + (taps - 1) * dilation + 1 - before - rng.randint(0, 3))
    p = problem(direction, 2, 4, 4, 7)
    return replace(
        p, x_size=(1, size, 7), w_size=(1, taps, 3), y_size=(1, rows, 7), stride=(1, stride, 1),
        dilation=(1, dilation, 1), before=(0, before, 1), x=strides((2, 4, 1, size, 7)),
        w=strides((4, 4, 1, taps, 3)), y=strides((2, 4, 1, rows, 7)),
    )  # fmt: skip


def pairs_of_rows(p: ConvProblem, axis: int, x_first: int, y_first: int) -> set[tuple[int, ...]]:
    """Which row of x each row of y reads, by which tap."""
    rows = ((i, r) for i in range(p.y_size[axis]) for r in range(p.w_size[axis]))
    at = ((i, r, i * p.stride[axis] + r * p.dilation[axis] - p.before[axis]) for i, r in rows)
    return {(i + y_first, r, q + x_first) for i, r, q in at if 0 <= q < p.x_size[axis]}


@pytest.mark.parametrize("direction", ["forward", "input", "weight"])
def test_bands_have_all_terms_once(direction: Direction) -> None:
    rng = random.Random(5)
    for _ in range(200):
        p, most = strided(rng, direction), rng.randint(1, 12)
        axis, every, whole = rows_axis(p), bands(p, most), set[tuple[int, ...]]()
        terms = pairs_of_rows(p, axis, 0, 0)
        written, extent = [], (p.x_size if direction == "input" else p.y_size)[axis]
        for band in every:
            q = band.problem
            found = pairs_of_rows(q, axis, band.x_first, band.y_first)
            assert found <= terms
            assert direction == "input" or not (found & whole)
            whole |= found
            of_one = -(-((p.w_size[axis] - 1) * p.dilation[axis] + 1) // p.stride[axis])
            assert q.y_size[axis] <= (max(most, of_one) if direction == "input" else most)
            first = band.x_first if direction == "input" else band.y_first
            size = q.x_size if direction == "input" else q.y_size
            written += range(first, first + size[axis])
        assert whole == terms
        assert written == [*range(extent)]


@pytest.mark.parametrize("name", ["cpu", "nvidia"])
@pytest.mark.parametrize("direction", ["forward", "input", "weight"])
def test_windows_of_bands_are_within_the_limit(direction: Direction, name: str) -> None:
    rng, target = random.Random(4), example_target(name)
    for _ in range(30):
        p = strided(rng, direction)
        (least,) = by_columns(p, target, TABLE, 0)
        minimum = least.details["workspace"]
        (whole,) = by_columns(p, target, TABLE, None)
        limit = rng.randint(minimum, max(minimum, whole.details["workspace"]))
        (variant,) = by_columns(p, target, TABLE, limit)
        assert variant.details["workspace"] <= limit


def test_depthwise_tiles_of_a_cpu_have_many_rows() -> None:
    """Tiles of many channels are short, and rows that two tiles read are copied twice."""
    p = problem("weight", 8, 192, 192, 28)
    last = ImageStrides(28 * 28 * 192, 1, (28 * 28 * 192, 28 * 192, 192), 16)
    p = replace(p, groups=192, x=last, y=last, w=strides((192, 1, 1, 3, 3)))
    kernel = cpu_weight_kernel(p, replace(example_target("cpu"), vector_bytes=64))
    assert kernel is not None
    assert kernel.context["x_lanes"]
    assert kernel.constants["rows"] == 28
