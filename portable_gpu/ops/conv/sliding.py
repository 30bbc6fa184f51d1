"""Depthwise convolutions on a GPU, or the gradients of their inputs, row by row.

A work-item computes a few neighbouring results of each row of a band.  It goes down the rows and
keeps the sums of the results to which rows further down contribute, so that it loads each element
of the source once, as streaming stencils do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portable_gpu.codegen.parameters import Parameter, scalars
from portable_gpu.ops.conv.axis_taps import (
    AxisTaps,
    SpaceAxis,
    axes_of,
    axis_parameters,
    axis_taps_of,
)
from portable_gpu.ops.conv.epilogue import finish, image_constants, image_parameters
from portable_gpu.ops.conv.kernels import ConvKernel
from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides
from portable_gpu.targets import Target

#: Bytes of the largest load.
_LOAD_BYTES = 16
#: Words of a work-item's weights, and of its sums: each is a register.
_MOST_WEIGHTS, _MOST_SUMS = 50, 80
#: Taps of a filter, each of which is a part of the text; and bytes of local memory for weights.
_MOST_TAPS, _LOCAL_BYTES = 49, 24576
#: Registers of a compute unit, and those of a work-item that are not numbers of the sums.
_REGISTERS, _OTHERS = 1 << 16, 40
#: Work-items of a group.
_GROUP = 256
#: Work-items side by side along the channels, at most.
_MOST_LANES = 64
#: Bands of a column, at most.
_MOST_BANDS = 32


@dataclass(frozen=True)
class SlidingRows:
    """How the steps of a work-item read the rows of the source.

    Attributes:
        column_taps: The taps along axis 1, and the rows that they read for the results of a step.
        fresh: The rows of the source that are new in each step.
        ahead: The steps that read the same row.
        at_once: The rows of results of a step.
    """

    column_taps: AxisTaps
    fresh: int
    ahead: int
    at_once: int


def rows_of(axis: SpaceAxis, at_once: int) -> SlidingRows | None:
    """Return how steps of at least ``at_once`` rows read; ``None`` for too many rows of taps."""
    at_once = -(-at_once // axis.divisor) * axis.divisor
    column_taps = axis_taps_of(axis, at_once)
    if column_taps is None:
        return None
    fresh = at_once * axis.step // axis.divisor
    return SlidingRows(column_taps, fresh, -(-(max(column_taps.loads) + 1) // fresh), at_once)


def slides(p: ConvProblem, target: Target) -> bool:
    """Whether each sum has one channel, in two axes of space; and no array is empty."""
    sources = p.filters_of_group if p.direction == "input" else p.channels_of_group
    depths = p.x_size[0], p.y_size[0], p.w_size[0]
    return (
        not target.is_cpu and sources == 1 and depths == (1, 1, 1) and p.before[0] == 0
        and min(p.x_elements, p.y_elements, p.w_elements) > 0
    )  # fmt: skip


def are_by_channels(p: ConvProblem) -> bool:
    """Whether channels are closer to each other in memory than places, in x and in y."""
    return p.channels > 1 and all(
        abs(array.channel) < abs(step)
        for array, size in ((p.x, p.x_size), (p.y, p.y_size))
        for step, n in zip(array.space, size, strict=True)
        if n > 1
    )


def words_of(p: ConvProblem) -> int:
    """Return the words of a number of the sums."""
    return 2 if p.elem.needs_fp64 else 1


def adjacent(p: ConvProblem, nbytes: int) -> int:
    """Return the adjacent channels of a work-item: those of an aligned load of ``nbytes``."""
    if not (p.depthwise and are_by_channels(p) and p.x.channel == p.y.channel == 1):
        return 1
    steps = p.channels, *(step for a in (p.x, p.y) for step in (a.outer, *a.space[1:]))
    aligned = min(p.x.aligned, p.y.aligned)
    wide = max(1, nbytes // p.elem.itemsize)
    while wide > 1 and (
        aligned < wide * p.elem.itemsize or any(step % wide for step in steps)
        or (wide > 2 and p.taps * wide * words_of(p) > _MOST_WEIGHTS)
    ):  # fmt: skip
        wide //= 2
    return wide


def whole_vectors(image: ImageStrides, size: int, count: int, p: ConvProblem) -> bool:
    """Whether the rows of an image are aligned vectors of ``count`` elements."""
    steps = size, image.space[1], image.outer, image.channel
    return (
        image.space[2] == 1 and image.aligned >= count * p.elem.itemsize
        and not any(step % count for step in steps)
    )  # fmt: skip


def chunks_of(
    row_taps: AxisTaps, V: int, image: ImageStrides, size: int, p: ConvProblem
) -> list[tuple[int, int]]:
    """Return the loads of a row for V results: the first element of each, and how many it has.

    Args:
        row_taps: The taps along the row, and the elements that they read.
        V: Results that are neighbours.
        image: The strides of the source.
        size: The elements of its rows.
        p: The convolution.
    """
    count = min(V * row_taps.step // row_taps.divisor, V, _LOAD_BYTES // p.elem.itemsize)
    whole = count > 1 and whole_vectors(image, size, count, p)
    chunks, j = [], 0
    while j <= row_taps.loads[-1]:
        vector = whole and (j + row_taps.shift) % count == 0
        if vector and set(range(j, j + count)) <= set(row_taps.loads):
            chunks.append((j, count))
            j += count
            continue
        if j in row_taps.loads:
            chunks.append((j, 1))
        j += 1
    return chunks


def fewest_idle(vectors: int, candidates: Iterable[int], group: int) -> int:
    """Return the work-items side by side of which the fewest have no channels."""

    def waste(lanes: int) -> float:
        return -(-vectors // lanes) * lanes / vectors * group / (group // lanes * lanes)

    return min(candidates, key=lambda lanes: (round(waste(lanes), 2), -lanes))


def running_groups(words: int, group: int, target: Target) -> int:
    """Return the groups that run at the same time, of work-items with ``words`` numbers."""
    return max(1, _REGISTERS // (words + _OTHERS) // group) * target.compute_units


def steps_of_band(steps: int, more: int, turns: Callable[[int], int]) -> int:
    """Return the steps of a band that take the least time.

    Args:
        steps: Those of a whole column.
        more: Those that a work-item does before the first of its band.
        turns: How many groups a compute unit runs after each other, for a number of bands.
    """
    lengths = {-(-steps // bands) for bands in range(1, min(steps, _MOST_BANDS) + 1)}
    return min(lengths, key=lambda own: (turns(-(-steps // own)) * (own + more), -own))


def _parameters(context: Mapping[str, Any]) -> list[Parameter]:
    """The parameters of the kernel after its buffers."""
    index = context["I"]
    return [
        *scalars(index, "items"),
        *scalars("long", "s_offset", "f_offset", "bias_offset", "t_offset"),
        *scalars(index, "adds_bias", "bias_step", "channels", "channel_blocks", "targets"),
        *scalars(index, "batch", "blocks", "bands", "steps", "s_batch", "s_channel"),
        *scalars(index, "f_group", "f_out", "t_batch", "t_channel"),
        *axis_parameters(index),
        *image_parameters(context["finish"]),
    ]


def _shape_of_item(p: ConvProblem, axes: Sequence[SpaceAxis]) -> tuple[int, int, int]:
    """Return a work-item's neighbours and bytes of channels, and the rows of a step.

    Of those that were timed (docs/experiments) they are the fastest.
    """
    image, size, _ = p.images
    if are_by_channels(p):
        strided = p.stride != (1, 1, 1)
        if p.elem.itemsize > 2:
            return 4 if strided and p.direction == "forward" else 2, 16, 1
        if strided:
            return 4, 8, 1
        return (2, 8, 1) if size[2] % 4 else (4, 8, 2)
    rows = 1 if axes[1].step > 1 else 2
    return (4 if whole_vectors(image, size[2], 4, p) else 2), 0, rows


def sliding_kernel(problem: ConvProblem, target: Target) -> ConvKernel | None:
    """Return the kernel of a problem whose direction is ``forward`` or ``input``.

    ``None`` where it does not take the problem: on a CPU, for sums of several channels, three axes
    of space, or filters whose sums are too many registers.

    A work-item slides down a band of rows.  It has ``wide`` adjacent channels, V results along a
    row and ``at_once`` rows of them at a time.  ``lanes`` work-items of a group have neighbouring
    channels; it is ``None`` if channels are not adjacent in memory.
    """
    p = problem
    if not slides(p, target):
        return None
    backward = p.direction == "input"
    source, result = (p.y, p.x) if backward else (p.x, p.y)
    targets = p.channels_of_group if backward else p.filters_of_group
    axes = axes_of(p, backward)
    V, nbytes, at_once = _shape_of_item(p, axes)
    wide = adjacent(p, nbytes)
    of_number = wide * words_of(p)  # registers for a number of each channel
    rows = rows_of(axes[1], at_once)
    if rows is None or p.taps > _MOST_TAPS:
        return None
    while V > 1 and rows.ahead * rows.at_once * V * of_number > _MOST_SUMS:
        V //= 2
    row_taps = axis_taps_of(axes[2], V)
    if row_taps is None or rows.ahead * rows.at_once * V * of_number > _MOST_SUMS:
        return None
    group = min(_GROUP, target.max_work_group_size)
    channels = p.groups * targets
    lanes, vectors = None, -(-channels // wide)
    if are_by_channels(p):
        max_lanes = min(vectors, _MOST_LANES, group, _LOCAL_BYTES // (4 * p.taps * of_number))
        lanes = fewest_idle(vectors, range(min(max_lanes, 8), max_lanes + 1), group)
    blocks, steps = -(-axes[2].target // V), -(-axes[1].target // rows.at_once)
    channel_blocks = -(-vectors // lanes) if lanes else 1
    items = p.batch * blocks * (1 if lanes else channels)
    in_use = rows.ahead * rows.at_once * V + p.taps + rows.fresh * len(row_taps.loads)
    running = running_groups(of_number * in_use, group, target)

    def groups_of(bands: int) -> int:
        return channel_blocks * -(-items * bands // (group // (lanes or 1)))

    of_band = steps_of_band(steps, rows.ahead - 1, lambda bands: -(-groups_of(bands) // running))
    bands = -(-steps // of_band)
    constants = {
        "items": items * bands, "bias_step": p.bias or 0, "adds_bias": int(p.bias is not None),
        "channels": channels, "channel_blocks": channel_blocks, "targets": targets,
        "batch": p.batch, "blocks": blocks, "bands": bands, "steps": of_band,
        "s_batch": source.outer, "s_channel": source.channel,
        "f_group": p.filters_of_group * p.w.outer, "f_out": p.w.channel if backward else p.w.outer,
        "t_batch": result.outer, "t_channel": result.channel,
    }  # fmt: skip
    for c, axis in enumerate(axes):
        constants |= axis.constants(c)
    constants |= image_constants(p, [extra.strides.space for extra in p.extras])
    constants |= {"shift2": row_taps.shift, "shift1": rows.column_taps.shift}
    order = [("n", "batch"), ("o", "channels"), ("band", "bands"), ("block", "blocks")]
    singly = [(j, 1) for j in row_taps.loads]
    context = {
        "elem": p.elem, "I": "int" if p.fits_int else "long",
        "order": [loop for loop in order if not (lanes and loop[0] == "o")],
        "wide": wide, "lanes": lanes, "G": group, "V": V, "row_taps": row_taps, "rows": rows,
        "chunks": singly if lanes else chunks_of(row_taps, V, source, axes[2].source, p),
        "joined": not lanes and V > 1 and V * p.elem.itemsize <= _LOAD_BYTES
                  and whole_vectors(result, axes[2].target, V, p),
        "register_taps": p.taps * of_number <= _MOST_WEIGHTS, "finish": finish(p),
    }  # fmt: skip
    return ConvKernel("sliding", _parameters(context), context, constants, groups_of(bands) * group)
