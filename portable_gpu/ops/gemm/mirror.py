"""The second triangle of a product C of which only one triangle was computed.

It is filled with the mirror image of the first triangle, or with zeros.
"""

from __future__ import annotations

from dataclasses import replace

from portable_gpu.codegen.parameters import scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.gemm.operands import batch_parameters, extents, matrix_parameters, strides
from portable_gpu.ops.gemm.problem import GemmProblem, step
from portable_gpu.ops.groups import group_size
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.ops.variant import Variant
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts

_TILE = 32
_GRID = 65535  # the extent that every device takes in the third dimension


def _mirror_steps(engine: Engine, problem: GemmProblem, c: int) -> list[Step]:
    """Return the steps that fill the second triangle of operand ``c``."""
    problem = _along_rows(problem)
    spec = specialization_of(problem, engine.target)
    group, tiles = group_size(engine.target), -(-problem.n // _TILE)
    constants = {"n": problem.n, **strides({"c": problem.c}), **extents(problem.batch)}
    plans = [
        OneLaunch(
            engine, spec, "mirror", {**constants, "first_product": first}, ["c"],
            (tiles * group, tiles, min(_GRID, problem.batch_size - first)), (group, 1, 1),
        )
        for first in range(0, problem.batch_size, _GRID)
    ]  # fmt: skip
    plans[0].bytes = bytes_of(problem)
    return [Step(plan, (c,)) for plan in plans]


def specialization_of(problem: GemmProblem, target: Target) -> Specialization:
    """Render the kernel, for a problem whose C is contiguous along rows."""
    without_epilogue = replace(problem, epilogue=(), extras=())
    rank = len(problem.batch)
    parameters = [
        *scalars("long", "n", "first_product"),
        *matrix_parameters("c", problem.c.elem, rank, writes=True),
        *batch_parameters(rank),
    ]
    return specialize(
        "gemm/mirror",
        target,
        {"mirror": parameters},
        problem=without_epilogue,
        tile=_TILE,
        group=group_size(target),
    )


def bytes_of(problem: GemmProblem) -> int:
    """Return the bytes that are read and written."""
    rest = problem.m * (problem.m - 1) // 2 * problem.c.elem.itemsize * problem.batch_size
    return rest * (2 if problem.fills == "mirror" else 1)


def filled(triangle: Variant, problem: GemmProblem, target: Target) -> Variant:
    """Return a variant that computes a triangle of C, and then the rest of C.

    Args:
        triangle: The variant that computes the triangle.
        problem: The problem, which says how the rest is filled.
        target: The target.
    """
    costs = DeviceCosts.of("device", target)
    rest = "mirrored" if problem.fills == "mirror" else "zeros"
    operands = tuple(range(3 + len(problem.extras)))

    def bind(engine: Engine) -> Plan:
        product = Step(triangle.bind(engine), operands, takes_scalars=True)
        return Steps([product, *_mirror_steps(engine, problem, operands[-1])])

    def texts() -> list[Specialization]:
        return [*triangle.texts(), specialization_of(_along_rows(problem), target)]

    return replace(
        triangle,
        path=f"{triangle.path}, {rest}",
        name=f"{triangle.name}, {rest}",
        kind=f"{triangle.kind}, {rest}",
        estimate=triangle.estimate + bytes_of(problem) / (costs.bandwidth * target.compute_units),
        launches=triangle.launches + 1,
        why=f"{triangle.why}; of the {problem.triangle} triangle, then the rest: {rest}",
        texts=texts,
        bind=bind,
        decision=f"{triangle.decision}, {rest}" if triangle.decision else "",
    )


def _along_rows(problem: GemmProblem) -> GemmProblem:
    """Return the problem, or its transpose, whose C is contiguous along rows."""
    c = problem.c
    return problem if step(c.col, problem.n) <= step(c.row, problem.m) else problem.transpose()
