"""Rows on a GPU: how many work-items share one, and into how many parts it is cut."""

from __future__ import annotations

from dataclasses import dataclass, replace

from portable_gpu.codegen.reductions import Reduction
from portable_gpu.ops.reduce.geometry import Geometry
from portable_gpu.ops.reduce.partition import ReduceForm, ReducePartition, split_elements
from portable_gpu.ops.reduce.policy import ReducePolicy
from portable_gpu.ops.reduce.vectors import aligned_vector, fits, unrolled, widest_vector
from portable_gpu.powers_of_two import ceil_power_of_two, floor_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.figures import Figures


@dataclass(frozen=True)
class ReduceRowFigures(Figures):
    """The thresholds of the rules for rows on a GPU.

    Attributes:
        group_bytes: Bytes for each group from which on it does not matter that the last group adds
            the results of the others.
        few_groups: With fewer bytes, at most this number of groups for each compute unit share a
            row: those that are resident at once.
        few_elements: Elements for each lane of a sub-group on each compute unit, up to which only
            latency counts.
        many_rows: Rows for each compute unit from which on sub-groups have one each.
        lane_steps, adjacent_bytes, busy_items: Lanes of a row of few vectors have ``lane_steps``
            vectors each, and read ``adjacent_bytes`` side by side, if a compute unit has
            ``busy_items`` work-items all the same.
        peeled_vectors: Rows of at least this number of vectors are read by vectors although they
            begin anywhere.
        single_bytes: Bytes of a row that one group reduces sooner than several do, which then
            combine their results; twice as many of moments, or if rows keep half of the compute
            units busy.
        group_steps: Vectors of a row for each work-item of a group, if rows keep half of the
            compute units busy.
        moment_steps: Steps of a sub-group along a row from which on a vector of moments of 16-bit
            floats is worth its reduction to one at the end.
    """

    group_bytes: int
    few_groups: int
    few_elements: int
    many_rows: int
    lane_steps: int
    adjacent_bytes: int
    busy_items: int
    peeled_vectors: int
    single_bytes: int
    group_steps: int
    moment_steps: int


def _figures(target: Target) -> ReduceRowFigures:
    return ReduceRowFigures.of("reduce rows", target)


