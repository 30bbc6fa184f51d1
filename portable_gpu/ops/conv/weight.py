"""The gradient of the weights of a convolution as sums, in one launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from portable_gpu.codegen.operators import SCALAR_BYTES
from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.conv.axis_taps import (
    axes_of,
    axis_taps_of,
    last_axis,
    nearest_results,
    neighbours,
    row_reads,
)
from portable_gpu.ops.conv.direct import adjacent_channels
from portable_gpu.ops.conv.problem import ConvProblem, Triple
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.powers_of_two import floor_power_of_two
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target

#: Bytes of a vector of a CPU.
_VECTOR_BYTES = 64
#: Places of a row that a work-item of a GPU reads together.
_V = 4
#: Sums of a work-item, each of which is a register, or a vector on a CPU.
_MOST_SUMS = 25
#: Bytes of local memory for the sums of a group: every device has 32 KiB.
_LOCAL_BYTES = 1 << 15
#: Work-groups for each compute unit to which sums are divided.
_GROUPS_PER_UNIT = 4
#: Places that are worth a work-group of their own, for each of its work-items.
_LEAST_PLACES = 8
#: The most lanes for each pair: with more of them, a narrower row of lanes is taken, as long as
#: that still reads whole sectors of memory.
_MOST_IDLE = 1.15


@dataclass(frozen=True)
class WeightKernel:
    """A kernel of gradients of weights, and the partition of its work.

    Attributes:
        name: The name of the kernel, and of its template.
        context: The values of the template's parameters.
        constants: The integers of every launch, in the order of the kernel's parameters.
        blocks: The number of blocks of pairs and taps.
        parts: The number of work-groups that share a block; each adds up a part of the places.
        partial_bytes: The bytes of workspace for the sums of parts.
    """

    name: str
    context: Mapping[str, Any]
    constants: Mapping[str, int]
    blocks: int
    parts: int
    partial_bytes: int

    def specialization(self, target: Target) -> Specialization:
        """The text and options of the kernel."""
        ctype, index = f"{self.context['elem'].name}_t", self.context["I"]
        parameters = [
            *(buffer(ctype, name, restrict=False) for name in ("s", "t")),
            buffer(ctype, "f", writes=True, restrict=False),
            *(
                buffer("uint", name, writes=True, restrict=False)
                for name in ("partial", "counters")
            ),
            *scalars("long", "s_offset", "t_offset", "f_offset"),
            *scalars(index, *self.constants),
        ]
        return specialize(f"conv/{self.name}", target, {self.name: parameters}, **self.context)


def weight_kernel(problem: ConvProblem, target: Target) -> WeightKernel:
    """Return the kernel of a problem whose direction is ``weight``; no array of it is empty.

    A pair is a channel of x with a filter that reads it.  In each work-group, ``lanes`` work-items
    side by side have ``wide`` pairs each, and their sums for T taps.  The G / ``lanes`` rows of
    work-items (M) divide the places, of which each takes V of a row at a time.
    """
    p = problem
    axes = axes_of(p, backward=False)
    along, _ = nearest_results(axes)
    sources, targets = p.channels_of_group, p.filters_of_group
    pairs = p.filters * sources
    wide = lanes = 1
    real_bytes = SCALAR_BYTES[p.elem.real]
    full = _VECTOR_BYTES // real_bytes
    by_channels = p.channels > 1 and abs(p.x.channel) < abs(p.x.space[along])
    last = along
    if target.is_cpu:
        if p.depthwise and p.x.channel == p.y.channel == 1 and p.channels >= full:
            V, wide = 1, full
        else:
            V = neighbours(axes[along], full)
        order = ["n", "at0", "at1", "block2"]
    else:
        last = max(range(3), key=lambda c: (axes[c].target if c != along else 1, c))
        V = _V if axes[last].target > 1 else 1
        if by_channels and p.depthwise and p.x.channel == p.y.channel == 1:
            wide = adjacent_channels(p)
        if by_channels:
            lanes = min(
                _lanes_of(-(-pairs // wide)), floor_power_of_two(target.max_work_group_size)
            )
        others = [c for c in range(3) if c != last]
        fast = f"at{others.index(along)}" if along in others else "at1"
        order = ["n", "at0" if fast == "at1" else "at1", "block2", fast]
    axes = last_axis(axes, last)
    counts = tuple(axis.taps for axis in axes)
    taps = _taps_of_group((counts[0], counts[1], counts[2]))
    row_taps = axis_taps_of(replace(axes[2], taps=taps[2]), V)
    if row_taps is None:
        taps, V = (1, 1, 1), 1
        row_taps = axis_taps_of(replace(axes[2], taps=1), V)
    assert row_taps is not None
    T = prod(taps)
    G = 1
    if not target.is_cpu:
        max_items = min(256, target.max_work_group_size, _LOCAL_BYTES // (T * wide * real_bytes))
        G = max(lanes, floor_power_of_two(max_items))
    tap_blocks = [-(-count // own) for count, own in zip(counts, taps, strict=True)]
    blocks = -(-pairs // (lanes * wide)) * prod(tap_blocks)
    row_blocks = -(-axes[2].target // V)
    places = p.batch * axes[0].target * axes[1].target * row_blocks
    M = G // lanes
    target_groups = -(-_GROUPS_PER_UNIT * target.compute_units // blocks)
    parts = max(1, min(target_groups, places // (M * _LEAST_PLACES)))
    part_size = max(1, -(-places // (parts * M))) * M
    parts = max(1, -(-places // part_size))
    names = {"n": "batch", "at0": "t0_size", "at1": "t1_size", "block2": "blocks"}
    constants = {
        "pairs": pairs, "sources": sources, "targets": targets, "parts": parts,
        "part_size": part_size, "places": places, "tap_blocks1": tap_blocks[1],
        "tap_blocks2": tap_blocks[2], "tap_blocks": prod(tap_blocks), "batch": p.batch,
        "s_batch": p.x.outer, "s_channel": p.x.channel, "f_out": p.w.outer, "f_in": p.w.channel,
        "t_batch": p.y.outer, "t_channel": p.y.channel, "blocks": row_blocks,
    }  # fmt: skip
    for c, axis in enumerate(axes):
        constants |= axis.constants(c)
    context = {
        "elem": p.elem, "I": "int" if p.fits_int and not target.is_cpu else "long",
        "order": [(name, names[name]) for name in order], "V": V, "wide": wide, "G": G,
        "lanes": lanes, "taps": taps, "row_taps": row_taps,
        "rows": row_reads(row_taps, V, axes[2], full) if target.is_cpu else None,
    }  # fmt: skip
    nbytes = blocks * parts * T * lanes * wide * real_bytes if parts > 1 else 0
    return WeightKernel("weight", context, constants, blocks, parts, nbytes)


def _lanes_of(pairs: int) -> int:
    """Return the number of work-items side by side, few of which then have no pair."""
    lanes = min(32, floor_power_of_two(max(1, pairs)))
    while lanes > 8 and -(-pairs // lanes) * lanes > _MOST_IDLE * pairs:
        lanes //= 2
    return lanes


def _taps_of_group(taps: Triple) -> Triple:
    """Return the taps along each axis that one work-group has: all, a row, or one."""
    if prod(taps) <= _MOST_SUMS:
        return taps
    return (1, 1, taps[2]) if taps[2] <= _MOST_SUMS else (1, 1, 1)


def weight_plan(engine: Engine, problem: ConvProblem, kernel: WeightKernel) -> OneLaunch:
    """Return the plan of a kernel; operands: x, the gradient of y, the result."""
    group, shared = kernel.context["G"], kernel.parts > 1
    constants: dict[str, int | None] = {**kernel.constants}
    if not shared:
        constants |= {"partial": None, "counters": None}
    return OneLaunch(
        engine, kernel.specialization(engine.target), kernel.name, constants, ["s", "t", "f"],
        (kernel.blocks * kernel.parts * group,), (group,),
        counters=kernel.blocks if shared else 0, partials=kernel.partial_bytes, flop=problem.flop,
        nbytes=problem.bytes,
    )  # fmt: skip
