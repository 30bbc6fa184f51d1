"""The figures of estimates of convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2, prod
from typing import Any

from portable_gpu.ops.conv.strips import RowReads
from portable_gpu.ops.conv.windows import Windows
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, multiply_adds, overlapped
from portable_gpu.tuning.figures import Figures


@dataclass(frozen=True)
class ConvCosts(Figures):
    """The costs of convolutions relative to products and to plain copies.

    Attributes:
        copy_time: The time of copies of windows, as a multiple of that of moving them once.
        winograd_time: The time of the transforms of ``winograd``, as the same multiple.
        transform_time: The time of the transforms of ``fft``, as a multiple of their own estimate.
        spectra_rate: The rate of products of spectra, as a part of that of the best tiles.
        following: Seconds of a further launch of a call on a CPU, whose threads are awake by then.
        grouped: Seconds of one unit of a CPU in addition to the estimate of each product of a
            group and an image.
    """

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


@dataclass(frozen=True)
class WaitingCosts(Figures):
    """The costs of the sums of convolutions on a GPU, in nanoseconds.

    A work-item waits for its loads before it goes on to the next row of taps.  A compute unit
    with many work-items does other ones' instructions in the meantime: its costs, ``busy``, are for
    each of its work-items.

    Attributes:
        start: The coordinates of a work-item's results, and their store.
        row, load, weight: A row of taps; a load from the source, and one of a weight, for it.
        division, busy_division: The place that a tap reads, where results are between elements.
        busy_load, busy_add: A load, and a multiply-add.
        place, place_load: V places of the gradient by the weights; a load from the source for them.
        level, level_sum: A step of the sum of a work-group's work-items, and a sum in it.
        parts: The sum of the parts of several work-groups.
        busy_place, busy_place_load, busy_place_add: Those of a place.
        busy_sum: A sum of a work-item when it is added to those of its work-group.
        tap: A tap of a copy of windows.
        transposed: The time of copies that read or write each element in another line of memory, as
            a multiple of that of others.
        window_tap, busy_window_tap: A tap of a sum of windows.
        frequency, frequency_load: A term of a sum of products of spectra, and a load for it.
    """

    start: float
    row: float
    load: float
    weight: float
    division: float
    busy_division: float
    busy_load: float
    busy_add: float
    place: float
    place_load: float
    level: float
    level_sum: float
    parts: float
    busy_place: float
    busy_place_load: float
    busy_place_add: float
    busy_sum: float
    tap: float
    transposed: float
    window_tap: float
    busy_window_tap: float
    frequency: float
    frequency_load: float

    @classmethod
    def on(cls, target: Target) -> WaitingCosts:
        """The costs of a GPU."""
        return cls.of("sums of convolutions", target)


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


def direct_seconds(
    context: Mapping[str, Any], constants: Mapping[str, int], target: Target
) -> float:
    """Return the seconds of ``conv/direct`` on a GPU, without those of moving data."""
    k, c, strip = WaitingCosts.on(target), constants, context["strip"]
    # Adjacent work-items, which wait for each other, do not skip the same taps of the last axis.
    fastest = context["order"][-1][0]
    taps0, taps1, taps2 = (
        c[f"taps{axis}"] / (1 if fastest == name else c[f"divisor{axis}"])
        for axis, name in enumerate(("at0", "at1", "block"))
    )
    rows = c["sources"] * taps0 * taps1
    places = c["sources"] * (c["taps0"] + taps0 * c["taps1"])
    loads, weights, adds = taps2, taps2, taps2
    if strip:
        loads, weights = len(strip.loads), 0 if context["kept"] else strip.taps
        adds = sum(j is not None for reads in strip.reads for j in reads)
        waiting = rows * (k.row + k.load * loads + k.weight * weights)
    else:
        places += rows * c["taps2"]
        waiting = rows * taps2 * (k.row + k.load + k.weight)
    adds *= context["wide"] * multiply_adds(context["elem"])
    busy = rows * (k.busy_load * (loads + weights) + k.busy_add * adds)
    if context["divided"]:
        waiting += places * k.division
        busy += places * k.busy_division
    strips = -(-min(c["columns"], c["t2_size"]) // context["V"])
    of_unit = c["items"] / target.compute_units
    return 1e-9 * overlapped(k.start + strips * waiting, of_unit * strips * busy)


def weight_seconds(
    context: Mapping[str, Any], constants: Mapping[str, int], groups: int, target: Target
) -> float:
    """Return the seconds of ``groups`` work-groups of ``conv/weight`` on a GPU, likewise."""
    k, strip, T = WaitingCosts.on(target), context["strip"], prod(context["taps"])
    sharing = context["G"] // context["lanes"]
    places = -(-constants["part_size"] // sharing)
    rows = context["taps"][0] * context["taps"][1]
    loads = rows * len(strip.loads)
    adds = rows * sum(j is not None for reads in strip.reads for j in reads)
    adds *= context["wide"] * multiply_adds(context["elem"])
    waiting = places * (k.place + k.place_load * loads)
    waiting += (1 + log2(sharing)) * (k.level + k.level_sum * T)
    if constants["parts"] > 1:
        waiting += k.parts
    busy = places * (k.busy_place + k.busy_place_load * loads + k.busy_place_add * adds)
    of_unit = max(1.0, groups / target.compute_units) * context["G"]
    return 1e-9 * overlapped(waiting, of_unit * (busy + k.busy_sum * T))


def spectra_seconds(
    tile: tuple[int, int], depth: int, multiplied: int, nbytes: int, target: Target
) -> float:
    """Return the seconds of products of spectra.

    Args:
        tile: The rows and columns of a work-item.
        depth: The terms of a sum.
        multiplied: Multiply-adds of float32.
        nbytes: Bytes of all spectra.
        target: The device.
    """
    device, costs = DeviceCosts.of("device", target), ConvCosts.of("convolutions", target)
    units = target.compute_units
    computing = multiplied / (units * device.multiply_adds * costs.spectra_rate)
    seconds = overlapped(computing, nbytes / (device.bandwidth * units))
    if target.is_cpu:
        return seconds
    k = WaitingCosts.on(target)
    return overlapped(seconds, 1e-9 * depth * (k.frequency + k.frequency_load * sum(tile)))


def windows_seconds(windows: Windows, target: Target) -> float:
    """Return the seconds of a copy of windows, or of a sum of windows."""
    bandwidth = DeviceCosts.of("device", target).bandwidth * target.compute_units
    moving = ConvCosts.of("convolutions", target).copy_time * windows.bytes / bandwidth
    if target.is_cpu:
        return moving
    k, (first, second, third) = WaitingCosts.on(target), windows.axes
    if not windows.sums:
        across = windows.channels > 1 and windows.image.channel == 1 and not windows.last
        waiting = first.taps * second.taps * third.taps * k.tap
        return overlapped(moving * (k.transposed if across else 1), 1e-9 * waiting)
    taps0, taps1 = first.taps / first.divisor, second.taps / second.divisor
    taps = first.taps + taps0 * second.taps + taps0 * taps1 * third.taps
    of_unit = windows.partition(target)[2] / target.compute_units
    summing = overlapped(taps * k.window_tap, of_unit * taps * k.busy_window_tap)
    return overlapped(moving, 1e-9 * summing)
