"""The state that an engine keeps for a queue: memory that calls reuse in order, cached calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from ctypes import c_void_p
from sys import getrefcount
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from portable_gpu.errors import DeviceMemoryError
from portable_gpu.runtime import fork
from portable_gpu.runtime.events import QueueEvents, enqueue_without_event, marker
from portable_gpu.runtime.memory import memory_pool

if TYPE_CHECKING:
    from portable_gpu.runtime.call import TracedCall
    from portable_gpu.runtime.engine import Engine
    from portable_gpu.runtime.launch import Launch
    from portable_gpu.runtime.repeat import Repeat

# Fractions of the device's memory: the largest result that is allocated in a queue's pool, and the
# maximum of unused memory that the pool keeps.
_MAX_POOLED = 1 / 64
_MAX_UNUSED = 1 / 16

_COMPLETE = cl.command_execution_status.COMPLETE

# Arrays that a command on another queue than theirs reads, until that command ends.  They outlive
# the states of both queues.  A signal handler may call in between any two steps below.
_foreign_reads: dict[int, tuple[cl.Event, list[Any]]] = {}


def _holders(array: Any) -> int:
    """References to an array's list of events, with those of this function."""
    events = array.events
    return getrefcount(events)


_ALONE = _holders(SimpleNamespace(events=[]))


