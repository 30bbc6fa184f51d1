"""Columns on a GPU: how many lie side by side in a group, and how many work-items share one."""

from __future__ import annotations

from dataclasses import replace

from portable_gpu.codegen.reductions import Reduction
from portable_gpu.ops.reduce.geometry import Geometry
from portable_gpu.ops.reduce.partition import ReduceForm, ReducePartition, split_elements
from portable_gpu.ops.reduce.policy import ReducePolicy
from portable_gpu.ops.reduce.vectors import aligned_vector, doubled, fits, in_flight, widest_vector
from portable_gpu.powers_of_two import ceil_power_of_two, floor_power_of_two
from portable_gpu.targets import Target

# Columns in fewer steps than this wait longer for their parts to meet than they take; and so many
# of their rows a work-item is to have.
_LEAST_STEPS, _LEAST_ROWS = 8, 8
_COLUMN_GROUPS = 2
# Results of more than so many blocks a compute unit have work-items enough: then no two share a
# column, unless it has many rows.
_PLENTY_OF_BLOCKS, _MANY_ROWS = 4, 128
# Columns of so few rows are folded by one work-item each, all rows on their way at once.
_FEW_ROWS = 8
# Of float32 and 16-bit floats, groups of moments along columns of many rows have twice the
# work-items, because a compute unit has registers for two groups only.
_TALL, _TALL_SIZE = 512, 512
# Lanes side by side along columns that no vectors fit, by the bytes of an element: a group reads
# 1024 and 256 bytes of a row; of 2 bytes where columns are many (docs/experiments/reduce.md).
_OFF_THE_GRID, _MANY_COLUMNS, _OFF_WIDE_GRID = {8: 128, 4: 64}, 4096, 64


def gpu_columns(
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
    wanted: int,
) -> tuple[ReduceForm, ReducePartition]:
    """Groups that have blocks of columns, or a part of one."""
    columns, size, count = geometry.kept[-1].size, policy.group_size, geometry.count
    vector, widest, aligned = 1, 1, False
    if reduction.vectorizable:
        vector = min(widest_vector(policy, reduction), floor_power_of_two(columns))
        while vector > 1 and not fits(policy, target, reduction, vector, shared=vector):
            vector //= 2
        widest = vector
        # The last block is moved back to the edge, so the extent counts as well.
        vector, aligned = aligned_vector(
            vector, reduction, geometry, alignment, geometry.kept[-1], columns
        )
    itemsize = reduction.inputs[0].itemsize
    # Narrow vectors side by side would spread a load over eight times the lines.
    vectors = max(1, policy.column_bytes // max(policy.vector_bytes, vector * itemsize))
    vectors = min(vectors, floor_power_of_two(max(1, columns // vector)))
    while vectors > 1 and not fits(policy, target, reduction, vector * vectors, shared=vector):
        vectors //= 2
    # Fewer groups of a compute unit than for rows are faster (docs/experiments/reduce.md).
    shared_by_all = wanted >= _COLUMN_GROUPS * target.compute_units
    wanted = min(wanted, _COLUMN_GROUPS * target.compute_units)
    lanes = policy.column_lanes
    if reduction.name == "moment" and itemsize <= 4 and count >= _TALL and shared_by_all:
        tall = replace(policy, group_size=min(_TALL_SIZE, target.max_work_group_size))
        if fits(tall, target, reduction, vector * vectors, shared=vector):
            size = max(size, tall.group_size)
    if vector == 1 < widest:
        beside = _OFF_THE_GRID.get(itemsize, _OFF_WIDE_GRID if columns > _MANY_COLUMNS else 1)
        lanes = min(size, max(lanes, beside))
    lanes = min(lanes, ceil_power_of_two(-(-columns // (vector * vectors))))
    # Few rows are soon folded: work-items go side by side rather than share columns.
    few = count <= _FEW_ROWS and not geometry.outer and not reduction.indexed
    if few:
        alone = -(-columns // (vector * vectors * target.compute_units))
        lanes = size = max(target.subgroup_size, min(size, ceil_power_of_two(alone)))
    lanes = max(lanes, size // ceil_power_of_two(max(1, count)))
    lanes = _lanes_of_many(columns, vector * vectors, count, lanes, size, target)
    block = lanes * vector * vectors
    tiles = -(-columns // block) * (geometry.rows // columns)
    unroll = in_flight(
        max(1, policy.unroll // vectors), policy, target, reduction, vector * vectors,
        most=geometry.inner.size * lanes // size,
    )  # fmt: skip
    if few:
        all_rows = ceil_power_of_two(count)
        unroll = doubled(unroll, all_rows, policy, target, reduction, vector * vectors)
    step = size // lanes * unroll
    # Two parts of a column pay only where blocks leave a third of the groups without work.
    shared = count >= _LEAST_STEPS * step and 2 * wanted > 3 * tiles
    parts = -(-wanted // tiles) if shared else 1
    inner, outer, inner_span, outer_span = split_elements(parts, geometry, step)
    kept, outer_axes = len(geometry.kept) - 1, len(geometry.outer)
    split = inner * outer > 1
    form = ReduceForm(
        "columns", size, lanes, vector, vectors, unroll, aligned, False, split, kept, outer_axes
    )
    return form, ReducePartition(tiles, inner, outer, inner_span, outer_span, 1)


def _lanes_of_many(
    columns: int, each: int, count: int, lanes: int, size: int, target: Target
) -> int:
    """Work-items side by side, of ``each`` columns, where columns fill the device by themselves."""
    most = min(size, _LEAST_ROWS * size // max(1, count))
    while lanes < size:
        if lanes >= most and count > _MANY_ROWS:
            break
        blocks = 2 if lanes < most else _PLENTY_OF_BLOCKS
        if columns <= blocks * lanes * each * target.compute_units:
            break
        lanes *= 2
    return lanes
