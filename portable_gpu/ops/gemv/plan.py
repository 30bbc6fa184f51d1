"""A gemv bound to shapes and strides: built, and ready to launch from any thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import one_of
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError, DTypeError
from portable_gpu.ops.explanation import Explanation, explanation
from portable_gpu.ops.gemv.policy import real_bytes
from portable_gpu.ops.gemv.problem import TRANSPOSES, GemvProblem
from portable_gpu.ops.gemv.route import Route, routes
from portable_gpu.ops.variant import Variant, best_of, by_rule
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import Costs, DeviceCosts, multiply_adds, overlapped
from portable_gpu.tuning.table import TuningTable


class GemvPlan(Plan):
    """``y = alpha * A x + beta * y`` for one problem.

    Attributes:
        route: The kernel, and how its work is dealt out.
    """

    def __init__(self, engine: Engine, problem: GemvProblem, route: Route) -> None:
        """Build the kernel of a route of a problem that runs forwards.

        Raises:
            BuildError: The driver refused the kernel.
        """
        target = engine.target
        p = problem
        self.flop, self.bytes = p.flop, p.bytes
        self.route = route
        self.workspace_bytes = route.partial_bytes
        constants: dict[str, int | None] = {
            "a_out": p.a_out, "a_sum": p.a_sum, "x_step": p.x_step, "y_step": p.y_step, "m": p.m,
        }  # fmt: skip
        extras = [f"e{k}" for k in range(len(p.finish.extras))] if p.finish else []
        for name, extra in zip(extras, p.finish.extras if p.finish else (), strict=True):
            constants |= {f"{name}_row": extra.row, f"{name}_col": extra.col}
        buffers = ["a", "x", "y", *extras]
        if p.vectors > 1:
            constants |= {"x_pitch": p.x_pitch, "y_pitch": p.y_pitch}
        if p.padded_vectors > 2:
            constants["vectors"] = p.vectors
        if route.context["split"]:
            constants |= {"parts": route.parts, "part_size": route.part_size}
        if route.parts > 1:
            buffers += ["partial", "counters"]
        elif route.context["split"]:
            constants |= {"partial": None, "counters": None}
        if target.is_cpu:
            constants["block_size"] = route.block_size
        self._launch = engine.programs.launch(
            route.specialization(target),
            f"gemv_{route.kernel}",
            constants,
            buffers,
            [
                *("a_offset", "x_offset", "y_offset", "n", "alpha", "beta", "reads_y"),
                *(f"{name}_offset" for name in extras),
            ],
            (route.blocks * route.parts * route.group_size,),
            (route.group_size,),
        )
        self._shifts = p.shifts
        self._n = p.n

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`: of a, x, the epilogue's arrays and y, by alpha and beta.

        With ``alpha == 0`` neither a nor x is read.
        """
        buffer_a, buffer_x, *arrays, buffer_y = buffers
        a, x, *extras, y = offsets
        buffers = (buffer_a, buffer_x, buffer_y, *arrays)
        (move_a, move_x, move_y), (alpha, beta) = self._shifts, scalars
        scalars = (
            a + move_a, x + move_x, y + move_y,
            self._n if alpha else 0, alpha, beta, 1 if beta else 0,
            *extras,
        )  # fmt: skip
        route = self.route
        if route.parts > 1:
            counters, partial = state.counters_and_partials(route.blocks, route.partial_bytes)
            buffers = (*buffers, partial, counters)
        return self._launch(state, buffers, scalars, wait_for)


def explain(
    operation: str,
    sizes: Sequence[int],
    dtype: np.dtype[Any],
    target: Target,
    table: TuningTable,
    *,
    trans: str = "N",
) -> Explanation:
    """Which kernel and policy the product of a C-ordered (m, n) array takes, and why.

    No device is needed.

    Raises:
        ArgumentError: There are not two sizes above 0, or ``trans`` is unknown.
        DTypeError: ``dtype`` is bool.
    """
    if len(sizes) != 2 or min(sizes) < 1:
        raise ArgumentError(f"{operation} takes the sizes m and n, from 1 on; got {tuple(sizes)}")
    one_of(trans, TRANSPOSES, "trans")
    if np.dtype(dtype).kind == "b":
        raise DTypeError(f"{operation} takes no bool; convert it, for instance to int32")
    m, n = sizes
    named = f"{operation} of {m} x {n} ({trans}) {dtype} on {target.facts.name}"
    problem = _contiguous(m, n, np.dtype(dtype), trans)
    return explanation(named, variants(problem, target, table), target)


