"""A factor that lies on the disk but for its last part.

::

    device   | chunk 0 | chunk 1 | chunk 2 |  last chunk, which stays      rooms by turns
    host          0 -> file  1 -> file  2 -> file                          while the device goes on

A solve brings the chunks back, forwards and then backwards; while the device works with one, a
thread reads the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.views import View
from portable_gpu.sparse.numeric import SYSTEMS, Numeric, lies
from portable_gpu.sparse.spill import Spill

_Values = np.ndarray[Any, np.dtype[Any]]


class SpilledFactor:
    """The panels of one factorisation."""

    def __init__(
        self, numeric: Numeric, state: QueueState, spill_dir: Any, values: Any, report: Any
    ) -> None:
        """Factorise, and wait.

        Args:
            numeric: The plans.
            state: The queue.
            spill_dir: The folder for the file.
            values: The buffer of the matrix's values.
            report: That of the report.

        Raises:
            SpillError: The disk is full, or broken.
            DeviceMemoryError: There is no room on the device.
        """
        self._numeric, self._state = numeric, state
        chunks, device = numeric.schedule.chunks, numeric.device
        self._bounds = [numeric.bounds(chunk) for chunk in chunks]
        self._file = Spill(spill_dir, self._bounds[-1][0], numeric.dtype)
        try:
            arena = state.engine.allocate(device.arena_bytes)
            told = state.engine.allocate(device.told_bytes)
            self._last: Any = None
            self._factorise([values, None, report, arena, told])
        except BaseException:
            state.finish()  # what was enqueued reads and writes memory that goes now
            self._file.close()
            raise

    def _nbytes(self, number: int) -> int:
        first, end = self._bounds[number]
        return (end - first) * self._numeric.dtype.itemsize

    def _rooms(self, count: int) -> list[Any]:
        """Room on the device for so many of the chunks that are on the disk."""
        most = max(self._nbytes(k) for k in range(len(self._bounds) - 1))
        return [self._state.engine.allocate(most) for _ in range(count)]

    def _factorise(self, operands: list[Any]) -> None:
        last, rooms = len(self._bounds) - 1, self._rooms(self._numeric.rooms)
        writing: list[Future[None]] = []
        wait_for: Sequence[cl.Event] | None = None
        with ThreadPoolExecutor(1) as writer:
            for k, (first, end) in enumerate(self._bounds):
                if k == last:
                    for one in writing:
                        one.result()
                    rooms.clear()
                    operands[1] = self._last = self._state.engine.allocate(self._nbytes(k))
                else:
                    if k >= len(rooms):
                        writing[k - len(rooms)].result()  # its room is free again
                    operands[1] = rooms[k % len(rooms)]
                plan = self._numeric.factorise_chunk(k)
                event = plan.enqueue(self._state, operands, (0, -first, 0, 0, 0), wait_for=wait_for)
                wait_for = self._state.after(event)
                if k < last:
                    values = np.empty(end - first, self._numeric.dtype)
                    copied = self._copy(values, operands[1], event)
                    writing.append(writer.submit(self._write, copied, first, values))
        self._state.finish()

    def _copy(self, to: Any, source: Any, event: cl.Event | None) -> cl.Event:
        """Copy on a queue of its own, so that the device computes meanwhile."""
        queue = self._state.engine.own_queue
        wait_for = [self._state.event(event)]
        self._state.queue.flush()
        copied = cl.enqueue_copy(queue, to, source, is_blocking=False, wait_for=wait_for)
        queue.flush()
        return copied

    def _write(self, copied: cl.Event, first: int, values: _Values) -> None:
        copied.wait()
        self._file.write(first, values)

    def solve(self, system: str, count: int, b: View, x: View) -> None:
        """Solve, and wait; b and x are n x count each."""
        numeric, state = self._numeric, self._state
        n, itemsize = numeric.symbolic.n, numeric.dtype.itemsize
        work = state.workspace(max(1, n * count * itemsize))
        left = state.workspace(max(1, numeric.schedule.rows * count * itemsize))
        come, go = numeric.come(system, count, lies(b)), numeric.go(system, count, lies(x))
        try:
            event = come.enqueue(state, [b.buffer, work], (b.offset, 0))
            for direction in SYSTEMS[system]:
                if direction in "LH":
                    event = self._substitute(direction == "L", count, work, left, event)
            after = state.after(event)
            go.enqueue(state, [x.buffer, work], (x.offset, 0), wait_for=after)
        finally:
            state.finish()

    def _substitute(
        self, forward: bool, count: int, work: Any, left: Any, event: cl.Event | None
    ) -> cl.Event | None:
        """One substitution; while a chunk is at work the next one is read."""
        state, last = self._state, len(self._bounds) - 1
        order = range(last + 1) if forward else range(last, -1, -1)
        from_disk = iter([k for k in order if k < last])
        [room] = self._rooms(1)
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(self._read, next(from_disk))
            for k in order:
                panels = self._last
                if k < last:
                    values, panels = coming.result(), room
                    following = next(from_disk, None)
                    if following is not None:
                        coming = reader.submit(self._read, following)
                    cl.enqueue_copy(state.queue, room, values, wait_for=state.after(event))
                plan = self._numeric.substitute_chunk(k, forward, count)
                after = state.after(event)
                offsets = (-self._bounds[k][0], 0, 0)
                event = plan.enqueue(state, [panels, work, left], offsets, wait_for=after)
        return event

    def _read(self, number: int) -> _Values:
        first, end = self._bounds[number]
        values = np.empty(end - first, self._numeric.dtype)
        self._file.read(first, values)
        return values

    def panels(self) -> _Values:
        """All panels, on the host."""
        whole = np.empty(self._numeric.device.size, self._numeric.dtype)
        first = self._bounds[-1][0]
        if first:
            self._file.read(0, whole[:first])
        if len(whole) > first:
            cl.enqueue_copy(self._state.queue, whole[first:], self._last)
        return whole

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
