"""The kernels of reductions: their forms, the partition of their work, parameters and texts.

Kernels by rows read along the axis that they reduce, kernels by columns across it.  Those of GPUs,
which have more forms, are in ``gpu_kernels``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable_gpu.codegen.axes import parameters
from portable_gpu.codegen.parameters import Parameter, buffer, operand, scalars
from portable_gpu.codegen.reductions import Reduction
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.reduce.policy import ReduceCpuFigures, ReduceForm, ReducePolicy
from portable_gpu.ops.reduce.problem import Geometry
from portable_gpu.targets import Target
from portable_gpu.tuning.table import PolicyRow


@dataclass(frozen=True)
class ReduceKernel:
    """A kernel for one reduction, and the partition of its work.

    Attributes:
        reduction: What is computed.
        geometry: The axes.
        row: The policy, and its origin.
        form: The form of the kernel.
        tiles: Work-groups; with parts, the sets of groups that share their results.
        inner_parts, outer_parts: The parts of a result along the inner axis, and along the others.
        inner_span, outer_span: The extents of these parts.
        rows_per_group: The rows of a work-group.
    """

    reduction: Reduction
    geometry: Geometry
    row: PolicyRow[ReducePolicy]
    form: ReduceForm
    tiles: int
    inner_parts: int
    outer_parts: int
    inner_span: int
    outer_span: int
    rows_per_group: int

    @property
    def parts(self) -> int:
        """Work-groups that share a result."""
        return self.inner_parts * self.outer_parts

    @property
    def unit(self) -> bool:
        """Whether inputs that are read in vectors have adjacent elements along the inner axis."""
        return is_unit(self.geometry.inner.strides[: len(self.reduction.streamed)])

    @property
    def bytes(self) -> int:
        """The least global traffic."""
        g, reduction = self.geometry, self.reduction
        read = sum(e.itemsize * g.elements(k) for k, e in enumerate(reduction.inputs))
        return read + g.rows * reduction.result.itemsize

    def specialization(self, target: Target) -> Specialization:
        """The text and options of the kernel."""
        return render_form(target, self.reduction, self.form)


def is_unit(strides: tuple[int, ...]) -> bool:
    """Return whether strides along an axis are 1, or 0 for some inputs."""
    return 1 in strides and all(stride in (0, 1) for stride in strides)


def _parameters(reduction: Reduction, form: ReduceForm) -> list[Parameter]:
    """The kernel's parameters: inputs, result, parts, extents and strides."""
    inputs, columns = reduction.names, form.kind == "columns"
    arrays = [*inputs, "out"]
    result = []
    for name, elem in zip(inputs, reduction.inputs, strict=True):
        result += [buffer(f"{elem.name}_t", f"{name}_data"), *scalars("long", f"{name}_offset")]
    result += operand(f"{reduction.result.name}_t", "out", writes=True)
    if form.split:
        shared = [
            buffer("uint", name, writes=True, shared=True) for name in ("counters", "partial")
        ]
        result += [*shared, *scalars("uint", "inner_parts")]
    result += scalars("uint", "parts") * (form.split or columns)
    result += scalars("long", "rows", "rows_per_group") * (not columns)
    result += scalars("long", "outer_count", "outer_span", "n", "span", "count")
    result += parameters("result", form.result_axes, arrays)
    result += parameters("outer", form.outer, inputs)
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
        "result_axes": form.result_axes,
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


def widest_vector(policy: ReducePolicy, reduction: Reduction) -> int:
    """Return the elements of the widest vector that the policy and OpenCL (16 components) allow."""
    widths = [
        min(policy.vector_bytes // elem.itemsize, 16 // elem.components)
        for elem in reduction.streamed
    ]
    return max(1, min(widths))


def split_elements(parts: int, geometry: Geometry, step: int) -> tuple[int, int, int, int]:
    """Cut the elements of a result into about ``parts``: first outer axes, then the inner axis.

    Returns the numbers of inner and of outer parts, and the extents of these.
    """
    n, outer = max(1, geometry.inner.size), max(1, geometry.outer_count)
    outer_span = -(-outer // min(outer, max(1, parts)))
    outer_parts = -(-outer // outer_span)
    inner_span = -(-n // max(1, parts // outer_parts))
    inner_span = -(-inner_span // step) * step
    return -(-n // inner_span), outer_parts, inner_span, outer_span


def cpu_rows(
    row: PolicyRow[ReducePolicy],
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    target_groups: int,
    unit: bool,
) -> ReduceKernel:
    """Return the kernel by rows of a CPU: a lane for each short row, or one row after the other."""
    policy, n, rows = row.policy, geometry.inner.size, geometry.rows
    strides = geometry.inner.strides[: len(reduction.streamed)]
    vector = widest_vector(policy, reduction) if unit and reduction.vectorizable else 1
    together = min(vector, max(1, policy.vector_bytes // 4))
    short_row = ReduceCpuFigures.of("reduce on CPUs", target).short_row
    short = n <= short_row * (2 if reduction.indexed else 1)
    side_by_side = short and set(strides) == {1} and 1 < together <= rows
    # A step waits for the step before; accumulators without blocks have twice as many in flight.
    unroll = policy.unroll * (1 if reduction.block else 2)
    form = ReduceForm(
        kind="rows", group_size=1, lanes=1, vector=together if side_by_side else vector, vectors=1,
        unroll=unroll, aligned=False, unit=unit, split=not side_by_side,
        result_axes=max(1, len(geometry.result_axes)), outer=len(geometry.outer),
        side_by_side=side_by_side,
    )  # fmt: skip
    multiple = together if side_by_side else 1
    parts = 1 if side_by_side else -(-target_groups // max(1, rows))
    inner, outer, inner_span, outer_span = split_elements(parts, geometry, vector * unroll)
    rows_per_group = 1
    if inner * outer == 1:
        rows_per_group = -(-rows // (target_groups * multiple)) * multiple
    return ReduceKernel(
        reduction=reduction, geometry=geometry, row=row, form=form,
        tiles=-(-rows // rows_per_group),
        inner_parts=inner, outer_parts=outer, inner_span=inner_span, outer_span=outer_span,
        rows_per_group=rows_per_group,
    )  # fmt: skip


def cpu_columns(
    row: PolicyRow[ReducePolicy],
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    target_groups: int,
) -> ReduceKernel:
    """Return the kernel by columns of a CPU: a block's accumulators stay in the L1 cache."""
    policy, columns = row.policy, geometry.result_axes[-1].size
    figures = ReduceCpuFigures.of("reduce on CPUs", target)
    vector = widest_vector(policy, reduction) if reduction.vectorizable else 1
    vector = vector if vector <= columns else 1
    max_columns = min(figures.block_columns, policy.column_bytes // reduction.inputs[0].itemsize)
    unroll = min(figures.block_rows, reduction.block or figures.block_rows)
    form = ReduceForm(
        kind="columns", group_size=1, lanes=1, vector=vector, vectors=max(1, max_columns // vector),
        unroll=unroll, aligned=False, unit=False, split=True,
        result_axes=len(geometry.result_axes) - 1, outer=len(geometry.outer),
    )  # fmt: skip
    tiles = -(-columns // form.block) * (geometry.rows // columns)
    inner, outer, inner_span, outer_span = split_elements(
        -(-target_groups // tiles), geometry, unroll
    )
    return ReduceKernel(
        reduction=reduction, geometry=geometry, row=row, form=form, tiles=tiles, inner_parts=inner,
        outer_parts=outer, inner_span=inner_span, outer_span=outer_span, rows_per_group=1,
    )  # fmt: skip
