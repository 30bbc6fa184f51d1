"""The kernels of reductions on CPUs: by rows and by columns."""

from __future__ import annotations

from portable_gpu.codegen.reductions import Reduction
from portable_gpu.ops.reduce.kernels import ReduceKernel, split_elements, widest_vector
from portable_gpu.ops.reduce.policy import ReduceCpuFigures, ReduceForm, ReducePolicy
from portable_gpu.ops.reduce.problem import Geometry
from portable_gpu.targets import Target
from portable_gpu.tuning.table import PolicyRow


def cpu_rows(
    row: PolicyRow[ReducePolicy],
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    target_groups: int,
    unit: bool,
) -> ReduceKernel:
    """Return the kernel by rows of a CPU: a lane for each short row, or one row after the other."""
    policy, n, rows = row.policy, geometry.inner.size, geometry.rows
    strides = geometry.inner.strides[: len(reduction.streamed)]
    vector = widest_vector(policy, reduction) if unit and reduction.vectorizable else 1
    together = min(vector, max(1, policy.vector_bytes // 4))
    short_row = ReduceCpuFigures.of("reduce on CPUs", target).short_row
    short = n <= short_row * (2 if reduction.indexed else 1)
    side_by_side = short and set(strides) == {1} and 1 < together <= rows
    # A step waits for the step before; accumulators without blocks have twice as many in flight.
    unroll = policy.unroll * (1 if reduction.block else 2)
    form = ReduceForm(
        "rows", 1, 1, together if side_by_side else vector, 1, unroll, False, unit,
        not side_by_side, max(1, len(geometry.kept)), len(geometry.outer),
        side_by_side=side_by_side,
    )  # fmt: skip
    multiple = together if side_by_side else 1
    parts = 1 if side_by_side else -(-target_groups // max(1, rows))
    inner, outer, inner_span, outer_span = split_elements(parts, geometry, vector * unroll)
    each = 1
    if inner * outer == 1:
        each = -(-rows // (target_groups * multiple)) * multiple
    return ReduceKernel(
        reduction, geometry, row, form, -(-rows // each), inner, outer, inner_span, outer_span,
        each,
    )  # fmt: skip


def cpu_columns(
    row: PolicyRow[ReducePolicy],
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    target_groups: int,
) -> ReduceKernel:
    """Return the kernel by columns of a CPU: a block's accumulators stay in the L1 cache."""
    policy, columns = row.policy, geometry.kept[-1].size
    figures = ReduceCpuFigures.of("reduce on CPUs", target)
    vector = widest_vector(policy, reduction) if reduction.vectorizable else 1
    vector = vector if vector <= columns else 1
    max_columns = min(figures.block_columns, policy.column_bytes // reduction.inputs[0].itemsize)
    unroll = min(figures.block_rows, reduction.block or figures.block_rows)
    form = ReduceForm(
        "columns", 1, 1, vector, max(1, max_columns // vector), unroll, False, False, True,
        len(geometry.kept) - 1, len(geometry.outer),
    )  # fmt: skip
    tiles = -(-columns // form.block) * (geometry.rows // columns)
    inner, outer, inner_span, outer_span = split_elements(
        -(-target_groups // tiles), geometry, unroll
    )
    return ReduceKernel(
        reduction, geometry, row, form, tiles, inner, outer, inner_span, outer_span, 1
    )
