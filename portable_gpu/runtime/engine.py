"""The Engine: a context, a queue, what the device is, and the caches and memory of its calls."""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyopencl as cl
from pyopencl.tools import DeferredAllocator, MemoryPool

from portable_gpu.dtypes import check_precision
from portable_gpu.errors import (
    ArgumentError,
    ContextMismatchError,
    DeviceMemoryError,
)
from portable_gpu.runtime import pocl
from portable_gpu.runtime.devices import CLASS_VARIABLE, choose_device, query_facts
from portable_gpu.runtime.events import QueueEvents, enqueue_without_event, marker
from portable_gpu.runtime.exchange import checked
from portable_gpu.runtime.program import DiskCache, ProgramCache
from portable_gpu.runtime.views import context_of
from portable_gpu.targets import Target, detect
from portable_gpu.tuning.table import TuningTable

T = TypeVar("T")

# Work that one thread does sooner than two, of which the second has to be woken (PoCL, 25 us).
_CALLER_BYTES = 5 << 20
_CALLER_FLOP = 3_000_000

_MOST_PLANS = 4096

# Shares of the device's memory: the largest result that comes from a queue's pool, and the most
# that the pool keeps while nobody uses it.
_POOLED = 1 / 64
_HELD = 1 / 16


class Engine:
    """Runs kernels on one device.  Safe to use from several threads.

    Fresh results lie in memory of a pool that belongs to their queue, as with pyopencl's
    ``MemoryPool``: once a result is dropped, later calls on that queue write there.  Calls of this
    library on another queue keep their inputs until they are done; before you drop a result that
    a command of your own on another queue still reads, wait for that command.

    Attributes:
        context: The OpenCL context.
        device: The device.
        queue: The queue of calls that name no other.
        target: What the device is, and hence which path its kernels take.
        table: Where policies come from.
        precision: Of products of float32 that ask for none; see :func:`portable_gpu.gemm`.
        reason: Why this device was chosen.
        caller: Where worker threads take long to wake, an engine that runs kernels on the calling
            thread; small problems in NumPy arrays go there.
    """

    def __init__(
        self,
        device: cl.Device | str | None = None,
        *,
        queue: cl.CommandQueue | None = None,
        device_class: str | None = None,
        table: TuningTable | None = None,
        precision: str = "ieee",
        caller: bool = True,
    ) -> None:
        """Open a device.

        Args:
            device: A pyopencl device, or a request as ``PORTABLE_GPU_DEVICE`` takes it; without
                one, that variable, then a GPU, then a CPU.
            queue: Use this queue, and its context and device, instead.
            device_class: Take the path of another class (``gcn``, ``generic``, ``nvidia-sm20``);
                ``PORTABLE_GPU_DEVICE_CLASS`` does the same for every engine.
            table: Policies to use instead of the user's and the shipped ones.
            precision: How gemm and matmul compute products of float32 unless they are told.
            caller: Whether small problems in NumPy arrays may run on the calling thread (never
                where a queue is given).

        Raises:
            DeviceNotFoundError: No such device.
            ArgumentError: Both ``device`` and ``queue``, an unknown class or precision.
            UnsupportedError: The class cannot run on the device, or PoCL has no linker here.
        """
        self.precision = check_precision(precision)
        if queue is not None:
            if device is not None:
                raise ArgumentError("device and queue are both given; the queue has its device")
            self.device, self.reason = queue.device, "the device of the given queue"
            self.context = queue.context
        else:
            if isinstance(device, cl.Device):
                self.device, self.reason = device, "given as an object"
            else:
                self.device, self.reason = choose_device(device)
            self.context = cl.Context([self.device])
        pocl.provide_linker(self.device)
        forced = device_class or os.environ.get(CLASS_VARIABLE) or None
        self.table = TuningTable.load() if table is None else table
        self.queue = cl.CommandQueue(self.context, self.device) if queue is None else queue
        self.programs = ProgramCache(self.context, self.device, DiskCache.default())
        target = detect(query_facts(self.device), forced)
        self.target: Target = checked(target, self.context, self.device, self.programs)
        #: A CPU device works on NumPy memory in place, whatever path is forced on it.
        self.maps_host_memory = self.target.facts.type == "cpu"
        #: Whether its kernels take any host address, so that NumPy arrays may be of any size.
        self.takes_host_pointers = self.maps_host_memory and self.target.facts.svm
        self.caller: Engine | None = None
        twin = pocl.calling_thread_device(self.device) if caller and queue is None else None
        if twin is not None:
            self.caller = Engine(
                twin, device_class=forced, table=self.table, precision=precision, caller=False
            )
        self._plans: dict[Hashable, Any] = {}
        self._lock = threading.RLock()
        self._states: dict[cl.CommandQueue, QueueState] = {}

    def __repr__(self) -> str:
        return f"<Engine {self.target.facts.name!r} as {self.target.device_class}>"

    def for_host_work(self, nbytes: int, flop: int = 0) -> Engine:
        """The engine of a call on NumPy arrays: itself, or :attr:`caller` for little work."""
        small = nbytes <= _CALLER_BYTES and flop <= _CALLER_FLOP
        return self.caller if small and self.caller is not None else self

    @property
    def own_queue(self) -> cl.CommandQueue:
        """A queue that nobody else uses: for what a plan has to have done once and wait for."""
        return self.plan("a queue of its own", lambda: cl.CommandQueue(self.context, self.device))

    def plan(self, key: Hashable, make: Callable[[], T]) -> T:
        """The cached plan of ``key``; ``make()`` builds it the first time."""
        plan = self._plans.get(key)
        if plan is None:
            with self._lock:
                plan = self._plans.get(key)
                if plan is None:
                    if len(self._plans) >= _MOST_PLANS:
                        self._plans.clear()
                    plan = self._plans[key] = make()
        return plan

    def state(self, queue: cl.CommandQueue | None = None) -> QueueState:
        """What the engine keeps for a queue (its own, or another of the same context)."""
        wanted = self.queue if queue is None else queue
        state = self._states.get(wanted)
        if state is None:
            with self._lock:
                state = self._states.setdefault(wanted, QueueState(self, wanted))
        return state

    def in_place(self, memory: Any, nbytes: int, writable: bool) -> Any:
        """What a kernel of a CPU device takes for ``nbytes`` of the caller's contiguous memory."""
        facts = self.target.facts
        # Intel's runtime copies a buffer over memory that it finds badly aligned (2 GB/s).
        if facts.system_svm or (self.takes_host_pointers and nbytes > facts.max_alloc_size):
            # No buffer may be as large, but an address is an address.  cl.SVM takes no array that
            # is read-only; the kernel does not write to it.
            if isinstance(memory, np.ndarray) and not memory.flags.writeable:
                memory = (ctypes.c_char * nbytes).from_address(memory.ctypes.data)
            return cl.SVM(memory)
        self.check_allocation(nbytes)
        access = cl.mem_flags.READ_WRITE if writable else cl.mem_flags.READ_ONLY
        return cl.Buffer(self.context, access | cl.mem_flags.USE_HOST_PTR, hostbuf=memory)

    def check_allocation(self, nbytes: int) -> None:
        """Raise DeviceMemoryError if no buffer of ``nbytes`` can exist on the device."""
        limit = self.target.facts.max_alloc_size
        if nbytes > limit:
            raise DeviceMemoryError(
                f"a buffer of {nbytes} bytes is needed, and the largest that "
                f"{self.target.facts.name} gives has {limit}; split the problem"
            )

    def allocate(self, nbytes: int) -> cl.Buffer:
        """A new buffer of the caller's own."""
        self.check_allocation(nbytes)
        try:
            return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes)
        except cl.Error as error:
            raise DeviceMemoryError(f"no buffer of {nbytes} bytes to be had: {error}") from error


