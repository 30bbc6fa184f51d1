"""Gradients of the weights of depthwise convolutions on a GPU, row by row, in one launch."""

from __future__ import annotations

from portable_gpu.ops.conv.axis_taps import axes_of, axis_taps_of
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
from portable_gpu.ops.conv.weight import WeightKernel
from portable_gpu.targets import Target

#: The most registers for a work-item's sums and for the rows of the gradient of y that it holds.
_MAX_REGISTERS = 100
#: Bytes of local memory in which a group adds its work-items' sums.
_LOCAL_BYTES = 24576
#: The fewest work-items side by side along many channels: with 4 bytes each they read 32 bytes.
_MIN_LANES = 8


def _shape_of_item(p: ConvProblem) -> tuple[int, int, int]:
    """Return a work-item's neighbours and bytes of channels, and the work-items of a group.

    Of those that were timed (docs/experiments) they are the fastest.
    """
    if not are_by_channels(p):
        return (4 if whole_vectors(p.y, p.y_size[2], 4, p) else 2), 0, 128
    return (2, 16, 512) if p.elem.itemsize > 2 else (4, 8, 512)


def sliding_weight_kernel(problem: ConvProblem, target: Target) -> WeightKernel | None:
    """Return the kernel of a problem whose direction is ``weight``.

    The result is ``None`` on a CPU, for several channels in a group, for three axes of space, and
    for filters whose sums need too many registers.

    Each of ``lanes`` work-items side by side has ``wide`` filters and the sums of all T taps.  The
    G / ``lanes`` rows of work-items (M) of a group divide the bands of columns of V places.
    """
    p = problem
    if not slides(p, target):
        return None
    axes = axes_of(p, backward=False)
    rows, T, by_channels = rows_of(axes[1], 1), p.taps, are_by_channels(p)
    if rows is None:
        return None
    V, nbytes, group = _shape_of_item(p)
    wide = adjacent(p, nbytes)
    vector_words = wide * words_of(p)
    while V > 1 and (rows.ahead * V + T) * vector_words > _MAX_REGISTERS:
        V //= 2
    row_taps = axis_taps_of(axes[2], V)
    if row_taps is None or (rows.ahead * V + T) * vector_words > _MAX_REGISTERS:
        return None
    lanes, group = 1, min(group, target.max_work_group_size)
    if by_channels:
        vectors = -(-p.filters // wide)
        min_lanes = min(vectors, _MIN_LANES, group)
        counts = range(min_lanes, min(2 * min_lanes, group + 1))
        lanes = min(counts, key=lambda n: (-(-vectors // n) * n, n))
    M = group // lanes
    G = lanes * M
    blocks, row_blocks = -(-p.filters // (lanes * wide)), -(-axes[2].target // V)
    vectors_in_use = rows.ahead * V + T + rows.fresh * len(row_taps.loads)
    most_parts = max(1, running_groups(vector_words * vectors_in_use, G, target) // blocks)
    columns = p.batch * row_blocks
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
        "steps": steps, "blocks": row_blocks, "s_batch": p.x.outer, "s_channel": p.x.channel,
        "f_out": p.w.outer, "f_in": p.w.channel, "t_batch": p.y.outer, "t_channel": p.y.channel,
    }  # fmt: skip
    for c, axis in enumerate(axes):
        constants |= axis.constants(c)
    constants |= {"shift2": row_taps.shift, "shift1": rows.column_taps.shift}
    sum_bytes = 4 * words_of(p)
    has_vectors = (
        not by_channels and V * p.elem.itemsize <= 16 and whole_vectors(p.y, axes[2].target, V, p)
    )
    t_count = V if has_vectors else 1
    context = {
        "elem": p.elem, "I": "int" if p.fits_int else "long",
        "order": [("n", "batch"), ("band", "bands"), ("block_of_row", "blocks")], "wide": wide,
        "lanes": lanes, "G": G, "V": V, "row_taps": row_taps, "rows": rows,
        "at_once": max(1, min(T, _LOCAL_BYTES // (sum_bytes * wide * G))),
        "chunks": [(j, 1) for j in row_taps.loads] if by_channels
                  else chunks_of(row_taps, V, p.x, axes[2].source, p),
        "t_chunks": [(v, t_count) for v in range(0, V, t_count)],
    }  # fmt: skip
    partial_bytes = blocks * parts * T * lanes * wide * sum_bytes if parts > 1 else 0
    return WeightKernel("sliding_weight", context, constants, blocks, parts, partial_bytes)
