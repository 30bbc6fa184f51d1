"""Attention and its gradients in register tiles, on GPUs whose local memory holds the tiles.

Arithmetic is float32, also for 16-bit floats, for which matrix units are faster where they apply.
"""

from __future__ import annotations

from portable_gpu.codegen.operators import SCALAR_BYTES
from portable_gpu.codegen.parameters import scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.attention.gradient import Side
from portable_gpu.ops.attention.plan import (
    RESULTS,
    SIZES,
    AttentionProblem,
    array_parameters,
    attention_plan,
    backward_operands,
    dropout_parameters,
    gradient_plan,
    operands,
    rounded_extent,
)
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target

_GROUP = 256  # work-items of a group
#: Own rows of a group, and rows of a tile of the other side; the fastest pair is the first.
_TILES = ((128, 128), (128, 64), (64, 64), (64, 32))
_GRADIENT_TILES = {"q": ((64, 64), (64, 32)), "k": ((128, 64), (64, 64), (64, 32))}
_UNIT = 64  # the extents of rows are rounded up to multiples of it
_MAX_EXTENT = 128  # elements of the longest row
_PADDING = 4  # elements after each row in local memory, so that its banks differ
_PAIR_PADDING = 8  # elements after each row of scores in local memory


def takes(problem: AttentionProblem, target: Target, side: Side | None = None) -> bool:
    """Whether register tiles compute a problem, or one side of its gradients."""
    p = problem
    return (
        not target.is_cpu
        and p.elem.real == "float"
        and 0 < max(p.dq, p.dv) <= _MAX_EXTENT
        and target.max_work_group_size >= _GROUP
        and bool(_fitting(p, target, side))
    )


def extents(problem: AttentionProblem) -> tuple[int, int]:
    """The extents of rows of q and of v that the kernel is compiled for."""
    return rounded_extent(problem.dq, _UNIT), rounded_extent(problem.dv, _UNIT)


def partition(problem: AttentionProblem, target: Target, side: Side | None) -> tuple[int, int]:
    """The own rows of a group, and the rows of a tile of the other side.

    These are the first tiles, of those that fit, with which every compute unit has a group, or else
    the tiles with the fewest rows.  At least one fits if :func:`takes` is true.
    """
    p, fitting = problem, _fitting(problem, target, side)
    count, heads = (p.keys, p.heads // p.shared) if side == "k" else (p.queries, p.heads)
    for rows, others in fitting:
        if -(-count // rows) * heads * p.batch >= target.compute_units:
            return rows, others
    return min(fitting, key=lambda tile: tile[0])


def local_bytes(problem: AttentionProblem, side: Side | None, rows: int, others: int) -> int:
    """Local memory of a group."""
    dq, width = extents(problem)[0], sum(extents(problem)) + 2 * _PADDING
    pairs = rows * (others + _PAIR_PADDING)
    if side is None:
        row_elements, statistics = rows * (dq + _PADDING), _GROUP + rows
    else:
        row_elements, statistics = rows * width, 2 * max(rows, others)
    return (row_elements + others * width + pairs + statistics) * SCALAR_BYTES[problem.elem.real]


def _fitting(problem: AttentionProblem, target: Target, side: Side | None) -> list[tuple[int, int]]:
    """The tiles that local memory holds."""
    return [
        tile
        for tile in (_TILES if side is None else _GRADIENT_TILES[side])
        if local_bytes(problem, side, *tile) <= target.static_local_mem
    ]


def specialization(problem: AttentionProblem, target: Target) -> Specialization:
    """The text and options of the kernel of attention."""
    p = problem
    (dq, dv), (rows, others) = extents(p), partition(p, target, None)
    parameters = [
        *array_parameters(p, operands(p), ("out", "sums")),
        *scalars("uint", *SIZES, "dq", "dv"),
        *scalars(p.elem.real, "scale"),
        *dropout_parameters(p),
    ]
    return specialize(
        "attention/tiles", target, {"attention_forward": parameters}, elem=p.elem, wide=p.wide,
        mask=p.mask, real=p.elem.real, causal=p.is_causal, drops=p.drops, DQ=dq, DV=dv, TM=rows,
        TN=others,
    )  # fmt: skip


def gradient_specialization(
    problem: AttentionProblem, target: Target, side: Side
) -> Specialization:
    """The text and options of the kernel of one side of the gradients."""
    p = problem
    (dq, dv), (rows, others) = extents(p), partition(p, target, side)
    parameters = [
        *array_parameters(p, backward_operands(p, side), RESULTS[side]),
        *scalars("uint", *SIZES, "dq_size", "dv_size"),
        *scalars(p.elem.real, "scale"),
        *dropout_parameters(p),
    ]
    of_queries = ("q", "dq_size", dq), ("grad", "dv_size", dv)
    of_keys = ("k", "dq_size", dq), ("v", "dv_size", dv)
    row_arrays, tile_arrays = (of_queries, of_keys) if side == "q" else (of_keys, of_queries)
    return specialize(
        "attention/tiles_backward", target, {"attention_backward": parameters}, elem=p.elem,
        wide=p.wide, mask=p.mask, real=p.elem.real, causal=p.is_causal, drops=p.drops, DQ=dq,
        DV=dv, side=side, row_arrays=row_arrays, tile_arrays=tile_arrays, TM=rows, TN=others,
    )  # fmt: skip


def attention_by_tiles(engine: Engine, problem: AttentionProblem) -> OneLaunch:
    """Return the plan of attention in register tiles; see :func:`attention_plan`."""
    rows, _ = partition(problem, engine.target, None)
    spec = specialization(problem, engine.target)
    return attention_plan(engine, problem, spec, rows, _GROUP)


def gradient_by_tiles(engine: Engine, problem: AttentionProblem, side: Side) -> OneLaunch:
    """Return the plan of one side in register tiles; see :func:`gradient_plan`."""
    rows, _ = partition(problem, engine.target, side)
    spec = gradient_specialization(problem, engine.target, side)
    return gradient_plan(engine, problem, side, spec, rows, _GROUP)
