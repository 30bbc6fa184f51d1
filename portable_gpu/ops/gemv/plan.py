"""A gemv bound to shapes and strides: built, and ready to launch from any thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import one_of
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.errors import ArgumentError, DTypeError, UnsupportedError
from portable_gpu.ops.explanation import Explanation
from portable_gpu.ops.gemv.problem import TRANSPOSES, GemvProblem
from portable_gpu.ops.gemv.route import Route, choose
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.program import BUFFER, INT, LONG, UINT
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

_SCALARS: dict[str, Any] = {
    "float": np.float32,
    "double": np.float64,
    "uint": np.uint32,
    "ulong": np.uint64,
    "float2": np.complex64,
    "double2": np.complex128,
}


class GemvPlan:
    """``y = alpha * A x + beta * y`` for one problem.

    Attributes:
        route: The kernel, and how its work is dealt out.
        flop, bytes: The least that the product costs.
    """

    def __init__(self, engine: Engine, problem: GemvProblem) -> None:
        """Build the kernel.

        Raises:
            UnsupportedError: Double precision is needed and the device has none.
            BuildError: The driver refused the kernel.
        """
        target = engine.target
        if problem.elem.needs_fp64 and not target.fp64:
            raise UnsupportedError(
                f"gemv in {dtype_of(problem.elem.name)} needs cl_khr_fp64, which "
                f"{target.facts.name} lacks; convert the arrays to a smaller dtype"
            )
        p = problem.forwards()
        self.flop, self.bytes = p.flop, p.bytes
        self.route: Route = choose(p, target, engine.table)
        route = self.route
        scalar = _SCALARS[p.real if p.elem.components == 1 else f"{p.real}2"]
        parameters = [
            BUFFER, LONG, (LONG, p.a_out), (LONG, p.a_sum), BUFFER, LONG, (LONG, p.x_step),
            BUFFER, LONG, (LONG, p.y_step), (LONG, p.m), LONG, scalar, scalar, INT,
        ]  # fmt: skip
        if p.vectors > 1:
            parameters += [(LONG, p.x_pitch), (LONG, p.y_pitch)]
        if route.parts > 1:
            parameters += [(UINT, route.parts), (LONG, route.part_size), BUFFER, BUFFER]
        if target.is_cpu:
            parameters.append((LONG, route.block_size))
        self._launch = engine.programs.launch(
            route.specialization(target),
            f"gemv_{route.kernel}",
            parameters,
            (route.blocks * route.parts * route.group_size,),
            (route.group_size,),
        )
        self._shifts = p.shifts
        self._n = p.n

    def enqueue(
        self,
        alpha: Any,
        beta: Any,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """Enqueue the product; returns the event of its end, if any: see :meth:`QueueState.event`.

        Args:
            alpha, beta: The factors; ``alpha == 0`` reads neither a nor x.
            state: The queue.
            buffers, offsets: Of a, of x and of y; offsets in elements.
            wait_for: Events to wait for.
        """
        (a, x, y), (move_a, move_x, move_y) = offsets, self._shifts
        scalars = (
            a + move_a, x + move_x, y + move_y,
            self._n if alpha else 0, alpha, beta, 1 if beta else 0,
        )  # fmt: skip
        route = self.route
        if route.parts > 1:
            counters, partial = state.fold_space(route.blocks, route.partial_bytes)
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
    return explain_problem(named, _contiguous(m, n, np.dtype(dtype), trans), target, table)


def explain_problem(
    operation: str, problem: GemvProblem, target: Target, table: TuningTable
) -> Explanation:
    """The same of any problem; ``operation`` is what the explanation calls it."""
    route = choose(problem, target, table)
    return Explanation(
        operation=operation,
        path=route.kernel,
        kernels=(f"gemv/{route.kernel}",),
        policy=route.policy.policy.to_dict(),
        origin=route.policy.origin,
        why=route.why,
        details={
            "vector": route.context["V"],
            "group size": route.group_size,
            "blocks": route.blocks,
            "parts": route.parts,
        },
        evidence=route.policy.evidence,
    )


def specialization_of(problem: GemvProblem, target: Target) -> Specialization:
    """What a product builds by shipped policies."""
    return choose(problem, target, TuningTable.shipped()).specialization(target)


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
