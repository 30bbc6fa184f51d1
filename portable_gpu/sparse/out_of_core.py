"""A factor on the disk, except its last chunk.

The factorisation alternates between the buffers of resident chunks::

    device   | chunk 0 | chunk 1 | chunk 2 |  last chunk, which stays on the device
    host          0 -> file  1 -> file  2 -> file      while the device computes the next chunk

A solve or an inverse visits the chunks again, forwards or backwards.  While the device computes
with one chunk, the next one is copied to another buffer, and the calling thread reads the one after
it from the file::

    calling thread  | read 1 | read 2 | read 3 |
    copy queue         | copy 1 | copy 2 | copy 3 |
    device                | work 1 | work 2 | work 3 |  last chunk

There is no other thread, and no lock: a signal handler may raise at any step, and a later call
never waits for the interrupted one.
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
from portable_gpu.sparse.numeric import SYSTEMS, Numeric, operand_of
from portable_gpu.sparse.parts import FactorParts
from portable_gpu.sparse.progress import ProgressMonitor
from portable_gpu.sparse.spill import Spill

_Values = np.ndarray[Any, np.dtype[Any]]


class SpilledFactor(FactorParts):
    """The panels of one factorisation, on the disk.

    Calls are serialised by the caller.  A signal handler may call during another call, since each
    call has memory of its own.
    """

    def __init__(
        self,
        numeric: Numeric,
        state: QueueState,
        spill_dir: Any,
        operands: Sequence[Any],
        monitor: ProgressMonitor | None,
    ) -> None:
        """Factorise, and wait.

        Args:
            numeric: The plans.
            state: The queue.
            spill_dir: The folder for the file.
            operands: Buffers of the matrix's values, of the report, of the arena and of the pivot
                status.
            monitor: The progress monitor.

        Raises:
            SpillError: The disk is full, or fails.
            DeviceMemoryError: The device has too little memory.
        """
        self._numeric, self._state, self._copies = numeric, state, state.engine.own_queue
        self._bounds = [numeric.bounds(chunk) for chunk in numeric.schedule.chunks]
        self._sizes = [end - first for first, end in self._bounds]
        self._max_size = max(self._sizes[:-1])
        self._spare: list[list[_Values]] = []  # unused staging memory of the host
        self._last: Any = None
        self._file = Spill(spill_dir, self._bounds[-1][0], numeric.dtype)
        try:
            self._with_memory(lambda staged: self._factorise(staged, operands, monitor))
        except BaseException:
            self._file.close()
            raise

    def _allocate_panels(self, size: int) -> Any:
        return self._state.engine.allocate(size * self._numeric.dtype.itemsize)

    def _allocate_chunks(self) -> list[Any]:
        """Allocate the device buffers for chunks that are on the disk."""
        count = min(self._numeric.resident_chunks, len(self._sizes) - 1)
        return [self._allocate_panels(self._max_size) for _ in range(count)]

    def _with_memory(self, work: Callable[[list[_Values]], None]) -> None:
        """Call ``work`` with staging memory of the host, and wait for both queues."""
        try:
            staged = self._spare.pop()
        except IndexError:
            dtype, count = self._numeric.dtype, min(2, len(self._sizes) - 1)
            staged = [host_memory(self._state.engine, self._max_size, dtype) for _ in range(count)]

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
        self, staged: list[_Values], operands: Sequence[Any], monitor: ProgressMonitor | None
    ) -> None:
        """Write each chunk while the device factorises the next one."""
        last, device_buffers, state = len(self._sizes) - 1, self._allocate_chunks(), self._state
        values, *others = operands
        copies: list[cl.Event] = []
        wait_for: list[cl.Event] = []

        def write(number: int) -> None:
            if monitor is not None:
                monitor.until(copies[number])
            copies[number].wait()
            part = staged[number % len(staged)][: self._sizes[number]]
            self._file.write(self._bounds[number][0], part)

        for k, plan in enumerate(self._numeric.factorisation):
            if k == last:
                if k:
                    write(k - 1)
                device_buffers.clear()
                panels = self._last = self._allocate_panels(self._sizes[k])
            else:
                panels = device_buffers[k % len(device_buffers)]
                if k >= len(device_buffers):  # the chunk that the buffer had must be copied
                    wait_for = [*wait_for, copies[k - len(device_buffers)]]
            buffers, offsets = [values, panels, *others], (0, -self._bounds[k][0], 0, 0, 0)
            if monitor is None:
                event = plan.enqueue(state, buffers, offsets, wait_for=wait_for)
            else:
                event = monitor.enqueue(plan, state, buffers, offsets, (), wait_for)
            wait_for = state.after(event)
            if k < last:
                part = staged[k % len(staged)][: self._sizes[k]]
                copies.append(self._copy(part, panels, state.event(event)))
                if k:
                    write(k - 1)
        if monitor is not None:
            monitor.wait()

    def _copy(self, to: Any, source: Any, *after: cl.Event) -> cl.Event:
        """Copy on the copy queue, while the device computes."""
        self._state.queue.flush()
        copied = cl.enqueue_copy(self._copies, to, source, is_blocking=False, wait_for=list(after))
        self._copies.flush()
        return copied

    def solve(self, system: str, count: int, b: View, x: View) -> None:
        """See :meth:`FactorParts.solve`."""
        numeric, state = self._numeric, self._state
        n, itemsize, last = numeric.symbolic.n, numeric.dtype.itemsize, len(self._sizes) - 1
        permuted = state.workspace(max(1, n * count * itemsize))
        contributions = state.workspace(max(1, numeric.schedule.rows * count * itemsize))
        permute, unpermute = (
            numeric.permute_rhs(system, count, operand_of(b)),
            numeric.unpermute_solution(system, count, operand_of(x)),
        )

        def work(staged: list[_Values]) -> None:
            event = permute.enqueue(state, [b.buffer, permuted], (b.offset, 0))
            for direction in SYSTEMS[system]:
                if direction not in "LH":  # P and T: the permutations before and after
                    continue
                forward = direction == "L"

                def plan_of(number: int, forward: bool = forward) -> Plan:
                    plan: Plan = numeric.substitute_chunk(number, forward, count)
                    return plan

                order = range(last + 1) if forward else range(last, -1, -1)
                event = self._visit(staged, order, plan_of, [permuted, contributions], event)
            after = state.after(event)
            unpermute.enqueue(state, [x.buffer, permuted], (x.offset, 0), wait_for=after)

        self._with_memory(work)

    def inverse_diagonal(self, out: View) -> None:
        """See :meth:`FactorParts.inverse_diagonal`."""
        numeric = self._numeric
        others = [out.buffer, self._state.workspace(numeric.inverse_bytes)]
        order = range(len(self._sizes) - 1, -1, -1)

        def work(staged: list[_Values]) -> None:
            self._visit(staged, order, numeric.inverse, others, None)

        self._with_memory(work)

    def _visit(
        self,
        staged: list[_Values],
        order: Iterable[int],
        plan_of: Callable[[int], Plan],
        others: Sequence[Any],
        event: cl.Event | None,
    ) -> cl.Event | None:
        """Enqueue the plans after an event; return the event of the last plan."""
        state, last, device_buffers = self._state, len(self._sizes) - 1, self._allocate_chunks()
        plan_events: list[cl.Event] = []  # of chunks that are read from the disk
        copies: list[cl.Event] = []
        for k in order:
            panels, after = self._last, state.after(event)
            if k < last:
                number = len(copies)
                if number >= len(staged):
                    copies[number - len(staged)].wait()  # then the staging memory is free again
                part = staged[number % len(staged)][: self._sizes[k]]
                self._file.read(self._bounds[k][0], part)
                panels = device_buffers[number % len(device_buffers)]
                previous = number - len(device_buffers)  # the chunk that the buffer had before
                wait_for = [plan_events[previous]] if previous >= 0 else []
                copies.append(self._copy(panels, part, *wait_for))
                after = [*after, copies[number]]
            offsets = (-self._bounds[k][0], *[0] * len(others))
            event = plan_of(k).enqueue(state, [panels, *others], offsets, wait_for=after)
            if k < last:
                plan_events.append(state.event(event))
            state.queue.flush()
        return event

    def panels(self) -> _Values:
        """See :meth:`FactorParts.panels`."""
        whole = np.empty(self._numeric.device.size, self._numeric.dtype)
        first = self._bounds[-1][0]
        if first:
            self._file.read(0, whole[:first])
        if len(whole) > first:
            cl.enqueue_copy(self._state.queue, whole[first:], self._last)
        return whole

    def close(self) -> None:
        """See :meth:`FactorParts.close`."""
        self._file.close()


def host_memory(engine: Engine, size: int, dtype: Any) -> _Values:
    """Allocate pinned memory of the host, for copies to and from the device.

    Raises:
        DeviceMemoryError: The allocation failed.
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
    array: _Values = values
    return array
