"""The figures of estimates of convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log2, prod
from typing import Any

from portable_gpu.codegen.operators import SCALAR_BYTES
from portable_gpu.ops.caches import L2_BYTES, LAST_BYTES, LINE_BYTES
from portable_gpu.ops.conv.axis_taps import RowReads
from portable_gpu.ops.conv.kernels import ConvKernel
from portable_gpu.ops.conv.windows import Windows
from portable_gpu.ops.gemm.packed.forms import (
    PackedForm,
    in_core,
    packed_seconds,
    preferred_form,
)
from portable_gpu.ops.gemm.packed.lanes import SmallCosts
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.variants import fastest
from portable_gpu.ops.variant import Variant, best_of
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, multiply_adds, overlapped
from portable_gpu.tuning.figures import Figures
from portable_gpu.tuning.table import TuningTable

#: Bytes of an element that a GPU's work-item copies in the same time as a smaller one.
_WORD = 4


@dataclass(frozen=True)
class ConvCosts(Figures):
    """The costs of convolutions relative to products and to plain copies.

    Attributes:
        copy_time: The time of copies of windows, as a multiple of that of moving them once.
        winograd_time: The time in which the transforms of ``winograd`` move data, as the same
            multiple.
        transform_time: The time of the transforms of ``fft`` on a GPU, as a multiple of their own
            estimate.
        spectra_rate: The rate of products of spectra, as a part of that of the best tiles.
        following: Seconds of a further launch of a call on a CPU, on one thread.
    """

    copy_time: float
    winograd_time: float
    transform_time: float
    spectra_rate: float
    following: float


@dataclass(frozen=True)
class DirectSumCosts(Figures):
    """The costs of direct sums on a CPU, in multiply-adds of the best tiles of products.

    Attributes:
        item: A work-item.
        row: A row of results: the computation of its place.
        row_block: V adjacent results of a row, which are computed at the same time.
        single: An element of y, of V results that are not adjacent in memory.
        channel: A channel of the source of V results, where its weights are not kept; a row of taps
            of a result that is computed by itself.
        line: A line of memory of an image beyond the cache.
        row_tap, edge_tap: A tap for a vector of up to 16 bytes inside of a row, and at an end.
        wide_row_tap, wide_edge_tap: Those for a longer vector, of up to 64 bytes.
        only_tap: The tap of a row of one tap, for a vector.
        far: A byte of arrays that the last cache does not hold.
        beyond: An element of a vector that would reach past the end of an image.
        load, build: An element that is read singly, and a component of a vector that is built from
            such elements.
        loop_tap: A tap of a result that is computed by itself.
        tested: A tap that may fall between two elements of the source.
        wide_tap: A tap of a result for 32 bytes of adjacent channels.
        half, half_vector: A 16-bit float that is read singly, and 32 bytes of sums of those that
            are read as a vector, in addition.
        plane: A band of rows of a plane that is copied between zeros.
        plane_tap: A tap for a vector of places of such a band.
        plane_vector: A vector that is copied for it, or to results.
        plane_half: One that is divided into its even and odd elements first, in addition.
        weight, gathered: A weight that a work-item reads in advance, and one of adjacent channels.
        place: V places of the gradient of the weights, for a block of weights.
        place_row_tap, place_edge_tap: A tap for a vector of 32 bytes inside of a row and at an end,
            for the gradient of the weights.
        place_load, place_build, place_wide_tap: The costs of those names without ``place_``, for
            the gradient of the weights.
        tile_row, tile_vector, tile_single: A row of a copy of a tile, a vector of it, and an
            element that is copied singly, for the gradient of the weights.
        tile_block, tile_weight: A block of the gradient of the weights, and a weight of it.
        tile_sum, tile_load: A vector of sums of a pass over a tile, and a load of a vector.
    """

    item: float
    row: float
    row_block: float
    single: float
    channel: float
    line: float
    row_tap: float
    edge_tap: float
    wide_row_tap: float
    wide_edge_tap: float
    only_tap: float
    far: float
    beyond: float
    load: float
    build: float
    loop_tap: float
    tested: float
    wide_tap: float
    half: float
    half_vector: float
    plane: float
    plane_tap: float
    plane_vector: float
    plane_half: float
    weight: float
    gathered: float
    place: float
    place_row_tap: float
    place_edge_tap: float
    place_load: float
    place_build: float
    place_wide_tap: float
    tile_row: float
    tile_vector: float
    tile_single: float
    tile_block: float
    tile_weight: float
    tile_sum: float
    tile_load: float


@dataclass(frozen=True)
class WindowCosts(Figures):
    """The seconds of parts of copies of windows and of their products, on one thread of a CPU.

    Attributes:
        item: A row of places of a channel.
        row: A tap of such a row.
        channels, summed_channels: A tap of a place whose channels are adjacent, of a copy and of a
            sum; of a copy, a row of taps if few elements are adjacent.
        tested: Such a tap of a sum that may fall between two places.
        adjacent, second: An element of the matrix of windows that is copied in a vector, and one of
            every second element of a row.
        added: An element of the matrix that is added in a vector.
        single: An element of 4 bytes that is copied singly; a smaller one takes as much less.
        summed: An element of the matrix that is added singly.
        stored: An element of the image that is stored.
        line: An element that is in a line of memory of its own, of an image beyond the cache.
        far: A byte of matrices beyond the cache, in addition.
        distant: A byte of windows, or of an image, that the last cache does not hold, in addition.
        call: A launch of products.
        product: A product of a group and an image.
        tile: A tile of a product.
        step: A vector of a tile in a step of k.
        packed: An element that is packed for tiles, also beyond the end of the operand.
        stored_singly: An element of a result whose rows are not contiguous.
        in_batch: An element of products side by side, in addition to their own estimate.
        half: A 16-bit float that is stored, or packed from an operand whose tiles are not adjacent.
        byte: A byte of an operand or a result.
    """

    item: float
    row: float
    channels: float
    summed_channels: float
    tested: float
    adjacent: float
    second: float
    added: float
    single: float
    summed: float
    stored: float
    line: float
    far: float
    distant: float
    call: float
    product: float
    tile: float
    step: float
    packed: float
    stored_singly: float
    in_batch: float
    half: float
    byte: float

    @classmethod
    def on(cls, target: Target) -> WindowCosts:
        """The costs of a CPU."""
        return cls.of("windows", target)


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
        place, place_load: V places of the gradient of the weights; a load from the source for them.
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


@dataclass(frozen=True)
class SlidingCosts(Figures):
    """The costs of sums that go down the rows of depthwise layers on a GPU, in nanoseconds.

    They are for a work-item that waits, and, as ``busy``, for each work-item of a compute unit with
    many of them.

    Attributes:
        start: The coordinates of a work-item's results, and their stores.
        step, load: A step to the next row, and a load for it.
        level_sum: A sum of a step of the sum of a work-group's work-items.
        parts: The sum of the parts of several work-groups.
        busy_step, busy_load, busy_add: A step, a load, and a multiply-add.
        busy_sum: A sum of a work-item when it is added to those of its work-group.
    """

    start: float
    step: float
    load: float
    level_sum: float
    parts: float
    busy_step: float
    busy_load: float
    busy_add: float
    busy_sum: float


@dataclass(frozen=True)
class TransformCosts(Figures):
    """The seconds of parts of the transforms of ``fft`` and ``winograd``, on one thread of a CPU.

    Attributes:
        strip, number: A strip of lines of a Fourier transform, and a complex number of its lanes.
        far: A byte of spectra that the last cache does not hold.
        item, vector: An item of a transform of ``winograd``, and a vector of its tiles.
        single: An element that such an item reads or stores singly.
        line: One in a line of memory of its own, of an image beyond the cache, in addition.
    """

    strip: float
    number: float
    far: float
    item: float
    vector: float
    single: float
    line: float

    @classmethod
    def on(cls, target: Target) -> TransformCosts:
        """The costs of a CPU."""
        return cls.of("transforms of convolutions", target)


_VECTOR = 32  # bytes of a vector that an instruction adds


def direct_work(context: Mapping[str, Any], constants: Mapping[str, int], target: Target) -> float:
    """Return the work of ``conv/direct`` on a CPU, in multiply-adds of the best tiles."""
    k, c = DirectSumCosts.of("direct convolutions", target), constants
    row_taps, rows, wide, V = context["row_taps"], context["rows"], context["wide"], context["V"]
    V = V if row_taps else 1
    lines = c["items"] // (c["blocks"] * c["bands"]) * c["t1_size"]
    row_blocks = -(-c["t2_size"] // V)
    taps, planes = c["taps2"], c["sources"] * c["taps0"] * c["taps1"]
    sets = lines * row_blocks * planes / (c["divisor0"] * c["divisor1"])
    halves = context["elem"].itemsize == 2
    half, half_vector = halves * k.half, halves * k.half_vector
    single = V * k.single if wide == 1 and c["t_axis2"] != 1 else 0.0
    work = c["items"] * k.item + lines * (k.row + row_blocks * (k.row_block + single))
    work += k.line * _lines_beyond_cache(context, constants)
    if not context["register_taps"]:
        of_channels = lines * row_blocks * c["sources"]
        work += k.channel * (of_channels if row_taps else max(of_channels, sets))
    if max(c["divisor0"], c["divisor1"], 1 if row_taps else c["divisor2"]) > 1:
        tested = c["taps0"] * (1 + c["taps1"] / c["divisor0"])
        work += lines * row_blocks * c["sources"] * tested * k.tested
        work += 0 if row_taps else sets * taps * k.tested
    if rows:
        inside, at_end = (
            (k.row_tap, k.edge_tap) if _vectors(rows.count, context) <= 0.5
            else (k.wide_row_tap, k.wide_edge_tap)
        )  # fmt: skip
        inside = k.only_tap if taps == 1 else inside
        of_halves = half_vector * max(1.0, _vectors(rows.count, context))
        costs = inside + of_halves, at_end + of_halves, k.beyond + half
        work += sets * _of_rows(rows, row_blocks, taps, c, *costs)
    elif row_taps and wide > 1:
        adds = sum(at is not None for reads in row_taps.reads for at in reads)
        work += sets * adds * (k.wide_tap + half_vector) * max(1.0, _vectors(wide, context))
        work += 0 if context["register_taps"] else sets * taps * wide * k.gathered
    elif row_taps:
        work += sets * (len(row_taps.loads) * (k.load + half) + taps * V * k.build)
    else:
        work += sets * taps * (k.loop_tap + half)
    weights = c["items"] * c["taps0"] * c["taps1"] * taps * bool(context["register_taps"])
    return work + weights * (wide * k.gathered if wide > 1 else k.weight)


def planes_work(kernel: ConvKernel, target: Target) -> float:
    """Return the work of ``conv/planes``, in multiply-adds of the best tiles."""
    k, c, x = DirectSumCosts.of("direct convolutions", target), kernel.constants, kernel.context
    rows = (c["lines"] - 1) * x["steps"][0] + c["rows_of_taps"]
    sums = -(-((c["lines"] - 1) * c["pitch"] + c["places2"]) // (x["vectors_at_once"] * x["V"]))
    stored = c["lines"] * x["divisors"][0]
    loaded = rows * -(-c["inside"] // x["read"])
    moved = loaded + stored * -(-c["t2_size"] // x["stored"]) + c["copied"] // x["V"]
    work = k.plane + k.plane_tap * sums * x["vectors_at_once"] * prod(x["taps"])
    halves = k.plane_half * loaded * (x["steps"][1] > 1)
    return kernel.items * float(work + k.plane_vector * moved + halves)


def _lines_beyond_cache(context: Mapping[str, Any], constants: Mapping[str, int]) -> float:
    """Return the lines of memory that direct sums on a CPU read and write beyond the cache.

    If those of a result's source, or of an image of results, do not fit the cache, all results
    read or write them again.
    """
    c, itemsize = constants, context["elem"].itemsize
    images = c["items"] // (c["blocks"] * c["bands"]) // c["t0_size"]
    read = prod(min(1.0, c[f"taps{axis}"] / c[f"step{axis}"]) for axis in range(3))
    total = 0.0
    for name, channels, count, part in (
        ("s", c["sources"], images * context["wide"] / c["targets"], read),
        ("t", 1, images * context["wide"], 1.0),
    ):
        sizes = [c[f"{name}{axis}_size"] for axis in range(3)]
        places = prod(sizes)
        if channels > 1 and abs(c[f"{name}_channel"]) == 1:
            lines = places * max(1.0, channels * itemsize / LINE_BYTES)
        elif abs(c[f"{name}_axis2"]) == 1:
            lines = channels * places * (itemsize / LINE_BYTES + 0.5 / max(1, sizes[2]))
        else:
            lines = channels * places * min(1.0, abs(c[f"{name}_axis2"]) * itemsize / LINE_BYTES)
        if lines * LINE_BYTES > L2_BYTES:
            total += images * lines * part
        elif count * channels * places * itemsize > L2_BYTES:
            total += count * channels * places * itemsize / LINE_BYTES
    return total


def weight_work(
    context: Mapping[str, Any], constants: Mapping[str, int], blocks: int, target: Target
) -> float:
    """Return the work of ``conv/weight`` on a CPU, in multiply-adds of the best tiles."""
    k, c = DirectSumCosts.of("direct convolutions", target), constants
    row_taps, rows, wide, V = context["row_taps"], context["rows"], context["wide"], context["V"]
    first, second, taps = context["taps"]
    places = blocks * c["places"]
    row_blocks = -(-c["t2_size"] // V)
    if rows:
        vectors = max(1.0, _vectors(rows.count, context))
        costs = vectors * k.place_row_tap, vectors * k.place_edge_tap, k.beyond
        of_set = _of_rows(rows, row_blocks, taps, c, *costs)
    elif wide > 1:
        of_set = taps * k.place_wide_tap * max(1.0, _vectors(wide, context))
    else:
        of_set = len(row_taps.loads) * k.place_load + taps * V * k.place_build
    single = V * k.single if wide == 1 and c["t_axis2"] != 1 else 0.0
    return float(places * (k.place + single + first * second * of_set))


def tiled_weight_work(
    context: Mapping[str, Any], constants: Mapping[str, int], blocks: int, target: Target
) -> float:
    """Return the work of ``conv/cpu_weight``, in multiply-adds of the best tiles."""
    k, c = DirectSumCosts.of("direct convolutions", target), constants
    x_lanes, y_lanes, V, units = (context[name] for name in ("x_lanes", "y_lanes", "V", "units"))
    (T0, T1, T2), step, tap_step = (context[name] for name in ("taps", "step", "tap_step"))
    F, B, C = context["F"], context["B"], context["C"]
    halo1, halo2 = ((context["taps"][a] - 1) * tap_step[a] // step[a] for a in (1, 2))
    phases = min(T1, step[1]) * min(T2, step[2])
    images, rows, pitch = c["images"], c["rows"], c["cols"] + halo2
    weights = c["pairs"] * c["parts"] * T0 * T1 * T2
    sources = context["sources_at_once"] * T0
    y_rows = images * rows * units
    x_rows = images * (rows + halo1) * phases * (units if x_lanes else sources)
    halves = context["elem"].itemsize == 2
    of_vector, of_single = k.tile_vector + halves * k.half_vector, k.tile_single + halves * k.half
    work = (y_rows + x_rows) * k.tile_row
    for name, count, in_lanes, adjacent, channels in (
        ("t", y_rows, y_lanes, context["adjacent_y"], units),
        ("s", x_rows, x_lanes, context["adjacent_x"] and step[2] <= 2, sources),
    ):
        single = not (in_lanes or adjacent)
        vectors = pitch if in_lanes else -(-pitch // V)
        work += count * (pitch * of_single if single else vectors * of_vector)
        itemsize = context["elem"].itemsize
        far = abs(c[f"{name}_axis2"]) * itemsize >= LINE_BYTES
        # Adjacent channels of a tile share the lines of memory that single elements are in.
        if single and far and c[f"{name}_elements"] * itemsize > L2_BYTES:
            work += count * pitch / (channels if c[f"{name}_channel"] == 1 else 1) * k.line
    passes = units // F * sources * (T1 // B) * (T2 // C)
    steps = images * (rows * pitch if y_lanes else -(-rows * pitch // V))
    sums = F * B * C
    reads = F + (1 if y_lanes else 2) * B * C  # vectors of places cross lines of the cache
    of_pass = sums * k.tile_sum + steps * reads * k.tile_load
    of_block = k.tile_block + c["places"] * (work + passes * of_pass)
    return float(blocks * of_block + weights * k.tile_weight)


def _of_rows(
    rows: RowReads, row_blocks: int, taps: int, constants: Mapping[str, int], inside: float,
    at_end: float, beyond: float,
) -> float:  # fmt: skip
    """Return the work of a row of taps for V results; about half of the taps reach past an end."""
    every = row_blocks * taps
    ends = every if rows.count > constants["s2_size"] else min(every, taps - 1)
    mean = ((every - ends) * inside + ends * at_end) / row_blocks
    # Vectors that would reach past the end of the image are read by elements.
    size = max(1, constants["s0_size"] * constants["s1_size"] * constants["s2_size"])
    single = min(1.0, rows.count / size) * every / row_blocks * rows.count * beyond
    return mean + single


def _vectors(count: int, context: Mapping[str, Any]) -> float:
    """The vectors that numbers fill."""
    return count * SCALAR_BYTES[context["elem"].real] / _VECTOR


def far_seconds(nbytes: int, target: Target) -> float:
    """Return the seconds by which memory beyond the last cache of a CPU delays direct sums."""
    far = DirectSumCosts.of("direct convolutions", target).far
    return cpu_seconds(far * nbytes if nbytes > LAST_BYTES else 0.0, target)


def cpu_seconds(work: float, target: Target) -> float:
    """Return the seconds of work in multiply-adds of the best tiles of products."""
    return work / (target.compute_units * DeviceCosts.of("device", target).multiply_adds)


def direct_seconds(
    context: Mapping[str, Any], constants: Mapping[str, int], target: Target
) -> float:
    """Return the seconds of ``conv/direct`` on a GPU, without those of moving data."""
    k, c, row_taps = WaitingCosts.on(target), constants, context["row_taps"]
    # Adjacent work-items, which wait for each other, do not skip the same taps of the last axis.
    fastest = context["order"][-1][0]
    taps0, taps1, taps2 = (
        c[f"taps{axis}"] / (1 if fastest == name else c[f"divisor{axis}"])
        for axis, name in enumerate(("at0", "at1", "block"))
    )
    rows = c["sources"] * taps0 * taps1
    places = c["sources"] * (c["taps0"] + taps0 * c["taps1"])
    loads, weights, adds = taps2, taps2, taps2
    if row_taps:
        loads, weights = len(row_taps.loads), 0 if context["register_taps"] else row_taps.taps
        adds = sum(j is not None for reads in row_taps.reads for j in reads)
        waiting = rows * (k.row + k.load * loads + k.weight * weights)
    else:
        places += rows * c["taps2"]
        waiting = rows * taps2 * (k.row + k.load + k.weight)
    adds *= context["wide"] * multiply_adds(context["elem"])
    busy = rows * (k.busy_load * (loads + weights) + k.busy_add * adds)
    if context["divided"]:
        waiting += places * k.division
        busy += places * k.busy_division
    row_blocks = -(-min(c["columns"], c["t2_size"]) // context["V"])
    of_unit = c["items"] / target.compute_units
    return 1e-9 * overlapped(k.start + row_blocks * waiting, of_unit * row_blocks * busy)


def weight_seconds(
    context: Mapping[str, Any], constants: Mapping[str, int], groups: int, target: Target
) -> float:
    """Return the seconds of ``groups`` work-groups of ``conv/weight`` on a GPU, likewise."""
    k, row_taps, T = WaitingCosts.on(target), context["row_taps"], prod(context["taps"])
    sharing = context["G"] // context["lanes"]
    places = -(-constants["part_size"] // sharing)
    rows = context["taps"][0] * context["taps"][1]
    loads = rows * len(row_taps.loads)
    adds = rows * sum(j is not None for reads in row_taps.reads for j in reads)
    adds *= context["wide"] * multiply_adds(context["elem"])
    waiting = places * (k.place + k.place_load * loads)
    waiting += (1 + log2(sharing)) * (k.level + k.level_sum * T)
    if constants["parts"] > 1:
        waiting += k.parts
    busy = places * (k.busy_place + k.busy_place_load * loads + k.busy_place_add * adds)
    of_unit = max(1.0, groups / target.compute_units) * context["G"]
    return 1e-9 * overlapped(waiting, of_unit * (busy + k.busy_sum * T))


def fourier_seconds(strips: int, numbers: int, nbytes: int, target: Target) -> float:
    """Return the seconds of the Fourier transforms of a convolution on a CPU.

    Args:
        strips: The strips of lines.
        numbers: The complex numbers of all of their lanes.
        nbytes: Bytes of the spectra of a chunk of images.
        target: The device.
    """
    k, far = TransformCosts.on(target), nbytes if nbytes > LAST_BYTES else 0
    return (strips * k.strip + numbers * k.number + far * k.far) / target.compute_units


def tiles_seconds(
    items: int, context: Mapping[str, Any], constants: Mapping[str, int], target: Target
) -> float:
    """Return the seconds of a transform of ``winograd`` on a CPU, without those of moving data."""
    k, c, wide = TransformCosts.on(target), constants, context["wide"]
    vectors, singles, lines = 1, 0, 0
    if "adjacent" in context:  # of filters, or of the sums for their gradient
        singles = 0 if wide == 1 or context["adjacent"] else 9 * wide
    elif context["T"] > 1:
        vectors = -(-c["count"] // context["T"])
        if "extent" in context:
            name, extent = "s", context["extent"]
            singles = extent * (2 * c["count"] + extent - 2)
        else:
            name, singles = "t", 0 if context["unit"] else 4 * c["count"]
        itemsize = context["elem"].itemsize
        image = c["batch"] * c["channels"] * c[f"{name}1_size"] * c[f"{name}2_size"] * itemsize
        if abs(c[f"{name}_axis2"]) * itemsize >= LINE_BYTES and image > L2_BYTES:
            lines = singles
    of_item = k.item + vectors * k.vector + singles * k.single + lines * k.line
    return items * of_item / target.compute_units


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


def sliding_seconds(
    context: Mapping[str, Any], constants: Mapping[str, int], groups: int, target: Target
) -> float:
    """Return the seconds of ``groups`` work-groups that go down the rows of depthwise layers."""
    k, rows, row_taps = (
        SlidingCosts.of("sliding sums", target),
        context["rows"],
        context["row_taps"],
    )
    steps = constants["steps"] + rows.ahead - 1
    sharing, taps = 1, 0
    if "part_size" in constants:  # of the gradient of the weights, whose sums a group adds
        sharing = context["G"] // context["lanes"]
        taps = rows.column_taps.taps * row_taps.taps
        steps *= -(-constants["part_size"] // sharing)
    adds = prod(
        sum(at is not None for reads in axis.reads for at in reads)
        for axis in (rows.column_taps, row_taps)
    )
    adds *= context["wide"] * multiply_adds(context["elem"])
    loads = min(rows.fresh, len(rows.column_taps.loads)) * len(context["chunks"])
    loads += len(context.get("t_chunks", ()))
    waiting = k.start + steps * (k.step + k.load * loads)
    waiting += (1 + log2(sharing)) * k.level_sum * taps
    if constants.get("parts", 1) > 1:
        waiting += k.parts
    of_unit = max(1.0, groups / target.compute_units) * context["G"]
    busy = steps * (k.busy_step + k.busy_load * loads + k.busy_add * adds) + k.busy_sum * taps
    return 1e-9 * overlapped(waiting, of_unit * busy)


def windows_seconds(windows: Windows, target: Target) -> float:
    """Return the seconds of a copy of windows, or of a sum of windows."""
    if target.is_cpu:
        return _windows_seconds(windows, target)
    bandwidth = DeviceCosts.of("device", target).bandwidth * target.compute_units
    moving = ConvCosts.of("convolutions", target).copy_time * windows.bytes / bandwidth
    if not windows.sums:
        moving *= max(1, _WORD / windows.elem.itemsize)
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


def _windows_seconds(windows: Windows, target: Target) -> float:
    """Return the seconds of a copy of windows, or of a sum of windows, on a CPU."""
    w, k, last = windows, WindowCosts.on(target), windows.axes[2]
    places = [axis.target for axis in w.axes]
    taps = [axis.taps / (axis.divisor if w.sums else 1) for axis in w.axes]
    items = w.batch * (1 if w.last else w.channels) * places[0] * places[1]
    if w.sums and not w.last:
        taps[2] = last.taps
    rows = items * prod(taps)
    if w.last:
        channels = k.summed_channels if w.sums else k.channels
        runs = rows / last.taps if w.run else rows
        vector = k.added if w.sums else k.adjacent
        seconds = items * k.item + runs * places[2] * channels + w.elements * vector
        if last.divisor > 1:
            seconds += items * places[2] * last.taps * taps[0] * taps[1] * k.tested
    else:
        seconds = items * k.item + rows * k.row
        single = k.summed if w.sums else k.single * min(w.matrix.itemsize / 4, 1)
        seconds += w.elements * (single, k.added if w.sums else k.adjacent, k.second)[w.near]
    elements = w.elements
    if w.sums:
        elements = items * places[2] * (w.channels if w.last else 1)
        seconds += elements * (k.stored + k.half * (w.elem.itemsize == 2))
    across = last.t if w.sums else last.s * last.step
    if not w.last and last.target > 1 and abs(across) * w.elem.itemsize >= LINE_BYTES:
        image = elements if w.sums else w.channels * prod(axis.source for axis in w.axes)
        seconds += elements * k.line * (image * w.elem.itemsize > L2_BYTES)
    matrix = w.elements * w.matrix.itemsize
    image = w.batch * w.channels * prod(a.target if w.sums else a.source for a in w.axes)
    image *= w.elem.itemsize
    seconds += matrix * k.far * (matrix > L2_BYTES)
    seconds += sum(n * k.distant for n in (matrix, image) if n > LAST_BYTES)
    return seconds / target.compute_units


def best_product(
    problem: GemmProblem, target: Target, table: TuningTable, prepacked: str = ""
) -> Variant:
    """Return the fastest variant of products of windows, by their estimate of small products.

    Args:
        problem: The product.
        target, table: The device, and measured policies.
        prepacked: The operands that are packed before: see :func:`form_of`.
    """
    best = best_of(fastest(problem, target, table), target)
    if not target.is_cpu:
        return best
    if not best.path.startswith("packed"):
        return replace(best, estimate=best.estimate + WindowCosts.on(target).call)
    form = preferred_form(problem, target, table)
    if best.path == "packed, side by side":
        k, p = WindowCosts.on(target), problem
        seconds = SmallCosts.of("gemm_small", target).side_by_side(p, form.policy.vector)
        seconds += p.batch_size * (p.m * p.k + p.k * p.n + p.m * p.n) * k.in_batch
        return replace(best, estimate=k.call + seconds / target.compute_units)
    if prepacked:
        left = {"a": form.a_packed, "b": form.b_packed}
        left |= dict.fromkeys((in_core(name, form) for name in prepacked), False)
        form = replace(form, a_packed=left["a"], b_packed=left["b"])
        best = replace(best, launches=form.launches)
    seconds = _product_seconds(problem, form, target)
    return replace(best, estimate=best.estimate * seconds / packed_seconds(problem, target))


def form_of(problem: GemmProblem, target: Target, table: TuningTable) -> PackedForm | None:
    """Return the form of a product of which operands may be packed before, else ``None``."""
    best = best_of(fastest(problem, target, table), target)
    return preferred_form(problem, target, table) if best.path == "packed" else None


def packing_seconds(problem: GemmProblem, form: PackedForm, target: Target) -> float:
    """Return the seconds in which the operand ``"a"`` of a product is packed by itself."""
    k, width = WindowCosts.on(target), form.policy.item_n if form.transposed else form.policy.item_m
    count = problem.batch_size if any(problem.a.batch) else 1
    elements = count * problem.k * -(-problem.m // width) * width
    return k.call + elements * k.packed / target.compute_units


def _product_seconds(problem: GemmProblem, form: PackedForm, target: Target) -> float:
    """Return the seconds of products of windows in tiles, on a CPU."""
    p, k, tile = problem, WindowCosts.on(target), form.policy
    core = p.transpose() if form.transposed else p
    tiles = core.tiles(tile.item_m, tile.item_n)
    work = k.product + tiles * k.tile
    work += core.k * tiles * (tile.item_m * tile.item_n // tile.vector) * k.step
    for packed, operand, extent, of_tile, step in (
        (form.a_packed, core.a, core.m, tile.item_m, core.a.row),
        (form.b_packed, core.b, core.n, tile.item_n, core.b.col),
    ):
        # One that all products share is packed once.
        count = 1 if any(operand.batch) or form.whole else p.batch_size
        half = k.half * (operand.elem.itemsize == 2 and step != 1)
        work += packed * core.k * -(-extent // of_tile) * of_tile * (k.packed + half) / count
    work += 0 if core.c.col == 1 else core.m * core.n * k.stored_singly
    work += core.m * core.n * k.half * (core.c.elem.itemsize == 2)
    slow, byte = multiply_adds(p.compute), k.byte + (k.far if p.bytes > L2_BYTES else 0.0)
    return k.call + (p.batch_size * work * slow + p.bytes * byte) / target.compute_units
