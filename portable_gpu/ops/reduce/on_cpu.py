"""Rows and columns on a CPU: vectors and blocks of one work-item."""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.codegen.reductions import Reduction
from portable_gpu.ops.reduce.geometry import Geometry
from portable_gpu.ops.reduce.partition import ReduceForm, ReducePartition, split_elements
from portable_gpu.ops.reduce.policy import ReducePolicy
from portable_gpu.ops.reduce.vectors import widest_vector
from portable_gpu.targets import Target
from portable_gpu.tuning.figures import Figures


@dataclass(frozen=True)
class ReduceCpuFigures(Figures):
    """The thresholds of the rules on a CPU.

    Attributes:
        short_row: Rows of at most this number of elements are reduced side by side; of operators
            with indices twice as many, because the end of a row costs more.
        block_columns: Columns of a work-item at most: their accumulators should stay in L1.
        block_rows: Rows that it adds to them at a time, at most.
    """

    short_row: int
    block_columns: int
    block_rows: int


def cpu_rows(
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    wanted: int,
    unit: bool,
) -> tuple[ReduceForm, ReducePartition]:
    """Rows on a CPU: short ones a vector's lane each, others one after the other."""
    n, rows = geometry.inner.size, geometry.rows
    strides = geometry.inner.strides[: len(reduction.streamed)]
    vector = widest_vector(policy, reduction) if unit and reduction.vectorizable else 1
    together = min(vector, max(1, policy.vector_bytes // 4))
    short_row = ReduceCpuFigures.of("reduce on CPUs", target).short_row
    short = n <= short_row * (2 if reduction.indexed else 1)
    side_by_side = short and set(strides) == {1} and 1 < together <= rows
    # Each step waits for the one before, and where nothing is lifted there are more side by side.
    unroll = policy.unroll * (1 if reduction.block else 2)
    form = ReduceForm(
        "rows", 1, 1, together if side_by_side else vector, 1, unroll, False, unit,
        not side_by_side, max(1, len(geometry.kept)), len(geometry.outer),
        side_by_side=side_by_side,
    )  # fmt: skip
    least = together if side_by_side else 1
    parts = 1 if side_by_side else -(-wanted // max(1, rows))
    inner, outer, inner_span, outer_span = split_elements(parts, geometry, vector * unroll)
    if inner * outer > 1:
        return form, ReducePartition(rows, inner, outer, inner_span, outer_span, 1)
    each = -(-rows // (wanted * least)) * least
    return form, ReducePartition(-(-rows // each), 1, 1, inner_span, outer_span, each)


def cpu_columns(
    policy: ReducePolicy, target: Target, reduction: Reduction, geometry: Geometry, wanted: int
) -> tuple[ReduceForm, ReducePartition]:
    """Columns on a CPU: one work-item a block, whose accumulators are to stay in its L1 cache."""
    columns, figures = geometry.kept[-1].size, ReduceCpuFigures.of("reduce on CPUs", target)
    vector = widest_vector(policy, reduction) if reduction.vectorizable else 1
    vector = vector if vector <= columns else 1
    most = min(figures.block_columns, policy.column_bytes // reduction.inputs[0].itemsize)
    unroll = min(figures.block_rows, reduction.block or figures.block_rows)
    form = ReduceForm(
        "columns", 1, 1, vector, max(1, most // vector), unroll, False, False, True,
        len(geometry.kept) - 1, len(geometry.outer),
    )  # fmt: skip
    tiles = -(-columns // form.block) * (geometry.rows // columns)
    inner, outer, inner_span, outer_span = split_elements(-(-wanted // tiles), geometry, unroll)
    return form, ReducePartition(tiles, inner, outer, inner_span, outer_span, 1)
