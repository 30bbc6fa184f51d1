"""A gemv bound to shapes and strides: built, and ready to launch from any thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.ops.gemv.kernels import GemvKernel
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState


class GemvPlan(Plan):
    """``y = alpha * A x + beta * y`` for one problem.

    Attributes:
        kernel: The kernel, and the partition of its work.
    """

    def __init__(self, engine: Engine, problem: GemvProblem, kernel: GemvKernel) -> None:
        """Build a kernel of a problem that :meth:`GemvProblem.forwards` returned.

        Raises:
            BuildError: The driver refused the kernel.
        """
        target = engine.target
        p = problem
        self.flop, self.bytes = p.flop, p.bytes
        self.kernel = kernel
        self.workspace_bytes = kernel.partial_bytes
        constants: dict[str, int | None] = {
            "a_out": p.a_out, "a_sum": p.a_sum, "x_step": p.x_step, "y_step": p.y_step, "m": p.m,
        }  # fmt: skip
        extras = [f"e{k}" for k in range(len(p.finish.extras))] if p.finish else []
        for name, extra in zip(extras, p.finish.extras if p.finish else (), strict=True):
            constants |= {f"{name}_row": extra.row, f"{name}_col": extra.col}
        buffers = ["a", "x", "y", *extras]
        if p.vectors > 1:
            constants |= {"x_pitch": p.x_pitch, "y_pitch": p.y_pitch}
        if p.padded_vectors > 2:  # one or two vectors are not padded
            constants["vectors"] = p.vectors
        if kernel.context["split"]:
            constants |= {"parts": kernel.parts, "part_size": kernel.part_size}
        if kernel.parts > 1:
            buffers += ["partial", "counters"]
        elif kernel.context["split"]:
            constants |= {"partial": None, "counters": None}
        if target.is_cpu:
            constants["block_size"] = kernel.block_size
        self._launch = engine.programs.launch(
            kernel.specialization(target),
            f"gemv_{kernel.template}",
            constants,
            buffers,
            [
                *("a_offset", "x_offset", "y_offset", "n", "alpha", "beta", "reads_y"),
                *(f"{name}_offset" for name in extras),
            ],
            (kernel.blocks * kernel.parts * kernel.group_size,),
            (kernel.group_size,),
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
        """See :meth:`Plan.enqueue`.

        The operands are a, x, the arrays of the epilogue and y; the scalars are alpha and beta.

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
        kernel = self.kernel
        if kernel.parts > 1:
            counters, partial = state.counters_and_partials(kernel.blocks, kernel.partial_bytes)
            buffers = (*buffers, partial, counters)
        return self._launch(state, buffers, scalars, wait_for)
