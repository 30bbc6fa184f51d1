"""Plans of reductions: a kernel bound to shapes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.codegen.axes import Axis
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.ops.reduce.kernels import ReduceKernel
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState


class ReducePlan(Plan):
    """A reduction bound to shapes and strides, built and ready to launch from any thread.

    Attributes:
        kernel: The kernel and the partition of its work.
        form: The form of the kernel.
    """

    def __init__(self, engine: Engine, kernel: ReduceKernel, text: Specialization) -> None:
        """Build the kernel from its text.

        Raises:
            BuildError: The driver refused the kernel.
        """
        self.kernel, self.form = kernel, kernel.form
        reduction, geometry = kernel.reduction, kernel.geometry
        self.flop = geometry.rows * geometry.count  # about one operation for each element
        self.bytes = kernel.bytes
        arrays = [*(f"{name}_data" for name in reduction.names), "out"]
        self._parts = kernel.parts
        space = ["counters", "partial"] * (kernel.parts > 1)
        # How far reversed axes move the offset of each input.
        self._shift = (*geometry.shift, 0) if any(geometry.shift) else ()
        self._counters = kernel.tiles
        block = self.form.block if self.form.kind == "columns" else 1
        self._partial_bytes = kernel.tiles * kernel.parts * block * reduction.acc.bytes
        self.workspace_bytes = self._partial_bytes if kernel.parts > 1 else 0
        self._launch = engine.programs.launch(
            text,
            f"reduce_{self.form.kind}",
            _constants(kernel),
            [*arrays, *space],
            [f"{name}_offset" for name in (*reduction.names, "out")],
            (kernel.tiles * kernel.parts * self.form.group_size,),
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
