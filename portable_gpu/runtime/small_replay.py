"""Repeated calls of little work on device arrays of a CPU, on the calling thread.

Worker threads take longer to wake and to report than such a call computes.  So where its queue has
no unfinished commands, and the events of its arrays are complete, the call runs on the second
engine of PoCL's driver (:attr:`portable_gpu.runtime.engine.Engine.caller`): the launches of the
same plan, built for that device, with the addresses of the arrays' buffers.  The result has the
same bits, and is complete when the call returns.  In all other cases the call is enqueued as usual.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from ctypes import c_size_t
from typing import Any

import pyopencl as cl

from portable_gpu.errors import ArgumentError, DeviceMemoryError
from portable_gpu.runtime.events import QueueEvents
from portable_gpu.runtime.pocl_structures import PoclStructures, structures_of, svm_at
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.replay import Kernels, Replay
from portable_gpu.runtime.report import reports_of
from portable_gpu.runtime.views import MEMORY, memory_of

_enqueue, _word_at = cl.enqueue_nd_range_kernel, c_size_t.from_address
_COMPLETE = cl.command_execution_status.COMPLETE
#: The number of unfinished commands of a queue on which no call may run on the calling thread.
_ALWAYS_BUSY = c_size_t(1)


class SmallReplay(Replay):
    """A repeated call that runs on the calling thread if nothing is pending.

    Its second call prepares that, so a call that is not repeated is built for the workers only.
    """

    __slots__ = ("_at", "_caller", "_idle_here", "_structures", "_unfinished")

    _at: int  # bytes before the address in the structure of a buffer
    _caller: QueueState  # of the engine that runs kernels on the calling thread
    _idle_here: list[Kernels]
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
        try:
            unfinished = self._unfinished
        except AttributeError:
            unfinished = self._prepare(state)
        if not unfinished.value:
            result = self._run_here(state, arrays, out, scalars)
            if result is not None:
                return result
        return super().run(state, arrays, out, scalars)

    def _prepare(self, state: QueueState) -> Any:
        """Find what calls on the calling thread need; return the number of unfinished commands."""
        engine = state.engine
        structures = structures_of(engine.context, engine.device)
        caller = None
        if engine.caller is not None:
            with contextlib.suppress(ArgumentError):  # another thread has closed the engine
                caller = engine.caller.state()
        if structures is None or caller is None:
            self._unfinished = _ALWAYS_BUSY
        else:
            self._structures, self._caller, self._idle_here = structures, caller, []
            self._at = structures.address
            self._unfinished = structures.unfinished(state.queue)
        return self._unfinished

    def _run_here(
        self, state: QueueState, arrays: Sequence[Any], out: Any, scalars: tuple[Any, ...]
    ) -> Any:
        """Run on the calling thread; return ``None`` if the call has to be enqueued.

        The queue is read again when all memory is allocated.  Its pool gives memory that earlier
        commands use to later ones, and other threads may have enqueued commands meanwhile.
        """
        everything = arrays if out is None else (*arrays, out)
        own = state.queue
        try:
            kernels = self._idle_here.pop()
        except IndexError:  # other calls use all kernel objects
            made = self._kernels_here(state, everything, out, scalars)
            if made is None:
                return None
            kernels = made
        memories, offsets = kernels.memories, kernels.offsets
        moved = bool(scalars) and (
            self._may_differ or scalars != kernels.scalars or 0 in scalars  # whose sign may differ
        )
        reports, changed, has_reports = self._reports, False, False
        k = 0
        for array in everything:
            events = array.events
            are_none = type(events) is QueueEvents and events.is_untouched and events.queue is own
            if not are_none and not _are_complete(events, own):
                return self._refuse(kernels, self._idle_here)
            base, offset = array.base_data, array.offset
            if getattr(base, MEMORY, None) is not memories[k] or offset != offsets[k]:
                if base is None:
                    return self._refuse(kernels, self._idle_here)
                memory, address = memory_of(base), self._structures.address_of(base)
                before, end = self._extents[k]
                if not address or not before <= offset <= memory.size - end:
                    return self._refuse(kernels, self._idle_here)
                for set_address, index in kernels.places[k]:
                    set_address(index, svm_at(address))
                memories[k] = memory
                changed = True
                moved = moved or offset != offsets[k]
            if reports[k] and array.reports:
                has_reports = True
            k += 1
        if out is not None and (has_reports or (changed and self._overlap(everything, memories))):
            return self._refuse(kernels, self._idle_here)
        caller = self._caller
        if moved:
            kernels.move(*self._recorded(caller, everything, out, scalars))
        data = written = workspaces = None
        if out is None:
            data = state.allocate(self._nbytes)
            address = _word_at(data.int_ptr + self._at).value
            if not address:
                return self._refuse(kernels, self._idle_here)
            for set_address, index in kernels.places[k]:
                set_address(index, svm_at(address))
            if self._report is not None:
                written = state.allocate(self._report.nbytes)
                address = _word_at(written.int_ptr + self._at).value
                if not address:
                    return self._refuse(kernels, self._idle_here)
                for set_address, index in kernels.places[-1]:
                    set_address(index, svm_at(address))
        if kernels.workspaces:
            workspaces = kernels.take_workspaces(caller)
        if self._unfinished.value:
            return self._refuse(kernels, self._idle_here)
        queue = caller.queue
        try:
            for bound, _ in kernels.launches:
                event = _enqueue(queue, bound.kernel, *bound.sizes)
            event.wait()
        except BaseException as error:
            # Not after a call, in which another exception might come.
            caller.in_flight[kernels] = everything, data, written, workspaces
            caller.finish()
            caller.in_flight.pop(kernels, None)
            if isinstance(error, cl.MemoryError):
                raise DeviceMemoryError(f"the device is out of memory: {error}") from error
            raise
        self._idle_here.append(kernels)
        if out is not None:
            state.cover_by_nothing(out)
            return out
        result = self._make(arrays[0].queue, data, QueueEvents.of(own))
        if self._report is not None:
            result.reports = self._report.reports(arrays, own, written, None)
        elif has_reports:
            result.reports = reports_of(*arrays)
        return result

    def _kernels_here(
        self, state: QueueState, arrays: Sequence[Any], out: Any, scalars: tuple[Any, ...]
    ) -> Kernels | None:
        """Make kernel objects for the calling thread; ``None`` if a table has no address."""
        caller, structures = self._caller, self._structures
        recorded, offsets, values = self._recorded(caller, arrays, out, scalars)
        own = state.engine.context
        if not recorded.recording or not all(
            structures.address_of(buffer) for buffer in recorded.buffers() if buffer.context == own
        ):
            self._unfinished = _ALWAYS_BUSY
            return None
        return Kernels(
            caller, recorded, offsets, values, True, lambda b: svm_at(structures.address_of(b))
        )


def _are_complete(events: Sequence[cl.Event], queue: cl.CommandQueue) -> bool:
    """Return whether no command has to wait for an array's events, if its queue is idle."""
    if type(events) is QueueEvents:
        if events.queue is not queue:
            return False
        events = events.present()
    return all(event.command_execution_status == _COMPLETE for event in events)
