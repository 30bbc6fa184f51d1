"""The progress of a factorisation, by the events of its queue."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.ops.fronts.cpu import SubtreesPlan
from portable_gpu.progress import ProgressCallback
from portable_gpu.runtime.plan import Plan, Steps
from portable_gpu.runtime.queue_state import QueueState

#: The share of all operations between two events.
_SHARE = 1 / 200
#: Seconds between two polls of the queue: at first, and at most.
_MIN_PAUSE, _MAX_PAUSE = 1e-4, 0.02
_COMPLETE = cl.command_execution_status.COMPLETE
#: The status of a front that has reported nothing yet; no column has this number.
NOT_REPORTED = -2


class ProgressMonitor:
    """Enqueue plans, and report how many of their operations are completed.

    A few events of the queue mark groups of steps.  On a CPU, where one step factorises whole
    subtrees, the pivot status of each front is read as well.  The callback runs on the thread that
    enqueues or waits.
    """

    def __init__(
        self, total: float, callback: ProgressCallback, status: np.ndarray[Any, Any] | None = None
    ) -> None:
        """Report that no operation is completed.

        Args:
            total: The operations of all plans.
            callback: The function to call.
            status: The pivot status of the fronts, (fronts, 2), in memory of the host, initially
                :data:`NOT_REPORTED`; None if the host cannot read it.
        """
        self._total, self._callback, self._status = float(total), callback, status
        self._enqueued_flop = self._done_flop = self._reported_flop = 0.0
        self._markers: deque[tuple[cl.Event, float, SubtreesPlan | None]] = deque()
        callback(0.0, self._total)

    def monitored(self, plan: Steps) -> Plan:
        """Return a plan that does the same work and is monitored."""
        return _MonitoredPlan(plan, self)

    def enqueue(self, plan: Steps, state: QueueState, *arguments: Any) -> cl.Event | None:
        """Enqueue a plan: see :meth:`Plan.enqueue`."""
        event: cl.Event | None = None
        marked = self._enqueued_flop
        for step, event in plan.enqueued(state, *arguments):
            self._enqueued_flop += step.plan.flop
            subtrees = step.plan if isinstance(step.plan, SubtreesPlan) else None
            if self._enqueued_flop - marked > _SHARE * self._total:
                self._mark(state, event, subtrees)
                marked = self._enqueued_flop
            self.poll()
        if plan.steps:  # also mark the last step, which has no operations and reads the status
            self._mark(state, event, None)
        return event

    def _mark(
        self, state: QueueState, event: cl.Event | None, subtrees: SubtreesPlan | None
    ) -> None:
        self._markers.append((state.event(event), self._enqueued_flop, subtrees))
        state.queue.flush()

    def poll(self) -> None:
        """Report the operations that were completed since the last poll."""
        while self._markers and self._markers[0][0].command_execution_status <= _COMPLETE:
            self._done_flop = self._markers.popleft()[1]
        done = self._done_flop
        if self._markers and self._status is not None and (subtrees := self._markers[0][2]):
            done += float(subtrees.flops[self._status[subtrees.fronts, 0] != NOT_REPORTED].sum())
        if done > self._reported_flop:
            self._reported_flop = done
            self._callback(done, self._total)

    def wait(self) -> None:
        """Report progress until all enqueued steps are completed."""
        self._until(lambda: not self._markers)

    def until(self, event: cl.Event) -> None:
        """Report progress until an event is complete, or has failed."""
        self._until(lambda: event.command_execution_status <= _COMPLETE)

    def _until(self, is_done: Callable[[], bool]) -> None:
        pause = _MIN_PAUSE
        self.poll()
        while not is_done():
            time.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)
            self.poll()


class _MonitoredPlan(Plan):
    def __init__(self, plan: Steps, monitor: ProgressMonitor) -> None:
        self._plan, self._monitor = plan, monitor

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`."""
        return self._monitor.enqueue(self._plan, state, buffers, offsets, scalars, wait_for)
