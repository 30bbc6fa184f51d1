"""Gradients of the weights of convolutions on a CPU, as sums over copied tiles, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from portable_gpu.codegen.operators import SCALAR_BYTES
from portable_gpu.ops.caches import LINE_BYTES
from portable_gpu.ops.conv.axis_taps import SpaceAxis, axes_of, last_axis, nearest_results
from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides, Triple
from portable_gpu.ops.conv.weight import WeightKernel
from portable_gpu.targets import Target

#: Bytes of the copies of x and y, whose vectors are places.
_X_BYTES, _Y_BYTES = 1 << 16, 1 << 16
#: Bytes of a copy whose vectors are adjacent channels.
_LANE_BYTES = 1 << 17
#: Filters of a work-group, or vectors of them, in the order of trial; channels, at most.
_UNITS, _MOST_SOURCES = (16, 8, 4, 2, 1), 4
#: Bytes of adjacent channels of a depthwise layer that a work-group reads: two lines of the cache,
#: which are fetched together.  With more channels, tiles have fewer rows, and those that two tiles
#: read are copied twice.
_CHANNEL_BYTES = 2 * LINE_BYTES
#: Vectors of sums of a work-group, at most: units, times channels, times taps.
_MOST_SUMS = 2048
#: Taps of a row of a pass, at most.
_MOST_TAPS = 13
_GROUPS_PER_UNIT = 4


def cpu_weight_kernel(problem: ConvProblem, target: Target) -> WeightKernel | None:
    """Return the kernel of a problem whose direction is ``weight``.

    ``None`` where it does not take the problem: on a GPU, for empty arrays, and for filters
    whose sums, or whose reads of one row of places, are too many for the caches.
    """
    p = problem
    if not (target.is_cpu and p.x_elements and p.y_elements):
        return None
    axes = axes_of(p, backward=False)
    along, _ = nearest_results(axes)
    axes = last_axis(axes, along)
    real_bytes = SCALAR_BYTES[p.elem.real]
    V = max(4, min(64, target.vector_bytes) // real_bytes)
    targets, sources, T = p.filters_of_group, p.channels_of_group, p.taps
    x_lanes = p.depthwise and p.x.channel == p.y.channel == 1 and p.channels >= V
    y_lanes = x_lanes or (p.y.channel == 1 != axes[2].t and targets >= V)
    vectors = (p.channels if x_lanes else targets) // V if y_lanes else targets
    if _MOST_SUMS < T:
        return None
    channels = min(_share(sources, _MOST_SOURCES), _MOST_SUMS // T)
    x_size = (_LANE_BYTES if x_lanes else _X_BYTES) // (real_bytes * (V if x_lanes else 1))
    y_size = (_LANE_BYTES if y_lanes else _Y_BYTES) // (real_bytes * (V if y_lanes else 1))
    units, tile = 0, None
    most_units = _CHANNEL_BYTES // (V * p.elem.itemsize) if x_lanes else max(_UNITS)
    for max_units in (count for count in _UNITS if count <= most_units):
        count = _share(vectors, max_units)
        fitting = _tile(axes, p.batch, x_size // (count if x_lanes else 1), y_size // count, V)
        if fitting is None or count * channels * T > _MOST_SUMS:
            continue
        units, tile = count, fitting
        _, rows, cols = fitting
        whole = rows >= min(axes[1].target, axes[1].taps) and cols == axes[2].target
        if x_lanes or whole:  # adjacent channels share lines of the cache
            break
    if tile is None:
        return None
    registers = 32 if target.vector_bytes >= 64 else 16
    F, B, C = _pass(
        1 if x_lanes else units, axes[1].taps, axes[2].taps, registers, 1 if y_lanes else 2
    )
    images, rows, cols = tile
    filters = units * (V if y_lanes else 1)
    filter_blocks, source_blocks = -(-targets // filters), -(-sources // channels)
    blocks = -(-p.filters // filters) if x_lanes else p.groups * filter_blocks * source_blocks
    images = max(1, min(images, p.batch * blocks // (_GROUPS_PER_UNIT * target.compute_units)))
    blocks1, blocks2 = -(-axes[1].target // rows), -(-axes[2].target // cols)
    places = -(-p.batch // images) * axes[0].target * blocks1 * blocks2
    parts = max(1, min(-(-_GROUPS_PER_UNIT * target.compute_units // blocks), places))
    part_size = -(-places // parts)
    parts = -(-places // part_size)
    constants = {
        "pairs": p.filters * sources, "sources": sources, "targets": targets, "parts": parts,
        "part_size": part_size, "places": places, "batch": p.batch, "images": images,
        "rows": rows, "cols": cols, "blocks1": blocks1, "blocks2": blocks2,
        "filter_blocks": filter_blocks, "source_blocks": source_blocks,
        "s_batch": p.x.outer, "s_channel": p.x.channel, "f_out": p.w.outer, "f_in": p.w.channel,
        "t_batch": p.y.outer, "t_channel": p.y.channel,
        "s_elements": _extent(p.x, p.batch, p.channels, p.x_size),
        "t_elements": _extent(p.y, p.batch, p.filters, p.y_size),
    }  # fmt: skip
    for c, axis in enumerate(axes):
        constants |= axis.constants(c)
    pairs = filters * channels
    context = {
        "elem": p.elem, "I": "long", "V": V, "x_lanes": x_lanes, "y_lanes": y_lanes, "G": 1,
        "lanes": 1, "wide": pairs, "units": units, "sources_at_once": channels,
        "F": F, "B": B, "C": C, "taps": tuple(axis.taps for axis in axes),
        "step": tuple(axis.step for axis in axes),
        "tap_step": tuple(axis.tap_step for axis in axes),
        "x_size": x_size, "y_size": y_size,
        "adjacent_x": axes[2].s == 1, "adjacent_y": axes[2].t == 1,
    }  # fmt: skip
    nbytes = blocks * parts * T * pairs * real_bytes if parts > 1 else 0
    return WeightKernel("cpu_weight", context, constants, blocks, parts, nbytes)


def _share(count: int, limit: int) -> int:
    """Return the channels of a block, at most ``limit``, so that blocks are about equal.

    A block of 4 channels or more has a multiple of 4, or all channels.
    """
    share = -(-count // -(-count // limit))
    return share if share < 4 else min(count, -(-share // 4) * 4)


def _pass(units: int, rows: int, taps: int, registers: int, read_cost: int) -> tuple[int, int, int]:
    """Return the units, rows of taps and taps of a row whose sums are in registers in a pass.

    These are F, B and C of the template.  Of the divisors of ``units``, ``rows`` and ``taps`` they
    are those of the least cost.  A core starts two products and two loads in a cycle, and a sum
    waits four cycles for the last one.  A read of x costs ``read_cost`` loads: 2 where vectors
    cross lines of the cache.
    """
    best = 8.0, 0, (1, 1, 1)
    for C in (c for c in range(1, min(taps, _MOST_TAPS) + 1) if taps % c == 0):
        for B in (b for b in range(1, rows + 1) if rows % b == 0):
            for F in (f for f in range(1, 5) if units % f == 0):
                sums = F * B * C
                if sums + F < registers:
                    cost = max(sums, F + read_cost * B * C, 8) / sums
                    best = min(best, (cost, -sums, (F, B, C)))
    return best[2]


def _tile(
    axes: Sequence[SpaceAxis], batch: int, max_x: int, max_y: int, V: int
) -> tuple[int, int, int] | None:
    """Return the images, rows and columns of a tile whose copies have at most these elements."""
    _, down, along = axes
    halo = [(axis.taps - 1) * axis.tap_step // axis.step for axis in axes]
    phases = prod(min(axis.taps, axis.step) for axis in (down, along))

    def fits(images: int, rows: int, cols: int) -> bool:
        pitch = cols + halo[2]
        x, y = phases * (rows + halo[1]) * pitch, rows * pitch + V
        return images * x + 2 * V <= max_x and images * (y + V) + 2 * V <= max_y

    cols = along.target
    while cols > V and not fits(1, 1, cols):
        cols = max(V, -(-cols // (2 * V)) * V)
    if not fits(1, 1, cols):
        return None
    rows = next(r for r in range(down.target, 0, -1) if fits(1, r, cols))
    rows = -(-down.target // -(-down.target // rows))
    images = 1
    if rows == down.target and cols == along.target:
        images = next(n for n in range(batch, 0, -1) if fits(n, rows, cols))
        images = -(-batch // -(-batch // images))
    return images, rows, cols


def _extent(array: ImageStrides, outer: int, channels: int, size: Triple) -> int:
    """Return the elements from the first one to the end; 0 if a stride is negative."""
    strides = array.outer, array.channel, *array.space
    counts = outer, channels, *size
    if any(step < 0 < n - 1 for n, step in zip(counts, strides, strict=True)):
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(counts, strides, strict=True) if n > 1)
