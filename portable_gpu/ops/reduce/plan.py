"""Plans of reductions: a kernel bound to shapes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyopencl as cl

from portable_gpu.codegen.axes import Axis
from portable_gpu.codegen.reductions import Reduction, Request, reduction
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import element
from portable_gpu.errors import UnsupportedError
from portable_gpu.ops.reduce.kernels import is_unit, kernel_forms, render_form
from portable_gpu.ops.reduce.policy import ReduceForm, ReducePartition, ReducePolicy
from portable_gpu.ops.reduce.problem import Geometry
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target
from portable_gpu.tuning.table import PolicyRow, TuningTable


@dataclass(frozen=True)
class ReduceKernel:
    """A kernel for one reduction, and the partition of its work.

    Attributes:
        reduction: What is computed.
        geometry: The axes.
        row: The policy, and its origin.
        form, partition: The form of the kernel, and the partition of the work.
    """

    reduction: Reduction
    geometry: Geometry
    row: PolicyRow[ReducePolicy]
    form: ReduceForm
    partition: ReducePartition

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


def reduction_for(request: Request, target: Target) -> Reduction:
    """The reduction of a request, in the arithmetic that suits the target.

    On a CPU the norm of single precision is summed in double precision, whose range holds every
    square.  This takes half the time of sums of large, medium and small squares apart.  On GPUs
    double precision is slower.
    """
    if request.name == "nrm2" and target.is_cpu and target.fp64:
        request = replace(request, acc=element("float64"))
    return reduction(request)


class ReducePlan(Plan):
    """A reduction bound to shapes and strides, built and ready to launch from any thread.

    Attributes:
        kernel: The kernel and the partition of its work.
        form: The form of the kernel.
    """

    def __init__(self, engine: Engine, kernel: ReduceKernel) -> None:
        """Build the kernel.

        Raises:
            BuildError: The driver refused the kernel.
        """
        target, self.kernel = engine.target, kernel
        reduction, geometry, self.form, partition = (
            kernel.reduction, kernel.geometry, kernel.form, kernel.partition,
        )  # fmt: skip
        self.flop = geometry.rows * geometry.count  # about one operation for each element
        self.bytes = kernel.bytes
        arrays = [*(f"{name}_in" for name in reduction.names), "out"]
        self._parts = partition.parts
        space = ["counters", "partial"] * (partition.parts > 1)
        # How far reversed axes move the offset of each input.
        self._shift = (*geometry.shift, 0) if any(geometry.shift) else ()
        self._counters = partition.tiles
        block = self.form.block if self.form.kind == "columns" else 1
        self._partial_bytes = partition.tiles * partition.parts * block * reduction.acc.bytes
        self.workspace_bytes = self._partial_bytes if partition.parts > 1 else 0
        self._launch = engine.programs.launch(
            kernel.specialization(target),
            f"reduce_{self.form.kind}",
            _constants(self.form, partition, geometry, reduction.names),
            [*arrays, *space],
            [f"{name}_offset" for name in (*reduction.names, "out")],
            (partition.tiles * partition.parts * self.form.group_size,),
            (self.form.group_size,),
        )

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`; it has no scalars."""
        if self._shift:
            offsets = tuple(at + by for at, by in zip(offsets, self._shift, strict=True))
        if self._parts > 1:
            buffers = (*buffers, *state.counters_and_partials(self._counters, self._partial_bytes))
        return self._launch(state, buffers, offsets, wait_for)


def kernels(
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
    target: Target,
    table: TuningTable,
) -> list[ReduceKernel]:
    """Return the kernels of a reduction: along the rows that it folds, or across them.

    Args:
        reduction: The reduction.
        geometry: The axes.
        alignment: A power of two that divides the address of each input's first element.
        target, table: The device, and the table of policies.
    """
    row = table.choose("reduce", ReducePolicy, target, reduction.inputs[0])
    forms = kernel_forms(row.policy, target, reduction, geometry, alignment)
    return [ReduceKernel(reduction, geometry, row, form, partition) for form, partition in forms]


def _constants(
    form: ReduceForm, partition: ReducePartition, geometry: Geometry, names: Sequence[str]
) -> dict[str, int | None]:
    """The kernel's scalars that are the same in all launches."""
    result: dict[str, int | None] = {
        "outer_count": geometry.outer_count,
        "outer_span": partition.outer_span,
        "n": geometry.inner.size,
        "span": partition.inner_span,
        "count": geometry.count,
    }
    if form.split:
        result["inner_parts"] = partition.inner_parts
        if partition.parts == 1:
            result |= {"counters": None, "partial": None}
    if form.split or form.kind == "columns":
        result["parts"] = partition.parts
    arrays = (*names, "out")
    kept = geometry.kept or (Axis(1, (0,) * len(arrays)),)  # a kernel of a CPU has at least one
    for kind, axes, kind_arrays in (
        ("kept", kept[: form.kept], arrays),
        ("outer", geometry.outer, names),
    ):
        for k, axis in enumerate(axes):
            result[f"{kind}{k}_size"] = axis.size
            result |= _strides(kind_arrays, f"{kind}{k}", axis)
    if form.kind == "columns":
        result["columns"] = geometry.kept[-1].size
        result |= _strides(arrays, "column", geometry.kept[-1])
    else:
        result |= {"rows": geometry.rows, "rows_per_group": partition.rows_per_group}
    inner = geometry.inner.strides[: len(names)]
    return result | {f"{name}_stride": step for name, step in zip(names, inner, strict=True)}


def _strides(names: Sequence[str], place: str, axis: Axis) -> dict[str, int]:
    return {f"{name}_{place}": step for name, step in zip(names, axis.strides, strict=True)}


def require_fp64(target: Target, needed: bool, what: str) -> None:
    """Raise UnsupportedError where double precision is needed and absent."""
    if needed and not target.fp64:
        raise UnsupportedError(
            f"{what} needs double precision, which {target.facts.name} lacks (no cl_khr_fp64); "
            "use float32 or complex64, or dtype=float32"
        )