def gpu_rows(
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
    wanted: int,
    unit: bool,
) -> tuple[ReduceForm, ReducePartition]:
    """Sub-groups or groups that have a row each, or groups that share one."""
    elem, n, rows = reduction.inputs[0], geometry.inner.size, geometry.rows
    vector, aligned, peel = 1, False, False
    if unit and reduction.vectorizable:
        vector, aligned, peel = _row_vector(policy, target, reduction, geometry, alignment)
    size, lanes = _row_lanes(policy, target, geometry, elem.itemsize, vector, wanted, peel)
    if peel:
        lanes = max(lanes, vector)
    unroll = 1
    if n * geometry.outer_count > lanes * vector:
        # In rows that share a group the other rows hide the latency, and accumulators with indices
        # need the registers (docs/experiments/reduce.md).
        plain = lanes < size or reduction.indexed
        own = replace(policy, unroll=1) if plain else policy
        unroll = unrolled(own, target, reduction, vector, n // (lanes * vector))
    group_rows = size // lanes
    parts = _row_parts(policy, target, reduction, geometry, wanted) if lanes == size else 1
    inner, outer, inner_span, outer_span = split_elements(parts, geometry, lanes * vector * unroll)
    if inner * outer > 1:
        tiles, rows_per_group = rows, 1
    else:
        most = 8 * target.compute_units * policy.groups_per_unit
        groups = max(1, min(most, -(-rows // group_rows)))
        rows_per_group = -(-rows // (groups * group_rows)) * group_rows
        tiles = -(-rows // rows_per_group)
    form = ReduceForm(
        "rows", size, lanes, vector, 1, unroll, aligned, unit, inner * outer > 1,
        len(geometry.kept), len(geometry.outer), peel=peel,
    )  # fmt: skip
    return form, ReducePartition(tiles, inner, outer, inner_span, outer_span, rows_per_group)


def _row_vector(
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
) -> tuple[int, bool, bool]:
    """Elements of a load along rows, whether it is aligned, and whether rows begin anywhere."""
    elem, n, lanes = reduction.inputs[0], geometry.inner.size, target.subgroup_size
    figures = _figures(target)
    if n <= lanes and _are_few(geometry, target):
        return 1, False, False
    vector = min(widest_vector(policy, reduction), floor_power_of_two(max(1, n)))
    if len(reduction.folds[0].lane.fields) > 1 and elem.itemsize <= 4:
        vector = max(1, vector // 2)  # docs/experiments/reduce.md
    while vector > 1 and not fits(policy, target, reduction, vector):
        vector //= 2
    if reduction.name == "moment" and elem.itemsize < 4:
        while vector > 1 and lanes * vector <= n < figures.moment_steps * lanes * vector:
            vector //= 2
    widest = vector
    vector, aligned = aligned_vector(vector, reduction, geometry, alignment, geometry.inner)
    # Each of a row's lanes has one of the elements before, or behind, the vectors.
    single = len(reduction.streamed) == 1 and not elem.complex
    single &= widest <= target.subgroup_size
    if single and vector < widest and n >= figures.peeled_vectors * widest:
        return widest, True, True
    return vector, aligned, False


def _row_lanes(
    policy: ReducePolicy,
    target: Target,
    geometry: Geometry,
    itemsize: int,
    vector: int,
    wanted: int,
    peel: bool,
) -> tuple[int, int]:
    """Work-items of a group, and of a row: a whole group, or a sub-group at most."""
    n, rows, units = geometry.inner.size, geometry.rows, target.compute_units
    size, most, figures = policy.group_size, target.subgroup_size, _figures(target)
    if n <= vector * most and _are_few(geometry, target):
        return size, ceil_power_of_two(max(1, -(-n // vector)))
    lanes = ceil_power_of_two(max(1, -(-n // (2 * vector))))
    if lanes > 1 and not peel and 2 * (n % (lanes // 2 * vector)) < n % (lanes * vector):
        lanes //= 2  # fewer lanes are without work in the last step
    # With many rows a compute unit, sub-groups that have a row each are faster than groups that
    # have one (docs/experiments/reduce.md).
    many = rows >= figures.many_rows * units
    wide = lanes > 4 * most or rows * min(lanes, size) < size * wanted
    if wide and not many:
        if 2 * rows >= units:
            enough = ceil_power_of_two(-(-n // (vector * figures.group_steps)))
            size = max(2 * most, min(size, enough))
        return size, size
    lanes = min(lanes, most)
    # Where rows are many, lanes with more of a row spend less time on combining their results.
    line = max(1, figures.adjacent_bytes // (vector * itemsize))
    while lanes > line and n < figures.lane_steps * lanes * vector:
        if rows * lanes < 2 * figures.busy_items * units:
            break
        lanes //= 2
    return size, lanes


def _are_few(geometry: Geometry, target: Target) -> bool:
    """Whether there is so little to fold that latency counts alone."""
    elements = geometry.rows * geometry.inner.size
    few = _figures(target).few_elements * target.subgroup_size * target.compute_units
    return geometry.outer_count == 1 and elements <= few


def _row_parts(
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    wanted: int,
) -> int:
    """Into how many parts each row is cut at most, a group each."""
    rows, units, figures = geometry.rows, target.compute_units, _figures(target)
    nbytes = geometry.count * reduction.inputs[0].itemsize
    dear = reduction.name == "moment" or 2 * rows >= units
    if nbytes < figures.single_bytes * (2 if dear else 1):
        return 1
    parts = -(-wanted // max(1, rows))
    if nbytes < parts * figures.group_bytes:
        groups = min(figures.few_groups, policy.groups_per_unit) * units
        parts = min(parts, -(-groups // max(1, rows)))
    if rows >= units:  # which have work anyway
        parts = min(parts, max(1, nbytes // (4 * policy.work_per_group)))
    return parts
