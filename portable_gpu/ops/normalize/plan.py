"""Plans of calls on rows, and the variants among which a call chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyopencl as cl

from portable_gpu.ops.normalize.cpu_channels import CpuChannelsKernel, cpu_channels_kernel
from portable_gpu.ops.normalize.kernels import RowsKernel, kernel_of, without_parts
from portable_gpu.ops.normalize.problem import RowProblem
from portable_gpu.ops.variant import Variant, bind_best, by_rule
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.table import TuningTable

_FLOP = 4  # of an element, about


class RowsPlan(Plan):
    """A program on rows, bound to extents and strides.

    Its operands are those of the program.

    Attributes:
        kernel: The kernels, and the partition of the rows.
    """

    def __init__(self, engine: Engine, kernel: RowsKernel | CpuChannelsKernel) -> None:
        """Build the kernels.

        Raises:
            BuildError: The driver refused one.
        """
        self.kernel, problem = kernel, kernel.problem
        self.flop, self.bytes = _FLOP * problem.rows * problem.count, problem.bytes
        self.workspace_bytes = kernel.workspace_bytes
        p, target = problem.program, engine.target
        buffers = [f"{name}_data" for name in p.operands]
        buffers += ["partial"] * (self.workspace_bytes > 0)
        self._launches = [
            engine.programs.launch(
                kernel.specialization(target, part),
                kernel.entry(target),
                kernel.constants(),
                buffers,
                [*p.varying, *(f"{name}_offset" for name in p.operands)],
                (kernel.groups * kernel.group,),
                (kernel.group,),
            )
            for part in kernel.kernel_parts
        ]

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`; the scalars are those of the program that vary."""
        if self.workspace_bytes:
            buffers = (*buffers, state.workspace(self.workspace_bytes))
        event: cl.Event | None = None
        for launch in self._launches:
            event = launch(state, buffers, (*scalars, *offsets), wait_for)
            wait_for = state.after(event)
        return event


def make_plan(engine: Engine, problem: RowProblem) -> Plan:
    """Build the plan of a problem with elements.

    Raises:
        BuildError: The driver refused a kernel.
    """
    return bind_best(engine, variants(problem, engine.target, engine.table))


def variants(problem: RowProblem, target: Target, table: TuningTable) -> list[Variant]:
    """Every way to compute a problem.

    Rules prefer parts where there are few long rows, and channels side by side on a CPU.
    """
    costs = DeviceCosts.of("device", target)
    channels = cpu_channels_kernel(problem, target, table)
    if channels is not None and problem.program.sums:
        return [_of_channels(channels, target)]
    kernel = kernel_of(problem, target, table)
    by_rows = [_of_rows(kernel, target)]
    if channels is not None:
        whole = [_of_rows(without_parts(kernel), target)] if kernel.parts > 1 else []
        return by_rule(
            "channels side by side", [_of_channels(channels, target)], [*by_rows, *whole], costs
        )
    if kernel.parts == 1:
        return by_rows
    return by_rule("few long rows", by_rows, [_of_rows(without_parts(kernel), target)], costs)


def _of_channels(kernel: CpuChannelsKernel, target: Target) -> Variant:
    why = "the channels of a place are neighbours, and are folded side by side; "
    if kernel.parts > 1:
        why += (
            f"{kernel.samples.size} samples are few, so {kernel.parts} groups share each: one "
            "kernel folds the places of a part, and another one combines the parts and maps them"
        )
    elif kernel.keeps:
        why += "a sample stays in the caches, so that memory is read once"
    else:
        why += "a sample is read for the statistics and again for the map"
    details = {"channels": kernel.channels, "parts of a sample": kernel.parts}
    return _variant(kernel, target, "channels", why, details)


def _of_rows(kernel: RowsKernel, target: Target) -> Variant:
    details = {
        "group size": kernel.group,
        "lanes of a row": kernel.lanes,
        "parts of a row": kernel.parts,
    }
    name = "across" if kernel.across else "along"
    return _variant(kernel, target, name, _why(kernel), details)


def _variant(
    kernel: RowsKernel | CpuChannelsKernel,
    target: Target,
    name: str,
    why: str,
    details: Mapping[str, int],
) -> Variant:
    """Return the variant of a kernel, with the details that all kernels have and some more."""
    costs = DeviceCosts.of("device", target)
    units = min(target.compute_units, max(1, kernel.groups))
    return Variant(
        name=f"{name}, parts" if kernel.parts > 1 else name,
        estimate=kernel.problem.bytes / (costs.bandwidth * units),
        launches=len(kernel.kernel_parts),
        why=why,
        texts=lambda: [kernel.specialization(target, part) for part in kernel.kernel_parts],
        bind=partial(RowsPlan, kernel=kernel),
        row=kernel.row,
        details={
            "groups": kernel.groups,
            "vector": kernel.vector,
            **details,
            "reads": 1 if kernel.keeps else 2,
        },
    )


def _why(kernel: RowsKernel) -> str:
    problem = kernel.problem
    why = (
        "neighbouring elements are of neighbouring rows"
        if kernel.across
        else "the elements of a row are neighbours"
    )
    if kernel.parts > 1:
        return (
            f"{why}; {problem.rows} rows are few, so groups share each: one kernel folds "
            f"{kernel.parts} parts of a row, and another one combines them and maps the row"
        )
    if kernel.keeps:
        return f"{why}; {problem.count} of them stay near, so that memory is read once"
    return f"{why}; a row of {problem.count} is read for the statistic and again for the map"