class QueueState:
    """What an engine keeps for one queue: memory that its kernels may reuse in order.

    Attributes:
        engine, queue: Whose.
        in_order: Whether each command of the queue begins when the one before has ended.
        enqueue_without_event: ``clEnqueueNDRangeKernel`` on this queue, for launches that wait for
            no event and ask for none; ``None`` where they ask for one.
    """

    def __init__(self, engine: Engine, queue: cl.CommandQueue) -> None:
        self.engine = engine
        self.queue = queue
        properties, kinds = queue.properties, cl.command_queue_properties
        self.in_order = not properties & kinds.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self.enqueue_without_event: Callable[..., int] | None = None
        asks = engine.target.launch_events or properties & kinds.PROFILING_ENABLE
        if self.in_order and not asks and enqueue_without_event is not None:
            self.enqueue_without_event = partial(enqueue_without_event, queue.int_ptr)
        # ImmediateAllocator lets go of the interpreter while the pool is half changed: of 32 runs
        # of eight threads on an H200 seven crashed, of 60 with DeferredAllocator none.  What the
        # pool warns of, that memory may turn out to be absent later, Kernel reports.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            self._pool = MemoryPool(DeferredAllocator(engine.context))
        self._lock = threading.Lock()
        self.empty_buffer = cl.Buffer(engine.context, cl.mem_flags.READ_WRITE, 64)
        memory = engine.target.facts.global_mem_size
        self._pooled, self._most_held = int(memory * _POOLED), int(memory * _HELD)
        self._held: list[tuple[cl.Event, list[Any]]] = []
        self._counters = self._zeroed(1024)
        self._partials = self._zeroed(1 << 14)

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

    def after(self, *launches: cl.Event | None) -> list[cl.Event]:
        """What a command of this queue has to wait for, to come after launches on it."""
        return [] if self.in_order else [self.event(event) for event in launches]

    def new_events(self) -> list[cl.Event]:
        """The events of an array that this queue is to write."""
        return [] if self.enqueue_without_event is None else QueueEvents(self.queue)

    def cover(self, events: list[cl.Event], event: cl.Event | None) -> None:
        """Have an array's events cover a launch that wrote it, and came after them."""
        if isinstance(events, QueueEvents) and events.queue == self.queue:
            events.renew()
        else:
            events[:] = [self.event(event)]

    def allocate(self, nbytes: int) -> Any:
        """A buffer for a result: like :meth:`workspace`, but very large ones are the caller's own.

        On an H200 a new buffer costs 7 us for 64 KiB and 250 us for 128 MiB, the pool's 0.2.
        """
        if nbytes <= self._pooled and self.in_order:
            return self._from_pool(nbytes)
        return self.engine.allocate(nbytes)

    def hold(self, event: cl.Event, arrays: Sequence[Any]) -> None:
        """Keep arrays of other queues until ``event``: their pools do not know of this queue."""
        complete = cl.command_execution_status.COMPLETE
        with self._lock:
            self._held = [
                held for held in self._held if held[0].command_execution_status != complete
            ]
            self._held.append((event, list(arrays)))

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
        return self._from_pool(nbytes)

    def _from_pool(self, nbytes: int) -> Any:
        pool = self._pool
        try:
            with self._lock:
                if pool.managed_bytes - pool.active_bytes > self._most_held:
                    pool.free_held()
                return pool.allocate(nbytes)
        except cl.Error as error:
            raise DeviceMemoryError(f"no workspace of {nbytes} bytes: {error}") from error

    def fold_space(self, counters: int, nbytes: int) -> tuple[Any, Any]:
        """Room for a fold over work-groups: zeroed 32-bit counters, and ``nbytes`` for partials.

        Every kernel leaves the counters zeroed, so an in-order queue needs one set.  The room
        for partials starts zeroed too, so that no checker sees uninitialised memory.
        """
        if not self.in_order:
            return self._zeroed(counters), self._zeroed(max(1, -(-nbytes // 4)))
        if counters > self._counters.size // 4:
            self._counters = self._zeroed(2 * counters)
        if nbytes > self._partials.size:
            self._partials = self._zeroed(-(-nbytes // 2))
        return self._counters, self._partials

    def _zeroed(self, count: int) -> cl.Buffer:
        zeros = np.zeros(count, np.uint32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self.engine.context, flags, hostbuf=zeros)


_registry_lock = threading.RLock()
_default: Engine | None = None
_by_queue: dict[cl.CommandQueue, QueueState] = {}
_by_context: dict[tuple[int, int], Engine] = {}


def default_engine() -> Engine:
    """The engine of calls that name none; opened on first use, on the device that ``info`` shows.

    Raises:
        DeviceNotFoundError: There is no OpenCL device.
    """
    global _default
    if _default is None:
        with _registry_lock:
            if _default is None:
                _default = Engine()
    return _default


def state_for(
    arrays: Sequence[Any], engine: Engine | None, queue: cl.CommandQueue | None
) -> QueueState:
    """The queue, and its engine, on which a call with these device arrays runs.

    ``queue=`` counts first, then the queue of the first array that has one, then the engine's.

    Raises:
        ContextMismatchError: Arrays, queue and engine are of different contexts.
    """
    chosen = queue
    if chosen is None:
        chosen = next((array.queue for array in arrays if array.queue is not None), None)
    if chosen is None and engine is None and not arrays:
        return default_engine().state()
    if engine is None and chosen is not None and len(arrays) <= 1 and queue is None:
        known = _by_queue.get(chosen)  # the common call: one array, with its queue
        if known is not None:
            return known
    context = context_of(arrays)
    if engine is not None and context is not None and engine.context != context:
        raise ContextMismatchError("an array is of another OpenCL context than engine=")
    if chosen is None:
        found = engine if engine is not None else _engine_of(context, None)
        return found.state()
    if context is not None and chosen.context != context:
        raise ContextMismatchError("queue= is of another OpenCL context than the arrays")
    if engine is not None:
        if chosen.context != engine.context:
            raise ContextMismatchError("queue= is of another OpenCL context than engine=")
        return engine.state(chosen)
    with _registry_lock:
        if len(_by_queue) > 256:  # queues come and go: keep the map from growing without end
            _by_queue.clear()
        return _by_queue.setdefault(chosen, _engine_of(chosen.context, chosen).state(chosen))


def _engine_of(context: cl.Context | None, queue: cl.CommandQueue | None) -> Engine:
    if context is None:
        return default_engine()
    with _registry_lock:
        if _default is not None and _default.context == context:
            return _default
        device = context.devices[0] if queue is None else queue.device
        key = (context.int_ptr, device.int_ptr)
        if key not in _by_context:
            own = cl.CommandQueue(context, device) if queue is None else queue
            _by_context[key] = Engine(queue=own)
        return _by_context[key]
