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
from portable_gpu.ops.reduce.deal import Deal, Layout
from portable_gpu.ops.reduce.geometry import Geometry
from portable_gpu.ops.reduce.layout import is_unit, lay_out, render_layout
from portable_gpu.ops.reduce.policy import ReducePolicy
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target
from portable_gpu.tuning.table import Choice, TuningTable


@dataclass(frozen=True)
class Route:
    """The way of one reduction.

    Attributes:
        reduction: What is computed.
        geometry: On which axes.
        choice: The policy, and where it came from.
        layout, deal: The kernel's form, and how the work is dealt out.
    """

    reduction: Reduction
    geometry: Geometry
    choice: Choice[ReducePolicy]
    layout: Layout
    deal: Deal

    @property
    def unit(self) -> bool:
        """Whether vectors of what is streamed lie along the inner folded axis."""
        return is_unit(self.geometry.inner.strides[: len(self.reduction.streamed)])

    @property
    def bytes(self) -> int:
        """The least global traffic."""
        g, reduction = self.geometry, self.reduction
        read = sum(e.itemsize * g.elements(k) for k, e in enumerate(reduction.inputs))
        return read + g.rows * reduction.result.itemsize

    def specialization(self, target: Target) -> Specialization:
        """The text and options of the kernel."""
        return render_layout(target, self.reduction, self.layout)


def reduction_for(request: Request, target: Target) -> Reduction:
    """The reduction of a request, in the arithmetic that suits the target.

    On a CPU the norm of single precision is summed in double, whose range holds every square: half
    the time of three sums by magnitude.  (On an H200 it is slower: 3.4 against 4.2 TB/s.)
    """
    if request.name == "nrm2" and target.is_cpu and target.fp64:
        request = replace(request, acc=element("float64"))
    return reduction(request)


class ReducePlan(Plan):
    """A reduction bound to shapes and strides, built and ready to launch from any thread.

    Attributes:
        route: The way.
        layout: The kernel's form.
    """

    def __init__(self, engine: Engine, route: Route) -> None:
        """Build the kernel.

        Raises:
            BuildError: The driver refused the kernel.
        """
        target, self.route = engine.target, route
        reduction, geometry, self.layout, deal = (
            route.reduction, route.geometry, route.layout, route.deal,
        )  # fmt: skip
        self.flop = geometry.rows * geometry.count  # about one operation for each element
        self.bytes = route.bytes
        arrays = [*(f"{name}_in" for name in reduction.names), "out"]
        self._parts = deal.parts
        space = ["counters", "partial"] * (deal.parts > 1)
        # How far turned axes move the offset of each input.
        self._shift = (*geometry.shift, 0) if any(geometry.shift) else ()
        self._counters = deal.tiles
        block = self.layout.block if self.layout.kind == "columns" else 1
        self._partial_bytes = deal.tiles * deal.parts * block * reduction.acc.bytes
        self.workspace_bytes = self._partial_bytes if deal.parts > 1 else 0
        self._launch = engine.programs.launch(
            route.specialization(target),
            f"reduce_{self.layout.kind}",
            _constants(self.layout, deal, geometry, reduction.names),
            [*arrays, *space],
            [f"{name}_offset" for name in (*reduction.names, "out")],
            (deal.tiles * deal.parts * self.layout.group_size,),
            (self.layout.group_size,),
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


def routes(
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
    target: Target,
    table: TuningTable,
) -> list[Route]:
    """Every route of a reduction: along the rows that it folds, or beside them.

    Args:
        reduction: What.
        geometry: On which axes.
        alignment: A power of two that divides the address of each input's first element.
        target, table: For what device, and by which policies.
    """
    choice = table.choose("reduce", ReducePolicy, target, reduction.inputs[0])
    ways = lay_out(choice.policy, target, reduction, geometry, alignment)
    return [Route(reduction, geometry, choice, layout, deal) for layout, deal in ways]


def _constants(
    layout: Layout, deal: Deal, geometry: Geometry, names: Sequence[str]
) -> dict[str, int | None]:
    """The kernel's scalars that stay: see ``cl_kernels/reduce/_part.cl.mako``."""
    found: dict[str, int | None] = {
        "outer_count": geometry.outer_count,
        "outer_span": deal.outer_span,
        "n": geometry.inner.size,
        "span": deal.inner_span,
        "count": geometry.count,
    }
    if layout.split:
        found["inner_parts"] = deal.inner_parts
        if deal.parts == 1:
            found |= {"counters": None, "partial": None}
    if layout.split or layout.kind == "columns":
        found["parts"] = deal.parts
    arrays = (*names, "out")
    kept = geometry.kept or (Axis(1, (0,) * len(arrays)),)  # a CPU's kernel has one at least
    for kind, axes, those in (
        ("kept", kept[: layout.kept], arrays),
        ("outer", geometry.outer, names),
    ):
        for k, axis in enumerate(axes):
            found[f"{kind}{k}_size"] = axis.size
            found |= _strides(those, f"{kind}{k}", axis)
    if layout.kind == "columns":
        found["columns"] = geometry.kept[-1].size
        found |= _strides(arrays, "column", geometry.kept[-1])
    else:
        found |= {"rows": geometry.rows, "rows_per_group": deal.rows_per_group}
    inner = geometry.inner.strides[: len(names)]
    return found | {f"{name}_stride": step for name, step in zip(names, inner, strict=True)}


def _strides(names: Sequence[str], place: str, axis: Axis) -> dict[str, int]:
    return {f"{name}_{place}": step for name, step in zip(names, axis.strides, strict=True)}


def require_fp64(target: Target, needed: bool, what: str) -> None:
    """Raise UnsupportedError where double precision is needed and absent."""
    if needed and not target.fp64:
        raise UnsupportedError(
            f"{what} needs double precision, which {target.facts.name} lacks (no cl_khr_fp64); "
            "use float32 or complex64, or dtype=float32"
        )
