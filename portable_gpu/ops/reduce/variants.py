"""Every way to compute a reduction, and the plan of the best."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

from portable_gpu.codegen.axes import Axis
from portable_gpu.codegen.reductions import Reduction
from portable_gpu.errors import BuildError, UnsupportedError
from portable_gpu.ops.reduce.gpu_kernels import gpu_columns, gpu_rows
from portable_gpu.ops.reduce.kernels import ReduceKernel, cpu_columns, cpu_rows, is_unit
from portable_gpu.ops.reduce.plan import reduce_plan
from portable_gpu.ops.reduce.policy import ReducePolicy
from portable_gpu.ops.reduce.problem import Geometry, Problem, analyse, centre_dtype
from portable_gpu.ops.variant import Variant, best_of, bind_best, by_rule
from portable_gpu.runtime.build_message import of_expression
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps, Temporary
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, stride_waste
from portable_gpu.tuning.table import PolicyRow, TuningTable


def make_plan(engine: Engine, problem: Problem) -> Plan:
    """Build the plan of a problem with a result that is not empty.

    Raises:
        UnsupportedError: Double precision is needed and the device has none.
        BuildError: The driver refused a kernel.
    """
    require_support(problem, engine.target)
    try:
        return bind_best(engine, variants(problem, engine.target, engine.table))
    except BuildError as error:
        request = problem.request
        if request.op is None or request.map is None:
            raise
        what = f"map {request.map.expression!r} or operator"
        raise of_expression(error, what, request.op.combine) from error


def require_support(problem: Problem, target: Target) -> None:
    """Raise UnsupportedError where a pass needs double precision that the target lacks."""
    moment = problem.request.name == "moment"
    for item in (problem.of_means(), problem.about_means()) if moment else (problem,):
        if item.reduction(target).needs_fp64 and not target.fp64:
            raise UnsupportedError(
                f"{problem.request.name} needs double precision, which {target.facts.name} lacks "
                "(no cl_khr_fp64); use float32 or complex64, or dtype=float32"
            )


def variants(problem: Problem, target: Target, table: TuningTable) -> list[Variant]:
    """Every way to compute a reduction: rows or columns; a variance in one pass or in two."""
    if problem.request.name != "moment":
        return _passes(problem, target, table)
    means = best_of(_passes(problem.of_means(), target, table), target)
    result = [
        _after_means(problem, means, squares)
        for squares in _passes(problem.about_means(), target, table)
    ]
    if problem.one_pass(target):
        result += [_one_pass(squares) for squares in _passes(problem.about_first(), target, table)]
    return result


def _passes(problem: Problem, target: Target, table: TuningTable) -> list[Variant]:
    """Return the variants of one kernel.

    A rule prefers rows if the folded axis is contiguous, and columns if adjacent results read
    adjacent elements.
    """
    reduction = problem.reduction(target)
    geometry = analyse(
        problem.shape, problem.reduced, list(problem.strides), problem.out_strides,
        reduction.indexed,
    )  # fmt: skip
    row = table.choose("reduce", ReducePolicy, target, reduction.inputs[0])
    rows, *columns = kernels_of(row, target, reduction, geometry, problem.alignment)
    first, others = [_variant(rows, target)], [_variant(kernel, target) for kernel in columns]
    if columns and not rows.unit:
        first, others = others, first
    costs = DeviceCosts.of("device", target)
    return by_rule("the axis along which work-items read", first, others, costs)


def kernels_of(
    row: PolicyRow[ReducePolicy],
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
) -> list[ReduceKernel]:
    """Return the kernel by rows, and that by columns if results are adjacent.

    Args:
        row: The policy.
        target: The device.
        reduction: The reduction.
        geometry: The axes.
        alignment: A power of two that divides the address of each input's first element.
    """
    policy, elem, streamed = row.policy, reduction.inputs[0], len(reduction.streamed)
    read = geometry
    if target.is_cpu and geometry.inner.size == 1:  # the kernel for unit strides serves
        read = replace(geometry, inner=Axis(1, (1,) * len(reduction.inputs)))
    unit = is_unit(read.inner.strides[:streamed])
    groups = geometry.rows * geometry.count * elem.itemsize // policy.work_per_group
    groups = max(1, min(groups, target.compute_units * policy.groups_per_unit))
    if target.is_cpu and target.compute_units == 1:
        groups = 1

    def completed(kernel: ReduceKernel, along: Axis) -> ReduceKernel:
        """Add the names of inputs that have one element for all places of an axis."""
        pairs = zip(reduction.names, along.strides[:streamed], strict=False)
        spread = tuple(name for name, stride in pairs if not stride)
        return replace(kernel, geometry=geometry, form=replace(kernel.form, spread=spread))

    if target.is_cpu:
        along = cpu_rows(row, target, reduction, read, groups, unit)
    else:
        along = gpu_rows(row, target, reduction, read, alignment, groups, unit)
    kernels = [completed(along, read.inner)]
    if geometry.result_axes and is_unit(geometry.result_axes[-1].strides[:streamed]):
        if target.is_cpu:
            across = cpu_columns(row, target, reduction, read, groups)
        else:
            across = gpu_columns(row, target, reduction, read, alignment, groups)
        kernels.append(completed(across, geometry.result_axes[-1]))
    return kernels


def _variant(kernel: ReduceKernel, target: Target) -> Variant:
    costs, form = DeviceCosts.of("device", target), kernel.form
    slowdown = _slowdown(kernel)
    return Variant(
        path=f"{form.kind}{', split' if kernel.parts > 1 else ''}",
        name=form.kind,
        estimate=kernel.bytes / (costs.bandwidth * target.compute_units) * slowdown,
        launches=1,
        why=_why(kernel, target),
        texts=lambda: [kernel.specialization(target)],
        bind=partial(_plan, kernel=kernel),
        row=kernel.row,
        details={
            "groups": kernel.tiles * kernel.parts,
            "group size": form.group_size,
            "parts of a result": kernel.parts,
            "vector": form.vector,
            "unroll": form.unroll,
            "lanes": target.exchange,
        },
    )


def _plan(engine: Engine, kernel: ReduceKernel) -> Plan:
    return reduce_plan(engine, kernel, kernel.specialization(engine.target))


def _after_means(problem: Problem, means: Variant, squares: Variant) -> Variant:
    centre = centre_dtype(problem.request.acc)
    temporary = Temporary("means", prod(problem.result_shape) * centre.itemsize, centre.itemsize)

    def bind(engine: Engine) -> Plan:
        first, second = means.bind(engine), squares.bind(engine)
        return Steps([Step(first, (0, temporary)), Step(second, (0, temporary, 1))])

    return Variant(
        path=squares.path,
        name=squares.name,
        kind=squares.kind,
        estimate=means.estimate + squares.estimate,
        launches=2,
        why=squares.why,
        texts=lambda: [*means.texts(), *squares.texts()],
        bind=bind,
        row=squares.row,
        details=squares.details,
        decision=squares.decision,
    )


def _one_pass(squares: Variant) -> Variant:
    """About the first elements: the input is its own second input."""
    return replace(
        squares,
        path=f"{squares.path}, one pass",
        name=f"{squares.name}, one pass",
        why=f"{squares.why}; one pass, about each first element",
        decision=f"{squares.decision}, one pass",
        bind=lambda engine: Steps([Step(squares.bind(engine), (0, 0, 1))]),
    )


def _slowdown(kernel: ReduceKernel) -> float:
    """Return the factor of the time of a kernel that is due to the strides along its axis."""
    if kernel.form.kind == "columns" or kernel.unit:
        return 1.0
    return stride_waste(kernel.geometry.inner.strides[0])


def _why(kernel: ReduceKernel, target: Target) -> str:
    form, rows = kernel.form, kernel.geometry.rows
    if form.kind == "columns":
        why = "the axes of results are contiguous, and the reduced axis is not"
        why += ", so work-items go side by side along the results"
    else:
        why = "work-items stream along the folded axis"
        if form.side_by_side:
            why += f", {form.vector} short rows at a time"
        if form.lanes < form.group_size:
            why += f", {form.lanes} to a row, {form.block} rows to a group"
    results = "one result" if rows == 1 else f"{rows} results"
    if kernel.parts > 1:
        why += (
            f"; {results} would leave some of {target.compute_units} compute units idle, so each "
            f"is cut into {kernel.parts} parts, and the last group to finish folds them in order"
        )
    elif form.kind == "rows" and rows == 1:
        why += "; too small to share among work-groups"
    return why
