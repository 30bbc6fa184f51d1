"""The kernels of sampling problems on a CPU: rows of results, and scattered planes."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from portable_gpu.codegen.operators import SCALAR_BYTES
from portable_gpu.ops.sampling.problem import ROUTED, RuledAxis, SamplingAxes, SamplingProblem
from portable_gpu.ops.sampling.rules import AxisRule, Padding, PlaneRule, TransposedRule, table_of
from portable_gpu.ops.sampling.sampling_kernel import SamplingKernel, context_of, integers_of
from portable_gpu.targets import Target

#: Accumulators of a CPU's work-item: vectors of any width, in the first cache.
_BLOCK = 64
#: Sources whose indices are compared at a time; rows of a table are filled to a multiple.
_LANES = 16
#: Columns of a source whose rows are added first, at most: their sums are in the first cache.
_BLENDED = 1024
#: Outputs of a plane whose places have one table, at most: it is in the first caches.
_PLANE = 4096
#: Columns for each place of a row that is padded as a whole, at most.
_COLUMNS_PER_PLACE = 4
#: The time of a tap whose places are read from a table, in those of one whose places are regular.
_GATHERED = 4
#: Outputs whose places are computed instead of being read from a table, at least.
_MIN_REGULAR = 8
#: Bytes that are worth a work-group of their own on a CPU, as for elementwise expressions.
_CPU_WORK = 1 << 16
#: How much faster one CPU core adds sources to the places that they name than it searches, for each
#: place, the sources that name it (October 2026, gradient of 3 x 3 max pooling: 12).
_SEARCH = 8


def runs(problem: SamplingProblem, target: Target, axes: SamplingAxes) -> SamplingKernel:
    """Partition for a CPU: a group is one work-item, and computes whole rows or part of a row."""
    if problem.kind not in ROUTED and all(_reads_one_place(axis.rule) for axis in axes.ruled):
        axes = _as_one_axis(problem, axes) or axes
    if problem.kind == "copy":
        axes = _with_columns(axes) or axes
    outer, ruled, column_axis = list(axes.plain), axes.ruled, axes.column_axis
    across = len(ruled) if column_axis else len(ruled) - 1
    positions = prod(axis.rule.outputs for axis in ruled[:across])
    rows = positions * prod(axis.size for axis in outer)
    columns = column_axis.size if column_axis else ruled[-1].rule.outputs
    requested = min(4 * target.compute_units, problem.nbytes // _CPU_WORK)
    groups = max(1, requested) if target.compute_units > 1 else 1
    blocks = min(rows, groups)
    rows_each = -(-rows // blocks)
    blocks = -(-rows // rows_each)
    run = -(-columns // max(1, groups // blocks))
    columns_each = min(columns, -(-run // _BLOCK) * _BLOCK)
    parts = -(-columns // columns_each)
    inner = column_axis.strides if column_axis else ruled[-1].strides
    loops = [k for k in range(len(ruled)) if k < across or ruled[k].taps == 0]
    extra = ["columns_parts", "columns_each", "columns", "rows_each", "rows", "positions"]
    integers = integers_of(problem, axes, outer, loops) | {
        "columns_parts": parts, "columns_each": columns_each, "columns": columns,
        "rows_each": rows_each, "rows": rows, "positions": positions,
    }  # fmt: skip
    pitch: int | None = None
    if column_axis:
        extra += [f"{name}_column_step" for name in problem.names]
        integers |= {
            f"{n}_column_step": s for n, s in zip(problem.names, column_axis.strides, strict=True)
        }
    elif ruled[-1].taps:
        table = table_of(ruled[-1].rule, problem.kind not in ROUTED)
        pitch, first, last = _regular(table.places)
        if pitch is not None:
            extra += ["regular_begin", "regular_end"]
            integers |= {"regular_begin": first, "regular_end": last}
    context = context_of(problem, axes, len(outer), extra, loops)
    # Rows go over the outer ruled axes by loops: their number of taps changes no text.
    context["taps"] = [0] * across + context["taps"][across:]
    adds_rows = (
        problem.kind == "sum" and not column_axis and _is_faster_by_rows(axes, pitch is not None)
    )
    context |= {
        "V": 1, "B": _BLOCK, "pitch": pitch, "blended": _BLENDED if adds_rows else 0,
        "unit": {n: step == 1 for n, step in zip(problem.names, inner, strict=True)},
    }  # fmt: skip
    return SamplingKernel("runs", context, integers, blocks * parts, 1, axes)


def scatter(problem: SamplingProblem, target: Target, axes: SamplingAxes) -> SamplingKernel | None:
    """Partition for a CPU: a group has whole planes, to whose places it adds the sources.

    The indices of the sources name the places.  Sums of 16-bit floats are in workspace until their
    plane is complete.  It is ``None`` if planes of the result are not in C order, or are few for
    the device's units.
    """
    elem, out, column_axis = problem.elem, len(problem.sources), axes.column_axis
    ruled = tuple(
        replace(axis, rule=axis.rule.rule)
        for axis in axes.ruled
        if isinstance(axis.rule, TransposedRule)
    )
    if problem.kind not in ROUTED:
        return None
    flat = next((a.strides[out] // a.flat for a in ruled if a.rule.size > 1), 1)
    if any(a.rule.size > 1 and a.strides[out] != a.flat * flat for a in ruled):
        return None
    planes, units = prod(axis.size for axis in axes.plain), target.compute_units
    columns = column_axis.size if column_axis else ruled[-1].rule.outputs
    blocks = -(-columns // _BLOCK) if column_axis else 1
    groups = max(1, min(planes * blocks, 4 * units, problem.nbytes // _CPU_WORK))
    if min(groups, units) * _SEARCH < units:
        return None
    planes_each = -(-planes // groups)
    chunks = -(-planes // planes_each)
    run = _BLOCK * -(-blocks // max(1, groups // chunks))
    columns_each = min(columns, run) if column_axis else columns
    parts = -(-columns // columns_each)
    scattered = replace(axes, ruled=ruled)
    if not column_axis and _is_faster_as_one_axis(scattered):
        scattered = _as_one_axis(problem, scattered) or scattered
        ruled = scattered.ruled
        columns = columns_each = ruled[-1].rule.outputs
    across = ruled if column_axis else ruled[:-1]
    integers = integers_of(problem, scattered, list(axes.plain), list(range(len(ruled)))) | {
        "columns_parts": parts, "columns_each": columns_each, "columns": columns,
        "planes_each": planes_each, "planes": planes, "out_flat": flat,
        "rows": prod(axis.rule.outputs for axis in across),
        "plane": prod(axis.rule.size for axis in ruled), "width": ruled[-1].rule.size,
        "slab": prod(axis.rule.size for axis in ruled[1:]),
    }  # fmt: skip
    if not column_axis:
        integers[f"size{len(ruled) - 1}"] = -(-columns // _LANES) * _LANES
    extra = ["columns_parts", "columns_each", "columns", "planes_each", "planes", "out_flat"]
    extra += ["rows", "plane", "width", "slab"]
    inner = column_axis.strides if column_axis else ruled[-1].strides
    if column_axis:
        extra += [f"{name}_column_step" for name in problem.names]
        integers |= {
            f"{n}_column_step": s for n, s in zip(problem.names, column_axis.strides, strict=True)
        }
    is_rounded = problem.kind == "routed" and elem.real != elem.storage
    context = context_of(problem, scattered, len(axes.plain), extra, list(range(len(ruled))))
    context |= {
        "V": 1, "B": _BLOCK, "taps": [0] * len(ruled), "sums": is_rounded,
        "unit": {n: step == 1 for n, step in zip(problem.names, inner, strict=True)},
        "vectors": _widths(columns) if column_axis else [],
    }  # fmt: skip
    of_group = integers["plane"] * (columns_each if column_axis else 1) * SCALAR_BYTES[elem.real]
    nbytes = chunks * parts * of_group if is_rounded else 0
    return SamplingKernel("scatter", context, integers, chunks * parts, 1, scattered, nbytes)


def _widths(columns: int) -> list[int]:
    """The widths of vectors in which columns are added: of 16, and of 8 and 4 for the rest."""
    rest = {8: columns % 16, 4: columns % 8}
    return [16] * (columns >= 16) + [width for width, number in rest.items() if number >= width]


def _as_one_axis(problem: SamplingProblem, axes: SamplingAxes) -> SamplingAxes | None:
    """Return the axes with one rule for all places of a plane, or ``None``.

    Args:
        problem: The problem.
        axes: Its axes; where sources have indices, with the rules of the windows, whose outputs are
            the places of sources.

    Returns:
        ``None`` if there is a column axis or one ruled axis, or if planes are large or not in
        C order.
    """
    rules = [axis.rule for axis in axes.ruled]
    if axes.column_axis or len(rules) == 1 or prod(rule.outputs for rule in rules) > _PLANE:
        return None
    follows = problem.kind in ROUTED
    by_output = [(name in problem.sources) == follows for name in problem.names]
    last = axes.ruled[-1]
    dense = [last.flat, *last.strides]  # the strides of an axis whose inner ones have no gaps
    for axis in reversed(axes.ruled):
        for k, (step, is_output) in enumerate(
            zip((axis.flat, *axis.strides), (False, *by_output), strict=True)
        ):
            extent = axis.rule.outputs if is_output else axis.rule.size
            if extent > 1 and step != dense[k]:
                return None
            dense[k] *= extent
    rule = PlaneRule.of(rules)
    table = table_of(rule, not follows)
    axis = RuledAxis(rule, last.strides, last.flat, table.taps, table.has_gaps and not follows)
    return replace(axes, ruled=(axis,))


def _with_columns(axes: SamplingAxes) -> SamplingAxes | None:
    """Return the axes with one rule for the last ruled axis and the column axis, or ``None``.

    It is for padding: almost all of such a row is one copy of elements that are contiguous.

    Returns:
        ``None`` if there is no column axis, if rows are long, if arrays have gaps there, or if
        places are few for the columns: outside of the one copy, elements are copied one by one.
    """
    column, last = axes.column_axis, axes.ruled[-1] if axes.ruled else None
    if column is None or last is None or not isinstance(last.rule, Padding):
        return None
    if last.rule.outputs * column.size > _PLANE or set(column.strides) != {1}:
        return None
    if column.size > _COLUMNS_PER_PLACE * last.rule.outputs:
        return None
    if set(last.strides) != {column.size}:
        return None
    rule = PlaneRule.of([last.rule, Padding(column.size, column.size, 0, "constant")])
    axis = replace(last, rule=rule, strides=column.strides)
    return replace(axes, ruled=(*axes.ruled[:-1], axis), column_axis=None)


def _reads_one_place(rule: AxisRule) -> bool:
    """Whether the source has one place, which each output reads at most once."""
    return rule.size == 1 and len(table_of(rule, True).places) == 1


def _is_faster_as_one_axis(axes: SamplingAxes) -> bool:
    """Whether all windows of a plane take at most as many comparisons of vectors as its rows.

    Args:
        axes: The axes of a problem whose sources have indices, with the rules of the windows.
    """
    *across, last = [axis.rule for axis in axes.ruled]
    taps = [len(table_of(rule, False).places) for rule in (*across, last)]
    rows = prod(rule.outputs for rule in across)
    of_rows = rows * -(-last.outputs // _LANES) * (prod(taps[:-1]) + taps[-1])
    return -(-rows * last.outputs // _LANES) * prod(taps) <= of_rows


def _is_faster_by_rows(axes: SamplingAxes, is_regular: bool) -> bool:
    """Whether a CPU should add the rows of a sum first, and then the columns.

    Args:
        axes: The axes of the problem, without a column axis.
        is_regular: Whether the places along the last axis are at equal distances.
    """
    *others, last = [axis.rule for axis in axes.ruled]
    if not others or last.size > _BLENDED:
        return False
    of_rows = prod(len(table_of(rule, True).places) for rule in others)
    of_columns = len(table_of(last, True).places) * (1 if is_regular else _GATHERED)
    added = (of_rows + 1) * last.size / last.outputs  # and set to 0
    return added + of_columns < of_rows * of_columns


def _regular(places: np.ndarray[Any, Any]) -> tuple[int | None, int, int]:
    """The distance of the places of neighbouring outputs, and the outputs where it is the same.

    Args:
        places: See :class:`AxisTable`.

    Returns:
        The distance, 1 or 2, or 0 where all places are the first, and the first output and the
        end; ``None`` and zeros if there are few.
    """
    outputs = places.shape[1]
    if outputs < _MIN_REGULAR:
        return None, 0, 0
    steps = np.diff(places, axis=1)
    middle = len(steps[0]) // 2
    pitch = int(steps[0, middle])
    same = ((steps == pitch) & (places[:, 1:] >= 0) & (places[:, :-1] >= 0)).all(0)
    if (pitch not in (1, 2) and places.any()) or not same[middle]:
        return None, 0, 0
    before, after = np.flatnonzero(~same[:middle]), np.flatnonzero(~same[middle:])
    first = int(before[-1]) + 1 if len(before) else 0
    last = middle + int(after[0]) if len(after) else outputs - 1
    return (pitch, first, last + 1) if last + 1 - first >= _MIN_REGULAR else (None, 0, 0)
