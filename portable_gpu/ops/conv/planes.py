"""Convolutions of one channel each on a CPU: sums over a padded copy, without tests of bounds."""

from __future__ import annotations

from portable_gpu.codegen.operators import SCALAR_BYTES
from portable_gpu.codegen.parameters import Parameter, scalars
from portable_gpu.ops.conv.axis_taps import SpaceAxis, axes_of, axis_parameters
from portable_gpu.ops.conv.items import items_of_one
from portable_gpu.ops.conv.kernels import ConvKernel
from portable_gpu.ops.conv.problem import ConvProblem
from portable_gpu.powers_of_two import floor_power_of_two
from portable_gpu.targets import Target

_VECTOR_BYTES = 64
#: Vectors of sums at a time: independent sums, which hide the latency of multiply-adds.
_VECTORS_AT_ONCE = 4
#: Bytes of the copy of a band, of which there is one more for sums: both stay in the L1 cache.
_COPY_BYTES = 8 << 10
#: Taps of a filter, at most: more weights do not stay in registers.
_MOST_TAPS = 25
#: Work-items of a compute unit, which divide the work evenly.
_BANDS = 16


def _parameters() -> list[Parameter]:
    """The parameters of the kernel after its buffers."""
    return [
        *scalars("long", "items", "s_offset", "f_offset", "bias_offset", "t_offset"),
        *scalars("long", "adds_bias", "bias_step", "batch", "channels", "targets", "bands"),
        *scalars("long", "lines", "s_batch", "s_channel", "f_group", "f_out", "t_batch"),
        *scalars("long", "t_channel", "low1", "low2", "inside", "rows_of_taps"),
        *scalars("long", "places1", "places2", "pitch", "phase", "copied", "items_each"),
        *axis_parameters("long"),
    ]


def planes_kernel(problem: ConvProblem, target: Target) -> ConvKernel | None:
    """Return the kernel of a problem whose direction is ``forward`` or ``input``.

    ``None`` where it does not take the problem: on a GPU, for sums of several channels, three axes
    of space, elements of a row that are not adjacent, strides of more than 2, many taps, or a band
    of one row that is too large.
    """
    p = problem
    backward = p.direction == "input"
    source, result = (p.y, p.x) if backward else (p.x, p.y)
    sources, targets = p.channels_of_group, p.filters_of_group
    f_group = targets * p.w.outer
    if backward:
        sources, targets = targets, sources
    axes = axes_of(p, backward)
    first, along, across = axes
    takes = (
        target.is_cpu
        and sources == 1
        and (first.target, first.source, first.taps, first.shift) == (1, 1, 1, 0)
        and across.t == across.s == 1
        and all(max(axis.divisor, axis.step) <= 2 for axis in (along, across))
        and 0 < along.taps * across.taps <= _MOST_TAPS
    )
    if not takes:
        return None
    itemsize = SCALAR_BYTES[p.elem.real]
    V = _VECTOR_BYTES // itemsize
    (low1, rows), (low2, columns) = _span_of_taps(along), _span_of_taps(across)
    steps, divisors = (along.step, across.step), (along.divisor, across.divisor)
    places1, places2 = (-(-axis.target // axis.divisor) for axis in (along, across))
    pitch = places2 + (columns - 1) // steps[1]
    inside = min(across.source, low2 + steps[1] * pitch) - max(low2, 0)
    slack = _VECTORS_AT_ONCE * V  # the last vectors of sums reach as far beyond
    size = _COPY_BYTES // itemsize
    # Rows of a phase: those of the band, and those that taps read after them.
    after = (rows - 1) // steps[0]
    max_lines = (size // (steps[0] * steps[1]) - slack) // pitch - after
    max_lines = min(max_lines, (size // divisors[1] - slack) // pitch)
    if max_lines < 1 or inside < 1:
        return None
    channels = p.groups * targets
    bands = max(-(-_BANDS * target.compute_units // (p.batch * channels)), 1)
    lines = min(max_lines, -(-places1 // min(bands, places1)))
    bands = -(-places1 // lines)
    items = p.batch * channels * bands
    phase = (lines + after) * pitch + slack
    constants = {
        "items": items, "adds_bias": int(p.bias is not None), "bias_step": p.bias or 0,
        "batch": p.batch, "channels": channels, "targets": targets, "bands": bands,
        "lines": lines, "s_batch": source.outer, "s_channel": source.channel, "f_group": f_group,
        "f_out": p.w.channel if backward else p.w.outer, "t_batch": result.outer,
        "t_channel": result.channel, "low1": low1, "low2": low2, "inside": inside,
        "rows_of_taps": rows, "places1": places1, "places2": places2, "pitch": pitch,
        "phase": phase, "copied": steps[0] * steps[1] * phase,
        "items_each": items_of_one(items, target),
    }  # fmt: skip
    for c, axis in enumerate(axes):
        constants |= axis.constants(c)
    context = {
        "elem": p.elem, "taps": (along.taps, across.taps), "V": V,
        "vectors_at_once": _VECTORS_AT_ONCE,
        "steps": steps, "divisors": divisors, "size": size,
        "remainders": (_remainders(along), _remainders(across)),
        "I": "int" if items < 1 << 31 else "long",
        "read": floor_power_of_two(min(V, inside)),
        "stored": floor_power_of_two(min(V, across.target)),
    }  # fmt: skip
    return ConvKernel("planes", _parameters(), context, constants, items)


def _remainders(axis: SpaceAxis) -> tuple[int, ...]:
    """Return the remainder, by the divisor, of the results that read each tap."""
    return tuple(-(axis.shift + r * axis.tap_step) % axis.divisor for r in range(axis.taps))


def _span_of_taps(axis: SpaceAxis) -> tuple[int, int]:
    """Return the first element that the taps of the first results read, and their number."""
    at = [
        (remainder + axis.shift + r * axis.tap_step) // axis.divisor
        for r, remainder in enumerate(_remainders(axis))
    ]
    return min(at), max(at) - min(at) + 1
