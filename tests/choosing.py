"""What is chosen for a problem, without a device."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from portable_gpu.ops.gemm.choice import GemmChoice
from portable_gpu.ops.gemv.plan import variants as gemv_variants
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.gemv.route import Route as GemvRoute
from portable_gpu.ops.gemv.route import routes
from portable_gpu.ops.reduce.plan import Route as ReduceRoute
from portable_gpu.ops.reduce.problem import Problem
from portable_gpu.ops.reduce.variants import variants as reduce_variants
from portable_gpu.ops.variant import best_of
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

NO_ROWS = TuningTable([])


def least(estimates: Iterable[tuple[float, GemmChoice]]) -> GemmChoice:
    """The choice with the least estimate; the first of equals."""
    return min(estimates, key=lambda pair: pair[0])[1]


def gemv_route(problem: GemvProblem, target: Target, table: TuningTable = NO_ROWS) -> GemvRoute:
    """The route that a matrix-vector product takes."""
    way = best_of(gemv_variants(problem, target, table), target).name
    return next(one for one in routes(problem.forwards(), target, table) if one.kernel == way)


def reduce_route(problem: Problem, target: Target) -> ReduceRoute:
    """The route that a reduction of one kernel takes by formula."""
    bind = best_of(reduce_variants(problem, target, NO_ROWS), target).bind
    assert isinstance(bind, partial)
    route: ReduceRoute = bind.keywords["route"]
    return route
