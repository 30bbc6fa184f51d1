"""The choice for a problem, without a device."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pytest

from portable_gpu.codegen import specialization
from portable_gpu.ops.gemm.tiling import Tiling
from portable_gpu.ops.gemv.kernels import GemvKernel
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.gemv.variants import kernels
from portable_gpu.ops.gemv.variants import variants as gemv_variants
from portable_gpu.ops.reduce.kernels import ReduceKernel
from portable_gpu.ops.reduce.problem import Problem
from portable_gpu.ops.reduce.variants import variants as reduce_variants
from portable_gpu.ops.variant import best_of
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

NO_ROWS = TuningTable([])


def render_nothing(patch: pytest.MonkeyPatch) -> None:
    """Let a program's text be its name and policy: templates take most of the time."""
    patch.setattr(
        specialization, "render", lambda name, **context: f"{name} {context.get('policy')}"
    )
    patch.setattr(specialization, "_with_structs", lambda rendered, _: rendered)


def least(estimates: Iterable[tuple[float, Tiling]]) -> Tiling:
    """The choice with the least estimate; the first of equals."""
    return min(estimates, key=lambda pair: pair[0])[1]


def gemv_kernel(problem: GemvProblem, target: Target, table: TuningTable = NO_ROWS) -> GemvKernel:
    """The kernel that a matrix-vector product takes."""
    variant = best_of(gemv_variants(problem, target, table), target).name
    return next(
        item for item in kernels(problem.forwards(), target, table) if item.template == variant
    )


def reduce_kernel(problem: Problem, target: Target) -> ReduceKernel:
    """The kernel that a reduction of one kernel takes by formula."""
    bind = best_of(reduce_variants(problem, target, NO_ROWS), target).bind
    assert isinstance(bind, partial)
    kernel: ReduceKernel = bind.keywords["kernel"]
    return kernel
