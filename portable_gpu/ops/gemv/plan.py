"""A gemv bound to shapes and strides: built, and ready to launch from any thread."""

from __future__ import annotations

from functools import partial
from typing import Any

from portable_gpu.ops.gemv.kernels import GemvKernel
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine


def gemv_plan(engine: Engine, problem: GemvProblem, kernel: GemvKernel) -> OneLaunch:
    """Return the plan of a problem that :meth:`GemvProblem.forwards` returned.

    The operands are a, x, the arrays of the epilogue and y; the scalars are alpha and beta.  With
    ``alpha == 0`` neither a nor x is read.
    """
    p, target = problem, engine.target
    constants: dict[str, int | None] = {
        "a_out": p.a_out, "a_sum": p.a_sum, "x_step": p.x_step, "y_step": p.y_step, "m": p.m,
    }  # fmt: skip
    extras = [f"e{k}" for k in range(len(p.finish.extras))] if p.finish else []
    for name, extra in zip(extras, p.finish.extras if p.finish else (), strict=True):
        constants |= {f"{name}_row": extra.row, f"{name}_col": extra.col}
    if p.vectors > 1:
        constants |= {"x_pitch": p.x_pitch, "y_pitch": p.y_pitch}
    if p.padded_vectors > 2:  # one or two vectors are not padded
        constants["vectors"] = p.vectors
    if kernel.context["split"]:
        constants |= {"parts": kernel.parts, "part_size": kernel.part_size}
        if kernel.parts == 1:
            constants |= {"partial": None, "counters": None}
    if target.is_cpu:
        constants["block_size"] = kernel.block_size
    shift_a, shift_x, shift_y = p.shifts
    return OneLaunch(
        engine, kernel.specialization(target), f"gemv_{kernel.template}", constants,
        ["a", "x", *extras, "y"], (kernel.blocks * kernel.parts * kernel.group_size,),
        (kernel.group_size,), starts=(shift_a, shift_x, *(0 for _ in extras), shift_y),
        scalars=SCALARS, convert=partial(kernel_scalars, p.n),
        counters=kernel.blocks if kernel.parts > 1 else 0, partials=kernel.partial_bytes,
        flop=p.flop, nbytes=p.bytes,
    )  # fmt: skip


#: The scalars of the kernels that differ from call to call, with their default values.
SCALARS = {"n": 0, "alpha": 1, "beta": 0, "reads_y": 0}


def kernel_scalars(n: int, scalars: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of :data:`SCALARS` for alpha and beta, and sums of n terms."""
    alpha, beta = scalars
    return n if alpha else 0, alpha, beta, 1 if beta else 0