@dataclass(frozen=True)
class GemvCosts(Costs):
    """What a product costs beside its traffic.

    Attributes:
        start: Seconds of a product of next to nothing.
        efficiency: Of the rate of the best tiles, that multiply-adds with several vectors reach.
        load: Seconds that a work-item waits for the elements that it loads at once.
        wide: That of elements of 64 bits, over that of others.
        fold: Seconds in which one sum gets from a work-item to another.
        apart: Of several vectors whose elements lanes take out of a line of memory each: a factor
            of the time.
        interleaved: The same where lanes take an element of each vector out of one line.
    """

    start: float
    efficiency: float
    load: float
    wide: float
    fold: float
    apart: float
    interleaved: float


def variants(problem: GemvProblem, target: Target, table: TuningTable) -> list[Variant]:
    """Every way to compute a product that is not empty."""
    p = problem.forwards()
    if not target.is_cpu:
        return [_variant(p, route, target) for route in routes(p, target, table)]
    # A rule of CPUs, whose estimates know strides and no latency.
    along: list[Variant] = []  # kernels that go along the axis where A is more contiguous
    across: list[Variant] = []
    for route in routes(p, target, table):
        (along if route.by_rows == p.by_rows else across).append(_variant(p, route, target))
    costs = DeviceCosts.of("device", target)
    return by_rule("the axis along which A is read", along, across, costs)


def _variant(p: GemvProblem, route: Route, target: Target) -> Variant:
    # A group alone moves as much as two of those that fill the device.
    units = target.compute_units
    busy = min(units, max(units // 4, 2 * route.blocks * route.parts, 1))
    device, costs = DeviceCosts.of("device", target), GemvCosts.of("gemv", target)
    products = p.m * p.n * p.padded_vectors * multiply_adds(p.elem)
    computing = products / (units * device.multiply_adds * costs.efficiency)
    moving = p.bytes / (device.bandwidth * busy) * route.slowdown
    waiting = route.loads * costs.load * (costs.wide if real_bytes(p.elem) > 4 else 1.0)
    summing = overlapped(overlapped(computing, moving), waiting)
    return Variant(
        path=route.kernel,
        name=route.kernel,
        kind=route.kernel,
        estimate=summing + costs.start + route.folds * costs.fold,
        launches=1,
        why=route.why,
        texts=lambda: [route.specialization(target)],
        bind=lambda engine: GemvPlan(engine, p, route),
        policy=route.policy.policy,
        origin=route.policy.origin,
        evidence=route.policy.evidence,
        details={
            "vector": route.context["V"],
            "group size": route.group_size,
            "blocks": route.blocks,
            "parts": route.parts,
        },
    )


def specialization_of(problem: GemvProblem, target: Target) -> Specialization:
    """What a product builds by shipped policies."""
    best = best_of(variants(problem, target, TuningTable.shipped()), target)
    return best.texts()[0]


def specializations(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
    """What products of typical shapes build for a target and a dtype: each kernel once or more."""
    shapes = (
        (1 << 20, 32, "N"),
        (1 << 14, 1024, "N"),
        (1 << 14, 4096, "N"),
        (8, 1 << 22, "N"),
        (4096, 4096, "T"),
    )
    texts = [specialization_of(_contiguous(m, n, dtype, t), target) for m, n, t in shapes]
    return list({spec.key: spec for spec in texts}.values())


def _contiguous(m: int, n: int, dtype: np.dtype[Any], trans: str) -> GemvProblem:
    elem = element(dtype)
    if trans == "N":
        return GemvProblem(elem, m, n, n, 1, 1, 1)
    return GemvProblem(elem, n, m, 1, n, 1, 1, trans == "C" and elem.complex)
