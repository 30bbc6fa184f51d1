"""How a tile of C is stored: by single elements, pairs, 16 bytes, or rows of whole warps."""

from __future__ import annotations

from dataclasses import replace

from portable_gpu.ops.gemm.matrix.format import column_chunks
from portable_gpu.ops.gemm.matrix.policy import MatrixPolicy, MfmaPolicy, MmaPolicy, WgmmaPolicy
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.targets import Target

# The lanes of a warp, which store adjacent columns of a row.
_WARP = 32
# The minimum number of stages of the pipeline.
_MIN_STAGES = 3


def pairs(problem: GemmProblem, two_rows: bool) -> str:
    """Return whether C is stored in pairs of elements: of ``rows``, of ``columns``, or not ("").

    Args:
        problem: The problem.
        two_rows: Whether a work-item of the kernel has adjacent rows of a column.
    """
    c = problem.c
    if c.aligned_bytes % (2 * c.elem.itemsize) or c.elem.complex:
        return ""
    if c.col == 1 and problem.n % 2 == 0:
        return "rows"
    return "columns" if two_rows and c.row == 1 and problem.m % 2 == 0 else ""


def wide(problem: GemmProblem) -> str:
    """Return whether C is stored in chunks: 16 bytes of ``rows``, 8 of ``columns``, or not ("").

    It is not if C or a matrix is read at the same time, because these are read by elements.
    """
    c = problem.c
    if c.elem.complex or problem.reads_c:
        return ""
    if any(extra.reader or (extra.row and extra.col) for extra in problem.extras):
        return ""
    if c.col == 1 and c.aligned_bytes >= 16 and problem.n * c.elem.itemsize % 16 == 0:
        return "rows"
    return "columns" if column_chunks(problem) else ""


def has_unaligned_rows(problem: GemmProblem) -> bool:
    """Whether rows of C are not aligned, so that each work-item would store single elements.

    They are not if elements cannot be stored in pairs; and 16-bit floats also if they cannot be
    stored in 16 bytes, and rows have at least the columns of a warp.
    """
    c, n = problem.c, problem.n
    if c.col != 1 or c.elem.complex or c.reader is not None:
        return False
    if c.elem.itemsize == 2 and n >= _WARP and (c.aligned_bytes < 16 or n % 8):
        return True
    return not pairs(problem, two_rows=False)


def by_lines(problem: GemmProblem, policy: MatrixPolicy, target: Target) -> bool:
    """Whether unaligned rows of C are stored by whole warps, after an exchange in local memory."""
    return has_unaligned_rows(problem) and lines_fit(problem, policy, target)


def lines_fit(problem: GemmProblem, policy: MatrixPolicy, target: Target) -> bool:
    """Whether whole warps can store rows of C, if its elements are adjacent in rows."""
    return problem.c.col == 1 and has_scratch(problem, policy, target)


def has_scratch(problem: GemmProblem, policy: MatrixPolicy, target: Target) -> bool:
    """Whether there is local memory for whole warps to exchange the elements of rows of C."""
    c = problem.c
    if isinstance(policy, MfmaPolicy) or policy.tile_n % _WARP:
        return False
    if c.elem.complex or c.reader is not None:
        return False
    free = target.static_local_mem - policy.local_bytes(problem.compute)
    return policy.scratch_bytes <= free


#: The kinds of stores of C of which a text of ``mma`` has several; an argument selects one.
STORE_KINDS = ("rows", "lines", "columns", "elements")


def store_kinds(problem: GemmProblem, policy: MatrixPolicy, target: Target) -> tuple[str, ...]:
    """Return the kinds of stores of C that a text of ``mma`` has; empty if it has only one.

    Aligned rows are stored in 16 bytes, others by whole warps (``lines``), aligned columns in pairs
    and everything else by elements.  If elements take more than a multiplication, a text has only
    those of rows.  It has one kind if the sums take half of the registers, because several kinds
    together spill a few more bytes.
    """
    c = problem.c
    if not isinstance(policy, MmaPolicy) or 2 * policy.sums >= target.registers:
        return ()
    if problem.triangle or not has_scratch(problem, policy, target):
        return ()
    if not (problem.reads_c or problem.epilogue):
        return STORE_KINDS
    return STORE_KINDS[:2] if c.col == 1 else ()


def store_kind(problem: GemmProblem) -> int:
    """Return the number in :data:`STORE_KINDS` of the stores of a problem."""
    pair = pairs(problem, two_rows=True)
    if problem.c.col == 1:
        return STORE_KINDS.index("rows" if pair == "rows" else "lines")
    return STORE_KINDS.index("columns" if pair == "columns" else "elements")


def with_row_scratch(policy: WgmmaPolicy, problem: GemmProblem, target: Target) -> WgmmaPolicy:
    """Return the policy with fewer stages, if unaligned rows of C need the local memory.

    Stores of single elements would take four times as long.
    """
    if not has_unaligned_rows(problem) or policy.tile_n % _WARP:
        return policy
    fewer = policy
    while not by_lines(problem, fewer, target) and fewer.stages > _MIN_STAGES:
        fewer = replace(fewer, stages=fewer.stages - 1)
    return fewer if by_lines(problem, fewer, target) else policy
