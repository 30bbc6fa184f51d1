"""Plans of reductions: a kernel bound to shapes and strides."""

from __future__ import annotations

from collections.abc import Sequence

from portable_gpu.codegen.axes import Axis
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.ops.reduce.kernels import ReduceKernel
from portable_gpu.runtime.engine import Engine


def reduce_plan(engine: Engine, kernel: ReduceKernel, spec: Specialization) -> OneLaunch:
    """Return the plan of a reduction bound to shapes and strides, from its text."""
    form, reduction, geometry = kernel.form, kernel.reduction, kernel.geometry
    block, shared = form.block if form.kind == "columns" else 1, kernel.parts > 1
    partials = kernel.tiles * kernel.parts * block * reduction.acc.bytes
    return OneLaunch(
        engine, spec, f"reduce_{form.kind}", _constants(kernel),
        [*(f"{name}_data" for name in reduction.names), "out"],
        (kernel.tiles * kernel.parts * form.group_size,), (form.group_size,),
        offsets=[f"{name}_offset" for name in (*reduction.names, "out")],
        starts=(*geometry.shift, 0),  # how far reversed axes move the offset of each input
        counters=kernel.tiles if shared else 0, partials=partials if shared else 0,
        flop=geometry.rows * geometry.count,  # about one operation for each element
        nbytes=kernel.bytes,
    )  # fmt: skip


def _constants(kernel: ReduceKernel) -> dict[str, int | None]:
    """The kernel's scalars that are the same in all launches."""
    form, geometry, names = kernel.form, kernel.geometry, kernel.reduction.names
    result: dict[str, int | None] = {
        "outer_count": geometry.outer_count,
        "outer_span": kernel.outer_span,
        "n": geometry.inner.size,
        "span": kernel.inner_span,
        "count": geometry.count,
    }
    if form.split:
        result["inner_parts"] = kernel.inner_parts
        if kernel.parts == 1:
            result |= {"counters": None, "partial": None}
    if form.split or form.kind == "columns":
        result["parts"] = kernel.parts
    arrays = (*names, "out")
    # A kernel of a CPU has at least one axis.
    result_axes = geometry.result_axes or (Axis(1, (0,) * len(arrays)),)
    for kind, axes, kind_arrays in (
        ("result", result_axes[: form.result_axes], arrays),
        ("outer", geometry.outer, names),
    ):
        for k, axis in enumerate(axes):
            result[f"{kind}{k}_size"] = axis.size
            result |= _strides(kind_arrays, f"{kind}{k}", axis)
    if form.kind == "columns":
        result["columns"] = geometry.result_axes[-1].size
        result |= _strides(arrays, "column", geometry.result_axes[-1])
    else:
        result |= {"rows": geometry.rows, "rows_per_group": kernel.rows_per_group}
    inner = geometry.inner.strides[: len(names)]
    return result | {f"{name}_stride": step for name, step in zip(names, inner, strict=True)}


def _strides(names: Sequence[str], place: str, axis: Axis) -> dict[str, int]:
    return {f"{name}_{place}": step for name, step in zip(names, axis.strides, strict=True)}
