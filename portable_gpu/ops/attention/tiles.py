"""The gradients of attention in register tiles, on GPUs with 86 KiB of local memory or more.

Arithmetic is float32; 16-bit floats take this way where matrix units do not compute them.
"""

from __future__ import annotations

from portable_gpu.codegen.operators import SCALAR_BYTES
from portable_gpu.codegen.parameters import scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.attention.gradient import Side
from portable_gpu.ops.attention.plan import (
    NO_DROPOUT,
    RESULTS,
    SIZES,
    AttentionProblem,
    array_parameters,
    backward_constants,
    backward_operands,
    dropout_parameters,
    mask_names,
    rounded_extent,
)
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target

_GROUP = 256  # work-items of a group
_ROWS = 64  # own rows of a group
_UNIT = 64  # the extents of rows are rounded up to multiples of it
_MAX_EXTENT = 128  # elements of the longest row
_PADDING = 4  # elements after each row in local memory, so that its banks differ


def takes(problem: AttentionProblem, target: Target) -> bool:
    """Whether register tiles compute a problem."""
    p = problem
    return (
        not target.is_cpu
        and p.elem.real == "float"
        and 0 < max(p.dq, p.dv) <= _MAX_EXTENT
        and target.max_work_group_size >= _GROUP
        and local_bytes(p) <= target.static_local_mem
    )


def extents(problem: AttentionProblem) -> tuple[int, int]:
    """The extents of rows of q and of v that the kernel is compiled for."""
    return rounded_extent(problem.dq, _UNIT), rounded_extent(problem.dv, _UNIT)


def _others(problem: AttentionProblem) -> int:
    """The rows of a tile of the other side."""
    return 64 if sum(extents(problem)) <= 2 * _UNIT else 32


def local_bytes(problem: AttentionProblem) -> int:
    """Local memory of a group."""
    others, width = _others(problem), sum(extents(problem)) + 2 * _PADDING
    statistics = 2 * _ROWS
    elements = (_ROWS + others) * width + _ROWS * (others + _PADDING) + statistics
    return elements * SCALAR_BYTES[problem.elem.real]


def specialization(problem: AttentionProblem, target: Target, side: Side) -> Specialization:
    """The text and options of the kernel of one side."""
    p = problem
    dq, dv = extents(p)
    parameters = [
        *array_parameters(p, backward_operands(p, side), RESULTS[side]),
        *scalars("uint", *SIZES, "dq_size", "dv_size"),
        *scalars(p.elem.real, "scale"),
        *dropout_parameters(p),
    ]
    of_queries = ("q", "dq_size", dq), ("grad", "dv_size", dv)
    of_keys = ("k", "dq_size", dq), ("v", "dv_size", dv)
    rows, tiles = (of_queries, of_keys) if side == "q" else (of_keys, of_queries)
    return specialize(
        "attention/tiles_backward", target, {"attention_backward": parameters}, elem=p.elem,
        wide=p.wide, mask=p.mask, real=p.elem.real, causal=p.is_causal, drops=p.drops, DQ=dq,
        DV=dv, side=side, own=rows, tiles=tiles, TM=_ROWS, TN=_others(p),
    )  # fmt: skip


class TilesGradientPlan(OneLaunch):
    """One side of the gradients in register tiles; its operands are those of ``BackwardPlan``."""

    def __init__(self, engine: Engine, problem: AttentionProblem, side: Side) -> None:
        """Build the kernel.

        Raises:
            BuildError: The driver refused it.
        """
        p, by_query = problem, side == "q"
        rows, heads = (p.queries, p.heads) if by_query else (p.keys, p.heads // p.shared)
        blocks = -(-rows // _ROWS)
        names = backward_operands(p, side)
        self.flop = (2 if by_query else 3) * p.flop
        self._scalars = NO_DROPOUT if p.drops else ()
        self._launch = engine.programs.launch(
            specialization(p, engine.target, side), "attention_backward",
            backward_constants(p, side, blocks), [f"{name}_in" for name in names],
            [*mask_names(p), *(f"{name}_offset" for name in names)],
            (p.batch * heads * blocks * _GROUP,), (_GROUP,),
        )  # fmt: skip
