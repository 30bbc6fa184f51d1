"""The figures of estimates of convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portable_gpu.ops.conv.strips import RowReads
from portable_gpu.targets import Target
from portable_gpu.tuning.figures import Figures


@dataclass(frozen=True)
class ConvCosts(Figures):
    """The costs of convolutions relative to products and to plain copies.

    Attributes:
        direct_rate: The rate of direct sums, as a part of that of the best tiles of products.
        copy_time: The time of copies of windows, as a multiple of that of moving them once.
        winograd_time: The time of the transforms of ``winograd``, as the same multiple.
        transform_time: The time of the transforms of ``fft``, as a multiple of their own estimate.
        spectra_rate: The rate of products of spectra, as a part of that of the best tiles.
        following: Seconds of a further launch of a call on a CPU, whose threads are awake by then.
        grouped: Seconds of one unit of a CPU in addition to the estimate of each product of a
            group and an image.
    """

    direct_rate: float
    copy_time: float
    winograd_time: float
    transform_time: float
    spectra_rate: float
    following: float
    grouped: float


@dataclass(frozen=True)
class DirectSumCosts(Figures):
    """The costs of direct sums on a CPU, in multiply-adds of the best tiles of products.

    Attributes:
        line: A row of results: the computation of its place.
        strip: A strip of V results that are computed at the same time.
        row_tap, edge_tap: A tap for a vector of 32 bytes inside of a row, and at an end of a row.
        load, build: An element that is read singly, and a component of a vector that is built from
            such elements.
        loop_tap: A tap of a result that is computed by itself.
        wide_tap: A tap for 32 bytes of adjacent channels.
        weight, gathered: A weight that a work-item reads in advance, and one of adjacent channels.
        place: V places of the gradient by the weights, for a block of weights.
        place_row_tap, place_edge_tap, place_load, place_build, place_wide_tap: The costs of those
            names without ``place_``, for the gradient by the weights.
    """

    line: float
    strip: float
    row_tap: float
    edge_tap: float
    load: float
    build: float
    loop_tap: float
    wide_tap: float
    weight: float
    gathered: float
    place: float
    place_row_tap: float
    place_edge_tap: float
    place_load: float
    place_build: float
    place_wide_tap: float


_VECTOR = 32  # bytes of a vector that an instruction adds


def direct_work(context: Mapping[str, Any], constants: Mapping[str, int], target: Target) -> float:
    """Return the work of ``conv/direct`` on a CPU, in multiply-adds of the best tiles."""
    k, c = DirectSumCosts.of("direct convolutions", target), constants
    strip, rows, wide, V = context["strip"], context["rows"], context["wide"], context["V"]
    V = V if strip else 1
    lines = c["items"] // (c["blocks"] * c["bands"]) * c["t1_size"]
    strips = -(-c["t2_size"] // V)
    taps, planes = c["taps2"], c["sources"] * c["taps0"] * c["taps1"]
    sets = lines * strips * planes / (c["divisor0"] * c["divisor1"])
    work = lines * (k.line + strips * k.strip)
    if rows:
        work += sets * _of_rows(rows, strips, taps, c, context, k.row_tap, k.edge_tap)
    elif strip and wide > 1:
        work += sets * taps * k.wide_tap * _vectors(wide, context)
    elif strip:
        work += sets * (len(strip.loads) * k.load + taps * V * k.build)
    else:
        work += sets * taps * k.loop_tap
    weights = c["items"] * c["taps0"] * c["taps1"] * taps
    return work + weights * (wide * k.gathered if wide > 1 else k.weight * bool(context["kept"]))


def weight_work(
    context: Mapping[str, Any], constants: Mapping[str, int], blocks: int, target: Target
) -> float:
    """Return the work of ``conv/weight`` on a CPU, in multiply-adds of the best tiles."""
    k, c = DirectSumCosts.of("direct convolutions", target), constants
    strip, rows, wide, V = context["strip"], context["rows"], context["wide"], context["V"]
    first, second, taps = context["taps"]
    places = blocks * c["places"]
    strips = -(-c["t2_size"] // V)
    if rows:
        of_set = _of_rows(rows, strips, taps, c, context, k.place_row_tap, k.place_edge_tap)
    elif wide > 1:
        of_set = taps * k.place_wide_tap * _vectors(wide, context)
    else:
        of_set = len(strip.loads) * k.place_load + taps * V * k.place_build
    return float(places * (k.place + first * second * of_set))


def _of_rows(
    rows: RowReads, strips: int, taps: int, constants: Mapping[str, int],
    context: Mapping[str, Any], inside: float, at_end: float,
) -> float:  # fmt: skip
    """Return the work of a row of taps for V results; about half of the taps reach past an end."""
    every = strips * taps
    ends = every if rows.count >= constants["s2_size"] else min(every, taps - 1)
    mean = ((every - ends) * inside + ends * at_end) / strips
    return mean * _vectors(rows.count, context)


def _vectors(count: int, context: Mapping[str, Any]) -> float:
    """The vectors of numbers, one at least."""
    nbytes = 8 if context["elem"].needs_fp64 else 4
    return max(1.0, count * nbytes / _VECTOR)
