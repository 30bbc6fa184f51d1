"""Elementwise plans: an expression bound to shapes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import pyopencl as cl

from portable_gpu.errors import UnsupportedError
from portable_gpu.ops.elementwise.kernels import ElementwiseKernel, render
from portable_gpu.ops.elementwise.numbers import Packing
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState


class ElementwisePlan(Plan):
    """An expression bound to shapes and strides, built and ready to launch from any thread.

    Attributes:
        kernel: The axes, the policy, the form and the partition that the kernel was built for.
    """

    def __init__(
        self, engine: Engine, problem: ElementwiseProblem, kernel: ElementwiseKernel
    ) -> None:
        """Build the kernel.

        Raises:
            UnsupportedError: Double precision is needed and the device has none.
            BuildError: The driver refused the kernel; mostly the cause is in the expression.
        """
        target = engine.target
        if problem.needs_fp64 and not target.fp64:
            raise UnsupportedError(
                f"elementwise needs double precision, which {target.facts.name} lacks (no "
                "cl_khr_fp64); use arrays of float32, or Python scalars"
            )
        self.kernel = kernel
        self.flop = prod(problem.shape) * max(1, problem.names_read - 1)
        self.bytes = problem.nbytes
        form, axes = kernel.form, kernel.axes
        names = [*(f"a{k}" for k in range(len(problem.inputs))), "out"]
        constants = {
            "parts": kernel.parts,
            "rows_each": kernel.rows_each, "columns_each": kernel.columns_each,
            "rows": kernel.rows, "columns": axes[-1].size,
        }  # fmt: skip
        for k, axis in enumerate(axes[:-1]):
            constants[f"outer{k}_size"] = axis.size
            for name, step in zip(names, axis.strides, strict=True):
                constants[f"{name}_outer{k}"] = step
        for name, step in zip(names, axes[-1].strides, strict=True):
            constants[f"{name}_stride"] = step
        self._bits = Packing(problem.compute, problem.scalars)
        self._launch = engine.programs.launch(
            render(problem, target, kernel),
            "elementwise",
            constants,
            [f"{name}_data" for name in names],
            [*(f"{name}_offset" for name in names), *problem.parts],
            (kernel.groups * form.group_size,),
            (form.group_size,),
            as_bits=problem.parts,
        )

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`; the buffers are the input arrays, then the output.

        Raises:
            ArgumentError: A scalar does not fit the dtype computed in.
        """
        if scalars:
            offsets += self._bits(scalars)
        return self._launch(state, buffers, offsets, wait_for)
