"""Calls done again: the launches of a plan, noted once and then repeated.

What a plan enqueues depends on where its arrays lie, and on its scalars.  So it enqueues once to a
:class:`Recording`, which notes its launches.  Each gets a kernel object that has all its arguments;
a later call sets those alone that are new: buffers, and the result's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.errors import DeviceMemoryError
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.events import QueueEvents
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.program import BoundKernel
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.report import KernelReport, reports_of
from portable_gpu.runtime.views import MEMORY, Memory, extent, maker_like, memory_of, origin_of

_Places = list[tuple[Any, int]]  # what sets an argument, and which
_NONE = Memory(0)  # that of no buffer
#: Bytes of a piece of workspace that stays with the kernel objects of a remembered call, for the
#: pool takes 0.5 us: PoCL, a line of 1024 complex64 in 8.8 us, from the pool in 10.2.  A queue
#: remembers 4096 calls, so of two pieces each at most 128 MiB stay, until calls are forgotten.
_KEPT = 16 << 10


def have_equal_zeros(scalars: tuple[Any, ...]) -> bool:
    """Whether there are complex numbers, of which equal ones may differ in the signs of zeros."""
    return any(isinstance(value, (complex, np.complexfloating)) for value in scalars)


@dataclass(frozen=True, eq=False)
class _Room:
    """Workspace in a recorded launch: each call takes memory of its own for it."""

    nbytes: int


class Recording(QueueState):
    """Takes the place of an in-order queue's state, and notes launches.

    Buffers are noted as plans give them: operands by their numbers, workspace as :class:`_Room`.
    """

    def __init__(self, state: QueueState) -> None:
        self._state = state
        self.in_order = True
        self.empty_buffer = state.empty_buffer
        self.recording = []
        self.rooms: list[_Room] = []

    def workspace(self, nbytes: int) -> Any:
        """See :meth:`QueueState.workspace`."""
        self._state.engine.check_allocation(nbytes)
        self.rooms.append(_Room(nbytes))
        return self.rooms[-1]

    def counters_and_partials(self, counters: int, nbytes: int) -> tuple[Any, Any]:
        """See :meth:`QueueState.counters_and_partials`."""
        return self._state.counters_and_partials(counters, nbytes)

    @classmethod
    def of(
        cls, plan: Plan, state: QueueState, offsets: tuple[int, ...], scalars: tuple[Any, ...]
    ) -> Recording:
        """The launches of a plan whose operands lie at ``offsets`` (in elements)."""
        recording = cls(state)
        plan.enqueue(recording, range(len(offsets)), offsets, scalars)
        return recording


class Kernels:
    """A kernel object for each launch of a call; one caller uses them at a time.

    Attributes:
        launches: Kernel objects, and what enqueues them without an event.
        places: Of each operand, where it goes.
        rooms: Bytes of each piece of workspace that a call takes anew, and where it goes.
        memories: Of each operand, what is known of its last buffer.
        offsets, scalars: Of each operand, in bytes, and what calls give, as they are set.
    """

    __slots__ = ("_staying", "launches", "memories", "offsets", "places", "rooms", "scalars")

    def __init__(
        self,
        state: QueueState,
        recorded: Recording,
        offsets: list[int],
        given: tuple[Any, ...],
        by_address: bool = False,
    ) -> None:
        self.launches: list[tuple[BoundKernel, tuple[Any, ...]]] = []
        # Kernels do not keep their buffers: a state's room to fold in may give way to a larger one.
        self._staying: list[Any] = []
        self.places: list[_Places] = [[] for _ in offsets]
        places: dict[_Room, _Places] = {room: [] for room in recorded.rooms}
        for launch, buffers, scalars in recorded.recording or ():
            bound = launch.bind()
            bound.set_scalars(scalars)
            self.launches.append((bound, (state.pointer, *bound.without_event)))
            for index, buffer in zip(launch.places, buffers, strict=True):
                if isinstance(buffer, int):
                    setter = bound.set_address if by_address else bound.set_argument
                    self.places[buffer].append((setter, index))
                elif isinstance(buffer, _Room):
                    places[buffer].append((bound.set_argument, index))
                else:
                    bound.set_argument(index, buffer)
                    self._staying.append(buffer)
        self.rooms: list[tuple[int, _Places]] = []
        for room, where in places.items():
            if room.nbytes > _KEPT:
                self.rooms.append((room.nbytes, where))
                continue
            memory = state.engine.allocate(room.nbytes)
            for set_argument, index in where:
                set_argument(index, memory)
            self._staying.append(memory)
        self.memories = [_NONE for _ in offsets]
        self.offsets, self.scalars = offsets, given

    def move(self, recorded: Recording, offsets: list[int], given: tuple[Any, ...]) -> None:
        """Have the scalars of another recording."""
        for (bound, _), (_, _, scalars) in zip(
            self.launches, recorded.recording or (), strict=True
        ):
            bound.set_scalars(scalars)
        self.offsets, self.scalars = offsets, given

    def take_rooms(self, state: QueueState) -> list[Any]:
        """Workspace of the queue's pool, set; all of it, so that no two are the same memory."""
        rooms = []
        for nbytes, places in self.rooms:
            room = state.from_pool(nbytes)
            rooms.append(room)
            for set_argument, index in places:
                set_argument(index, room)
        return rooms

    def enqueue(self, state: QueueState) -> cl.Event | None:
        """Enqueue the launches; the last one's event, or ``None`` where it asks for none.

        Raises:
            DeviceMemoryError: A buffer that was promised turns out not to fit.
        """
        enqueue, queue, event = state.enqueue_without_event, state.queue, None
        try:
            for bound, without_event in self.launches:
                event = None
                if enqueue is None or enqueue(*without_event):
                    event = cl.enqueue_nd_range_kernel(queue, bound.kernel, *bound.sizes)
        except cl.MemoryError as error:
            raise DeviceMemoryError(f"the device is out of memory: {error}") from error
        return event


