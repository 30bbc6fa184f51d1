"""Elementwise plans: an expression bound to shapes and strides."""

from __future__ import annotations

from math import prod

from portable_gpu.errors import UnsupportedError
from portable_gpu.ops.elementwise.kernels import ElementwiseKernel, render
from portable_gpu.ops.elementwise.numbers import Packing
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine


def elementwise_plan(
    engine: Engine, problem: ElementwiseProblem, kernel: ElementwiseKernel
) -> OneLaunch:
    """Return the plan of an expression bound to shapes and strides.

    The operands are the input arrays, then the output.  Its calls raise ArgumentError if a scalar
    does not fit the dtype computed in.

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
    return OneLaunch(
        engine, render(problem, target, kernel), "elementwise", constants,
        [f"{name}_data" for name in names], (kernel.groups * form.group_size,), (form.group_size,),
        offsets=[f"{name}_offset" for name in names], scalars=dict.fromkeys(problem.parts, 0),
        convert=Packing(problem.compute, problem.scalars), as_bits=problem.parts,
        flop=prod(problem.shape) * max(1, problem.names_read - 1), nbytes=problem.nbytes,
    )  # fmt: skip
