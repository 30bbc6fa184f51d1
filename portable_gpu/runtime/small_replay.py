"""Repeated calls of little work on device arrays of a CPU, on the calling thread.

Worker threads take longer to wake and to report than such a call computes.  A call runs on the
second engine of PoCL's driver (:attr:`portable_gpu.runtime.engine.Engine.caller`) if its queue has
no unfinished commands, the events of its arrays are complete, and the process has one thread of
Python.  It has the launches of the same plan, built for the second device, with the addresses of
the arrays' buffers.  The result has the same bits, and is complete when the call returns.  In all
other cases the call is enqueued as usual.

With several threads, another one could enqueue a command to the same queue after this call has read
the number of unfinished commands.  A worker would run that command at the same time as the call,
which is wrong on an in-order queue.  OpenCL does not say which threads use a queue, so with several
threads all calls are enqueued.  Threads that Python did not start, such as those of callbacks of
events, are not counted: they must not enqueue to a queue on which calls are made.

The number is read without a lock.  That is enough, because PoCL takes several locks one after the
other to enqueue a launch: on x86, 64-bit Arm and POWER, loads after the second lock are not made
before loads that precede the release of the first.
"""

from __future__ import annotations

import contextlib
from _thread import _count as _other_threads
from collections.abc import Sequence
from ctypes import c_size_t
from typing import Any

import pyopencl as cl

from portable_gpu.errors import ArgumentError, BuildError, DeviceMemoryError
from portable_gpu.runtime.events import QueueEvents
from portable_gpu.runtime.pocl_structures import PoclStructures, structures_of, svm_at
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.recording import NO_MEMORY, Kernels
from portable_gpu.runtime.replay import Replay
from portable_gpu.runtime.report import reports_of
from portable_gpu.runtime.views import MEMORY, memory_of

# _other_threads counts the running threads of Python except the main one.  threading.active_count
# takes longer.
_enqueue = cl.enqueue_nd_range_kernel
_COMPLETE = cl.command_execution_status.COMPLETE
#: A number of unfinished commands that is never 0, for a call that must not run on the calling
#: thread.
_NEVER_IDLE = c_size_t(1)