class ReportReplay:
    """The report that a repeated call on device arrays writes, and gives to its fresh result."""

    __slots__ = ("_check", "_make", "nbytes")

    def __init__(self, blank: Any, check: Callable[[np.ndarray[Any, Any]], None]) -> None:
        """Note what stays.

        Args:
            blank: An array like it.
            check: A function that checks its values, and may raise an error.
        """
        self._make, self._check, self.nbytes = maker_like(blank), check, blank.nbytes

    def reports(
        self, arrays: Sequence[Any], queue: cl.CommandQueue, data: Any, event: cl.Event | None
    ) -> tuple[KernelReport, ...]:
        """Those of the inputs, and its own."""
        events = QueueEvents.of(queue) if event is None else [event]
        own = KernelReport(self._make(queue, data, events), self._check)
        return (*reports_of(*arrays), own)


class Replay:
    """A call on device arrays of one in-order queue, with all found and checked but their memory.

    It refers to no state: the state of a queue refers to it.
    """

    __slots__ = (
        "_extents", "_idle", "_inside", "_itemsizes", "_make", "_may_differ", "_nbytes", "_plan",
        "_report", "_reports", "_scalars",
    )  # fmt: skip

    def __init__(
        self,
        plan: Plan,
        scalars: tuple[Any, ...],
        arrays: Sequence[Any],
        blank: Any,
        report: ReportReplay | None = None,
    ) -> None:
        """Note what stays.

        Args:
            plan, scalars: What is enqueued.
            arrays: The inputs, and the caller's array for the result, if there is one.
            blank: An array like a fresh result.
            report: The report that goes with a fresh result, if there is one.
        """
        self._plan, self._scalars, self._report = plan, scalars, report
        self._may_differ = have_equal_zeros(scalars)
        self._reports = [isinstance(array, Array) for array in arrays]  # pyopencl's have none
        # What each touches of its buffer, and the events last seen, all of this queue.
        self._extents = [extent(array) for array in arrays]
        self._itemsizes = [array.dtype.itemsize for array in arrays]
        self._inside: list[Sequence[cl.Event]] = [() for _ in arrays]
        self._make, self._nbytes = maker_like(blank), blank.nbytes
        self._idle: list[Kernels] = []

    def run(
        self,
        state: QueueState,
        arrays: Sequence[Any],
        out: Any = None,
        scalars: tuple[Any, ...] = (),
    ) -> Any:
        """See :class:`portable_gpu.runtime.repeat.Repeat`."""
        everything = arrays if out is None else (*arrays, out)
        try:
            kernels = self._idle.pop()
        except IndexError:  # all are in the middle of a call
            kernels = Kernels(state, *self._recorded(state, everything, out, scalars))
        # A call that raises does not put them back: who knows which arguments they have.
        own, memories, offsets = state.queue, kernels.memories, kernels.offsets
        moved = bool(scalars) and (
            self._may_differ or scalars != kernels.scalars or 0 in scalars  # whose sign may differ
        )
        reports, changed, has_reports = self._reports, False, False
        k = 0
        for array in everything:
            events = array.events
            if type(events) is QueueEvents:
                if not (events.is_untouched and events.queue is own) and state.outside(events):
                    return self._refuse(kernels)
            elif events != self._inside[k]:
                if state.outside(events):
                    return self._refuse(kernels)
                self._inside[k] = list(events)
            base, offset = array.base_data, array.offset
            if getattr(base, MEMORY, None) is not memories[k] or offset != offsets[k]:
                if base is None:
                    return self._refuse(kernels)
                memory = memory_of(base)
                before, end = self._extents[k]
                if not before <= offset <= memory.size - end:
                    return self._refuse(kernels)
                for set_argument, index in kernels.places[k]:
                    set_argument(index, base)
                memories[k] = memory
                changed = True
                moved = moved or offset != offsets[k]
            if reports[k] and array.reports:
                has_reports = True
            k += 1  # enumerate costs each call 70 ns
        if out is not None and (has_reports or (changed and self._overlap(everything, memories))):
            return self._refuse(kernels)
        if moved:
            kernels.move(*self._recorded(state, everything, out, scalars))
        data = None
        if out is None:
            data = state.allocate(self._nbytes)
            for set_argument, index in kernels.places[k]:
                set_argument(index, data)
        report, written = self._report, None
        if report is not None:
            written = state.allocate(report.nbytes)
            for set_argument, index in kernels.places[-1]:
                set_argument(index, written)
        rooms = kernels.take_rooms(state) if kernels.rooms else None
        event = kernels.enqueue(state)
        del rooms
        self._idle.append(kernels)
        if out is None:
            events = QueueEvents.of(own) if event is None else [event]
            result = self._make(arrays[0].queue, data, events)
            if report is not None:
                result.reports = report.reports(arrays, own, written, event)
            elif has_reports:
                result.reports = reports_of(*arrays)
            return result
        del events  # for it counts who has the list
        state.cover(out, event)
        return out

    def _refuse(self, kernels: Kernels) -> None:
        """Put kernel objects back, for a next call that looks for overlaps: this one may not."""
        kernels.memories[-1] = _NONE
        self._idle.append(kernels)

    def _overlap(self, arrays: Sequence[Any], memories: Sequence[Memory]) -> bool:
        """Whether the last of some arrays shares memory with another."""
        found = []
        for array, memory, (before, end) in zip(arrays, memories, self._extents, strict=False):
            base, start = memory.origin or origin_of(array.base_data)
            start += array.offset
            found.append((base, start - before, start + end))
        base, low, high = found.pop()
        return any(other == base and at < high and low < to for other, at, to in found)

    def _recorded(
        self, state: QueueState, arrays: Sequence[Any], out: Any, scalars: tuple[Any, ...]
    ) -> tuple[Recording, list[int], tuple[Any, ...]]:
        """The launches for arrays that lie like these, where those lie, and the scalars."""
        offsets = [array.offset for array in arrays]
        places = [at // size for at, size in zip(offsets, self._itemsizes, strict=True)]
        new = (out is None) + (self._report is not None)
        offsets += [0] * new
        places += [0] * new
        recorded = Recording.of(self._plan, state, tuple(places), scalars or self._scalars)
        return recorded, offsets, scalars
