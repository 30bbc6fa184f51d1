"""A gemv bound to shapes and strides: built, and ready to launch from any thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.errors import ArgumentError, DTypeError, UnsupportedError
from portable_gpu.ops.explain import Explanation
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.gemv.route import Route, choose
from portable_gpu.runtime.engine import Engine, QueueState
from portable_gpu.runtime.program import BUFFER, INT, LONG, UINT
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
        types = [BUFFER, *[LONG] * 3, BUFFER, *[LONG] * 2, BUFFER, *[LONG] * 4, scalar, scalar, INT]
        types += [UINT, LONG, BUFFER, BUFFER] if route.parts > 1 else []
        types += [LONG] if target.is_cpu else []
        name = f"gemv_{route.kernel}"
        self._kernel = engine.programs.kernel(route.specialization(target), name, types)
        self._shift_a, self._shift_x, self._shift_y = p.shifts
        self._a = p.a_out, p.a_sum
        self._x, self._y = p.x_step, p.y_step
        self._m, self._n = p.m, p.n
        self._last = (route.block_size,) if target.is_cpu else ()
        self._local = (route.group_size,)
        self._global = (route.blocks * route.parts * route.group_size,)

    def launch(
        self,
        state: QueueState,
        places: Sequence[Any],
        alpha: Any,
        beta: Any,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event:
        """Enqueue the product; returns the event of its end.

        Args:
            state: The queue.
            places: Buffer and offset (in elements) of a, of x and of y.
            alpha, beta: The factors; ``alpha == 0`` reads neither a nor x.
            wait_for: Events to wait for.
        """
        route = self.route
        a, a_offset, x, x_offset, y, y_offset = places
        arguments: tuple[Any, ...] = (
            a, a_offset + self._shift_a, *self._a, x, x_offset + self._shift_x, self._x,
            y, y_offset + self._shift_y, self._y, self._m, self._n if alpha else 0,
            alpha, beta, 1 if beta else 0,
        )  # fmt: skip
        if route.parts > 1:
            counters, partial = state.fold_space(route.blocks, route.partial_bytes)
            arguments += (route.parts, route.part_size, partial, counters)
        return self._kernel(
            state.queue, self._global, self._local, arguments + self._last, wait_for
        )


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
    if trans not in ("N", "T", "C"):
        raise ArgumentError(f"trans is {trans!r}; N, T and C are known")
    if np.dtype(dtype).kind == "b":
        raise DTypeError(f"{operation} takes no bool; convert it, for instance to int32")
    m, n = sizes
    route = choose(_contiguous(m, n, np.dtype(dtype), trans), target, table)
    return Explanation(
        operation=f"{operation} of {m} x {n} ({trans}) {dtype} on {target.facts.name}",
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
    )


def specializations(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
    """What products of typical shapes build for a target and a dtype: each kernel once or more."""
    table = TuningTable([])
    shapes = ((1 << 20, 32, "N"), (1 << 14, 4096, "N"), (8, 1 << 22, "N"), (4096, 4096, "T"))
    routes = [choose(_contiguous(m, n, dtype, t), target, table) for m, n, t in shapes]
    texts = [route.specialization(target) for route in routes]
    return list({spec.key: spec for spec in texts}.values())


def _contiguous(m: int, n: int, dtype: np.dtype[Any], trans: str) -> GemvProblem:
    elem = element(dtype)
    if trans == "N":
        return GemvProblem(elem, m, n, n, 1, 1, 1)
    return GemvProblem(elem, n, m, 1, n, 1, 1, trans == "C" and elem.complex)
