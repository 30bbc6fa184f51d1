"""Gradients of the weights of depthwise convolutions on a GPU, row by row, in one launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.conv.problem import ConvProblem
from portable_gpu.ops.conv.sliding import (
    adjacent,
    are_by_channels,
    chunks_of,
    rows_of,
    running_groups,
    slides,
    steps_of_band,
    whole_vectors,
    words_of,
)
from portable_gpu.ops.conv.strips import axes_of, axis_parameters, strip_of
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target

#: Words of a work-item's sums and of its rows of the gradient of y: each is a register.
_MOST_WORDS = 100
#: Bytes of local memory in which a group adds its work-items' sums.
_LOCAL_BYTES = 24576
#: Work-items side by side along the channels: they read 64 bytes of float16 at least.
_LANES = 8


@dataclass(frozen=True)
class SlidingWeightKernel:
    """The kernel of one problem, and the partition of its work.

    Attributes:
        context: What the template is rendered with.
        constants: The arguments of every launch.
        blocks: Blocks of channels.
        parts: Work-groups that share a block.
        partial_bytes: Workspace for the sums of parts.
    """

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
            *scalars(index, "pairs", "sources", "targets", "parts", "part_size", "places"),
            *scalars(index, "batch", "bands", "steps", "blocks"),
            *scalars(index, "s_batch", "s_channel", "f_out", "f_in", "t_batch", "t_channel"),
            *axis_parameters(index),
        ]
        name = "sliding_weight"
        return specialize(f"conv/{name}", target, {name: parameters}, **self.context)


def _shape_of_item(p: ConvProblem) -> tuple[int, int, int]:
    """Return the neighbours and bytes of channels of a work-item, and the work-items of a group.

    They are the fastest ones timed (docs/experiments).
    """
    if not are_by_channels(p):
        return (4 if whole_vectors(p.y, p.y_size[2], 4, p) else 2), 0, 128
    if p.elem.itemsize > 2:
        return 2, 16, 512
    return (2, 4, 256) if max(p.stride) == 1 else (1, 8, 256)


def sliding_weight_kernel(problem: ConvProblem, target: Target) -> SlidingWeightKernel | None:
    """Return the kernel of a problem whose direction is ``weight``.

    ``None`` where it does not take the problem: on a CPU, for several channels in a group, three
    axes of space, or filters whose sums are too many registers.
    """
    p = problem
    if not slides(p, target):
        return None
    axes = axes_of(p, backward=False)
    rows, T, last = rows_of(axes[1], 1), p.taps, are_by_channels(p)
    if rows is None:
        return None
    V, nbytes, group = _shape_of_item(p)
    wide = adjacent(p, nbytes)
    of_number = wide * words_of(p)
    while V > 1 and (rows.ahead * V + T) * of_number > _MOST_WORDS:
        V //= 2
    strip = strip_of(axes[2], V)
    if strip is None or (rows.ahead * V + T) * of_number > _MOST_WORDS:
        return None
    lanes = 1
    if last:
        vectors = -(-p.filters // wide)
        min_lanes = min(vectors, _LANES)
        lanes = min(range(min_lanes, 2 * min_lanes), key=lambda n: (-(-vectors // n) * n, n))
    M = min(group, target.max_work_group_size) // lanes
    G = lanes * M
    blocks, strips = -(-p.filters // (lanes * wide)), -(-axes[2].target // V)
    in_use = rows.ahead * V + T + rows.fresh * len(strip.loads)
    most_parts = max(1, running_groups(of_number * in_use, G, target) // blocks)
    columns = p.batch * strips
    steps = steps_of_band(
        axes[1].target, rows.ahead - 1, lambda bands: -(-columns * bands // (most_parts * M))
    )
    bands = -(-axes[1].target // steps)
    places = columns * bands
    part_size = -(-places // (most_parts * M)) * M
    parts = -(-places // part_size)
    constants = {
        "pairs": p.filters, "sources": 1, "targets": p.filters_of_group, "parts": parts,
        "part_size": part_size, "places": places, "batch": p.batch, "bands": bands,
        "steps": steps, "blocks": strips, "s_batch": p.x.outer, "s_channel": p.x.channel,
        "f_out": p.w.outer, "f_in": p.w.channel, "t_batch": p.y.outer, "t_channel": p.y.channel,
    }  # fmt: skip
    for c, axis in enumerate(axes):
        constants |= axis.constants(c)
    constants |= {"shift2": strip.shift, "shift1": rows.strip.shift}
    sum_bytes = 4 * words_of(p)
    joined = not last and V * p.elem.itemsize <= 16 and whole_vectors(p.y, axes[2].target, V, p)
    count = V if joined else 1
    context = {
        "elem": p.elem, "I": "int" if p.fits_int else "long",
        "order": [("n", "batch"), ("band", "bands"), ("block_of_row", "blocks")], "wide": wide,
        "lanes": lanes, "G": G, "V": V, "strip": strip, "rows": rows,
        "at_once": max(1, min(T, _LOCAL_BYTES // (sum_bytes * wide * G))),
        "chunks": [(j, 1) for j in strip.loads] if last
                  else chunks_of(strip, V, p.x, axes[2].source, p),
        "of_t": [(v, count) for v in range(0, V, count)],
    }  # fmt: skip
    partial_bytes = blocks * parts * T * lanes * wide * sum_bytes if parts > 1 else 0
    return SlidingWeightKernel(context, constants, blocks, parts, partial_bytes)


class SlidingWeightPlan(OneLaunch):
    """Operands: x, the gradient of y, the result."""

    def __init__(self, engine: Engine, problem: ConvProblem, kernel: SlidingWeightKernel) -> None:
        """Build the kernel."""
        self.flop, self.bytes = problem.flop, problem.bytes
        self.workspace_bytes = kernel.partial_bytes
        self._kernel = kernel
        group = kernel.context["G"]
        constants: dict[str, int | None] = {**kernel.constants}
        buffers = ["s", "t", "f"]
        if kernel.parts > 1:
            buffers += ["partial", "counters"]
        else:
            constants |= {"partial": None, "counters": None}
        self._launch = engine.programs.launch(
            kernel.specialization(engine.target), "sliding_weight", constants, buffers,
            ["s_offset", "t_offset", "f_offset"], (kernel.blocks * kernel.parts * group,),
            (group,),
        )  # fmt: skip

    def _buffers(self, state: QueueState, operands: Sequence[Any]) -> Sequence[Any]:
        kernel = self._kernel
        if kernel.parts == 1:
            return operands
        counters, partial = state.counters_and_partials(kernel.blocks, kernel.partial_bytes)
        return *operands, partial, counters
