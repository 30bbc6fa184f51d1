"""The variants of an elementwise kernel; there is one for each kind of device."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

from portable_gpu.errors import BuildError
from portable_gpu.ops.elementwise.kernels import ElementwiseKernel, kernel_of, render
from portable_gpu.ops.elementwise.plan import elementwise_plan
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.ops.elementwise.transposed import transposed_copy, transposed_plan
from portable_gpu.ops.variant import Variant, bind_best, by_rule
from portable_gpu.runtime.build_message import of_expression
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, overlapped
from portable_gpu.tuning.table import TuningTable


def make_plan(engine: Engine, problem: ElementwiseProblem) -> Plan:
    """The plan of a problem whose output has elements.

    Raises:
        UnsupportedError: Double precision is needed and the device has none.
        BuildError: The driver refused the kernel; mostly the cause is in the expression.
    """
    try:
        return bind_best(engine, variants(problem, engine.target, engine.table))
    except BuildError as error:
        raise of_expression(error, "expression", problem.expression) from error


def variants(problem: ElementwiseProblem, target: Target, table: TuningTable) -> list[Variant]:
    """The variants of a problem: runs of elements on a CPU, tiles on other devices.

    A rule prefers the variant ``transposed`` for copies on a GPU between arrays that are contiguous
    along different axes: adjacent elements of one array are far apart in the other.
    """
    kernel = kernel_of(problem, target, table)
    costs, units = DeviceCosts.of("device", target), target.compute_units
    computing = prod(problem.shape) * problem.names_read / (costs.multiply_adds * units)
    name = "runs" if target.is_cpu else "tiles"
    by_elements = [
        Variant(
            name=name,
            estimate=overlapped(computing, problem.nbytes / (costs.bandwidth * units)),
            launches=1,
            why=_why(target, kernel),
            texts=lambda: [render(problem, target, kernel)],
            bind=partial(elementwise_plan, problem=problem, kernel=kernel),
            row=kernel.row,
            details={
                "groups": kernel.groups,
                "group size": kernel.form.group_size,
                "vector": kernel.form.vector,
                "rows": kernel.rows_each,
                "columns": kernel.columns_each,
            },
        )
    ]

    copy = transposed_copy(problem, target)
    if copy is None:
        return by_elements
    transposed = replace(
        by_elements[0],
        path="transposed",
        name="transposed",
        kind="transposed",
        why="the arrays are contiguous along different axes: tiles go through local memory",
        texts=lambda: [copy.specialization(target)],
        bind=partial(transposed_plan, problem=problem, copy=copy),
        row=None,
        details={"groups": copy.groups, "vectors": copy.vector_sizes},
    )
    return by_rule("copies", [transposed], by_elements, costs)


def _why(target: Target, kernel: ElementwiseKernel) -> str:
    if not target.is_cpu:
        return "each group has a tile of the rows and columns that the axes merge to"
    if kernel.form.vector > 1:
        return "each work-item has a run of elements, which are computed as vectors"
    return "each work-item has a run of elements, a loop that the compiler makes vectors of"
