"""Repeated calls: the launches of a plan are recorded once and then repeated.

The launches of a plan depend on the offsets of its arrays and on its scalars.  So the plan enqueues
once to a :class:`Recording`, which stores the launches.  Each launch gets a kernel object with all
arguments set.  A later call sets only the arguments that differ: the buffers of its arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.runtime.array import Array
from portable_gpu.runtime.events import QueueEvents
from portable_gpu.runtime.kept_memory import KeptMemory
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.recording import NO_MEMORY, Kernels, Recording
from portable_gpu.runtime.report import KernelReport, reports_of
from portable_gpu.runtime.views import MEMORY, Memory, extent, maker_like, memory_of, origin_of


def have_equal_zeros(scalars: tuple[Any, ...]) -> bool:
    """Whether there are complex scalars; equal complex numbers may differ in signs of zeros."""
    return any(isinstance(value, (complex, np.complexfloating)) for value in scalars)


class ReportReplay:
    """The report that a repeated call on device arrays writes, and attaches to its new result."""

    __slots__ = ("_check", "_make", "memory")

    def __init__(self, blank: Any, check: Callable[[np.ndarray[Any, Any]], None]) -> None:
        """Keep what all calls have in common.

        Args:
            blank: An array with the shape and dtype of the report.
            check: A function that checks the report's values, and may raise an error.
        """
        self._make, self._check = maker_like(blank), check
        self.memory = KeptMemory(blank.nbytes)

    def reports(
        self, arrays: Sequence[Any], queue: cl.CommandQueue, data: Any, event: cl.Event | None
    ) -> tuple[KernelReport, ...]:
        """The reports of the inputs, and the report of this call."""
        events = QueueEvents.of(queue) if event is None else [event]
        report = KernelReport(self._make(queue, data, events), self._check)
        return (*reports_of(*arrays), report)


class Replay:
    """A repeated call on device arrays of one in-order queue.

    Everything is checked and chosen except the memory of the arrays.  The object has no reference
    to the queue's state, because the state has a reference to it.
    """

    __slots__ = (
        "_extents", "_idle", "_inside", "_itemsizes", "_make", "_may_differ", "_memory", "_plan",
        "_report", "_reports", "_scalars",
    )  # fmt: skip

    def __init__(
        self,
        plan: Plan,
        scalars: tuple[Any, ...],
        arrays: Sequence[Any],
        blank: Any,
        report: ReportReplay | None = None,
    ) -> None:
        """Keep what all calls have in common.

        Args:
            plan, scalars: The plan, and its scalars.
            arrays: The inputs, and the caller's output array, if there is one.
            blank: An array with the shape and dtype of a new result.
            report: The report that is attached to a new result, if there is one.
        """
        self._plan, self._scalars, self._report = plan, scalars, report
        self._may_differ = have_equal_zeros(scalars)
        self._reports = [isinstance(array, Array) for array in arrays]  # pyopencl's have none
        # The part of its buffer that each array uses, and its events at the last call.
        self._extents = [extent(array) for array in arrays]
        self._itemsizes = [array.dtype.itemsize for array in arrays]
        self._inside: list[Sequence[cl.Event]] = [() for _ in arrays]
        self._make, self._memory = maker_like(blank), KeptMemory(blank.nbytes)
        self._idle: list[Kernels] = []

    def run(
        self,
        state: QueueState,
        arrays: Sequence[Any],
        out: Any = None,
        scalars: tuple[Any, ...] = (),
    ) -> Any:
        """See :class:`portable_gpu.runtime.repeat.Repeat`."""
        operands = arrays if out is None else (*arrays, out)
        try:
            kernels = self._idle.pop()
        except IndexError:  # other calls use all kernel objects
            kernels = Kernels(state, *self._recorded(state, operands, out, scalars))
        # If the call raises, the kernel objects are dropped, because their arguments are unknown.
        queue, memories, offsets = state.queue, kernels.memories, kernels.offsets
        arguments_differ = bool(scalars) and (
            self._may_differ or scalars != kernels.scalars or 0 in scalars  # whose sign may differ
        )
        reports, changed, has_reports = self._reports, False, False
        k = 0
        for array in operands:
            events = array.events
            if type(events) is QueueEvents:
                if not (events.is_untouched and events.queue is queue) and state.outside(events):
                    return self._refuse(kernels, self._idle)
            elif events != self._inside[k]:
                if state.outside(events):
                    return self._refuse(kernels, self._idle)
                self._inside[k] = list(events)
            base, offset = array.base_data, array.offset
            if getattr(base, MEMORY, None) is not memories[k] or offset != offsets[k]:
                if base is None:
                    return self._refuse(kernels, self._idle)
                memory = memory_of(base)
                before, end = self._extents[k]
                if not before <= offset <= memory.size - end:
                    return self._refuse(kernels, self._idle)
                for set_argument, index in kernels.places[k]:
                    set_argument(index, base)
                memories[k] = memory
                changed = True
                arguments_differ = arguments_differ or offset != offsets[k]
            if reports[k] and array.reports:
                has_reports = True
            k += 1  # enumerate costs each call 70 ns
        if out is not None and (
            (has_reports and not reports[-1]) or (changed and self._overlap(operands, memories))
        ):
            return self._refuse(kernels, self._idle)
        if arguments_differ:
            kernels.move(*self._recorded(state, operands, out, scalars))
        data = None
        if out is None:
            data = self._memory.take(state)
            for set_argument, index in kernels.places[k]:
                set_argument(index, data)
        report, written = self._report, None
        if report is not None:
            written = report.memory.take(state)
            for set_argument, index in kernels.places[-1]:
                set_argument(index, written)
        workspaces = kernels.take_workspaces(state) if kernels.workspaces else None
        event = kernels.enqueue(state)
        del workspaces
        self._idle.append(kernels)
        if out is None:
            events = QueueEvents.of(queue) if event is None else [event]
            result = self._make(arrays[0].queue, data, events)
            if report is not None:
                result.reports = report.reports(arrays, queue, written, event)
            elif has_reports:
                result.reports = reports_of(*arrays)
            return result
        del events  # this reference would be counted
        state.cover(out, event)
        if has_reports:
            out.reports = reports_of(*operands)
        return out

    def _refuse(self, kernels: Kernels, idle: list[Kernels]) -> None:
        """Put kernel objects back, for a next call that looks for overlaps: this one may not."""
        kernels.memories[-1] = NO_MEMORY
        idle.append(kernels)

    def _overlap(self, arrays: Sequence[Any], memories: Sequence[Memory]) -> bool:
        """Whether the last of some arrays shares memory with another."""
        extents = []
        for array, memory, (before, end) in zip(arrays, memories, self._extents, strict=False):
            base, start = memory.origin or origin_of(array.base_data)
            start += array.offset
            extents.append((base, start - before, start + end))
        base, low, high = extents.pop()
        return any(other == base and at < high and low < to for other, at, to in extents)

    def _recorded(
        self, state: QueueState, arrays: Sequence[Any], out: Any, scalars: tuple[Any, ...]
    ) -> tuple[Recording, list[int], tuple[Any, ...]]:
        """The launches for arrays at these offsets, the offsets, and the scalars."""
        offsets = [array.offset for array in arrays]
        places = [at // size for at, size in zip(offsets, self._itemsizes, strict=True)]
        new = (out is None) + (self._report is not None)
        offsets += [0] * new
        places += [0] * new
        recorded = Recording.of(self._plan, state, tuple(places), scalars or self._scalars)
        return recorded, offsets, scalars
