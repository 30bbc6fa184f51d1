"""The kernels of reductions on GPUs: by rows and by columns.

Some choices are explained by measurements in docs/experiments/reduce.md.
"""

from __future__ import annotations

from dataclasses import replace

from portable_gpu.codegen.axes import Axis
from portable_gpu.codegen.reductions import Reduction
from portable_gpu.ops.reduce.kernels import ReduceKernel, split_elements, widest_vector
from portable_gpu.ops.reduce.policy import (
    ReduceColumnFigures,
    ReduceForm,
    ReduceLoadFigures,
    ReducePolicy,
    ReduceRowFigures,
)
from portable_gpu.ops.reduce.problem import Geometry
from portable_gpu.powers_of_two import ceil_power_of_two, floor_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.table import PolicyRow


def _figures(target: Target) -> ReduceRowFigures:
    return ReduceRowFigures.of("reduce rows", target)


def gpu_rows(
    row: PolicyRow[ReducePolicy],
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
    target_groups: int,
    unit: bool,
) -> ReduceKernel:
    """Return the kernel whose sub-groups or groups have a row each, or share one."""
    policy, elem = row.policy, reduction.inputs[0]
    n, rows = geometry.inner.size, geometry.rows
    vector, aligned, peel = 1, False, False
    if unit and reduction.vectorizable:
        vector, aligned, peel = _row_vector(policy, target, reduction, geometry, alignment)
    size, lanes = _row_lanes(policy, target, geometry, elem.itemsize, vector, target_groups, peel)
    if peel:
        lanes = max(lanes, vector)
    unroll = 1
    if n * geometry.outer_count > lanes * vector:
        # Rows of one group hide each other's latency; accumulators with indices need registers.
        one_in_flight = lanes < size or reduction.indexed
        base = replace(policy, unroll=1) if one_in_flight else policy
        unroll = _unrolled(base, target, reduction, vector, n // (lanes * vector))
    group_rows = size // lanes
    parts = _row_parts(policy, target, reduction, geometry, target_groups) if lanes == size else 1
    inner, outer, inner_span, outer_span = split_elements(parts, geometry, lanes * vector * unroll)
    if inner * outer > 1:
        tiles, rows_per_group = rows, 1
    else:
        max_groups = 8 * target.compute_units * policy.groups_per_unit
        groups = max(1, min(max_groups, -(-rows // group_rows)))
        rows_per_group = -(-rows // (groups * group_rows)) * group_rows
        tiles = -(-rows // rows_per_group)
    form = ReduceForm(
        kind="rows", group_size=size, lanes=lanes, vector=vector, vectors=1, unroll=unroll,
        aligned=aligned, unit=unit, split=inner * outer > 1, result_axes=len(geometry.result_axes),
        outer=len(geometry.outer), peel=peel,
    )  # fmt: skip
    return ReduceKernel(
        reduction=reduction, geometry=geometry, row=row, form=form, tiles=tiles, inner_parts=inner,
        outer_parts=outer, inner_span=inner_span, outer_span=outer_span,
        rows_per_group=rows_per_group,
    )  # fmt: skip


def _row_vector(
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
) -> tuple[int, bool, bool]:
    """Return the width of vectors along rows, whether they are aligned, and ``peel``.

    ``peel``: rows may be unaligned; elements before and behind their aligned vectors are loaded
    one by one.
    """
    elem, n, lanes = reduction.inputs[0], geometry.inner.size, target.subgroup_size
    figures = _figures(target)
    if n <= lanes and _are_few(geometry, target):
        return 1, False, False
    vector = min(widest_vector(policy, reduction), floor_power_of_two(max(1, n)))
    if len(reduction.folds[0].lane.fields) > 1 and elem.itemsize <= 4:
        vector = max(1, vector // 2)
    while vector > 1 and not _fits(policy, target, reduction, vector):
        vector //= 2
    if reduction.name == "moment" and elem.itemsize < 4:
        while vector > 1 and lanes * vector <= n < figures.moment_steps * lanes * vector:
            vector //= 2
    widest = vector
    vector, aligned = _aligned_vector(vector, reduction, geometry, alignment, geometry.inner)
    # Each lane of a row loads one of the elements before, or behind, the vectors.
    can_peel = len(reduction.streamed) == 1 and not elem.complex
    can_peel &= widest <= target.subgroup_size
    if can_peel and vector < widest and n >= figures.peeled_vectors * widest:
        return widest, True, True
    return vector, aligned, False


def _row_lanes(
    policy: ReducePolicy,
    target: Target,
    geometry: Geometry,
    itemsize: int,
    vector: int,
    target_groups: int,
    peel: bool,
) -> tuple[int, int]:
    """Return the work-items of a group, and those of a row: all, or at most a sub-group."""
    n, rows, units = geometry.inner.size, geometry.rows, target.compute_units
    size, subgroup, figures = policy.group_size, target.subgroup_size, _figures(target)
    if n <= vector * subgroup and _are_few(geometry, target):
        return size, ceil_power_of_two(max(1, -(-n // vector)))
    lanes = ceil_power_of_two(max(1, -(-n // (2 * vector))))
    if lanes > 1 and not peel and 2 * (n % (lanes // 2 * vector)) < n % (lanes * vector):
        lanes //= 2  # then fewer lanes have no work in the last step
    # With many rows a compute unit, rows of a sub-group are faster than rows of a group.
    many = rows >= figures.many_rows * units
    wide = lanes > 4 * subgroup or rows * min(lanes, size) < size * target_groups
    if wide and not many:
        if 2 * rows >= units:
            enough = ceil_power_of_two(-(-n // (vector * figures.group_steps)))
            size = max(2 * subgroup, min(size, enough))
        return size, size
    lanes = min(lanes, subgroup)
    # With many rows, fewer lanes for each row take less time to combine their results.
    min_lanes = max(1, figures.adjacent_bytes // (vector * itemsize))
    while lanes > min_lanes and n < figures.lane_steps * lanes * vector:
        if rows * lanes < 2 * figures.busy_items * units:
            break
        lanes //= 2
    return size, lanes


def _are_few(geometry: Geometry, target: Target) -> bool:
    """Whether there are too few elements to hide latency."""
    elements = geometry.rows * geometry.inner.size
    few = _figures(target).few_elements * target.subgroup_size * target.compute_units
    return geometry.outer_count == 1 and elements <= few


def _row_parts(
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    target_groups: int,
) -> int:
    """Return the largest number of groups that share a row."""
    rows, units, figures = geometry.rows, target.compute_units, _figures(target)
    nbytes = geometry.count * reduction.inputs[0].itemsize
    # Combining parts takes longer for moments, and gains less where rows fill half the device.
    doubled_limit = reduction.name == "moment" or 2 * rows >= units
    if nbytes < figures.single_bytes * (2 if doubled_limit else 1):
        return 1
    parts = -(-target_groups // max(1, rows))
    if nbytes < parts * figures.group_bytes:
        groups = min(figures.few_groups, policy.groups_per_unit) * units
        parts = min(parts, -(-groups // max(1, rows)))
    if rows >= units:  # all units have work without parts
        parts = min(parts, max(1, nbytes // (4 * policy.work_per_group)))
    return parts


def gpu_columns(
    row: PolicyRow[ReducePolicy],
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
    target_groups: int,
) -> ReduceKernel:
    """Return the kernel whose groups have blocks of columns, or parts of blocks."""
    policy, figures = row.policy, ReduceColumnFigures.of("reduce columns", target)
    columns, size, count = geometry.result_axes[-1].size, policy.group_size, geometry.count
    vector, widest, aligned = 1, 1, False
    if reduction.vectorizable:
        vector = min(widest_vector(policy, reduction), floor_power_of_two(columns))
        while vector > 1 and not _fits(policy, target, reduction, vector, shared=vector):
            vector //= 2
        widest = vector
        # The last block is moved back to the edge, so the extent counts as well.
        vector, aligned = _aligned_vector(
            vector, reduction, geometry, alignment, geometry.result_axes[-1], columns
        )
    itemsize = reduction.inputs[0].itemsize
    # With several narrow vectors side by side, a load would touch eight times as many lines.
    vectors = max(1, policy.column_bytes // max(policy.vector_bytes, vector * itemsize))
    vectors = min(vectors, floor_power_of_two(max(1, columns // vector)))
    while vectors > 1 and not _fits(policy, target, reduction, vector * vectors, shared=vector):
        vectors //= 2
    # Fewer groups on a compute unit than for rows are faster.
    max_groups = figures.groups * target.compute_units
    fills_device = target_groups >= max_groups
    target_groups = min(target_groups, max_groups)
    lanes = policy.column_lanes
    if reduction.name == "moment" and itemsize <= 4 and count >= figures.tall_rows and fills_device:
        tall = replace(policy, group_size=min(figures.tall_group, target.max_work_group_size))
        if _fits(tall, target, reduction, vector * vectors, shared=vector):
            size = max(size, tall.group_size)
    if vector == 1 < widest:
        adjacent = figures.many_lanes if columns > figures.many_columns else 1
        adjacent = figures.unaligned_lanes.get(str(itemsize), adjacent)
        lanes = min(size, max(lanes, adjacent))
    lanes = min(lanes, ceil_power_of_two(-(-columns // (vector * vectors))))
    # Few rows take few steps: work-items have columns of their own.
    few = count <= figures.few_rows and not geometry.outer and not reduction.indexed
    if few:
        per_unit = -(-columns // (vector * vectors * target.compute_units))
        lanes = size = max(target.subgroup_size, min(size, ceil_power_of_two(per_unit)))
    lanes = max(lanes, size // ceil_power_of_two(max(1, count)))
    lanes = _widened_lanes(columns, vector * vectors, count, lanes, size, target, figures)
    block = lanes * vector * vectors
    tiles = -(-columns // block) * (geometry.rows // columns)
    unroll = _in_flight(
        max(1, policy.unroll // vectors), policy, target, reduction, vector * vectors,
        limit=geometry.inner.size * lanes // size,
    )  # fmt: skip
    if few:
        all_rows = ceil_power_of_two(count)
        unroll = _doubled(unroll, all_rows, policy, target, reduction, vector * vectors)
    step = size // lanes * unroll
    # Parts of columns are faster only if blocks leave a third of the groups without work.
    shared = count >= figures.shared_steps * step and 2 * target_groups > 3 * tiles
    parts = -(-target_groups // tiles) if shared else 1
    inner, outer, inner_span, outer_span = split_elements(parts, geometry, step)
    result_axes, outer_axes = len(geometry.result_axes) - 1, len(geometry.outer)
    split = inner * outer > 1
    form = ReduceForm(
        kind="columns", group_size=size, lanes=lanes, vector=vector, vectors=vectors, unroll=unroll,
        aligned=aligned, unit=False, split=split, result_axes=result_axes, outer=outer_axes,
    )  # fmt: skip
    return ReduceKernel(
        reduction=reduction, geometry=geometry, row=row, form=form, tiles=tiles, inner_parts=inner,
        outer_parts=outer, inner_span=inner_span, outer_span=outer_span, rows_per_group=1,
    )  # fmt: skip


def _widened_lanes(
    columns: int,
    item_columns: int,
    count: int,
    lanes: int,
    size: int,
    target: Target,
    figures: ReduceColumnFigures,
) -> int:
    """Return the work-items side by side, doubled while blocks still fill the device.

    A work-item has ``item_columns`` columns.
    """
    max_lanes = min(size, figures.item_rows * size // max(1, count))
    while lanes < size:
        if lanes >= max_lanes and count > figures.many_rows:
            break
        blocks = 2 if lanes < max_lanes else figures.many_blocks
        if columns <= blocks * lanes * item_columns * target.compute_units:
            break
        lanes *= 2
    return lanes


def _fits(
    policy: ReducePolicy, target: Target, reduction: Reduction, width: int, shared: int = 0
) -> bool:
    """Whether the states of ``width`` elements fit the registers, and half the local memory.

    The fold of the states takes as many registers as these, and half as many more; two sub-groups
    must fit a SIMD.  ``shared`` is the number of a work-item's accumulators in local memory.
    """
    state = width * (policy.unroll * reduction.lane.bytes + reduction.acc.bytes) // 4
    local = policy.group_size * shared * reduction.acc.bytes
    fits_registers = 3 * state <= target.registers and 5 * state <= 2 * target.resident_registers
    return fits_registers and 2 * local <= target.local_mem_size


def _unrolled(
    policy: ReducePolicy, target: Target, reduction: Reduction, vector: int, steps: int
) -> int:
    """Return the number of vectors in flight: more where states are lifted into several sums.

    A lift of several vectors together costs as much for each element as that of a single sum.
    ``steps`` is the number of vectors of a work-item.
    """
    limit = min(steps, policy.unroll * reduction.folds[0].lift_cost)
    return _doubled(policy.unroll, limit, policy, target, reduction, vector)


def _in_flight(
    unroll: int, policy: ReducePolicy, target: Target, reduction: Reduction, width: int, limit: int
) -> int:
    """Return the number of steps of ``width`` elements in flight, at most ``limit``.

    There are more steps where elements are few or small.  Their states must fit the registers
    twice, because loaded values and addresses take registers, too.
    """
    figures = ReduceLoadFigures.of("reduce loads", target)
    enough = -(-figures.item_bytes // (width * reduction.inputs[0].itemsize))
    limit = min(limit, figures.steps, enough)
    return _doubled(unroll, limit, policy, target, reduction, width, copies=2)


def _doubled(
    unroll: int,
    limit: float,
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    width: int,
    copies: int = 1,
) -> int:
    """Return ``unroll``, doubled up to ``limit`` while the states fit ``copies`` times."""
    while 2 * unroll <= limit:
        if not _fits(replace(policy, unroll=2 * copies * unroll), target, reduction, width):
            break
        unroll *= 2
    return unroll


def _aligned_vector(
    vector: int,
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
    along: Axis,
    extent: int = 0,
) -> tuple[int, bool]:
    """Return the widest vector, at most ``vector``, to which all lines are aligned.

    A line is along the axis ``along``, where an input has the stride 1.  Also returns whether the
    vector has more than one element.
    """
    lines = [k for k in range(len(reduction.streamed)) if along.strides[k] == 1]
    axes = (*geometry.result_axes, *geometry.outer, geometry.inner)
    steps = [axis.strides[k] for axis in axes if axis is not along for k in lines]
    steps += (*(geometry.shift[k] for k in lines), extent)
    itemsize = max(reduction.streamed[k].itemsize for k in lines)
    while vector > 1 and (alignment < vector * itemsize or any(step % vector for step in steps)):
        vector //= 2
    return vector, vector > 1
