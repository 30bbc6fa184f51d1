"""A factor that lies on the disk but for its last part.

::

    device   | chunk 0 | chunk 1 | chunk 2 |  last chunk, which stays      rooms by turns
    host          0 -> file  1 -> file  2 -> file                          while the device goes on

What works with the factor visits the chunks again, forwards or backwards.  While the device works
with one, the next one is on its way to the other room, and a thread reads the one after it::

    disk     | read 1 | read 2 | read 3 |
    copies      | copy 0 | copy 1 | copy 2 |                               a queue of their own
    device         | work 0 | work 1 | work 2 |  last chunk
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.errors import DeviceMemoryError
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.views import View
from portable_gpu.sparse.numeric import SYSTEMS, Numeric, lies
from portable_gpu.sparse.progress import LATE, Watch
from portable_gpu.sparse.spill import Spill

_Values = np.ndarray[Any, np.dtype[Any]]


class SpilledFactor:
    """The panels of one factorisation."""

    def __init__(
        self,
        numeric: Numeric,
        state: QueueState,
        spill_dir: Any,
        operands: Sequence[Any],
        watch: Watch | None,
    ) -> None:
        """Factorise, and wait.

        Args:
            numeric: The plans.
            state: The queue.
            spill_dir: The folder for the file.
            operands: Buffers of the matrix's values, of the report, of the arena and of what
                fronts tell.
            watch: What tells of the progress.

        Raises:
            SpillError: The disk is full, or broken.
            DeviceMemoryError: There is no room on the device.
        """
        self._numeric, self._state = numeric, state
        self._bounds = [numeric.bounds(chunk) for chunk in numeric.schedule.chunks]
        self._sizes = [end - first for first, end in self._bounds]
        self._most = max(self._sizes[:-1])
        self._file = Spill(spill_dir, self._bounds[-1][0], numeric.dtype)
        try:
            self._staged = [
                host_memory(state.engine, self._most, numeric.dtype)
                for _ in range(min(2, len(self._sizes) - 1))
            ]
            self._last: Any = None
            self._factorise(operands, watch)
        except BaseException:
            state.finish()  # what was enqueued reads and writes memory that goes now
            state.engine.own_queue.finish()
            self._file.close()
            raise

    def _room(self, size: int) -> Any:
        return self._state.engine.allocate(size * self._numeric.dtype.itemsize)

    def _rooms(self) -> list[Any]:
        """Rooms on the device for chunks that are on the disk."""
        count = min(self._numeric.rooms, len(self._sizes) - 1)
        return [self._room(self._most) for _ in range(count)]

    def _factorise(self, operands: Sequence[Any], watch: Watch | None) -> None:
        last, rooms, state = len(self._sizes) - 1, self._rooms(), self._state
        values, *others = operands
        writing: list[Future[None]] = []
        wait_for: Sequence[cl.Event] | None = None
        with ThreadPoolExecutor(1) as writer:
            for k, plan in enumerate(self._numeric.factorisation):
                if k == last:
                    _results(writing, watch)
                    rooms.clear()
                    panels = self._last = self._room(self._sizes[k])
                else:
                    # Its room is free again, and so is the memory of the host for it.
                    _results(writing[max(0, k - len(rooms)) : k - len(rooms) + 1], watch)
                    panels = rooms[k % len(rooms)]
                buffers, offsets = [values, panels, *others], (0, -self._bounds[k][0], 0, 0, 0)
                if watch is None:
                    event = plan.enqueue(state, buffers, offsets, wait_for=wait_for)
                else:
                    event = watch.enqueue(plan, state, buffers, offsets, (), wait_for)
                wait_for = state.after(event)
                if k < last:
                    staged = self._staged[k % len(self._staged)][: self._sizes[k]]
                    copied = self._copy(staged, panels, state.event(event))
                    writing.append(writer.submit(self._write, copied, k, staged))
        if watch is not None:
            watch.wait()
        state.finish()

    def _copy(self, to: Any, source: Any, *after: cl.Event) -> cl.Event:
        """Copy on a queue of its own, so that the device computes meanwhile."""
        queue = self._state.engine.own_queue
        self._state.queue.flush()
        copied = cl.enqueue_copy(queue, to, source, is_blocking=False, wait_for=list(after))
        queue.flush()
        return copied

    def _write(self, copied: cl.Event, number: int, values: _Values) -> None:
        copied.wait()
        self._file.write(self._bounds[number][0], values)

    def solve(self, system: str, count: int, b: View, x: View) -> None:
        """Solve, and wait; b and x are n x count each."""
        numeric, state = self._numeric, self._state
        n, itemsize, last = numeric.symbolic.n, numeric.dtype.itemsize, len(self._sizes) - 1
        work = state.workspace(max(1, n * count * itemsize))
        left = state.workspace(max(1, numeric.schedule.rows * count * itemsize))
        come, go = numeric.come(system, count, lies(b)), numeric.go(system, count, lies(x))
        try:
            event = come.enqueue(state, [b.buffer, work], (b.offset, 0))
            for direction in SYSTEMS[system]:
                if direction not in "LH":
                    continue
                forward = direction == "L"

                def plan_of(number: int, forward: bool = forward) -> Plan:
                    plan: Plan = numeric.substitute_chunk(number, forward, count)
                    return plan

                order = range(last + 1) if forward else range(last, -1, -1)
                event = self.visit(order, plan_of, [work, left], event)
            after = state.after(event)
            go.enqueue(state, [x.buffer, work], (x.offset, 0), wait_for=after)
        finally:
            state.finish()

    def visit(
        self,
        order: Iterable[int],
        plan_of: Callable[[int], Plan],
        others: Sequence[Any],
        event: cl.Event | None,
    ) -> cl.Event | None:
        """Enqueue a plan for each chunk; others come from the disk meanwhile.

        Args:
            order: The chunks.
            plan_of: The plan of each; operands: its panels, and the others.
            others: Buffers.
            event: What the first one comes after.

        Returns:
            The event of the last one.
        """
        state, order = self._state, list(order)
        stored = [k for k in order if k < len(self._sizes) - 1]
        rooms, used, copies = self._rooms(), list[cl.Event](), list[cl.Event]()
        ahead = len(self._staged)

        def read(at: int) -> _Values:
            if at >= ahead:
                copies[at - ahead].wait()  # the memory is free again
            values = self._staged[at % ahead][: self._sizes[stored[at]]]
            self._file.read(self._bounds[stored[at]][0], values)
            return values

        try:
            with ThreadPoolExecutor(1) as reader:
                reading = [reader.submit(read, at) for at in range(min(ahead, len(stored)))]
                for k in order:
                    panels, after = self._last, state.after(event)
                    if is_stored := k < len(self._sizes) - 1:
                        at = len(copies)
                        panels = rooms[at % len(rooms)]
                        free = [used[at - len(rooms)]] if at >= len(rooms) else []
                        copies.append(self._copy(panels, reading[at].result(), *free))
                        if at + ahead < len(stored):
                            reading.append(reader.submit(read, at + ahead))
                        after = [*after, copies[at]]
                    offsets = (-self._bounds[k][0], *[0] * len(others))
                    event = plan_of(k).enqueue(state, [panels, *others], offsets, wait_for=after)
                    if is_stored:
                        used.append(state.event(event))
        finally:
            state.engine.own_queue.finish()
        return event

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


def host_memory(engine: Engine, size: int, dtype: Any) -> _Values:
    """Memory of the host that the device's copies reach without a detour.

    Raises:
        DeviceMemoryError: There is none.
    """
    if engine.maps_host_memory:
        return np.empty(size, dtype)
    flags, access = cl.mem_flags, cl.map_flags
    try:
        buffer = cl.Buffer(
            engine.context, flags.READ_WRITE | flags.ALLOC_HOST_PTR, size * np.dtype(dtype).itemsize
        )
        kinds: Any = access.READ | access.WRITE
        values, _ = cl.enqueue_map_buffer(engine.own_queue, buffer, kinds, 0, (size,), dtype)
    except cl.Error as error:
        raise DeviceMemoryError(f"no memory of the host for {size} elements: {error}") from error
    found: _Values = values
    return found


def _results(writing: Sequence[Future[None]], watch: Watch | None) -> None:
    """Wait until parts are written, and tell of the progress meanwhile."""
    pending: Iterable[Future[None]] = writing
    while watch is not None and pending:
        watch.look()
        pending = wait_for_futures(pending, timeout=LATE).not_done
    for one in writing:
        one.result()
