"""The forms of the kernels of a reduction, by rows and by columns, and their texts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from portable_gpu.codegen.axes import Axis, parameters
from portable_gpu.codegen.parameters import Parameter, buffer, operand, scalars
from portable_gpu.codegen.reductions import Reduction
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.reduce.columns import gpu_columns
from portable_gpu.ops.reduce.geometry import Geometry
from portable_gpu.ops.reduce.on_cpu import cpu_columns, cpu_rows
from portable_gpu.ops.reduce.partition import ReduceForm, ReducePartition
from portable_gpu.ops.reduce.policy import ReducePolicy
from portable_gpu.ops.reduce.rows import gpu_rows
from portable_gpu.targets import Target


def kernel_forms(
    policy: ReducePolicy, target: Target, reduction: Reduction, geometry: Geometry, alignment: int
) -> list[tuple[ReduceForm, ReducePartition]]:
    """Return the form and the partition by rows, and those by columns if results are adjacent."""
    elem, streamed = reduction.inputs[0], len(reduction.streamed)
    if target.is_cpu and geometry.inner.size == 1:  # no text of its own for single elements
        geometry = replace(geometry, inner=Axis(1, (1,) * len(reduction.inputs)))
    unit = is_unit(geometry.inner.strides[:streamed])
    wanted = geometry.rows * geometry.count * elem.itemsize // policy.work_per_group
    alone = target.is_cpu and target.compute_units == 1  # no one to share the work with
    wanted = 1 if alone else max(1, min(wanted, target.compute_units * policy.groups_per_unit))
    if target.is_cpu:
        along = cpu_rows(policy, target, reduction, geometry, wanted, unit)
    else:
        along = gpu_rows(policy, target, reduction, geometry, alignment, wanted, unit)
    forms = [_with_spread(reduction, geometry.inner, *along)]
    if geometry.kept and is_unit(geometry.kept[-1].strides[:streamed]):
        if target.is_cpu:
            beside = cpu_columns(policy, target, reduction, geometry, wanted)
        else:
            beside = gpu_columns(policy, target, reduction, geometry, alignment, wanted)
        forms.append(_with_spread(reduction, geometry.kept[-1], *beside))
    return forms


def _with_spread(
    reduction: Reduction, along: Axis, form: ReduceForm, partition: ReducePartition
) -> tuple[ReduceForm, ReducePartition]:
    """Return a form that names the inputs which have one element along an axis."""
    strides = along.strides[: len(reduction.streamed)]
    item = tuple(n for n, s in zip(reduction.names, strides, strict=False) if not s)
    return replace(form, spread=item), partition


def is_unit(strides: tuple[int, ...]) -> bool:
    """Whether vectors of elements lie along an axis, or one element is all of a vector."""
    return 1 in strides and all(stride in (0, 1) for stride in strides)


def _parameters(reduction: Reduction, form: ReduceForm) -> list[Parameter]:
    """The kernel's parameters: inputs, result, parts, extents and strides."""
    inputs, columns = reduction.names, form.kind == "columns"
    arrays = [*inputs, "out"]
    result = []
    for name, elem in zip(inputs, reduction.inputs, strict=True):
        result += [buffer(f"{elem.name}_t", f"{name}_in"), *scalars("long", f"{name}_offset")]
    result += operand(f"{reduction.result.name}_t", "out", writes=True)
    if form.split:
        shared = [
            buffer("uint", name, writes=True, shared=True) for name in ("counters", "partial")
        ]
        result += [*shared, *scalars("uint", "inner_parts")]
    result += scalars("uint", "parts") * (form.split or columns)
    result += scalars("long", "rows", "rows_per_group") * (not columns)
    result += scalars("long", "outer_count", "outer_span", "n", "span", "count")
    result += parameters("kept", form.kept, arrays) + parameters("outer", form.outer, inputs)
    result += scalars("long", "columns", *(f"{name}_column" for name in arrays)) * columns
    return result + scalars("long", *(f"{name}_stride" for name in inputs))


def render_form(target: Target, reduction: Reduction, form: ReduceForm) -> Specialization:
    """The OpenCL text of one kernel."""
    common: dict[str, Any] = {
        "kernels": {f"reduce_{form.kind}": _parameters(reduction, form)},
        "r": reduction,
        "V": form.vector,
        "U": form.unroll,
        "aligned": form.aligned,
        "split": form.split,
        "kept": form.kept,
        "outer": form.outer,
        "spread": form.spread,
    }
    if form.side_by_side:
        return specialize("reduce/cpu_short_rows", target, **common)
    if target.is_cpu and form.kind == "rows":
        return specialize("reduce/cpu_rows", target, unit=form.unit, **common)
    if form.kind == "rows":
        return specialize(
            "reduce/rows",
            target,
            G=form.group_size,
            L=form.lanes,
            S=target.subgroup_size,
            unit=form.unit,
            peel=form.peel,
            **common,
        )
    if target.is_cpu:
        return specialize("reduce/cpu_columns", target, COLUMNS=form.block, **common)
    return specialize(
        "reduce/columns",
        target,
        CX=form.lanes,
        CY=form.group_size // form.lanes,
        C=form.vectors,
        **common,
    )
