"""The Engine: a context, a queue, the target, and the caches and memory of calls."""

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
from portable_gpu.codegen.source import keep_modules
from portable_gpu.dtypes import check_precision
from portable_gpu.errors import ArgumentError, DeviceMemoryError, UnsupportedError
from portable_gpu.runtime import fork, pocl
from portable_gpu.runtime.calibrated import calibrated
from portable_gpu.runtime.closing import Closing
from portable_gpu.runtime.devices import CLASS_VARIABLE, choose_device, query_facts
from portable_gpu.runtime.disk_cache import DiskCache
from portable_gpu.runtime.exchange import with_checked_exchange
from portable_gpu.runtime.host_arrays import READ_ONLY, is_of_python
from portable_gpu.runtime.pocl_processor import name_processor
from portable_gpu.runtime.program import ProgramCache
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.staging import Staging
from portable_gpu.targets import Target, detect
from portable_gpu.tuning.costs import ThreadCosts
from portable_gpu.tuning.table import TuningTable

T = TypeVar("T")

_MAX_PLANS = 4096
#: Flags of buffers on the caller's memory.
_READ = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
_WRITTEN = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
#: The tables of plans take at most this fraction of the device's memory: 1 / 32.
_TABLES_DIVISOR = 32
_MAX_QUEUES = 64  # queues of users for which an engine keeps a state

# An engine and its plans refer to each other, and Python's collector counts objects, not memory of
# the device.  So the collector is run for each new engine if at least this number exist.
_FEW_ENGINES = 8


@dataclass(frozen=True)
class WarmUp:
    """The result of a warm-up.

    Attributes:
        programs: Programs that were not in memory before; those on disk are read, not compiled.
        seconds: The time taken.
    """

    programs: int
    seconds: float


