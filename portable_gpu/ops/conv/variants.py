"""Every way to compute a convolution or its gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from portable_gpu.arguments import one_of
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.conv import im2col, implicit
from portable_gpu.ops.conv.direct import DirectConvPlan, DirectKernel, direct_kernel
from portable_gpu.ops.conv.estimates import ConvCosts
from portable_gpu.ops.conv.im2col import workspace_limit
from portable_gpu.ops.conv.problem import ConvProblem
from portable_gpu.ops.conv.weight import WeightKernel, WeightPlan, weight_kernel
from portable_gpu.ops.variant import Variant, bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, multiply_adds, overlapped
from portable_gpu.tuning.table import TuningTable

ALGORITHMS = ("auto", "direct", "im2col", "implicit_gemm")


def check_algorithm(algo: str) -> str:
    """Return ``algo`` if it is known.

    Raises:
        ArgumentError, ArgumentTypeError: It is not.
    """
    return one_of(algo, ALGORITHMS, "algo")


def make_plan(engine: Engine, problem: ConvProblem, algo: str, limit: int | None) -> Plan:
    """Return the plan of a problem whose result has elements.

    Raises:
        ArgumentError: The named algorithm does not take the problem.
    """
    key = problem, algo, limit
    target, table = engine.target, engine.table
    return engine.plan(
        key, lambda: bind_best(engine, of_algorithm(problem, target, table, algo, limit))
    )


def of_algorithm(
    problem: ConvProblem, target: Target, table: TuningTable, algo: str, limit: int | None
) -> list[Variant]:
    """Return the variants that an algorithm's name stands for.

    Raises:
        ArgumentError: There are none.
    """
    candidates = variants(problem, target, table, limit)
    if algo == "auto" or not (problem.x_elements and problem.y_elements):
        return candidates  # what sums nothing needs no product
    named = [variant for variant in candidates if variant.path == algo]
    if not named:
        raise ArgumentError(
            f"algo is {algo!r}, which does not take this convolution: it needs workspace within "
            f"workspace_limit, {workspace_limit(limit, target)} bytes here; im2col needs axes of "
            f"space and weights that are contiguous in memory, implicit_gemm a GPU"
        )
    return named


def variants(
    problem: ConvProblem, target: Target, table: TuningTable, limit: int | None = None
) -> list[Variant]:
    """Every way to compute a problem whose result has elements."""
    max_bytes = workspace_limit(limit, target)
    gathered = implicit.variants(problem, target, table)
    return [
        _direct(problem, target),
        *im2col.variants(problem, target, table, limit),
        *(variant for variant in gathered if variant.details["workspace"] <= max_bytes),
    ]


def _direct(problem: ConvProblem, target: Target) -> Variant:
    """One kernel of sums, without workspace."""
    device = DeviceCosts.of("device", target)
    products = problem.flop // 2 * multiply_adds(problem.elem)
    units = target.compute_units
    rate = ConvCosts.of("convolutions", target).direct_rate
    computing = products / (units * device.multiply_adds) / rate
    moving = problem.bytes / (device.bandwidth * units)
    kernel: WeightKernel | DirectKernel
    bind: Callable[[Engine], Plan]
    if problem.direction == "weight":
        kernel, bind = weight_kernel(problem, target), partial(WeightPlan, problem=problem)
    else:
        kernel, bind = direct_kernel(problem, target), partial(DirectConvPlan, problem=problem)
    return Variant(
        path="direct",
        name="direct",
        kind="direct",
        estimate=overlapped(computing, moving),
        launches=1,
        why="sums without workspace, of any strides",
        texts=lambda: [kernel.specialization(target)],
        bind=bind,
        details={
            "taps": prod(problem.w_size), "flop": problem.flop, "bytes": problem.bytes,
            "workspace": kernel.partial_bytes,
        },
    )  # fmt: skip
