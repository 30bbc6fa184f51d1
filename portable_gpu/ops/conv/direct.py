"""A convolution, or the gradient of its input, as sums: no workspace, any strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from portable_gpu.codegen.operators import SCALAR_BYTES
from portable_gpu.codegen.parameters import Parameter, scalars
from portable_gpu.ops.conv.axis_taps import (
    SpaceAxis,
    axes_of,
    axis_parameters,
    axis_taps_of,
    last_axis,
    nearest_results,
    neighbours,
    row_reads,
)
from portable_gpu.ops.conv.epilogue import finish, image_constants, image_parameters
from portable_gpu.ops.conv.kernels import ConvKernel
from portable_gpu.ops.conv.problem import ConvProblem
from portable_gpu.powers_of_two import floor_power_of_two
from portable_gpu.targets import Target

#: Bytes of a vector of a CPU, at most.
_VECTOR_BYTES = 64
#: Results at a time on a GPU, and of adjacent channels on a CPU: more would take registers.
_V = 4
#: Bytes of adjacent channels that a work-item of a GPU loads at once, where each has its filter:
#: with more, the weights take the registers of other wavefronts.
_LOAD_BYTES = 8
#: Work-items for each compute unit of a CPU: enough to divide the work evenly.
_BANDS = 16
#: Weights of a result that stay in registers.
_MOST_KEPT = 25
#: Work-items of a GPU's compute unit that hide the latency of loads: with more, each has more
#: results, for which it loads its weights once.
_BUSY = 2048


def _parameters(context: Mapping[str, Any]) -> list[Parameter]:
    """The parameters of the kernel after its buffers."""
    index = context["I"]
    return [
        *scalars(index, "items"),
        *scalars("long", "s_offset", "f_offset", "bias_offset", "t_offset"),
        *scalars(index, "adds_bias", "bias_step", "channels", "channel_blocks", "sources"),
        *scalars(index, "targets", "columns", "blocks", "s_batch", "s_channel", "f_group"),
        *scalars(index, "f_out", "f_in", "t_batch", "t_channel", "lines", "bands"),
        *axis_parameters(index),
        *image_parameters(context["finish"]),
    ]


def direct_kernel(problem: ConvProblem, target: Target) -> ConvKernel:
    """Return the kernel of a problem whose direction is ``forward`` or ``input``.

    A work-item has ``wide`` channels and V neighbours at a time, of ``per_item`` blocks along
    a row and of ``lines`` rows.
    """
    p = problem
    backward = p.direction == "input"
    source, result = (p.y, p.x) if backward else (p.x, p.y)
    sources, targets = p.channels_of_group, p.filters_of_group
    f_out, f_in = p.w.outer, p.w.channel
    f_group = targets * f_out
    if backward:
        sources, targets, f_out, f_in = targets, sources, f_in, f_out
    channels = p.groups * targets
    axes = axes_of(p, backward)
    layout = _layout(p, axes, target, result.channel, source.channel, channels)
    axes = last_axis(axes, layout.axis)
    orders = [last_axis(extra.strides.space, layout.axis) for extra in p.extras]
    row_taps = axis_taps_of(axes[2], layout.V)
    V = layout.V if row_taps else 1
    unrolled = None
    if row_taps and sources == 1 and prod(axis.taps for axis in axes) <= _MOST_KEPT:
        unrolled = axes[0].taps, axes[1].taps
    row_blocks = -(-axes[2].target // V)
    others = p.batch * axes[0].target * -(-channels // layout.wide)
    lines = _lines_of_item(axes[1].target, others, target)
    bands = -(-axes[1].target // lines)
    others *= bands
    per_item = _row_blocks_of_item(row_blocks, others, target)
    blocks = -(-row_blocks // per_item)
    names = {
        "n": "batch", "channel": "channel_blocks", "at0": "t0_size", "at1": "t1_size",
        "block": "blocks", "band": "bands",
    }  # fmt: skip
    constants = {
        "items": others * blocks, "bias_step": p.bias or 0, "adds_bias": int(p.bias is not None),
        "channels": channels, "channel_blocks": -(-channels // layout.wide), "sources": sources,
        "targets": targets, "columns": per_item * V, "blocks": blocks, "s_batch": source.outer,
        "s_channel": source.channel, "f_group": f_group, "f_out": f_out, "f_in": f_in,
        "t_batch": result.outer, "t_channel": result.channel, "lines": lines, "bands": bands,
    }  # fmt: skip
    for c, axis in enumerate(axes):
        constants |= axis.constants(c)
    constants |= image_constants(p, orders)
    if row_taps:
        constants["shift2"] = row_taps.shift
    in_vector = target.is_cpu and layout.wide == 1
    # The lines of adjacent channels are far from each other: caches do not prefetch them.
    ahead = target.is_cpu and layout.wide > 1 and bool(row_taps)
    context = {
        "elem": p.elem, "I": "int" if p.fits_int and not target.is_cpu else "long",
        "order": [(name, names[name]) for name in layout.order], "V": V, "wide": layout.wide,
        "row_taps": row_taps, "register_taps": unrolled,
        "divided": any(axis.divisor > 1 for axis in axes),
        "rows": row_reads(row_taps, V, axes[2], _vector(p)) if in_vector else None,
        "t_unit": axes[2].t == 1 and in_vector, "ahead": ahead,
        "finish": finish(p, [space[2] for space in orders]),
    }  # fmt: skip
    return ConvKernel("direct", _parameters(context), context, constants, others * blocks)


@dataclass(frozen=True)
class _Layout:
    """How work-items share the results.

    Attributes:
        axis: The axis of space along which a work-item has neighbours.
        V: Neighbours at a time.
        wide: Channels of a work-item.
        order: The coordinates of a work-item, the fastest last.
    """

    axis: int
    V: int
    wide: int
    order: tuple[str, ...]


def _layout(
    p: ConvProblem, axes: Sequence[SpaceAxis], target: Target, t_channel: int, s_channel: int,
    channels: int,
) -> _Layout:  # fmt: skip
    """Return the layout; ``t_channel``, ``s_channel``: strides of channels of result and source."""
    along, step = nearest_results(axes)
    by_channels = channels > 1 and abs(t_channel) < step
    if target.is_cpu:
        full = _vector(p)
        if p.depthwise and t_channel == s_channel == 1 and channels >= full:
            # Neighbours share loads, weights where these are not kept, and rows between elements.
            axis, taps = axes[along], prod(axis.taps for axis in axes)
            several = axis.target > 1 and (axis.step == 1 or taps > _MOST_KEPT)
            V = max(1, min(_V, floor_power_of_two(axis.target)) // axis.divisor) * axis.divisor
            V = V if several else 1
            return _Layout(along, V, full, ("n", "at0", "band", "block", "channel"))
        return _Layout(
            along, neighbours(axes[along], full), 1, ("n", "channel", "at0", "band", "block")
        )
    # Lanes go along the axis that is contiguous, neighbours of a work-item along another one.
    across = max(range(3), key=lambda c: (axes[c].target if c != along else 1, c))
    V = _V if axes[across].target > 1 else 1
    if by_channels:
        wide = adjacent_channels(p) if p.depthwise and t_channel == s_channel == 1 else 1
        return _Layout(across, V, wide, ("n", "at0", "at1", "block", "channel"))
    others = [c for c in range(3) if c != across]
    fast = f"at{others.index(along)}" if along in others else "at1"
    slow = "at0" if fast == "at1" else "at1"
    return _Layout(across, V, 1, ("n", "channel", slow, "block", fast))


def adjacent_channels(p: ConvProblem) -> int:
    """Return the channels of a work-item of a GPU: those of one aligned load."""
    strides = p.channels, *(step for array in (p.x, p.y) for step in (array.outer, *array.space))
    wide = max(1, _LOAD_BYTES // p.elem.itemsize)
    aligned = min(p.x.aligned, p.y.aligned) >= wide * p.elem.itemsize
    return wide if aligned and all(step % wide == 0 for step in strides) else 1


def _lines_of_item(rows: int, others: int, target: Target) -> int:
    """Return the rows of a work-item: on a CPU the most that leave work for all threads."""
    if not target.is_cpu:
        return 1
    bands = min(max(1, rows), max(1, -(-_BANDS * target.compute_units // max(1, others))))
    return -(-max(1, rows) // bands)


def _row_blocks_of_item(row_blocks: int, others: int, target: Target) -> int:
    """Return the blocks of V results of a work-item: all of a row on a CPU."""
    if target.is_cpu:
        return max(1, row_blocks)
    per_item = 1
    while per_item < 4 and 2 * per_item <= row_blocks:
        if others * row_blocks // (2 * per_item) < 2 * _BUSY * target.compute_units:
            break
        per_item *= 2
    return per_item


def _vector(p: ConvProblem) -> int:
    """Return the numbers of a vector of a CPU."""
    return _VECTOR_BYTES // SCALAR_BYTES[p.elem.real]
