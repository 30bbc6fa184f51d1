"""How far a factorisation is, by what the queue has done."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import shown
from portable_gpu.errors import DTypeError, UnsupportedError, how_to_install
from portable_gpu.ops.fronts.cpu import SubtreesPlan
from portable_gpu.runtime.plan import Plan, Steps
from portable_gpu.runtime.queue_state import QueueState

#: What is told: the operations that are done, and all of them.
Tell = Callable[[float, float], Any]

#: An event is asked for whenever such a share of all operations is enqueued.
_SHARE = 1 / 200
#: Seconds between two looks at the queue: at first, and at most.
_SOON, _LATE = 1e-4, 0.02
#: Seconds between two pictures of the bar.
_FRAME = 0.1
_COMPLETE = cl.command_execution_status.COMPLETE
#: Where a front has told nothing yet: no column is that.
UNTOLD = -2


@contextmanager
def told_to(progress: Any) -> Iterator[Tell | None]:
    """What ``progress=`` asks for.

    Args:
        progress: None or False; True: a bar on a terminal; or a function.

    Raises:
        DTypeError: It is something else.
        UnsupportedError: There is a terminal, and the package rich is not installed.
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with _bar() as tell:
            yield tell
    elif callable(progress):
        yield progress
    else:
        raise DTypeError(
            f"progress is {shown(progress)}; True, or a function of the operations done and of "
            "all would do"
        )


@contextmanager
def _bar() -> Iterator[Tell | None]:
    """A bar on stderr, if that is a terminal."""
    if not (sys.stderr is not None and sys.stderr.isatty()):
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        raise UnsupportedError(
            f"progress is True, which needs the package rich: {how_to_install('cli')}"
        ) from None
    columns = (
        TextColumn("factorisation"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[done]:.3g} of {task.total:.3g} flop"), TimeElapsedColumn(),
    )  # fmt: skip
    console = Console(file=sys.stderr)
    # No thread of rich's: its end is waited for, which a signal handler's exception may upset.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=0.0, done=0.0)
        shown = 0.0

        def tell(done: float, total: float) -> None:
            nonlocal shown
            bar.update(task, completed=done, total=total, done=done)
            if done == total or time.monotonic() > shown + _FRAME:
                shown = time.monotonic()
                bar.refresh()

        yield tell


class Watch:
    """Enqueues plans, and tells how many of their operations are done.

    The queue's own events say so, a few of them for all steps; on a CPU, where one step takes whole
    subtrees, so do their fronts.  Whoever enqueues or waits tells, on that thread.
    """

    def __init__(self, total: float, tell: Tell, told: np.ndarray[Any, Any] | None = None) -> None:
        """Tell that nothing is done.

        Args:
            total: Operations of all plans.
            tell: Whom to tell.
            told: What fronts tell, (fronts, 2), where the host can see it: :data:`UNTOLD` at first.
        """
        self._total, self._tell, self._told = float(total), tell, told
        self._enqueued = self._done = self._last = 0.0
        self._marks: deque[tuple[cl.Event, float, SubtreesPlan | None]] = deque()
        tell(0.0, self._total)

    def over(self, plan: Steps) -> Plan:
        """A plan that does the same, and is watched."""
        return _Watched(plan, self)

    def enqueue(self, plan: Steps, state: QueueState, *arguments: Any) -> cl.Event | None:
        """As :meth:`Plan.enqueue`."""
        event: cl.Event | None = None
        marked = self._enqueued
        for step, event in plan.enqueued(state, *arguments):
            self._enqueued += step.plan.flop
            subtrees = step.plan if isinstance(step.plan, SubtreesPlan) else None
            if self._enqueued - marked > _SHARE * self._total:
                self._mark(state, event, subtrees)
                marked = self._enqueued
            self.look()
        if plan.steps:  # also the last one, which has no operations and reads what fronts tell
            self._mark(state, event, None)
        return event

    def _mark(
        self, state: QueueState, event: cl.Event | None, subtrees: SubtreesPlan | None
    ) -> None:
        self._marks.append((state.event(event), self._enqueued, subtrees))
        state.queue.flush()

    def look(self) -> None:
        """Tell what has been done since somebody looked."""
        while self._marks and self._marks[0][0].command_execution_status <= _COMPLETE:
            self._done = self._marks.popleft()[1]
        done = self._done
        if self._marks and self._told is not None and (subtrees := self._marks[0][2]):
            done += float(subtrees.flops[self._told[subtrees.fronts, 0] != UNTOLD].sum())
        if done > self._last:
            self._last = done
            self._tell(done, self._total)

    def wait(self) -> None:
        """Tell until all that was enqueued is done."""
        self._until(lambda: not self._marks)

    def until(self, event: cl.Event) -> None:
        """Tell until an event is complete, or has failed."""
        self._until(lambda: event.command_execution_status <= _COMPLETE)

    def _until(self, is_done: Callable[[], bool]) -> None:
        pause = _SOON
        self.look()
        while not is_done():
            time.sleep(pause)
            pause = min(2 * pause, _LATE)
            self.look()


class _Watched(Plan):
    def __init__(self, plan: Steps, watch: Watch) -> None:
        self._plan, self._watch = plan, watch

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`."""
        return self._watch.enqueue(self._plan, state, buffers, offsets, scalars, wait_for)
