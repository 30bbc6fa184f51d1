"""How calls are timed: one by one, or all enqueued before the first one starts ("in line").

Processes of other revisions load this module by its path (:mod:`portable_gpu.bench.revisions`), so
that all sides are timed by the same code.  Of the package it uses the error class alone.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyopencl as cl

from portable_gpu.errors import PortableGPUError

Call: TypeAlias = Callable[[], Any]

#: Seconds that a turn lasts at least: short calls are repeated and their time divided.
TURN = 0.005
_LINE = 256  # calls that wait at a time: drivers keep about a thousand launches
_TRIES = 6  # of a line; each one holds the device for longer than the one before
_NOT_HELD = "the device cannot be held until all calls are enqueued; use --eager"
_MIN_HOLD = 1e-3  # seconds that the device is held for at least
_LONG = 0.5  # seconds after which we no longer wait for the process to fall silent


class Timed(ABC):
    """Calls on one case, of this process or of another one.

    Attributes:
        copies: The number of copies of the inputs: calls take them by turns.
    """

    copies: int

    @abstractmethod
    def result(self) -> np.ndarray[Any, Any]:
        """The result of the first call."""

    @abstractmethod
    def seconds(self, first: int, count: int) -> float:
        """The time of ``count`` calls, from call ``first`` on, each on the next copy."""

    @abstractmethod
    def eager(self) -> Timed:
        """Time the same calls as they are made: the host's time counts."""

    def turn(self, first: int, count: int) -> float:
        """Return the seconds of a call in a turn of ``count`` calls.

        The turn starts when no thread of the process runs: OpenBLAS's threads spin for a tenth of a
        second after a call, and would share the cores with the next calls.  A turn of several calls
        starts with one that is not timed, which wakes the threads that the others need.
        """
        fall_silent()
        if count > 1:
            self.seconds(first, 1)
        return self.seconds(first + 1, count) / count


class Prepared(Timed):
    """Calls of this process, one for each copy of the inputs."""

    def __init__(
        self,
        calls: Sequence[Call],
        finish: Callable[[], Any] = lambda: None,
        fetch: Callable[[Any], np.ndarray[Any, Any]] = np.asarray,
    ) -> None:
        """``finish`` waits for what calls enqueued; ``fetch`` brings a result to NumPy."""
        self.calls = calls
        self.copies = len(calls)
        self.finish = finish
        self.fetch = fetch

    def result(self) -> np.ndarray[Any, Any]:
        """See :class:`Timed`; of several results the first one."""
        result = self.calls[0]()
        return self.fetch(result[0] if isinstance(result, tuple) else result)

    def in_turn(self, first: int, count: int) -> list[Call]:
        """``count`` calls from call ``first`` on, each on the next copy."""
        return [self.calls[i % len(self.calls)] for i in range(first, first + count)]

    def seconds(self, first: int, count: int) -> float:
        """See :class:`Timed`."""
        calls = self.in_turn(first, count)
        begin = time.perf_counter()
        for call in calls:
            call()
        self.finish()
        return time.perf_counter() - begin

    def eager(self) -> Prepared:
        """See :class:`Timed`."""
        return Prepared(self.calls, self.finish, self.fetch)


