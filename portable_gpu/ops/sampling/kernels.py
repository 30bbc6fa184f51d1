"""The kernel of a sampling problem: its form, the partition of its work, and its text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from portable_gpu.arguments import MAX_INT
from portable_gpu.codegen.axes import Axis, parameters
from portable_gpu.codegen.parameters import Parameter, buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.groups import lanes_of_rows
from portable_gpu.ops.sampling.blocks import AxisBlocks, blocks_of
from portable_gpu.ops.sampling.problem import (
    INDEXED,
    ROUTED,
    RuledAxis,
    SamplingAxes,
    SamplingProblem,
    axes_of,
)
from portable_gpu.ops.sampling.rules import TransposedRule, table_of
from portable_gpu.targets import Target

#: Accumulators of a CPU's work-item: vectors of any width, in the first cache.
_BLOCK = 64
#: Sources whose indices are compared at a time; rows of a table are filled to a multiple.
_LANES = 16
#: Outputs whose places are computed instead of being read from a table, at least.
_MIN_REGULAR = 8
#: Bytes that are worth a work-group of their own on a CPU, as for elementwise expressions.
_CPU_WORK = 1 << 16
#: How much faster one CPU core adds sources to the places that they name than it searches, for each
#: place, the sources that name it (October 2026, gradient of 3 x 3 max pooling: 12).
_SEARCH = 8
#: The maximum of results of a work-item; then the coordinates of its taps cost little for each.
_MAX_EACH = 32
#: The least number of work-items for each compute unit of a GPU: four times its capacity.
_WORK_ITEMS = 4 * 2048
#: If a result needs at most this many loads, a work-item has those of four results in flight.
_FEW_LOADS = 4
#: Bytes of a GPU's vectors.
_VECTOR_BYTES = 16
_LOWEST = {"char": "CHAR_MIN", "short": "SHRT_MIN", "int": "INT_MIN", "long": "LONG_MIN"}


@dataclass(frozen=True)
class SamplingKernel:
    """A kernel of a problem; it needs no device.

    Attributes:
        template: The name of the template.
        context: The parameters of the text.
        integers: The constant scalars of a launch.
        groups: The number of work-groups.
        group_size: The number of work-items of a group.
        axes: The axes of the problem.
    """

    template: str
    context: dict[str, Any]
    integers: dict[str, int]
    groups: int
    group_size: int
    axes: SamplingAxes
    rules: tuple[AxisBlocks, ...] = ()

    def specialization(self, target: Target) -> Specialization:
        """The OpenCL text."""
        kernels = {"sampling": _parameters(self.context)}
        return specialize(f"sampling/{self.template}", target, kernels, **self.context)


def _parameters(context: dict[str, Any]) -> list[Parameter]:
    """The kernel's parameters: operands, the value of a copy, tables, extents and strides."""
    elem, names, index = context["e"], context["names"], context["index"]
    result: list[Parameter] = []
    for name in names:
        ctype = "long" if name in ("which", "indices") else f"{elem.name}_t"
        result.append(buffer(ctype, f"{name}_in", writes=name in ("out", "indices")))
        result += scalars("long", f"{name}_offset")
    if context["kind"] == "copy":
        result += scalars(elem.real, *(("fill_re", "fill_im") if elem.complex else ("fill",)))
    for k in range(len(context["taps"])):
        if "rules" not in context:
            result.append(buffer("int", f"places{k}"))
        if context["kind"] == "sum":
            result.append(buffer(elem.real, f"weights{k}"))
        counted = [f"most{k}"] if k in context["loops"] else []
        flat = [f"flat{k}"] if context["by_index"] else []
        result += scalars(index, f"size{k}", *counted, *flat, *(f"{n}_step{k}" for n in names))
    return [
        *result,
        *scalars(index, *context["extra"]),
        *parameters("outer", context["outer"], names, index),
    ]


def kernel_of(problem: SamplingProblem, target: Target) -> SamplingKernel:
    """Choose the form and the partition for a device."""
    axes = axes_of(problem)
    if not target.is_cpu:
        return _blocks(problem, target, axes) or _tiles(problem, target, axes)
    return _scatter(problem, target, axes) or _runs(problem, target, axes)