class SmallReplay(Replay):
    """A repeated call that runs on the calling thread if nothing is pending.

    The kernels for the calling thread are built at the second call, so a call that is made only
    once is built for the workers only.
    Each :meth:`run` gets the same state, which remembers this call: the number of unfinished
    commands is read from the structure of that state's queue.
    """

    __slots__ = ("_caller", "_caller_idle", "_structures", "_unfinished")

    _caller: QueueState  # that of the engine that runs kernels on the calling thread
    _caller_idle: list[Kernels]  # the kernel objects of that engine that no call uses
    _structures: PoclStructures
    _unfinished: Any

    def run(
        self,
        state: QueueState,
        arrays: Sequence[Any],
        out: Any = None,
        scalars: tuple[Any, ...] = (),
    ) -> Any:
        """See :class:`portable_gpu.runtime.repeat.Repeat`."""
        if not _other_threads():
            try:
                unfinished = self._unfinished
            except AttributeError:
                unfinished = self._prepare(state)
            if not unfinished.value:
                result = self._run_on_caller(state, arrays, out, scalars)
                if result is not None:
                    return result
        return super().run(state, arrays, out, scalars)

    def _prepare(self, state: QueueState) -> Any:
        """Find what calls on the calling thread need; return the number of unfinished commands.

        The value of the returned object is read from PoCL's structure of the queue and so changes.
        It is assigned last: where a signal handler makes the same call meanwhile, both prepare,
        and each finds all attributes.
        """
        engine = state.engine
        structures = structures_of(engine.context, engine.device)
        caller = None
        if engine.caller is not None:
            with contextlib.suppress(ArgumentError):  # another thread has closed the engine
                caller = engine.caller.state()
        if structures is None or caller is None:
            self._unfinished = _NEVER_IDLE
        else:
            self._structures, self._caller, self._caller_idle = structures, caller, []
            self._unfinished = structures.unfinished(state.queue)
        return self._unfinished

    def _run_on_caller(
        self, state: QueueState, arrays: Sequence[Any], out: Any, scalars: tuple[Any, ...]
    ) -> Any:
        """Run on the calling thread; return ``None`` if the call has to be enqueued.

        The number of unfinished commands is read again when all memory is allocated: the pool of
        the queue gives memory that earlier commands use to later ones, and an allocation may run
        a finalizer, which may enqueue commands.

        An exception drops the kernel objects, because their arguments are unknown.
        """
        operands = arrays if out is None else (*arrays, out)
        queue, caller, idle = state.queue, self._caller, self._caller_idle
        try:
            kernels = idle.pop()
        except IndexError:  # other calls use all kernel objects
            made = self._caller_kernels(state, operands, out, scalars)
            if made is None:
                return None
            kernels = made
        memories, offsets = kernels.memories, kernels.offsets
        arguments_differ = bool(scalars) and (
            self._may_differ or scalars != kernels.scalars or 0 in scalars  # or -0
        )
        reports, changed, has_reports = self._reports, False, False
        k = 0
        for array in operands:
            events = array.events
            if type(events) is QueueEvents:
                is_free = events.queue is queue and events.is_untouched
            else:
                is_free = not events
            if not is_free and not _are_complete(events, queue):
                return self._refuse(kernels, idle)
            base, offset = array.base_data, array.offset
            if getattr(base, MEMORY, None) is not memories[k] or offset != offsets[k]:
                if base is None:
                    return self._refuse(kernels, idle)
                memory, address = memory_of(base), self._structures.address_of(base)
                before, end = self._extents[k]
                if not address or not before <= offset <= memory.size - end:
                    return self._refuse(kernels, idle)
                for set_address, index in kernels.places[k]:
                    set_address(index, svm_at(address))
                memories[k] = memory
                changed = True
                arguments_differ = arguments_differ or offset != offsets[k]
            if reports[k] and array.reports:
                has_reports = True
            k += 1
        if out is not None and (
            (has_reports and not reports[-1]) or (changed and self._overlap(operands, memories))
        ):
            return self._refuse(kernels, idle)
        if arguments_differ:
            kernels.move(*self._recorded(caller, operands, out, scalars))
        data = written = workspaces = None
        if out is None:
            data = self._memory.take(state)
            if getattr(data, MEMORY, None) is not memories[k]:
                address = self._structures.address_of_new(data, self._memory.is_kept)
                if not address:
                    return self._refuse(kernels, idle)
                for set_address, index in kernels.places[k]:
                    set_address(index, svm_at(address))
                memories[k] = getattr(data, MEMORY, NO_MEMORY)
            if self._report is not None:
                written = self._report.memory.take(state)
                address = self._structures.address_of(written)
                if not address:
                    return self._refuse(kernels, idle)
                for set_address, index in kernels.places[-1]:
                    set_address(index, svm_at(address))
        if kernels.workspaces:
            workspaces = kernels.take_workspaces(caller)
        if self._unfinished.value:
            return self._refuse(kernels, idle)
        caller_queue = caller.queue
        try:
            for bound, _ in kernels.launches:
                event = _enqueue(caller_queue, bound.kernel, *bound.sizes)
            event.wait()
        except BaseException as error:
            caller.in_flight[kernels] = operands, data, written, workspaces
            caller.finish_failed(kernels, error)
            raise
        idle.append(kernels)
        if out is not None:
            state.cover_by_nothing(out)
            if has_reports:
                out.reports = reports_of(*operands)
            return out
        result = self._make(arrays[0].queue, data, QueueEvents.ended(queue))
        if self._report is not None:
            result.reports = self._report.reports(arrays, queue, written, None)
        elif has_reports:
            result.reports = reports_of(*arrays)
        return result

    def _caller_kernels(
        self, state: QueueState, operands: Sequence[Any], out: Any, scalars: tuple[Any, ...]
    ) -> Kernels | None:
        """Make kernel objects of the second engine; return ``None`` if the call has to be enqueued.

        That is so if a table of the plan has no address, or the second engine cannot build the
        kernels or has no memory for them.  Then later calls are enqueued, too.
        """
        caller, structures, context = self._caller, self._structures, state.engine.context
        with contextlib.suppress(BuildError, DeviceMemoryError):
            recorded, offsets, values = self._recorded(caller, operands, out, scalars)
            buffers = [buffer for buffer in recorded.buffers() if buffer.context == context]
            if recorded.recording and all(map(structures.address_of, buffers)):
                return Kernels(
                    caller, recorded, offsets, values, True,
                    lambda buffer: svm_at(structures.address_of(buffer)),
                )  # fmt: skip
        self._unfinished = _NEVER_IDLE
        return None


def _are_complete(events: Sequence[cl.Event], queue: cl.CommandQueue) -> bool:
    """Return whether no command has to wait for an array's events, if its queue is idle."""
    if type(events) is QueueEvents:
        if events.queue is not queue:
            return False
        events = events.present()
    for event in events:  # noqa: SIM110  # a generator takes as long as they do
        if event.command_execution_status != _COMPLETE:
            return False
    return True