class InLine(Prepared):
    """Calls that are all enqueued before the first one starts, so that only device time counts.

    A device that is faster than the host would wait for the next call, and the host's time would
    be measured.  So other work keeps the device busy until all calls are enqueued (as in NVIDIA's
    nvbench), and the measurement starts when that work ends.

    If a call has many launches, the driver makes the host wait before all calls of a line are
    enqueued.  Then the lines become shorter.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        finish: Callable[[], Any],
        fetch: Callable[[Any], np.ndarray[Any, Any]],
    ) -> None:
        """See :class:`Prepared`."""
        super().__init__(calls, finish, fetch)
        self._hold_seconds = _MIN_HOLD
        self._calls_of_line = _LINE

    @abstractmethod
    def hold(self, seconds: float) -> None:
        """Enqueue work that keeps the device busy for about this time."""

    @abstractmethod
    def since_hold(self) -> float | None:
        """Wait for all calls; return the seconds since the work of :meth:`hold` ended.

        Returns:
            None if that work ended before this call.
        """

    def seconds(self, first: int, count: int) -> float:
        """The device's time of ``count`` calls, from call ``first`` on, each on the next copy.

        Raises:
            PortableGPUError: The device begins before all calls are there, however long it is held.
        """
        calls, seconds = self.in_turn(first, count), 0.0
        while calls:
            line, rest = calls[: self._calls_of_line], calls[self._calls_of_line :]
            tries = _TRIES if len(line) == 1 else _TRIES // 2
            time_of_line = self._line(line, tries)
            if time_of_line is not None:
                seconds, calls = seconds + time_of_line, rest
            elif len(line) > 1:
                self._calls_of_line = len(line) // 2
            else:
                raise PortableGPUError(_NOT_HELD)
        return seconds

    def _line(self, calls: Sequence[Call], tries: int) -> float | None:
        """Return the time of calls that are all enqueued before the first starts, or ``None``.

        The driver accepts about a thousand launches, and makes the host wait before the next one.
        Then no time is long enough, and the time for which the device is held is reset for the next
        line.
        """
        hold_seconds = self._hold_seconds
        for _ in range(tries):
            begin = time.perf_counter()
            self.hold(self._hold_seconds)
            for call in calls:
                call()
            enqueued = time.perf_counter() - begin
            seconds = self.since_hold()
            if seconds is not None:
                return seconds
            self._hold_seconds = max(4 * self._hold_seconds, 2 * enqueued)
        self._hold_seconds = hold_seconds
        return None


class OpenCLInLine(InLine):
    """Calls of this library in line."""

    def __init__(
        self, calls: Sequence[Call], queue: cl.CommandQueue, work: Callable[[], Hold]
    ) -> None:
        """Prepare calls that return device arrays, or results that are not read.

        Args:
            calls: The calls, which enqueue their work on the queue.
            queue: The queue.
            work: Returns the kernel that keeps the device busy.
        """
        super().__init__(calls, queue.finish, lambda result: np.asarray(result.get()))
        self._work = work
        self._hold_event: cl.Event | None = None

    def hold(self, seconds: float) -> None:
        """See :class:`InLine`."""
        self._hold_event = self._work()(seconds)

    def since_hold(self) -> float | None:
        """See :class:`InLine`."""
        event, self._hold_event = self._hold_event, None
        assert event is not None
        in_time = event.command_execution_status != cl.command_execution_status.COMPLETE
        event.wait()
        begin = time.perf_counter()
        self.finish()
        return time.perf_counter() - begin if in_time else None


class Hold:
    """Keeps a device busy for a given time."""

    def __init__(self, program: cl.Program, queue: cl.CommandQueue) -> None:
        """Measure the time of a round of the program's kernel (``bench/hold``)."""
        self._kernel, self._queue = cl.Kernel(program, "hold"), queue
        self._out = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 4)
        self._rounds = 1 << 12  # in a second: a guess, which is doubled until it can be measured
        self._second()
        while self._second() < _MIN_HOLD:
            self._rounds *= 2
        self._rounds = int(self._rounds / min(self._second() for _ in range(3)))

    def _second(self) -> float:
        """Return the seconds of a kernel whose rounds are meant to take one second."""
        begin = time.perf_counter()
        self(1.0).wait()
        return time.perf_counter() - begin

    def __call__(self, seconds: float) -> cl.Event:
        """Enqueue it; returns the event of its end."""
        rounds = np.int64(seconds * self._rounds)
        arguments = self._out, np.float32(0.999), np.float32(0.001), rounds
        event: cl.Event = self._kernel(self._queue, (1,), (1,), *arguments)
        self._queue.flush()
        return event


def warm_up(timed: Timed) -> float:
    """Call each copy once, then give the seconds of one call."""
    timed.seconds(0, timed.copies)
    once = timed.seconds(0, 1)
    if once < TURN:  # one call is too short for the clock
        count = calls_a_turn(once)
        once = timed.seconds(0, count) / count
    return once


def calls_a_turn(once: float) -> int:
    """Calls that make a turn last."""
    return max(1, min(10_000, round(TURN / max(once, 1e-9) + 0.5)))


def fall_silent() -> None:
    """Wait until this process' other threads no longer use a core, half a second at most.

    The processor time of 10 ms is measured at a time.  A shorter time would be too short on a busy
    machine, where a spinning thread may get no core for some milliseconds.
    """
    end = time.perf_counter() + _LONG
    while time.perf_counter() < end:
        begin, used = time.perf_counter(), time.process_time()
        time.sleep(0.01)
        if time.process_time() - used < 0.1 * (time.perf_counter() - begin):
            return
