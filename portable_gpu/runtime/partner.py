"""A second thread for kernels of the calling thread.

PoCL's worker threads take some 45 us to begin and to report on a virtual machine, for they sleep
between kernels and are woken through the system.  The thread of this module takes 5: after a kernel
it stays awake for a while, in a kernel that looks at a word of memory until the caller writes it.
Both run on the driver that executes a kernel on the thread that enqueues it.

A launch is cut in two: the caller runs its first groups, the partner the others.  If the partner
has not begun when the caller is done, because it sleeps or another thread has the interpreter's
lock, the caller runs them too.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from portable_gpu.runtime.events import enqueue_without_event
from portable_gpu.runtime.inside_pyopencl import new_kernel

if TYPE_CHECKING:
    from portable_gpu.runtime.program import BoundKernel, Sizes
    from portable_gpu.runtime.queue_state import QueueState

#: Launches that take less, in seconds, are the caller's alone.
_LEAST = 24e-6
#: What the partner begins later than the caller, in seconds.
_DELAY = 5e-6
#: How long the partner stays awake, in seconds.
_AWAKE = 250e-6
_TURNS = 1000  # by which that is measured
# Words, each in a cache line of its own: the number of the last job, the one that the partner has
# seen, and the last one that it was given and has finished.
_RUNG, _SEEN, _GIVEN, _DONE = 0, 8, 16, 24
_TEXT = f"""
#ifdef __x86_64__
#define PAUSE() __asm__ volatile("pause")
#else
#define PAUSE()
#endif
__kernel void stay_awake(volatile __global ulong *words, ulong turns) {{
    words[{_DONE}] = words[{_GIVEN}];
    for (; words[{_RUNG}] == words[{_SEEN}] && turns > 0; turns--) PAUSE();
}}
__kernel void await_job(volatile __global ulong *words, ulong turns) {{
    for (; words[{_DONE}] < words[{_RUNG}] && turns > 0; turns--) PAUSE();
}}
"""
_partner: Partner | None = None
_CALLER, _PARTNER = "caller", "partner"
_Arguments = tuple[Any, ...]  # of clEnqueueNDRangeKernel


def processors() -> set[int]:
    """Those that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return set(range(os.cpu_count() or 1)) if allowed is None else set(allowed(0))