def tables(problem: SamplingProblem, kernel: SamplingKernel) -> dict[str, np.ndarray[Any, Any]]:
    """The tables that the kernel reads, by the names of its parameters."""
    result: dict[str, np.ndarray[Any, Any]] = {}
    if kernel.template == "blocks":
        precision = np.float64 if problem.elem.needs_fp64 else np.float32
        if problem.kind != "sum":
            return {}
        return {f"weights{k}": rule.weights.astype(precision) for k, rule in enumerate(kernel.rules)}
    for k, axis in enumerate(kernel.axes.ruled):
        table = table_of(axis.rule, problem.kind not in ROUTED)
        more = kernel.integers[f"size{k}"] - axis.rule.outputs
        result[f"places{k}"] = np.pad(table.places, ((0, 0), (0, more)), constant_values=-1)
        if problem.kind == "sum":
            precision = np.float64 if problem.elem.needs_fp64 else np.float32
            result[f"weights{k}"] = table.weights.astype(precision)
    return result


def _context(
    problem: SamplingProblem, axes: SamplingAxes, outer: int, extra: list[str], loops: list[int]
) -> dict[str, Any]:
    elem = problem.elem
    lowest = "-INFINITY" if elem.floating else _LOWEST.get(elem.real, "0")
    return {
        "kind": problem.kind,
        "e": elem,
        "names": problem.names,
        "sources": problem.sources,
        "taps": [axis.taps for axis in axes.ruled],
        "gaps": [axis.has_gaps for axis in axes.ruled],
        "loops": loops,
        "routed": problem.kind in ROUTED,
        "by_index": problem.kind in INDEXED,
        "line": axes.line is not None,
        "lowest": lowest,
        "outer": outer,
        "extra": extra,
        "index": "long" if _is_wide(problem) else "int",
    }


def _is_wide(problem: SamplingProblem) -> bool:
    """Whether some offset or count needs 64 bits."""
    sizes = [prod(problem.shape), problem.source_size]
    extents = [
        max(extent, 1 if rule is None else rule.size)
        for extent, rule in zip(problem.shape, problem.rules, strict=True)
    ]
    sizes += [
        sum(abs(step) * extent for step, extent in zip(strides, extents, strict=True))
        for strides in problem.strides
    ]
    return 2 * max(sizes) > MAX_INT


def _integers(
    problem: SamplingProblem, axes: SamplingAxes, outer: list[Axis], loops: list[int]
) -> dict[str, int]:
    result: dict[str, int] = {}
    for k, axis in enumerate(axes.ruled):
        result[f"size{k}"] = axis.rule.outputs
        if k in loops:
            table = table_of(axis.rule, problem.kind not in ROUTED)
            result[f"most{k}"] = len(table.places)
        if problem.kind in INDEXED:
            result[f"flat{k}"] = axis.flat
        for name, step in zip(problem.names, axis.strides, strict=True):
            result[f"{name}_step{k}"] = step
    for k, plain in enumerate(outer):
        result[f"outer{k}_size"] = plain.size
        for name, step in zip(problem.names, plain.strides, strict=True):
            result[f"{name}_outer{k}"] = step
    return result


