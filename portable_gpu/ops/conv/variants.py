"""Every way to compute a convolution or its gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from portable_gpu.arguments import one_of
from portable_gpu.ops.conv.direct import DirectConvPlan, DirectKernel, direct_kernel
from portable_gpu.ops.conv.problem import ConvProblem
from portable_gpu.ops.conv.weight import WeightKernel, WeightPlan, weight_kernel
from portable_gpu.ops.variant import Variant, bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, multiply_adds, overlapped

ALGORITHMS = ("auto", "direct")


def check_algorithm(algo: str) -> str:
    """Return ``algo`` if it is known.

    Raises:
        ArgumentError, ArgumentTypeError: It is not.
    """
    return one_of(algo, ALGORITHMS, "algo")


def make_plan(engine: Engine, problem: ConvProblem, algo: str, limit: int | None) -> Plan:
    """Return the plan of a problem whose result has elements."""
    key = problem, algo, limit
    return engine.plan(key, lambda: bind_best(engine, variants(problem, engine.target)))


def variants(problem: ConvProblem, target: Target) -> list[Variant]:
    """Every way to compute a problem whose result has elements."""
    return [_direct(problem, target)]


def _direct(problem: ConvProblem, target: Target) -> Variant:
    """One kernel of sums, without workspace."""
    device = DeviceCosts.of("device", target)
    products = problem.flop // 2 * multiply_adds(problem.elem)
    units = target.compute_units
    computing = products / (units * device.multiply_adds) / _EFFICIENCY
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


#: Of the rate of the best tiles of products, that sums with few shared loads reach.
_EFFICIENCY = 0.1
