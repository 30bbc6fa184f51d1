"""The kernels of sampling problems on a GPU: single results, and blocks of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from portable_gpu.codegen.axes import Axis
from portable_gpu.dtypes import Element
from portable_gpu.ops.groups import lanes_of_rows
from portable_gpu.ops.sampling.blocks import AxisBlocks, blocks_of
from portable_gpu.ops.sampling.problem import (
    INDEXED,
    ROUTED,
    RuledAxis,
    SamplingAxes,
    SamplingProblem,
)
from portable_gpu.ops.sampling.sampling_kernel import (
    SamplingKernel,
    context_of,
    integers_of,
    is_wide,
)
from portable_gpu.targets import Target

#: The maximum of results of a work-item; then the coordinates of its taps cost little for each.
_MAX_EACH = 32
#: The least number of work-items for each compute unit of a GPU: four times its capacity.
_WORK_ITEMS = 4 * 2048
#: If a result needs at most this many loads, a work-item has those of four results in flight.
_FEW_LOADS = 4
#: Bytes of a GPU's vectors.
_VECTOR_BYTES = 16
#: Elements of the window of a block, at most: they are in registers.
_WINDOW = 80
#: Outputs of a block along the last ruled axis but one, the best first.
_BLOCK_ROWS = (2, 4, 1)


def _kernel(
    template: str,
    problem: SamplingProblem,
    target: Target,
    axes: SamplingAxes,
    positions: int,
    loops: list[int],
) -> SamplingKernel:
    """Return a kernel whose work-items have an output, or a block of them, several times.

    Columns are positions, or the contiguous axis of results; the longest axis is repeated.
    """
    size = max(target.subgroup_size, min(256, target.max_work_group_size))
    outer, column_axis = list(axes.plain), axes.column_axis
    repeated = max(outer, key=lambda axis: axis.size, default=None)
    if repeated is None:
        repeated = Axis(1, (0,) * len(problem.names))
    else:
        outer.remove(repeated)
    plain = prod(axis.size for axis in outer)
    columns, rows = (column_axis.size, positions * plain) if column_axis else (positions, plain)
    vector = 1 if column_axis is None else _vector(problem, axes, column_axis, (*outer, repeated))
    vectors = -(-columns // vector)
    target_items = target.compute_units * _WORK_ITEMS
    repeats_each = max(
        1, min(_MAX_EACH, repeated.size, vectors * rows * repeated.size // target_items)
    )
    chunks = -(-repeated.size // repeats_each)
    lanes = lanes_of_rows(vectors, rows * chunks, size, target.subgroup_size)
    parts = -(-vectors // lanes)
    groups = parts * -(-rows * chunks // (size // lanes))
    extra = ["columns_parts", "columns", "rows", "repeats_each", "repeats"]
    extra += [f"{name}_repeat" for name in problem.names]
    integers = integers_of(problem, axes, outer, loops) | {
        "columns_parts": parts, "columns": columns, "rows": rows, "repeats_each": repeats_each,
        "repeats": repeated.size,
    }  # fmt: skip
    steps = zip(problem.names, repeated.strides, strict=True)
    integers |= {f"{name}_repeat": step for name, step in steps}
    if column_axis:
        extra += ["positions", *(f"{name}_column_step" for name in problem.names)]
        integers["positions"] = positions
        integers |= {
            f"{n}_column_step": s for n, s in zip(problem.names, column_axis.strides, strict=True)
        }
    context = context_of(problem, axes, len(outer), extra, loops)
    context |= {"V": vector, "G": size, "LX": lanes}
    return SamplingKernel(template, context, integers, groups, size, axes)


def tiles(problem: SamplingProblem, target: Target, axes: SamplingAxes) -> SamplingKernel:
    """Return the kernel whose work-items have single results."""
    ruled = axes.ruled
    loops = [k for k in range(len(ruled)) if ruled[k].taps == 0]
    positions = prod(axis.rule.outputs for axis in ruled)
    kernel = _kernel("tiles", problem, target, axes, positions, loops)
    taps = kernel.context["taps"]
    kernel.context["unrolled"] = all(taps) and prod(taps) <= _FEW_LOADS
    return kernel


def blocks(problem: SamplingProblem, target: Target, axes: SamplingAxes) -> SamplingKernel | None:
    """Return the kernel whose work-items have blocks of results.

    It is ``None`` where blocks read windows of several patterns, or too long ones, and where
    results along a row of a block cannot be stored as vectors.
    """
    ruled, column_axis, out = axes.ruled, axes.column_axis, len(problem.sources)
    if problem.elem.complex or problem.kind == "picked" or not 1 <= len(ruled) <= 2:
        return None
    if is_wide(problem):
        return None
    by_axis = [*(axis.strides for axis in axes.plain), *(axis.strides for axis in ruled[:-1])]

    def is_aligned(operand: int, width: int) -> bool:
        """Whether vectors along the last ruled axis are aligned that begin at its multiples."""
        name = problem.names[operand]
        itemsize = 8 if name in ("which", "indices") else problem.elem.itemsize
        return (
            ruled[-1].strides[operand] == 1
            and problem.alignment % min(_VECTOR_BYTES, width * itemsize) == 0
            and not any(strides[operand] % width for strides in by_axis)
        )

    # Pairs of indices are 16 bytes.  Blocks of 8 need too many registers for windows that are long.
    is_short, fast = problem.elem.itemsize <= 2, ruled[-1].rule
    sizes = [2] if problem.kind == "argmax" else [4, 2]
    if is_short and problem.kind != "argmax" and fast.size < fast.outputs:
        sizes.insert(0, 8)
    if column_axis is None:
        outputs = ruled[-1].rule.outputs
        targets = range(out, len(problem.names))
        sizes = [n for n in sizes if outputs % n == 0 and all(is_aligned(k, n) for k in targets)]
    vector = 1 if column_axis is None else _vector(problem, axes, column_axis, axes.plain)
    rules = next(_block_rules(problem, axes, sizes, _WINDOW // (vector * out)), None)
    if rules is None:
        return None
    counts = [-(-axis.rule.outputs // rule.size) for axis, rule in zip(ruled, rules, strict=True)]
    kernel = _kernel("blocks", problem, target, axes, prod(counts), [])
    for k, (axis, rule, count) in enumerate(zip(ruled, rules, counts, strict=True)):
        sizes_of_axis = {
            f"blocks{k}": count, f"source{k}": axis.rule.size, f"padded{k}": count * rule.size,
        }  # fmt: skip
        kernel.integers.update(sizes_of_axis)
        kernel.context["extra"] += sizes_of_axis
    loads = {"x": (4, 2), "which": (2,) if is_short else ()}
    widths = {
        name: [w for w in loads[name] if column_axis is None and is_aligned(k, w)]
        for k, name in enumerate(problem.sources)
    }
    kernel.context.update(
        {
            "blocks": rules,
            "C": rules[-1].size if column_axis is None else 1,
            "segments": {name: list(_segments(rules[-1], widths[name])) for name in widths},
            "tails": [a.rule.outputs % r.size != 0 for a, r in zip(ruled, rules, strict=True)],
            "by_flags": problem.kind == "max" and problem.elem.floating and vector == 1,
        }
    )
    return kernel


def _block_rules(
    problem: SamplingProblem, axes: SamplingAxes, sizes: Sequence[int], window: int
) -> Iterator[tuple[AxisBlocks, ...]]:
    """The blocks whose windows have at most ``window`` elements, the best first."""
    *slow, fast = [axis.rule for axis in axes.ruled]
    routed = problem.kind in ROUTED
    for size in sizes:
        last = blocks_of(fast, size, routed)
        if last is None:
            continue
        if not slow and last.width <= window:
            yield (last,)
        for rows in _BLOCK_ROWS if slow else ():
            first = blocks_of(slow[0], rows, routed)
            if first is not None and first.width * last.width <= window:
                yield first, last


def _segments(rule: AxisBlocks, widths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The loads of a row of a window, as the first element and the number of elements.

    Args:
        rule: The blocks of the last ruled axis.
        widths: The widths of vectors whose loads are aligned where they begin at multiples.
    """
    begin, read = 0, {tap for taps in rule.taps for tap in taps}
    while begin < rule.width:
        width = next(
            (
                w
                for w in widths
                if not ((rule.first + begin) % w or rule.step % w)
                and begin + w <= rule.width
                and all(rule.inside[begin : begin + w])
            ),
            1,
        )
        if read & set(range(begin, begin + width)):
            yield begin, width
        begin += width


def _vector(
    problem: SamplingProblem, axes: SamplingAxes, column_axis: Axis, others: Sequence[Axis]
) -> int:
    """The number of adjacent results that a work-item computes as a vector."""
    elem: Element = problem.elem
    if elem.complex or problem.kind in INDEXED or set(column_axis.strides) != {1}:
        return 1
    every: list[Axis | RuledAxis] = [*others, *axes.ruled]
    steps = [step for axis in every for step in axis.strides]
    vector = max(1, min(16, _VECTOR_BYTES // elem.itemsize))
    while vector > 1 and (
        column_axis.size % vector
        or problem.alignment < vector * elem.itemsize
        or any(step % vector for step in steps)
    ):
        vector //= 2
    return vector
