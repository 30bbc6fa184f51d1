"""What an engine keeps for a queue: memory that calls reuse in order, and the calls met before."""

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
    from portable_gpu.runtime.engine import Engine
    from portable_gpu.runtime.program import Launch
    from portable_gpu.runtime.repeat import Repeat

# Shares of the device's memory: the largest result that comes from a queue's pool, and the most
# that the pool keeps while nobody uses it.
_POOLED = 1 / 64
_HELD = 1 / 16

_COMPLETE = cl.command_execution_status.COMPLETE

# Arrays that a command on another queue than theirs reads, until it ends.  They outlive the state
# of either queue, and no step below is undone by a call from a signal handler in between.
_held: dict[int, tuple[cl.Event, list[Any]]] = {}


def _holders(array: Any) -> int:
    """References to an array's list of events, with those of this function."""
    events = array.events
    return getrefcount(events)


_ALONE = _holders(SimpleNamespace(events=[]))


class QueueState:
    """What an engine keeps for one queue.

    It refers to the OpenCL queue, never to the object by which the user knows it: that object
    keeps the state (:mod:`portable_gpu.runtime.registry`), and both go together.

    Attributes:
        engine: Whose.
        queue: An object of its own for the queue.
        in_order: Whether each command of the queue begins when the one before has ended.
        pointer: The OpenCL queue, as ``ctypes`` passes it.
        enqueue_without_event: ``clEnqueueNDRangeKernel``, for launches that wait for no event and
            ask for none; ``None`` where they ask for one.
        recording: Where launches are noted instead of being enqueued: see
            :mod:`portable_gpu.runtime.replay`.  A queue has none.
        known: Remembered calls; see :mod:`portable_gpu.runtime.repeat`.
        direct: Those of them on C-ordered arrays of NumPy, as functions of the arrays.
        in_flight: The caller's memory that kernels may be using, whatever is raised between a
            launch and its end.
    """

    recording: list[tuple[Launch, Sequence[Any], tuple[Any, ...]]] | None = None

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
        asks = engine.target.launch_events or properties & kinds.PROFILING_ENABLE
        if self.in_order and not asks:
            self.enqueue_without_event = enqueue_without_event
        self._pool = memory_pool(engine.context)
        self._unlooked = 0  # bytes taken of the pool since somebody looked at what it holds
        self.empty_buffer = cl.Buffer(engine.context, cl.mem_flags.READ_WRITE, 64)
        memory = engine.target.facts.global_mem_size
        self._pooled, self._most_held = int(memory * _POOLED), int(memory * _HELD)
        self._least_taken = self._most_held >> 9  # so that somebody looks every 64 calls
        self._counters = self._zeroed(1024)
        self._partials = self._zeroed(1 << 14)
        fork.retire_in_children(self)

    def forget_calls(self) -> None:
        """Drop the remembered calls, and the kernels and tables that they keep."""
        self.known.clear()
        self.direct.clear()

    def forget(self) -> None:
        """Drop the remembered calls, and the memory that is not in use."""
        self.forget_calls()
        let_go()
        self._pool.free_held()

    def finish(self) -> None:
        """Wait for all that the queue has been given."""
        self.queue.finish()

    # -- events

    def outside(self, events: Sequence[cl.Event]) -> Sequence[cl.Event]:
        """Those of ``events`` that this queue does not come after by itself."""
        if isinstance(events, QueueEvents) and events.queue == self.queue:
            events = events.present()
        if not events or not self.in_order:
            return events
        return [event for event in events if event.command_queue != self.queue]

    def event(self, event: cl.Event | None) -> cl.Event:
        """The event of a launch; where it asked for none, of all that the queue has been given."""
        return marker(self.queue) if event is None else event

    def wait(self, event: cl.Event | None) -> None:
        """Wait for a launch by its event; without one, for all that the queue has been given."""
        self.event(event).wait()

    def after(self, *launches: cl.Event | None) -> list[cl.Event]:
        """What a command of this queue has to wait for, to come after launches on it."""
        return [] if self.in_order else [self.event(event) for event in launches]

    def new_events(self) -> list[cl.Event]:
        """The events of an array that this queue is to write."""
        return [] if self.enqueue_without_event is None else QueueEvents.of(self.queue)

    def cover(self, array: Any, event: cl.Event | None) -> None:
        """Have an array's events cover a launch that wrote it, and came after them.

        A list of pyopencl's own that nobody else holds gives way to one that needs no event.
        """
        queue, events = self.queue, array.events
        if isinstance(events, QueueEvents) and (events.queue is queue or events.queue == queue):
            events.renew()
            return
        del events  # it would count as a holder
        if event is None and _holders(array) <= _ALONE:
            array.events = QueueEvents.of(queue)
        else:
            array.events[:] = [self.event(event)]

    def hold(self, event: cl.Event, arrays: Sequence[Any]) -> None:
        """Keep arrays of other queues until ``event``: their pools do not know of this queue."""
        held = (event, list(arrays))
        _held[id(held)] = held
        let_go()

    # -- memory

    def allocate(self, nbytes: int) -> Any:
        """A buffer for a result: like :meth:`workspace`, but very large ones are the caller's own.

        On an H200 a new buffer costs 7 us for 64 KiB and 250 us for 128 MiB, the pool's 0.2.
        """
        if nbytes > self._pooled or not self.in_order:
            return self.engine.allocate(nbytes)
        return self.from_pool(nbytes)

    def workspace(self, nbytes: int) -> Any:
        """A buffer for the kernels of one call; drop it once they are enqueued.

        On an in-order queue it comes from a pool, for whoever gets it next is enqueued later.
        On an out-of-order queue it is fresh: OpenCL keeps it alive until its commands end.

        Raises:
            DeviceMemoryError: The device has no such room.
        """
        if not self.in_order:
            return self.engine.allocate(nbytes)
        self.engine.check_allocation(nbytes)
        return self.from_pool(nbytes)

    def from_pool(self, nbytes: int) -> Any:
        """Memory of an in-order queue's pool, of a size that the device has.

        The pool needs no lock: what it does holds on to the interpreter's.
        """
        pool = self._pool
        self._unlooked += nbytes + self._least_taken
        if 8 * self._unlooked > self._most_held:
            self._unlooked = 0
            if pool.managed_bytes - pool.active_bytes > self._most_held:
                pool.free_held()
        try:
            return pool.allocate(nbytes)
        except cl.Error as error:
            raise DeviceMemoryError(f"no workspace of {nbytes} bytes: {error}") from error

    def fold_space(self, counters: int, nbytes: int) -> tuple[Any, Any]:
        """Room for a fold over work-groups: zeroed 32-bit counters, and ``nbytes`` for partials.

        Every kernel leaves the counters zeroed, so an in-order queue needs one set.  The room
        for partials starts zeroed too, so that no checker sees uninitialised memory.  Threads
        that ask at once may each get room of their own; nobody gets too little.
        """
        if not self.in_order:
            return self._zeroed(counters), self._zeroed(max(1, -(-nbytes // 4)))
        found, partials = self._counters, self._partials
        if counters > found.size // 4:
            found = self._counters = self._zeroed(2 * counters)
        if nbytes > partials.size:
            partials = self._partials = self._zeroed(-(-nbytes // 2))
        return found, partials

    def _zeroed(self, count: int) -> cl.Buffer:
        zeros = np.zeros(count, np.uint32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self.engine.context, flags, hostbuf=zeros)


def let_go() -> None:
    """Drop arrays whose command on another queue has ended, or failed."""
    for key, (event, _) in list(_held.items()):
        if event.command_execution_status <= _COMPLETE:
            _held.pop(key, None)