class QueueState:
    """The state that an engine keeps for one queue.

    It refers to the OpenCL queue, but not to the user's Python object for it: that object refers
    to the state (:mod:`portable_gpu.runtime.registry`), so both are freed together.

    Attributes:
        engine: The engine.
        queue: A second Python object for the queue.
        in_order: Whether each command of the queue starts after the one before has ended.
        is_profiled: Whether events of the queue tell when their commands ran.
        pointer: The OpenCL queue, as ``ctypes`` passes it.
        enqueue_without_event: ``clEnqueueNDRangeKernel``, for launches without events; ``None`` if
            launches on this queue create events.
        recording: A list to which launches are appended instead of being enqueued: see
            :mod:`portable_gpu.runtime.recording`.  ``None`` for a queue.
        traced: A list to which calls are appended instead of being run: see
            :mod:`portable_gpu.ops.composed`.  ``None`` for a queue.
        known: Cached calls; see :mod:`portable_gpu.runtime.repeat`.
        direct: The cached calls on C-ordered NumPy arrays, as functions of the arrays.
        in_flight: Memory of callers that kernels may use, kept alive if an exception is raised
            between a launch and its end.  It is stored before :meth:`finish` is called, because a
            second exception may interrupt that wait.
    """

    recording: list[tuple[Launch, Sequence[Any], tuple[Any, ...]]] | None = None
    traced: list[TracedCall] | None = None
    is_profiled = False

    def __init__(self, engine: Engine, queue: cl.CommandQueue) -> None:
        self.engine = engine
        self.queue = cl.CommandQueue.from_int_ptr(queue.int_ptr, retain=True)
        self.pointer = c_void_p(self.queue.int_ptr)
        self.known: dict[Hashable, Repeat] = {}
        self.direct: dict[Hashable, Callable[..., Any]] = {}
        self.in_flight: dict[Hashable, Any] = {}
        properties, kinds = queue.properties, cl.command_queue_properties
        self.in_order = not properties & kinds.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self.enqueue_without_event: Callable[..., int] | None = None
        self.is_profiled = bool(properties & kinds.PROFILING_ENABLE)
        needs_events = engine.target.launch_events or self.is_profiled
        if self.in_order and not needs_events:
            self.enqueue_without_event = enqueue_without_event
        self._pool = memory_pool(engine.context, on_host=engine.caller is not None)
        self._bytes_since_check = 0  # allocated since the unused memory of the pool was checked
        self.empty_buffer = cl.Buffer(engine.context, cl.mem_flags.READ_WRITE, 64)
        memory = engine.target.facts.global_mem_size
        self._max_pooled, self._max_unused = int(memory * _MAX_POOLED), int(memory * _MAX_UNUSED)
        self._bytes_per_call = self._max_unused >> 9  # added by each call: a check within 64 calls
        self._counters = self._zeroed(1024)
        self._partials = self._zeroed(1 << 14)
        fork.retire_in_children(self)

    def is_small(
        self, nbytes: int, flop: int, alone: Callable[[Engine], tuple[float, int]] | None = None
    ) -> bool:
        """Whether work on device arrays may run on the calling thread, which makes no event."""
        return not self.is_profiled and self.engine.is_small(nbytes, flop, alone)

    def forget_calls(self) -> None:
        """Drop the cached calls, with their kernels and tables."""
        self.known.clear()
        self.direct.clear()

    def forget(self) -> None:
        """Drop the cached calls, and the memory that is not in use."""
        self.forget_calls()
        release_ended()
        self._pool.free_held()

    def finish(self) -> None:
        """Wait for all commands of the queue."""
        self.queue.finish()

    def finish_failed(self, key: Hashable, error: BaseException) -> None:
        """Wait for all commands after a call raised, and let its memory ``in_flight[key]`` go.

        Raises:
            DeviceMemoryError: ``error`` says that the device has no memory.
        """
        self.finish()
        self.in_flight.pop(key, None)
        if isinstance(error, cl.MemoryError):
            raise DeviceMemoryError(f"the device is out of memory: {error}") from error

    # -- events

    def outside(self, events: Sequence[cl.Event]) -> Sequence[cl.Event]:
        """Return the events that a command of this queue must wait for explicitly."""
        if isinstance(events, QueueEvents) and events.queue == self.queue:
            events = events.present()
        if not events or not self.in_order:
            return events
        return [event for event in events if event.command_queue != self.queue]

    def event(self, event: cl.Event | None) -> cl.Event:
        """Return the event of a launch; without one, an event of all commands of the queue."""
        return marker(self.queue) if event is None else event

    def wait(self, event: cl.Event | None) -> None:
        """Wait for a launch by its event; without one, for all commands of the queue."""
        self.event(event).wait()

    def after(self, *launches: cl.Event | None) -> list[cl.Event]:
        """Return the events that a command of this queue must wait for to follow launches on it."""
        return [] if self.in_order else [self.event(event) for event in launches]

    def new_events(self) -> list[cl.Event]:
        """Return a list of events for an array that this queue will write."""
        return [] if self.enqueue_without_event is None else QueueEvents.of(self.queue)

    def cover(self, array: Any, event: cl.Event | None) -> None:
        """Replace an array's events by that of a launch, which wrote it and followed them.

        A pyopencl list without other references is replaced by one that needs no event.
        """
        queue, events = self.queue, array.events
        if isinstance(events, QueueEvents) and (events.queue is queue or events.queue == queue):
            events.renew()
            return
        del events  # this reference would be counted
        if event is None and _holders(array) <= _ALONE:
            array.events = QueueEvents.of(queue)
        else:
            array.events[:] = [self.event(event)]

    def cover_by_nothing(self, array: Any) -> None:
        """Remove the events of an array that has its values: all are complete, or of this queue."""
        events = array.events
        if isinstance(events, QueueEvents):
            events.end()
        else:
            del events[:]

    def cover_like(self, array: Any, result: Any) -> None:
        """Replace an array's events by those of a result that the same call wrote last."""
        events = result.events
        if isinstance(events, QueueEvents):
            event, has_ended = None, events.has_ended
        else:  # empty after a call on the calling thread
            event, has_ended = (events[-1], False) if events else (None, True)
        del events  # this reference would be counted
        if has_ended:
            self.cover_by_nothing(array)
        else:
            self.cover(array, event)

    def hold(self, event: cl.Event, arrays: Sequence[Any]) -> None:
        """Keep arrays of other queues until ``event``, because their pools ignore this queue."""
        entry = (event, list(arrays))
        _foreign_reads[id(entry)] = entry
        release_ended()

    # -- memory

    def allocate(self, nbytes: int) -> Any:
        """Allocate a buffer for a result: from the pool, unless it is very large.

        A new buffer takes 7 us (64 KiB) to 250 us (128 MiB) on NVIDIA's driver, the pool 0.2 us.
        """
        if nbytes > self._max_pooled or not self.in_order:
            return self.engine.allocate(nbytes)
        return self.from_pool(nbytes)

    def workspace(self, nbytes: int) -> Any:
        """Allocate a buffer for the kernels of one call; drop it once they are enqueued.

        On an in-order queue it is from a pool, because kernels that reuse it are enqueued later.
        On an out-of-order queue it is new: OpenCL keeps it alive until its commands end.

        Raises:
            DeviceMemoryError: The memory cannot be allocated.
        """
        if not self.in_order:
            return self.engine.allocate(nbytes)
        self.engine.check_allocation(nbytes)
        return self.from_pool(nbytes)

    def from_pool(self, nbytes: int) -> Any:
        """Allocate from an in-order queue's pool; the size must have been checked.

        The pool needs no lock, because it holds the interpreter's lock in each step.
        """
        self._bytes_since_check += nbytes + self._bytes_per_call
        if 8 * self._bytes_since_check > self._max_unused:
            self._bytes_since_check = 0
            self.trim_pool()
        try:
            return self._pool.allocate(nbytes)
        except cl.Error as error:
            raise DeviceMemoryError(f"no workspace of {nbytes} bytes: {error}") from error

    def trim_pool(self) -> None:
        """Free the pool's unused memory, if it is more than the maximum that the pool keeps."""
        pool = self._pool
        if pool.managed_bytes - pool.active_bytes > self._max_unused:
            pool.free_held()

    def counters_and_partials(self, counters: int, nbytes: int) -> tuple[Any, Any]:
        """Return 32-bit counters, zeroed, and ``nbytes`` for partial results of work-groups.

        Every kernel leaves the counters zeroed, so an in-order queue needs one set.  The memory of
        partial results is zeroed at first, so that no checker reports uninitialised memory.
        Threads that need more at the same time may each allocate new memory.
        """
        if not self.in_order:
            return self._zeroed(counters), self._zeroed(max(1, -(-nbytes // 4)))
        counter_buffer, partials = self._counters, self._partials
        if counters > counter_buffer.size // 4:
            counter_buffer = self._counters = self._zeroed(2 * counters)
        if nbytes > partials.size:
            partials = self._partials = self._zeroed(-(-nbytes // 2))
        return counter_buffer, partials

    def _zeroed(self, count: int) -> cl.Buffer:
        zeros = np.zeros(count, np.uint32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self.engine.context, flags, hostbuf=zeros)


def release_ended() -> None:
    """Drop arrays whose command on another queue has ended, or failed."""
    for key, (event, _) in list(_foreign_reads.items()):
        if event.command_execution_status <= _COMPLETE:
            _foreign_reads.pop(key, None)
