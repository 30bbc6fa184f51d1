"""The Engine: a context, a queue, what the device is, and the caches and memory of its calls."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, of_kind
from portable_gpu.dtypes import check_precision
from portable_gpu.errors import ArgumentError, DeviceMemoryError
from portable_gpu.runtime import fork, pocl
from portable_gpu.runtime.closing import Closing
from portable_gpu.runtime.devices import CLASS_VARIABLE, choose_device, query_facts
from portable_gpu.runtime.disk_cache import DiskCache
from portable_gpu.runtime.exchange import checked
from portable_gpu.runtime.host_arrays import READ_ONLY, is_of_python
from portable_gpu.runtime.pocl_processor import name_processor
from portable_gpu.runtime.program import ProgramCache
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.staging import Staging
from portable_gpu.targets import Target, detect
from portable_gpu.tuning.table import TuningTable

T = TypeVar("T")

# What one thread of a CPU does in a second, roughly: where a call runs is estimated by it.
_BYTES = 30e9
_FLOP = 30e9
# Seconds that work takes on PoCL's worker threads beyond its share.  On idle processors they take
# 45 us to begin and to report, and longer if the program computes between its calls.
_WAKING = 150e-6

_MOST_PLANS = 4096
#: Buffers over the caller's memory.
_READ = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
_WRITTEN = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
#: Of the device's memory, what the tables of plans may take: one part of so many.
_SHARE_OF_TABLES = 32
_MOST_QUEUES = 64  # of other people's, for which an engine that they name keeps something

# An engine and its plans refer to each other, and Python's collector counts objects, not the
# device's memory.  So it is asked whenever so many engines are there.
_FEW_ENGINES = 8


@dataclass(frozen=True)
class WarmUp:
    """What a warm-up did.

    Attributes:
        programs: Programs that were not in memory before; those on disk are read, not compiled.
        seconds: How long it took.
    """

    programs: int
    seconds: float


class Engine(Closing):
    """Runs kernels on one device.  Safe to use from several threads.

    Fresh results lie in memory of a pool that belongs to their queue, as with pyopencl's
    ``MemoryPool``: once a result is dropped, later calls on that queue write there.  Calls of this
    library on another queue keep their inputs until they are done; before you drop a result that
    a command of your own on another queue still reads, wait for that command.

    An engine keeps programs, plans and memory until :meth:`close`, or the end of a ``with`` block,
    or until nobody refers to it.  What it keeps for a queue of yours goes with the queue.  In a
    process that is forked from one that has an engine, calls raise
    :class:`~portable_gpu.errors.ForkError`.

    Attributes:
        context: The OpenCL context.
        device: The device.
        queue: The queue of calls that name no other.
        target: What the device is, and hence which path its kernels take.
        table: Where policies come from.
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
            ForkError: The process was forked from one that had used OpenCL.
            ArgumentError: Both ``device`` and ``queue``, an unknown class or precision.
            UnsupportedError: The class cannot run on the device, or PoCL has no linker here.
        """
        fork.check()
        if len(_engines) >= _FEW_ENGINES:
            gc.collect()
        _check_arguments(device, queue, device_class, table, caller)
        self._precision = check_precision(precision)
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
        name_processor(self.device)  # for what others build on it, too: pyopencl, users
        forced = device_class or os.environ.get(CLASS_VARIABLE) or None
        self.table = TuningTable.load() if table is None else table
        # An object of its own for the queue: it must not keep the caller's alive.
        self.queue: cl.CommandQueue = (
            cl.CommandQueue(self.context, self.device)
            if queue is None
            else cl.CommandQueue.from_int_ptr(queue.int_ptr, retain=True)
        )
        target = detect(
            query_facts(self.device), forced, "device_class" if device_class else CLASS_VARIABLE
        )
        self.programs = ProgramCache(self.context, self.device, DiskCache.default(), target.forced)
        self.target: Target = checked(target, self.context, self.device, self.programs)
        #: A CPU device works on NumPy memory in place, whatever path is forced on it.
        self.maps_host_memory = self.target.facts.type == "cpu"
        #: Whether its kernels take any host address, so that NumPy arrays may be of any size.
        self.takes_host_pointers = self.maps_host_memory and self.target.facts.svm
        #: Large copies of NumPy arrays.
        self.staging = Staging(self)
        self.caller: Engine | None = None
        #: Who remembers its calls on NumPy arrays: itself, or whose caller it is.
        self._remembering = weakref.ref(self)
        twin = pocl.calling_thread_device(self.device) if caller and queue is None else None
        if twin is not None:
            self.caller = Engine(
                twin, device_class=forced, table=self.table, precision=precision, caller=False
            )
            self.caller._remembering = self._remembering
        self._plans: dict[Hashable, Any] = {}
        self._kept_bytes = 0
        self._lock = threading.RLock()
        #: Whether :meth:`close` was called.
        self.is_closed = False
        #: What it keeps for its own queue, once that was used.
        self.home: QueueState | None = None
        self._others: dict[int, QueueState] = {}
        _engines.add(self)
        fork.retire_in_children(self)

    def __repr__(self) -> str:
        return f"<Engine {self.target.facts.name!r} as {self.target.device_class}>"

    def close(self) -> None:
        """Drop the engine's plans, programs and memory.

        Calls that name it, and plans of :func:`portable_gpu.plan` made on it, raise
        ArgumentError from now on.  Arrays, and calls in other threads, keep what they need until
        they end.  The default engine is opened anew when it is needed again.
        """
        with self._lock:
            self.is_closed = True
            self._plans.clear()
            states = [self.home, *self._others.values()]
            self.home, self._others = None, {}
        self.programs.forget()
        for state in states:
            if state is not None:
                state.forget()
        if self.caller is not None:
            self.caller.close()

    @property
    def precision(self) -> str:
        """Of products of float32 that ask for none; see :func:`portable_gpu.gemm`."""
        return self._precision

    def for_host_work(self, nbytes: int, flop: int = 0) -> Engine:
        """The engine of a call on NumPy arrays: :attr:`caller` for little work, or itself."""
        if self.caller is None or not one_is_enough(nbytes, flop, self.target.compute_units):
            return self
        return self.caller

    @property
    def own_queue(self) -> cl.CommandQueue:
        """A queue that nobody else uses: for what a plan has to have done once and wait for."""
        return self.plan("a queue of its own", lambda: cl.CommandQueue(self.context, self.device))

    def plan(self, key: Hashable, make: Callable[[], T]) -> T:
        """The cached plan of ``key``; ``make()`` builds it the first time.

        Threads that want it at once may each make one, and all get the same; they wait for each
        other where programs are built, and nowhere else.
        """
        plan: T | None = self._plans.get(key)
        if plan is None:
            made = make()
            kept = getattr(made, "kept_bytes", 0)
            if len(self._plans) >= _MOST_PLANS or self._kept_bytes + kept > self._most_kept:
                self._forget_plans()
            plan = self._plans.setdefault(key, made)
            self._kept_bytes += kept
        return plan

    def _forget_plans(self) -> None:
        """Drop all plans, and the remembered calls that would keep their tables."""
        self._plans.clear()
        self._kept_bytes = 0
        remembering = self._remembering() or self
        for state in (remembering.home, self.home, *list(self._others.values())):
            if state is not None:
                state.forget_calls()

    @property
    def _most_kept(self) -> int:
        """Bytes of the tables of all plans."""
        return self.target.facts.global_mem_size // _SHARE_OF_TABLES

    def state(self, queue: cl.CommandQueue | None = None) -> QueueState:
        """What the engine keeps for its own queue, or for another of the same context.

        Raises:
            ArgumentError: The engine is closed.
        """
        found = self.known_state(queue)
        if found is not None:
            return found
        made = QueueState(self, queue or self.queue)  # not under the lock: handlers may call here
        with self._lock:
            if self.is_closed:
                raise ArgumentError("engine is closed; open another, or name none")
            if queue is None or queue == self.queue:
                self.home = self.home or made
                return self.home
            if len(self._others) >= _MOST_QUEUES:
                self._others.pop(next(iter(self._others)), None)
            return self._others.setdefault(queue.int_ptr, made)

    def known_state(self, queue: cl.CommandQueue | None = None) -> QueueState | None:
        """As :meth:`state`, if it is there."""
        if queue is None or queue is self.queue or queue == self.queue:
            return self.home
        return self._others.get(queue.int_ptr)

    def in_place(self, memory: Any, nbytes: int, writable: bool) -> Any:
        """What a kernel of a CPU device takes for ``nbytes`` of the caller's contiguous memory.

        An address where it takes any: a new buffer costs a call 0.4 us more on PoCL, Intel's
        runtime copies one over memory that it finds badly aligned (2 GB/s), and no buffer is
        larger than the device's limit.
        """
        if self.takes_host_pointers:
            try:
                return cl.SVM(memory)
            except READ_ONLY as error:
                if writable or is_of_python(error):
                    raise
                return cl.SVM((ctypes.c_char * nbytes).from_address(memory.ctypes.data))
        self.check_allocation(nbytes)
        return cl.Buffer(self.context, _WRITTEN if writable else _READ, hostbuf=memory)

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

    def bring(self, values: np.ndarray[Any, Any]) -> cl.Buffer:
        """A buffer of values that kernels only read: a table that a plan keeps."""
        self.check_allocation(values.nbytes)
        held = np.ascontiguousarray(values) if values.size else np.zeros(1, values.dtype)
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        try:
            return cl.Buffer(self.context, flags, hostbuf=held)
        except cl.Error as error:
            raise DeviceMemoryError(
                f"no room for a table of {values.nbytes} bytes: {error}"
            ) from error

    #: It makes calls of what stands above: :mod:`portable_gpu.ops.warm_up` puts it there.
    _warm_up: ClassVar[
        Callable[[Engine, Sequence[str], Sequence[int] | None, Sequence[Any]], WarmUp]
    ]

    def warm_up(
        self,
        *operations: str,
        sizes: Sequence[int] | None = None,
        dtypes: Sequence[Any] = ("float32",),
    ) -> WarmUp:
        """Build ahead what calls will need, so that none of them waits for a compiler.

        It makes calls on arrays of ones, of NumPy and on the device; their programs are kept on
        disk, for later processes too.

        Args:
            operations: Names of public functions; the common ones unless they are named.
            sizes: Of one operation, as :func:`portable_gpu.explain` takes them; typical ones
                without it.
            dtypes: Of the arrays: dtypes or their names.

        Returns:
            How many programs there are now that were not in memory before, and the seconds.

        Raises:
            ArgumentError: No such operation, or sizes that it does not take.
            DTypeError: An unknown dtype, or one that a named operation does not take.
            UnsupportedError: Double precision for a device without it, in a named operation.

        Cost: 0.2 to 3 s of compilation a program.  Kernels depend on shapes too: other sizes may
            need others.
        """
        return Engine._warm_up(self, operations, sizes, dtypes)


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


def one_is_enough(nbytes: int, flop: int, units: int) -> bool:
    """Whether one thread of a CPU is done before all of them, which have to be woken.

    Args:
        nbytes, flop: What the work moves and computes.
        units: How many threads there are.
    """
    seconds = max(nbytes / _BYTES, flop / _FLOP)  # of one thread
    return seconds * (units - 1) <= _WAKING * units


def _check_arguments(device: Any, queue: Any, device_class: Any, table: Any, caller: Any) -> None:
    """Raise ArgumentTypeError if an argument of an engine is of the wrong type."""
    if device is not None and not isinstance(device, cl.Device):
        of_kind(device, str, "device", "a pyopencl.Device, a request as text, or None")
    if queue is not None:
        of_kind(queue, cl.CommandQueue, "queue", "a pyopencl.CommandQueue or None")
    if device_class is not None:
        of_kind(device_class, str, "device_class", "a name or None")
    if table is not None:
        of_kind(table, TuningTable, "table", "a TuningTable or None")
    flag(caller, "caller")
