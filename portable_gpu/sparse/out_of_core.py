"""A factor that lies on the disk but for its last part.

::

    device   | chunk 0 | chunk 1 | chunk 2 |  last chunk, which stays      rooms by turns
    host          0 -> file  1 -> file  2 -> file                          while the device goes on

What works with the factor visits the chunks again, forwards or backwards.  While the device works
with one, the next one is on its way to the other room, and the calling thread reads the one after
it::

    calling thread  | read 1 | read 2 | read 3 |
    copies             | copy 1 | copy 2 | copy 3 |                        a queue of their own
    device                | work 1 | work 2 | work 3 |  last chunk

There is no other thread, and no lock: a signal handler may raise at any step, and nothing is left
that a later call waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.errors import DeviceMemoryError
from portable_gpu.runtime.call import run_to_the_end
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.views import View
from portable_gpu.sparse.numeric import SYSTEMS, Numeric, lies
from portable_gpu.sparse.progress import Watch
from portable_gpu.sparse.spill import Spill

_Values = np.ndarray[Any, np.dtype[Any]]


class SpilledFactor:
    """The panels of one factorisation.

    Calls come one after the other.  One of a signal handler may come in the midst of another: each
    has memory of its own.
    """

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
        self._numeric, self._state, self._copies = numeric, state, state.engine.own_queue
        self._bounds = [numeric.bounds(chunk) for chunk in numeric.schedule.chunks]
        self._sizes = [end - first for first, end in self._bounds]
        self._most = max(self._sizes[:-1])
        self._spare: list[list[_Values]] = []  # memory of the host that no call uses
        self._last: Any = None
        self._file = Spill(spill_dir, self._bounds[-1][0], numeric.dtype)
        try:
            self._with_memory(lambda staged: self._factorise(staged, operands, watch))
        except BaseException:
            self._file.close()
            raise

    def _room(self, size: int) -> Any:
        return self._state.engine.allocate(size * self._numeric.dtype.itemsize)

    def _rooms(self) -> list[Any]:
        """Rooms on the device for chunks that are on the disk."""
        count = min(self._numeric.rooms, len(self._sizes) - 1)
        return [self._room(self._most) for _ in range(count)]

    def _with_memory(self, work: Callable[[list[_Values]], None]) -> None:
        """Do work with memory of the host for chunks, and wait for both queues."""
        try:
            staged = self._spare.pop()
        except IndexError:
            dtype, count = self._numeric.dtype, min(2, len(self._sizes) - 1)
            staged = [host_memory(self._state.engine, self._most, dtype) for _ in range(count)]

        def work_and_wait() -> None:
            work(staged)
            self._finish()

        run_to_the_end(self._state, staged, work_and_wait, self._finish)
        self._spare.append(staged)

    def _finish(self) -> None:
        self._state.queue.flush()  # copies wait for kernels
        self._copies.finish()
        self._state.finish()

    def _factorise(
        self, staged: list[_Values], operands: Sequence[Any], watch: Watch | None
    ) -> None:
        """Write each chunk while the device makes the next one."""
        last, rooms, state = len(self._sizes) - 1, self._rooms(), self._state
        values, *others = operands
        copies: list[cl.Event] = []
        wait_for: list[cl.Event] = []

        def write(number: int) -> None:
            if watch is not None:
                watch.until(copies[number])
            copies[number].wait()
            part = staged[number % len(staged)][: self._sizes[number]]
            self._file.write(self._bounds[number][0], part)

        for k, plan in enumerate(self._numeric.factorisation):
            if k == last:
                if k:
                    write(k - 1)
                rooms.clear()
                panels = self._last = self._room(self._sizes[k])
            else:
                panels = rooms[k % len(rooms)]
                wait_for = [*wait_for, *copies[max(0, k - len(rooms)) : k - len(rooms) + 1]]
            buffers, offsets = [values, panels, *others], (0, -self._bounds[k][0], 0, 0, 0)
            if watch is None:
                event = plan.enqueue(state, buffers, offsets, wait_for=wait_for)
            else:
                event = watch.enqueue(plan, state, buffers, offsets, (), wait_for)
            wait_for = state.after(event)
            if k < last:
                part = staged[k % len(staged)][: self._sizes[k]]
                copies.append(self._copy(part, panels, state.event(event)))
                if k:
                    write(k - 1)
        if watch is not None:
            watch.wait()

    def _copy(self, to: Any, source: Any, *after: cl.Event) -> cl.Event:
        """Copy on a queue of its own, so that the device computes meanwhile."""
        self._state.queue.flush()
        copied = cl.enqueue_copy(self._copies, to, source, is_blocking=False, wait_for=list(after))
        self._copies.flush()
        return copied

    def solve(self, system: str, count: int, b: View, x: View) -> None:
        """Solve, and wait; b and x are n x count each."""
        numeric, state = self._numeric, self._state
        n, itemsize, last = numeric.symbolic.n, numeric.dtype.itemsize, len(self._sizes) - 1
        work = state.workspace(max(1, n * count * itemsize))
        left = state.workspace(max(1, numeric.schedule.rows * count * itemsize))
        come, go = numeric.come(system, count, lies(b)), numeric.go(system, count, lies(x))

        def solve(staged: list[_Values]) -> None:
            event = come.enqueue(state, [b.buffer, work], (b.offset, 0))
            for direction in SYSTEMS[system]:
                if direction not in "LH":
                    continue
                forward = direction == "L"

                def plan_of(number: int, forward: bool = forward) -> Plan:
                    plan: Plan = numeric.substitute_chunk(number, forward, count)
                    return plan

                order = range(last + 1) if forward else range(last, -1, -1)
                event = self._visit(staged, order, plan_of, [work, left], event)
            after = state.after(event)
            go.enqueue(state, [x.buffer, work], (x.offset, 0), wait_for=after)

        self._with_memory(solve)

    def visit(
        self, order: Iterable[int], plan_of: Callable[[int], Plan], others: Sequence[Any]
    ) -> None:
        """Run a plan for each chunk, and wait; chunks come from the disk meanwhile.

        Args:
            order: The chunks.
            plan_of: The plan of each; operands: its panels, and the others.
            others: Buffers.
        """

        def visit(staged: list[_Values]) -> None:
            self._visit(staged, order, plan_of, others, None)

        self._with_memory(visit)

    def _visit(
        self,
        staged: list[_Values],
        order: Iterable[int],
        plan_of: Callable[[int], Plan],
        others: Sequence[Any],
        event: cl.Event | None,
    ) -> cl.Event | None:
        """Enqueue the plans after an event; the event of the last one."""
        state, last, rooms = self._state, len(self._sizes) - 1, self._rooms()
        used, copies = list[cl.Event](), list[cl.Event]()
        for k in order:
            panels, after = self._last, state.after(event)
            if k < last:
                at = len(copies)
                if at >= len(staged):
                    copies[at - len(staged)].wait()  # the memory is free again
                part = staged[at % len(staged)][: self._sizes[k]]
                self._file.read(self._bounds[k][0], part)
                panels = rooms[at % len(rooms)]
                free = [used[at - len(rooms)]] if at >= len(rooms) else []
                copies.append(self._copy(panels, part, *free))
                after = [*after, copies[at]]
            offsets = (-self._bounds[k][0], *[0] * len(others))
            event = plan_of(k).enqueue(state, [panels, *others], offsets, wait_for=after)
            if k < last:
                used.append(state.event(event))
            state.queue.flush()
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
        """Give the room on the disk back."""
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
