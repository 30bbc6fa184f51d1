"""Calls whose time is the device's alone: they stand in line before the first one begins.

A device that is faster than its host would wait for the next call, and the time would be the
host's.  So it is held by a kernel of its own until all calls are enqueued (as NVIDIA's nvbench
does), and the time begins when that kernel ends.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pyopencl as cl

from portable_gpu.bench.prepared import Call, Prepared
from portable_gpu.codegen.specialization import specialize
from portable_gpu.errors import PortableGPUError
from portable_gpu.runtime.engine import Engine

LINE = 256  #: calls that wait at a time: drivers keep about a thousand launches
TRIES = 6  #: each holds the device for longer
NOT_HELD = "the device cannot be held until all calls are enqueued; use --eager"
_LEAST = 1e-3  # seconds


class Queued(Prepared):
    """Calls that enqueue their work on an engine's queue.

    Where a call has many launches the driver may make the host wait before all calls of a line are
    there; then lines become shorter.
    """

    def __init__(self, engine: Engine, calls: Sequence[Call]) -> None:
        """``calls`` give arrays on the device, or nothing that is asked for."""
        super().__init__(calls, engine.queue.finish, lambda result: np.asarray(result.get()))
        self._engine = engine
        self._length = _LEAST
        self._calls = LINE

    def seconds(self, first: int, count: int) -> float:
        """The device's time of ``count`` calls, from call ``first`` on, each on the next copy.

        Raises:
            PortableGPUError: The device begins before all calls are there, however long it is held.
        """
        calls, seconds = self.in_turn(first, count), 0.0
        while calls:
            line, calls = calls[: self._calls], calls[self._calls :]
            seconds += self._line(line)
        return seconds

    def _line(self, calls: Sequence[Call]) -> float:
        """The time of some calls; of fewer at a time from now on, if they are too many to wait."""
        for attempt in range(TRIES):
            if attempt == TRIES // 2 and len(calls) > 1:
                self._calls = len(calls) // 2
                return self._line(calls[: self._calls]) + self._line(calls[self._calls :])
            hold = self._engine.plan("hold the device", lambda: Hold(self._engine))
            begin = time.perf_counter()
            held = hold(self._length)
            for call in calls:
                call()
            enqueued = time.perf_counter() - begin
            in_time = held.command_execution_status != cl.command_execution_status.COMPLETE
            held.wait()
            begin = time.perf_counter()
            self.finish()
            seconds = time.perf_counter() - begin
            if in_time:
                return seconds
            self._length = max(4 * self._length, 2 * enqueued)
        raise PortableGPUError(NOT_HELD)


class Hold:
    """Keeps a device at work for about as long as is asked."""

    def __init__(self, engine: Engine) -> None:
        """Build the kernel, and find out how long a round takes."""
        program = engine.programs.program(specialize("bench/hold", engine.target))
        self._kernel, self._queue = cl.Kernel(program, "hold"), engine.queue
        self._out = engine.allocate(4)
        self._rounds = 1 << 12  # of a second: a guess, until the device takes long enough for them
        self._second()
        while self._second() < _LEAST:
            self._rounds *= 2
        self._rounds = int(self._rounds / min(self._second() for _ in range(3)))

    def _second(self) -> float:
        """How long it takes what it takes for a second."""
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