def _runs(problem: SamplingProblem, target: Target, axes: SamplingAxes) -> SamplingKernel:
    """Partition for a CPU: a group is one work-item, and computes whole rows or part of a row."""
    outer, ruled, line = list(axes.plain), axes.ruled, axes.line
    across = len(ruled) if line else len(ruled) - 1
    positions = prod(axis.rule.outputs for axis in ruled[:across])
    rows = positions * prod(axis.size for axis in outer)
    columns = line.size if line else ruled[-1].rule.outputs
    requested = min(4 * target.compute_units, problem.nbytes // _CPU_WORK)
    groups = max(1, requested) if target.compute_units > 1 else 1
    blocks = min(rows, groups)
    rows_each = -(-rows // blocks)
    blocks = -(-rows // rows_each)
    run = -(-columns // max(1, groups // blocks))
    columns_each = min(columns, -(-run // _BLOCK) * _BLOCK)
    parts = -(-columns // columns_each)
    inner = line.strides if line else ruled[-1].strides
    loops = [k for k in range(len(ruled)) if k < across or ruled[k].taps == 0]
    extra = ["columns_parts", "columns_each", "columns", "rows_each", "rows", "positions"]
    integers = _integers(problem, axes, outer, loops) | {
        "columns_parts": parts, "columns_each": columns_each, "columns": columns,
        "rows_each": rows_each, "rows": rows, "positions": positions,
    }  # fmt: skip
    pitch = 0
    if line:
        extra += [f"{name}_line" for name in problem.names]
        integers |= {f"{n}_line": s for n, s in zip(problem.names, line.strides, strict=True)}
    elif ruled[-1].taps:
        table = table_of(ruled[-1].rule, problem.kind not in ROUTED)
        pitch, first, last = _regular(table.places)
        if pitch:
            extra += ["regular_begin", "regular_end"]
            integers |= {"regular_begin": first, "regular_end": last}
    context = _context(problem, axes, len(outer), extra, loops)
    # Rows go over the outer ruled axes by loops: their number of taps changes no text.
    context["taps"] = [0] * across + context["taps"][across:]
    context |= {
        "V": 1, "B": _BLOCK, "pitch": pitch,
        "unit": {n: step == 1 for n, step in zip(problem.names, inner, strict=True)},
    }  # fmt: skip
    return SamplingKernel("runs", context, integers, blocks * parts, 1, axes)


def _scatter(problem: SamplingProblem, target: Target, axes: SamplingAxes) -> SamplingKernel | None:
    """Partition for a CPU: a group has whole planes, and adds their sources where these go to.

    It is ``None`` where sums would be rounded to 16 bits at each step, planes of the result are not
    in C order, or the planes are few for the device's units.
    """
    elem, out, line = problem.elem, len(problem.sources), axes.line
    ruled = tuple(
        replace(axis, rule=axis.rule.rule)
        for axis in axes.ruled
        if isinstance(axis.rule, TransposedRule)
    )
    if problem.kind not in ROUTED or (problem.kind == "routed" and elem.real != elem.storage):
        return None
    flat = next((a.strides[out] // a.flat for a in ruled if a.rule.size > 1), 1)
    if any(a.rule.size > 1 and a.strides[out] != a.flat * flat for a in ruled):
        return None
    planes, units = prod(axis.size for axis in axes.plain), target.compute_units
    columns = line.size if line else ruled[-1].rule.outputs
    blocks = -(-columns // _BLOCK) if line else 1
    groups = max(1, min(planes * blocks, 4 * units, problem.nbytes // _CPU_WORK))
    if min(groups, units) * _SEARCH < units:
        return None
    planes_each = -(-planes // groups)
    chunks = -(-planes // planes_each)
    columns_each = _BLOCK * -(-blocks // max(1, groups // chunks)) if line else columns
    parts = -(-columns // columns_each)
    scattered = replace(axes, ruled=ruled)
    across = ruled if line else ruled[:-1]
    integers = _integers(problem, scattered, list(axes.plain), list(range(len(ruled)))) | {
        "columns_parts": parts, "columns_each": columns_each, "columns": columns,
        "planes_each": planes_each, "planes": planes, "out_flat": flat,
        "rows": prod(axis.rule.outputs for axis in across),
        "plane": prod(axis.rule.size for axis in ruled), "width": ruled[-1].rule.size,
    }  # fmt: skip
    if not line:
        integers[f"size{len(ruled) - 1}"] = -(-columns // _LANES) * _LANES
    extra = ["columns_parts", "columns_each", "columns", "planes_each", "planes", "out_flat"]
    extra += ["rows", "plane", "width"]
    inner = line.strides if line else ruled[-1].strides
    if line:
        extra += [f"{name}_line" for name in problem.names]
        integers |= {f"{n}_line": s for n, s in zip(problem.names, line.strides, strict=True)}
    context = _context(problem, scattered, len(axes.plain), extra, list(range(len(ruled))))
    context |= {
        "V": 1, "B": _BLOCK, "taps": [0] * len(ruled),
        "unit": {n: step == 1 for n, step in zip(problem.names, inner, strict=True)},
    }  # fmt: skip
    return SamplingKernel("scatter", context, integers, chunks * parts, 1, scattered)


def _regular(places: np.ndarray[Any, Any]) -> tuple[int, int, int]:
    """The distance of the places of neighbouring outputs, and the outputs where it is the same.

    Args:
        places: See :class:`AxisTable`.

    Returns:
        The distance, 1 or 2, and the first output and the end; zeros if there are few.
    """
    outputs = places.shape[1]
    if outputs < _MIN_REGULAR:
        return 0, 0, 0
    steps = np.diff(places, axis=1)
    middle = len(steps[0]) // 2
    pitch = int(steps[0, middle])
    same = ((steps == pitch) & (places[:, 1:] >= 0) & (places[:, :-1] >= 0)).all(0)
    if pitch not in (1, 2) or not same[middle]:
        return 0, 0, 0
    before, after = np.flatnonzero(~same[:middle]), np.flatnonzero(~same[middle:])
    first = int(before[-1]) + 1 if len(before) else 0
    last = middle + int(after[0]) if len(after) else outputs - 1
    return (pitch, first, last + 1) if last + 1 - first >= _MIN_REGULAR else (0, 0, 0)


def _tiles(problem: SamplingProblem, target: Target, axes: SamplingAxes) -> SamplingKernel:
    """Partition for a GPU: columns are positions, or the contiguous axis of results."""
    size = max(target.subgroup_size, min(256, target.max_work_group_size))
    outer, ruled, line = list(axes.plain), axes.ruled, axes.line
    repeated = max(outer, key=lambda axis: axis.size, default=None)
    if repeated is None:
        repeated = Axis(1, (0,) * len(problem.names))
    else:
        outer.remove(repeated)
    positions = prod(axis.rule.outputs for axis in ruled)
    plain = prod(axis.size for axis in outer)
    columns, rows = (line.size, positions * plain) if line else (positions, plain)
    vector = 1 if line is None else _vector(problem, axes, line, (*outer, repeated))
    vectors = -(-columns // vector)
    target_items = target.compute_units * _WORK_ITEMS
    each = max(1, min(_MAX_EACH, repeated.size, vectors * rows * repeated.size // target_items))
    chunks = -(-repeated.size // each)
    lanes = lanes_of_rows(vectors, rows * chunks, size, target.subgroup_size)
    parts = -(-vectors // lanes)
    groups = parts * -(-rows * chunks // (size // lanes))
    loops = [k for k in range(len(ruled)) if ruled[k].taps == 0]
    extra = ["columns_parts", "columns", "rows", "each", "repeats"]
    extra += [f"{name}_repeat" for name in problem.names]
    integers = _integers(problem, axes, outer, loops) | {
        "columns_parts": parts, "columns": columns, "rows": rows, "each": each,
        "repeats": repeated.size,
    }  # fmt: skip
    steps = zip(problem.names, repeated.strides, strict=True)
    integers |= {f"{name}_repeat": step for name, step in steps}
    if line:
        extra += ["positions", *(f"{name}_line" for name in problem.names)]
        integers["positions"] = positions
        integers |= {f"{n}_line": s for n, s in zip(problem.names, line.strides, strict=True)}
    context = _context(problem, axes, len(outer), extra, loops)
    few = all(context["taps"]) and prod(context["taps"]) <= _FEW_LOADS
    context |= {"V": vector, "G": size, "LX": lanes, "unrolled": few}
    return SamplingKernel("tiles", context, integers, groups, size, axes)


#: Outputs of a block of a GPU's kernel, along the last ruled axis and along the one before it.
_BLOCKS = (4, 2)
#: Elements of the windows of a work-item, at most.
_WINDOW_ELEMENTS = 80


def _blocks(problem: SamplingProblem, target: Target, axes: SamplingAxes) -> SamplingKernel | None:
    """Partition for a GPU where blocks of outputs read windows of one pattern."""
    outer, ruled, line = list(axes.plain), axes.ruled, axes.line
    out = len(problem.sources)
    if problem.elem.complex or problem.kind == "picked" or not 1 <= len(ruled) <= 2:
        return None
    if _is_wide(problem) or (line is None and ruled[-1].strides[out] != 1):
        return None
    repeated = max(outer, key=lambda axis: axis.size, default=None)
    if repeated is None:
        repeated = Axis(1, (0,) * len(problem.names))
    else:
        outer.remove(repeated)
    vector = 1 if line is None else _vector(problem, axes, line, (*outer, repeated))
    others = (*outer, repeated, *ruled[:-1])

    def is_aligned(width: int, operand: int) -> bool:
        steps = [axis.strides[operand] for axis in others]
        return (
            ruled[-1].strides[operand] == 1
            and problem.alignment % (width * problem.elem.itemsize) == 0
            and not any(step % width for step in steps)
        )

    routed = problem.kind in ROUTED
    rules, C = None, 1
    for size in _BLOCKS:
        stored = line is None
        if stored and (ruled[-1].rule.outputs % size or not is_aligned(size, out)):
            continue
        last = blocks_of(ruled[-1].rule, size, routed)
        if last is None:
            continue
        before = [None] if len(ruled) == 1 else [blocks_of(ruled[0].rule, n, routed) for n in (2, 4, 1)]
        for slow in before:
            if len(ruled) == 2 and slow is None:
                continue
            elements = last.width * (slow.width if slow else 1) * vector * len(problem.sources)
            if elements <= _WINDOW_ELEMENTS:
                rules = (slow, last) if slow else (last,)
                break
        if rules:
            C = size if stored else 1
            break
    if rules is None:
        return None
    counts = [-(-a.rule.outputs // b.size) for a, b in zip(ruled, rules, strict=True)]
    positions, plain = prod(counts), prod(axis.size for axis in outer)
    columns, rows = (line.size, positions * plain) if line else (positions, plain)
    vectors = -(-columns // vector)
    size = max(target.subgroup_size, min(256, target.max_work_group_size))
    target_items = target.compute_units * _WORK_ITEMS
    each = max(1, min(_MAX_EACH, repeated.size, vectors * rows * repeated.size // target_items))
    chunks = -(-repeated.size // each)
    lanes = lanes_of_rows(vectors, rows * chunks, size, target.subgroup_size)
    parts = -(-vectors // lanes)
    groups = parts * -(-rows * chunks // (size // lanes))
    extra = ["columns_parts", "columns", "rows", "each", "repeats"]
    extra += [f"{name}_repeat" for name in problem.names]
    integers = _integers(problem, axes, outer, []) | {
        "columns_parts": parts, "columns": columns, "rows": rows, "each": each,
        "repeats": repeated.size,
    }  # fmt: skip
    for k, (axis, rule, count) in enumerate(zip(ruled, rules, counts, strict=True)):
        extra += [f"blocks{k}", f"source{k}", f"padded{k}"]
        integers |= {f"blocks{k}": count, f"source{k}": axis.rule.size, f"padded{k}": count * rule.size}
    steps = zip(problem.names, repeated.strides, strict=True)
    integers |= {f"{name}_repeat": step for name, step in steps}
    if line:
        extra += ["positions", *(f"{name}_line" for name in problem.names)]
        integers["positions"] = positions
        integers |= {f"{n}_line": s for n, s in zip(problem.names, line.strides, strict=True)}
    last = rules[-1]
    segments = {}
    for place, name in enumerate(problem.sources):
        begin, loads = 0, []
        while begin < last.width:
            width = next(
                (v for v in (4, 2)
                 if line is None and name == "x" and is_aligned(v, place)
                 and (last.first + begin) % v == 0 and last.step % v == 0
                 and begin + v <= last.width and all(last.inside[begin : begin + v])), 1)
            loads.append((begin, width))
            begin += width
        segments[name] = loads
    context = _context(problem, axes, len(outer), extra, [])
    context |= {
        "V": vector, "G": size, "LX": lanes, "rules": [rule._replace(weights=None) for rule in rules], "C": C, "segments": segments,
        "by_flags": problem.kind == "max" and problem.elem.floating and vector == 1,
        "outputs": range(prod(rule.size for rule in rules)),
        "tails": [axis.rule.outputs % rule.size != 0 for axis, rule in zip(ruled, rules, strict=True)],
    }  # fmt: skip
    return SamplingKernel("blocks", context, integers, groups, size, axes, rules)


def _vector(
    problem: SamplingProblem, axes: SamplingAxes, line: Axis, others: tuple[Axis, ...]
) -> int:
    """The number of adjacent results that a work-item computes as a vector."""
    elem: Element = problem.elem
    if elem.complex or problem.kind in INDEXED or set(line.strides) != {1}:
        return 1
    every: list[Axis | RuledAxis] = [*others, *axes.ruled]
    steps = [step for axis in every for step in axis.strides]
    vector = max(1, min(16, _VECTOR_BYTES // elem.itemsize))
    while vector > 1 and (
        line.size % vector
        or problem.alignment < vector * elem.itemsize
        or any(step % vector for step in steps)
    ):
        vector //= 2
    return vector