class Engine(Closing):
    """Runs kernels on one device.  Safe to use from several threads.

    Fresh results are stored in memory of a pool that belongs to their queue, as with pyopencl's
    ``MemoryPool``: once a result is dropped, later calls on that queue write to its memory.  Calls
    of this library on another queue keep their inputs until they are done.  If a command of your
    own on another queue reads a result, wait for that command before you drop the result.

    A call waits for the commands that write its arrays, on any queue.  It does not wait for those
    that read an array which it overwrites (``out=``, ``x += 1``, ``x[...] = 0``) on another queue,
    or on its own if that is out of order: name their events in ``wait_for=`` or by ``add_event``.

    An engine keeps programs, plans and memory until :meth:`close`, the end of a ``with`` block, or
    the end of the last reference to it.  The state that it keeps for one of your queues is freed
    with the queue.  In a process that is forked from one that has an engine, calls raise
    :class:`~portable_gpu.errors.ForkError`.

    Attributes:
        context: The OpenCL context.
        device: The device.
        queue: The queue of calls without ``queue=``.
        target: The facts of the device, by which its kernels are rendered.
        table: The table of policies.
        reason: Why this device was chosen.
        caller: On CPUs, an engine that runs kernels on the calling thread, for small problems,
            because worker threads take long to wake; else ``None``.
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
            device: A pyopencl device, or a request in the syntax of ``PORTABLE_GPU_DEVICE``.
                Default: that variable, then a GPU, then a CPU.
            queue: Use this queue, and its context and device, instead.
            device_class: Force the kernels of another class (``gcn``, ``generic``,
                ``nvidia-sm20``); ``PORTABLE_GPU_DEVICE_CLASS`` does so for every engine.
            table: Policies to use instead of the user's and the shipped ones.
            precision: The precision of products of float32 by gemm and matmul, by default.
            caller: Whether small problems may run on the calling thread (ignored with ``queue``).

        Raises:
            DeviceNotFoundError: There is no such device.
            ForkError: The process was forked from one that had used OpenCL.
            ArgumentError: Both ``device`` and ``queue`` are given; or the class or the precision is
                unknown.
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
        name_processor(self.device)  # also for programs that pyopencl and users build on it
        forced = device_class or os.environ.get(CLASS_VARIABLE) or None
        self.table = TuningTable.load() if table is None else table
        # A second Python object for the queue, because the engine must not keep the caller's.
        self.queue: cl.CommandQueue = (
            cl.CommandQueue(self.context, self.device)
            if queue is None
            else cl.CommandQueue.from_int_ptr(queue.int_ptr, retain=True)
        )
        target = detect(
            query_facts(self.device), forced, "device_class" if device_class else CLASS_VARIABLE
        )
        disk = DiskCache.default()
        keep_modules(disk)
        self.programs = ProgramCache(self.context, self.device, disk, target.forced)
        target = with_checked_exchange(target, self.context, self.device, self.programs)
        self.target: Target = calibrated(target)
        #: A CPU device works on NumPy memory in place, whatever class is forced on it.
        self.maps_host_memory = self.target.facts.type == "cpu"
        #: Whether repeated calls keep the memory of small results (:class:`KeptMemory`).
        self.keeps_results = True
        #: Whether its kernels accept any host address, so that NumPy arrays may have any size.
        self.takes_host_pointers = self.maps_host_memory and self.target.facts.svm
        #: Large copies of NumPy arrays.
        self.staging = Staging(self)
        self.caller: Engine | None = None
        #: The engine that caches its calls on NumPy arrays: itself, or the one with it as caller.
        self._caching_engine = weakref.ref(self)
        twin = pocl.calling_thread_device(self.device) if caller and queue is None else None
        if twin is not None:
            self.caller = Engine(
                twin, device_class=forced, table=self.table, precision=precision, caller=False
            )
            self.caller._caching_engine = self._caching_engine
        self._plans: dict[Hashable, Any] = {}
        self._table_bytes = 0
        self._lock = threading.RLock()
        #: Whether :meth:`close` was called.
        self.is_closed = False
        #: The state of its own queue, once that was used.
        self.home: QueueState | None = None
        self._others: dict[int, QueueState] = {}
        _engines.add(self)
        fork.retire_in_children(self)

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            "an Engine belongs to one process and cannot be pickled; open one in the other process "
            "by portable_gpu.Engine(name)"
        )

    def __repr__(self) -> str:
        return f"<Engine {self.target.facts.name!r} as {self.target.device_class}>"

    def close(self) -> None:
        """Drop the engine's plans, programs and memory.

        Calls with this engine, and plans of :func:`portable_gpu.plan` made on it, raise
        ArgumentError from now on.  Arrays, and calls in other threads, keep the memory that they
        need.  The default engine is opened again when it is needed.
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
        """The default precision of products of float32; see :func:`portable_gpu.gemm`."""
        return self._precision

    def for_host_work(
        self, nbytes: int, flop: int = 0, alone: Callable[[Engine], tuple[float, int]] | None = None
    ) -> Engine:
        """The engine of a call on NumPy arrays: :attr:`caller` for small work, or itself.

        Args:
            nbytes, flop: The bytes and flop of the work.
            alone: Returns the estimated seconds of the work on one thread, and the number of its
                launches, given :attr:`caller`; ``None`` to estimate them by bytes and flop.
        """
        if self.caller is None:
            return self
        costs = ThreadCosts.of("calling thread", self.target)
        if alone:
            seconds, launches = alone(self.caller)
            waking = costs.first + (launches - 1) * costs.following
        else:
            seconds, waking = seconds_alone(nbytes, flop, self.target), costs.waking
        return self.caller if one_is_enough(seconds, self.target, waking) else self

    def is_small(
        self, nbytes: int, flop: int, alone: Callable[[Engine], tuple[float, int]] | None = None
    ) -> bool:
        """Whether work on device arrays is done on the calling thread before workers would wake.

        The work repeats, so that arrays no larger than the last cache are read from there.  Kernels
        that PoCL compiles when they first run are built for the workers only.

        Args:
            nbytes, flop, alone: See :meth:`for_host_work`.
        """
        if self.caller is None or self.programs.compiles_at_launch:
            return False
        costs = ThreadCosts.of("calling thread", self.target)
        if alone:
            return alone(self.caller)[0] <= costs.short
        is_cached = nbytes <= self.target.facts.cache_size
        moving = nbytes / (costs.cached if is_cached else costs.bandwidth)
        return max(moving, flop / costs.flop) <= costs.short

    @property
    def own_queue(self) -> cl.CommandQueue:
        """A queue for work that a plan does once and waits for; no call uses it."""
        return self.plan("a queue of its own", lambda: cl.CommandQueue(self.context, self.device))

    def plan(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the cached plan of ``key``; ``make()`` builds it the first time.

        Threads that need it at the same time may each make one, and all get the same.  They wait
        for each other only while programs are built.
        """
        plan: T | None = self._plans.get(key)
        if plan is None:
            made = make()
            nbytes = getattr(made, "kept_bytes", 0)
            if len(self._plans) >= _MAX_PLANS or self._table_bytes + nbytes > self._max_table_bytes:
                self.forget_plans()
            plan = self._plans.setdefault(key, made)
            self._table_bytes += nbytes
        return plan

    def forget_plans(self) -> None:
        """Drop all plans, and the cached calls, which refer to the plans' tables."""
        self._plans.clear()
        self._table_bytes = 0
        caching = self._caching_engine() or self
        for state in (caching.home, self.home, *list(self._others.values())):
            if state is not None:
                state.forget_calls()

    @property
    def _max_table_bytes(self) -> int:
        """The maximum of bytes of the tables of all plans."""
        return self.target.facts.global_mem_size // _TABLES_DIVISOR

    def state(self, queue: cl.CommandQueue | None = None) -> QueueState:
        """Return the state of its own queue, or of another queue of the same context.

        Raises:
            ArgumentError: The engine is closed.
        """
        known = self.known_state(queue)
        if known is not None:
            return known
        made = QueueState(self, queue or self.queue)  # not under the lock: handlers may call here
        with self._lock:
            if self.is_closed:
                raise ArgumentError("engine is closed; open another, or pass none")
            if queue is None or queue == self.queue:
                self.home = self.home or made
                return self.home
            if len(self._others) >= _MAX_QUEUES:
                self._others.pop(next(iter(self._others)), None)
            return self._others.setdefault(queue.int_ptr, made)

    def known_state(self, queue: cl.CommandQueue | None = None) -> QueueState | None:
        """Return the state of a queue if it exists: see :meth:`state`."""
        if queue is None or queue is self.queue or queue == self.queue:
            return self.home
        return self._others.get(queue.int_ptr)

    def in_place(self, memory: Any, nbytes: int, writable: bool) -> Any:
        """Return a kernel argument for ``nbytes`` of the caller's memory on a CPU device.

        It is an address if kernels accept any: a new buffer costs a call 0.4 us more on PoCL,
        Intel's runtime copies unaligned memory (2 GB/s), and buffers have a maximum size.
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
        """Allocate a buffer that is not from a pool."""
        self.check_allocation(nbytes)
        try:
            return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes)
        except cl.Error as error:
            raise DeviceMemoryError(
                f"a buffer of {nbytes} bytes cannot be allocated: {error}"
            ) from error

    def upload(self, values: np.ndarray[Any, Any]) -> cl.Buffer:
        """Return a buffer with values that kernels only read: a table of a plan."""
        self.check_allocation(values.nbytes)
        contiguous = np.ascontiguousarray(values) if values.size else np.zeros(1, values.dtype)
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        try:
            return cl.Buffer(self.context, flags, hostbuf=contiguous)
        except cl.Error as error:
            raise DeviceMemoryError(
                f"a table of {values.nbytes} bytes cannot be allocated: {error}"
            ) from error

    #: Assigned by :mod:`portable_gpu`, which imports higher layers.
    _warm_up: ClassVar[
        Callable[[Engine, Sequence[str], Sequence[int] | None, Sequence[Any]], WarmUp]
    ]

    def warm_up(
        self,
        *operations: str,
        sizes: Sequence[int] | None = None,
        dtypes: Sequence[Any] = ("float32",),
    ) -> WarmUp:
        """Build the programs that calls will need, so that no call waits for a compiler.

        It makes calls on arrays of ones, in NumPy and on the device.  Programs are stored on disk,
        also for later processes.

        Args:
            operations: Names of public functions.  Default: the common ones.
            sizes: The sizes of one operation, as in :func:`portable_gpu.explain`.  Default: typical
                ones.
            dtypes: The dtypes of the arrays, or their names.

        Returns:
            The number of programs that were not in memory before, and the seconds.

        Raises:
            ArgumentError: There is no such operation, or it does not accept the sizes.
            DTypeError: The dtype is unknown, or one that a given operation does not accept.
            UnsupportedError: An operation needs double precision, which the device lacks.

        Cost: 0.2 to 3 s of compilation per program.  Kernels depend on shapes too: other sizes may
            need other programs.
        """
        return Engine._warm_up(self, operations, sizes, dtypes)


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


def seconds_alone(nbytes: int, flop: int, target: Target) -> float:
    """Return an estimate of the seconds of one thread of a CPU for bytes and flop of work."""
    costs = ThreadCosts.of("calling thread", target)
    return max(nbytes / costs.bandwidth, flop / costs.flop)


def one_is_enough(seconds: float, target: Target, waking: float) -> bool:
    """Whether one thread of a CPU finishes before all threads would, which have to be woken.

    Args:
        seconds: The time of the work on one thread.
        target: The device, whose compute units are the threads.
        waking: The seconds by which the other threads delay the work.
    """
    return seconds * (target.compute_units - 1) <= waking * target.compute_units


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
