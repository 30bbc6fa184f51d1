"""The kernels of matrix-vector products on a CPU, for a problem and a policy."""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.ops.caches import L2_BYTES, PAGE_BYTES
from portable_gpu.ops.gemv.kernels import (
    GemvKernel,
    base_context,
    ceil_div,
    partition,
    slowdown_of,
)  # fmt: skip
from portable_gpu.ops.gemv.policy import ColumnPolicy, RowPolicy, real_bytes
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.targets import Target
from portable_gpu.tuning.figures import Figures
from portable_gpu.tuning.table import PolicyRow


@dataclass(frozen=True)
class GemvCpuFigures(Figures):
    """The thresholds of the kernels on a CPU.

    Attributes:
        short_row: If a row has more bytes than this, and fits into a page, rows are read one after
            the other; the hardware does not prefetch several such rows at a time.
        parts: The maximum of parts of a block; one thread adds them.
        written_out: The maximum of vectors of a row for which the loop is unrolled completely.
    """

    short_row: int
    parts: int
    written_out: int


def cpu_rows(p: GemvProblem, target: Target, row: PolicyRow[RowPolicy]) -> GemvKernel:
    """Return the kernel that sums rows; several rows at a time share the loads of x."""
    policy, figures = row.policy, GemvCpuFigures.of("gemv on CPUs", target)
    unit = p.a_sum == 1
    V, R = policy.vector if unit else 1, policy.rows
    target_groups = _groups(p, target, policy)
    block = ceil_div(ceil_div(p.m, min(target_groups, ceil_div(p.m, R))), R) * R
    blocks = ceil_div(p.m, block)
    enough = min(target_groups // blocks, p.n // (64 * V)) if 2 * blocks <= target_groups else 1
    parts, part_size = partition(p.n, enough, V)
    nbytes = p.n * p.elem.itemsize
    is_near = p.m * nbytes <= L2_BYTES
    whole = p.n // V if unit and p.n % V == 0 and p.n // V <= figures.written_out else 0
    side_by_side = not whole and (
        not unit or is_near or not figures.short_row < nbytes <= PAGE_BYTES
    )
    context = {
        **base_context(p, V, R, unit, parts > 1), "U": policy.unroll, "side_by_side": side_by_side,
        "tail": "none" if V == 1 or whole else "across" if p.n < V else "inside",
        "whole": whole,
        "x_unit": p.x_step == 1, "y_unit": p.y_step == 1,
    }  # fmt: skip
    nbytes = parts * p.m * p.elem.components * real_bytes(p.elem) if parts > 1 else 0
    order = "side by side" if side_by_side else "one after the other"
    return GemvKernel(
        template="cpu_rows",
        context=context,
        group_size=1,
        blocks=blocks,
        parts=parts,
        part_size=part_size,
        block_size=block,
        partial_bytes=nbytes,
        row=row,
        why=(
            f"a CPU, and A lies along the summed axis: {R} row(s) {order}, vectors of {V}, "
            f"{blocks} block(s) of rows in {parts} part(s)"
        ),
        slowdown=slowdown_of(p, by_rows=True),
    )


def cpu_columns(p: GemvProblem, target: Target, row: PolicyRow[ColumnPolicy]) -> GemvKernel:
    """Return the kernel that adds rows of A to a block of outputs, whose sums fit into L1."""
    policy = row.policy
    unit = p.a_out == 1
    V, U, R = (policy.vector, policy.unroll, policy.rows) if unit else (1, 1, policy.rows)
    if unit and p.m > U * V and p.m * p.elem.itemsize <= PAGE_BYTES:
        R, U = 1, 4 * U
    max_block = policy.block_bytes // (p.elem.components * real_bytes(p.elem))
    target_groups = _groups(p, target, policy)
    # A block of a row should be long enough for the hardware's prefetch: 2 KiB.
    short = max(V * U, 2048 // p.elem.itemsize)
    blocks = max(
        ceil_div(p.m, max_block),
        min(
            ceil_div(target_groups, GemvCpuFigures.of("gemv on CPUs", target).parts),
            ceil_div(p.m, short),
        ),
    )
    block = min(max_block, ceil_div(ceil_div(p.m, blocks), V) * V)
    blocks = ceil_div(p.m, block)
    enough = min(target_groups // blocks, p.n // (8 * R)) if 2 * blocks <= target_groups else 1
    parts, part_size = partition(p.n, enough, R)
    context = {
        **base_context(p, V, R, unit, True), "U": U, "B": max_block,
        "widths": [V >> k for k in range(V.bit_length())], "y_unit": p.y_step == 1,
    }  # fmt: skip
    nbytes = parts * p.m * p.elem.components * real_bytes(p.elem) if parts > 1 else 0
    return GemvKernel(
        template="cpu_columns",
        context=context,
        group_size=1,
        blocks=blocks,
        parts=parts,
        part_size=part_size,
        block_size=block,
        partial_bytes=nbytes,
        row=row,
        why=(
            f"a CPU, and A lies along the outputs: {R} row(s) of A at a time, "
            f"{U} vector(s) of {V}, {blocks} block(s) of outputs in {parts} part(s)"
        ),
        slowdown=slowdown_of(p, by_rows=False),
    )


def _groups(p: GemvProblem, target: Target, policy: RowPolicy | ColumnPolicy) -> int:
    """Return the best number of work-groups: 1 for one thread, else enough to balance threads."""
    if target.compute_units == 1:
        return 1
    max_groups = policy.groups_per_unit * target.compute_units
    return max(1, min(max_groups, p.m * p.n * p.elem.itemsize // policy.grain))