def _find_processor() -> Callable[[], int] | None:
    """What tells the processor of the calling thread, where threads can be bound to some."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    return getattr(ctypes.CDLL(None), "sched_getcpu", None)


_processor = _find_processor()


class Share:
    """What is known of a launch that may be cut: how long a group takes, and the pieces."""

    __slots__ = ("_axis", "_bound", "_cut", "_groups", "_pieces", "_seconds", "sizes", "state")

    def __init__(self, state: QueueState, bound: BoundKernel) -> None:
        self.state, self._bound = state, bound
        counts = [size // local for size, local in zip(*bound.sizes[:2], strict=True)]
        self._groups = max(counts) if bound.may_be_cut else 1
        self._axis = counts.index(max(counts))
        self._seconds = 0.0  # of a group; 0 before the first launch
        self._cut = 0
        self._pieces: tuple[_Arguments, _Arguments, _Arguments] = ((), (), ())
        #: Of the caller's piece, and of the partner's.
        self.sizes: tuple[Sizes, Sizes] = (bound.sizes, bound.sizes)

    def pieces(self) -> tuple[_Arguments, _Arguments, _Arguments] | None:
        """Arguments of the caller's piece, of the partner's, and of that for the caller.

        ``None`` where the caller does better alone.
        """
        groups, each = self._groups, self._seconds
        if groups < 2 or groups * each < _LEAST:
            return None
        cut = groups - max(1, int((groups - _DELAY / each) / 2 + 0.5))
        if cut != self._cut:
            queue, other = self.state.pointer, self.state.partners_pointer
            self.sizes = self._piece(0, cut), self._piece(cut, groups - cut)
            own, rest = (self._bound.enqueued_as(*sizes) for sizes in self.sizes)
            self._pieces = (queue, *own), (other, *rest), (queue, *rest)
            self._cut = cut
        return self._pieces

    def note(self, seconds: float, alone: bool) -> None:
        """Note how long the caller took for its piece, or for all."""
        each = seconds / (self._groups if alone else self._cut)
        known = self._seconds
        self._seconds = each if each < known or not known else (7 * known + each) / 8

    def _piece(self, first: int, count: int) -> Sizes:
        """The sizes of some groups along the axis."""
        grid, group, origin = (list(sizes) for sizes in self._bound.sizes)
        grid[self._axis] = count * group[self._axis]
        origin[self._axis] += first * group[self._axis]
        return tuple(grid), tuple(group), tuple(origin)


class _Job:
    """The partner's piece of a launch.

    Whoever sets ``owner`` first runs it.
    """

    __slots__ = ("alone", "bound", "is_run", "number", "owner", "piece", "status")

    def __init__(
        self, number: int, piece: _Arguments, alone: _Arguments, bound: BoundKernel
    ) -> None:
        self.number, self.piece, self.alone = number, piece, alone
        self.bound = bound  # whose kernel object has to stay
        self.owner: dict[int, str] = {}
        self.is_run = False  # or about to be, by the caller
        self.status = 0


class Partner:
    """The second thread.  There is one in a process, and one launch at a time is cut.

    Between the steps of :meth:`enqueue` that publish a job and run the caller's piece, Python calls
    no function, so no signal handler comes there and raises.  :meth:`settle` may be asked again
    at any time, by a handler's own call too.
    """

    def __init__(self, device: cl.Device) -> None:
        self._device = device
        self._words = (ctypes.c_uint64 * 32)()
        self._lock = threading.RLock()
        self._job: _Job | None = None
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._is_ready = self._is_asleep = self._is_ending = False
        self._thread: threading.Thread | None = None
        self._await_job: _Arguments = ()
        self._processors = processors()
        self._apart_from = -1

    @classmethod
    def of(cls, device: cl.Device) -> Partner | None:
        """The process's; ``None`` where launches are enqueued by pyopencl alone."""
        global _partner
        if _partner is None and enqueue_without_event is not None:
            _partner = cls(device)
        return _partner

    def enqueue(self, state: QueueState, bound: BoundKernel) -> int:
        """Run a kernel to its end, with the partner if that is worth it; OpenCL's status."""
        share = bound.share
        if share is None or share.state is not state:
            share = bound.share = Share(state, bound)
        run, words = enqueue_without_event, self._words
        assert run is not None
        if threading.current_thread() is self._thread:  # a finalizer: its caller waits for nobody
            return run(state.pointer, *bound.without_event)
        with self._lock:
            if self._job is not None:  # a signal handler broke into its launch
                self.settle()
            pieces = share.pieces()
            if pieces is not None and not self._is_ready:
                self._begin()
                pieces = None
            start = time.perf_counter()
            if pieces is None:
                status = run(state.pointer, *bound.without_event)
                share.note(time.perf_counter() - start, alone=True)
                return status
            own, piece, alone = pieces
            self._keep_apart()
            if self._is_asleep:
                self._is_asleep = False
                self._bell.put(None)
            state.queue.finish()  # a copy of the caller's may wait for that of another thread
            number = words[_RUNG] + 1
            job = _Job(number, piece, alone, bound)
            self._job = job
            words[_RUNG] = number
            status = run(*own)
            state.queue.finish()
            share.note(time.perf_counter() - start, alone=False)
            for failed, sizes in zip((status, self.settle()), share.sizes, strict=True):
                if failed:  # pyopencl frees what it can and tries again, or says why
                    cl.enqueue_nd_range_kernel(state.queue, bound.kernel, *sizes).wait()
            return 0

    def settle(self) -> int:
        """Have the partner's piece of a launch run, if there is one; OpenCL's status."""
        with self._lock:
            job, run, status = self._job, enqueue_without_event, 0
            if job is None or run is None:
                return 0
            if job.owner.setdefault(0, _CALLER) is _PARTNER:
                while self._words[_DONE] < job.number:
                    run(*self._await_job)
                status = job.status
            elif not job.is_run:
                job.is_run = True
                status = run(*job.alone)
            self._job = None
            return status

    # -- the thread

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name="portable_gpu partner", daemon=True
            )
            self._thread.start()
            atexit.register(self._end)

    def _keep_apart(self) -> None:
        """Keep the second thread off the processor of this one.

        A thread that is woken often begins on the processor of the one that wakes it, and stays
        there behind it for milliseconds, while another processor is idle.
        """
        thread = self._thread
        if thread is None or _processor is None:
            return
        own = _processor()
        if own != self._apart_from:
            others = self._processors - {own}
            if others and thread.native_id is not None:
                with contextlib.suppress(OSError):  # the process may no longer use those
                    os.sched_setaffinity(thread.native_id, others)
            self._apart_from = own

    def _end(self) -> None:
        self._is_ready, self._is_ending = False, True
        self._words[_RUNG] += 1
        self._bell.put(None)
        if self._thread is not None:
            self._thread.join(1)

    def _work(self) -> None:
        words, run, last = self._words, enqueue_without_event, 0
        assert run is not None
        context = cl.Context([self._device])
        program = cl.Program(context, _TEXT).build()
        memory = cl.Buffer(
            context,
            cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR,
            hostbuf=memoryview(words).cast("B"),
        )
        kernels = [new_kernel(program, name) for name in ("stay_awake", "await_job")]
        queues = [cl.CommandQueue(context) for _ in kernels]
        one, none = (ctypes.c_size_t * 1)(1), ctypes.c_uint(0)
        calls: list[_Arguments] = []
        for kernel, queue in zip(kernels, queues, strict=True):
            kernel.set_args(memory, np.uint64(_TURNS))
            objects = ctypes.c_void_p(queue.int_ptr), ctypes.c_void_p(kernel.int_ptr)
            calls.append((*objects, ctypes.c_uint(1), None, one, one, none, None, None))
            run(*calls[-1])  # PoCL compiles it
        stay_awake, self._await_job = calls
        start = time.perf_counter()
        run(*stay_awake)
        second = _TURNS / (time.perf_counter() - start)
        kernels[0].set_arg(1, np.uint64(_AWAKE * second))
        # A caller that came back for Python's lock again and again would keep this thread from it.
        kernels[1].set_arg(1, np.uint64(second))
        self._is_ready = True
        while not self._is_ending:
            seen, job = words[_RUNG], self._job
            if job is not None and job.number > last:
                last = seen = job.number
                if job.owner.setdefault(0, _PARTNER) is _PARTNER:
                    job.status = run(*job.piece)
                    words[_GIVEN] = last
            del job
            words[_SEEN] = seen
            run(*stay_awake)
            if words[_RUNG] == seen:
                self._is_asleep = True
                if words[_RUNG] == seen:
                    self._bell.get()
                self._is_asleep = False
