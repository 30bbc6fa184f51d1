"""How a tile of C leaves the matrix units: by elements, pairs, 16 bytes, or rows of a warp."""

from __future__ import annotations

from dataclasses import replace

from portable_gpu.ops.gemm.matrix.policy import MatrixPolicy, MfmaPolicy, WgmmaPolicy
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.targets import Target

# Columns of a product from which on a warp stores a row at a time: 32 side by side.
_WARP = 32
# Stages of the pipeline that are left at least.
_LEAST_STAGES = 3


def pairs(problem: GemmProblem, two_rows: bool) -> str:
    """Whether C's elements may be stored two at a time: along its ``rows``, ``columns``, or not.

    Args:
        problem: Whose C.
        two_rows: Whether a work-item of the kernel has two rows of a column side by side.
    """
    c = problem.c
    if c.aligned_bytes % (2 * c.elem.itemsize) or c.elem.complex:
        return ""
    if c.col == 1 and problem.n % 2 == 0:
        return "rows"
    return "columns" if two_rows and c.row == 1 and problem.m % 2 == 0 else ""


def wide(problem: GemmProblem) -> str:
    """Whether C's elements may be stored in 16 bytes: along its ``rows``, ``columns``, or not.

    Arrays that are read as well are read an element at a time.
    """
    c = problem.c
    if c.aligned_bytes < 16 or c.elem.complex or problem.reads_c or problem.extras:
        return ""
    if c.col == 1 and problem.n * c.elem.itemsize % 16 == 0:
        return "rows"
    return "columns" if c.row == 1 and problem.m * c.elem.itemsize % 16 == 0 else ""


def off_the_grid(problem: GemmProblem) -> bool:
    """Whether C's rows begin where work-items alone store them badly.

    That is where no pairs lie; and of 16-bit floats, where rows have a warp's columns, off the grid
    of 16 bytes.
    """
    c, n = problem.c, problem.n
    if c.col != 1 or c.elem.complex or c.reader is not None:
        return False
    if c.elem.itemsize == 2 and n >= _WARP and (c.aligned_bytes < 16 or n % 8):
        return True
    return not pairs(problem, two_rows=False)


def by_lines(problem: GemmProblem, policy: MatrixPolicy, target: Target) -> bool:
    """Whether rows of C that begin anywhere are stored by whole warps, by way of local memory."""
    if isinstance(policy, MfmaPolicy) or policy.tile_n % _WARP:
        return False
    room = target.static_local_mem - policy.local_bytes(problem.compute)
    return policy.scratch_bytes <= room and off_the_grid(problem)


def with_row_scratch(policy: WgmmaPolicy, problem: GemmProblem, target: Target) -> WgmmaPolicy:
    """The policy with fewer stages, if rows of C that are not aligned need the local memory.

    Single elements take four times as long.
    """
    if not off_the_grid(problem) or policy.tile_n % _WARP:
        return policy
    fewer = policy
    while not by_lines(problem, fewer, target) and fewer.stages > _LEAST_STAGES:
        fewer = replace(fewer, stages=fewer.stages - 1)
    return fewer if by_lines(problem, fewer, target) else policy
