"""Columns on a GPU: how many lie side by side in a group, and how many work-items share one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from portable_gpu.codegen.reductions import Reduction
from portable_gpu.ops.reduce.geometry import Geometry
from portable_gpu.ops.reduce.partition import ReduceForm, ReducePartition, split_elements
from portable_gpu.ops.reduce.policy import ReducePolicy
from portable_gpu.ops.reduce.vectors import aligned_vector, doubled, fits, in_flight, widest_vector
from portable_gpu.powers_of_two import ceil_power_of_two, floor_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.figures import Figures


@dataclass(frozen=True)
class ReduceColumnFigures(Figures):
    """The thresholds of the rules for columns on a GPU.

    Attributes:
        shared_steps: Steps of a group along a column from which on several groups share it: with
            fewer, combining their results takes longer.
        item_rows: Rows of a column that a work-item has at least.
        groups: Groups for each compute unit; fewer than for rows.
        many_blocks, many_rows: If results fill more than ``many_blocks`` blocks for each compute
            unit, no two work-items share a column, unless it has more than ``many_rows`` rows.
        few_rows: Columns of at most this number of rows are reduced by one work-item each, with all
            loads in flight.
        tall_rows, tall_group: From this number of rows on, groups of moments of 4-byte elements and
            smaller ones have this number of work-items, because a compute unit has registers for
            two groups only.
        unaligned_lanes: Lanes side by side if no vectors fit, by the bytes of an element.
        many_columns, many_lanes: Of other elements, the lanes if there are more columns than that.
    """

    shared_steps: int
    item_rows: int
    groups: int
    many_blocks: int
    many_rows: int
    few_rows: int
    tall_rows: int
    tall_group: int
    unaligned_lanes: Mapping[str, int]
    many_columns: int
    many_lanes: int


def gpu_columns(
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
    wanted: int,
) -> tuple[ReduceForm, ReducePartition]:
    """Groups that have blocks of columns, or a part of one."""
    figures = ReduceColumnFigures.of("reduce columns", target)
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
    most_groups = figures.groups * target.compute_units
    shared_by_all = wanted >= most_groups
    wanted = min(wanted, most_groups)
    lanes = policy.column_lanes
    if (
        reduction.name == "moment"
        and itemsize <= 4
        and count >= figures.tall_rows
        and shared_by_all
    ):
        tall = replace(policy, group_size=min(figures.tall_group, target.max_work_group_size))
        if fits(tall, target, reduction, vector * vectors, shared=vector):
            size = max(size, tall.group_size)
    if vector == 1 < widest:
        adjacent = figures.many_lanes if columns > figures.many_columns else 1
        adjacent = figures.unaligned_lanes.get(str(itemsize), adjacent)
        lanes = min(size, max(lanes, adjacent))
    lanes = min(lanes, ceil_power_of_two(-(-columns // (vector * vectors))))
    # Few rows are soon folded: work-items go side by side rather than share columns.
    few = count <= figures.few_rows and not geometry.outer and not reduction.indexed
    if few:
        alone = -(-columns // (vector * vectors * target.compute_units))
        lanes = size = max(target.subgroup_size, min(size, ceil_power_of_two(alone)))
    lanes = max(lanes, size // ceil_power_of_two(max(1, count)))
    lanes = _lanes_of_many(columns, vector * vectors, count, lanes, size, target, figures)
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
    shared = count >= figures.shared_steps * step and 2 * wanted > 3 * tiles
    parts = -(-wanted // tiles) if shared else 1
    inner, outer, inner_span, outer_span = split_elements(parts, geometry, step)
    kept, outer_axes = len(geometry.kept) - 1, len(geometry.outer)
    split = inner * outer > 1
    form = ReduceForm(
        "columns", size, lanes, vector, vectors, unroll, aligned, False, split, kept, outer_axes
    )
    return form, ReducePartition(tiles, inner, outer, inner_span, outer_span, 1)


def _lanes_of_many(
    columns: int,
    each: int,
    count: int,
    lanes: int,
    size: int,
    target: Target,
    figures: ReduceColumnFigures,
) -> int:
    """Work-items side by side, of ``each`` columns, where columns fill the device by themselves."""
    most = min(size, figures.item_rows * size // max(1, count))
    while lanes < size:
        if lanes >= most and count > figures.many_rows:
            break
        blocks = 2 if lanes < most else figures.many_blocks
        if columns <= blocks * lanes * each * target.compute_units:
            break
        lanes *= 2
    return lanes
