"""Repeated calls: calls whose arrays agree with those of an earlier call in all but memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyopencl as cl

from portable_gpu.runtime.array import DEVICE_KINDS, Array
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.direct import direct_call
from portable_gpu.runtime.host_arrays import is_of_python, new_host_array, no_memory
from portable_gpu.runtime.kept_memory import KeptMemory
from portable_gpu.runtime.place import Planning
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.recording import Kernels, Recording
from portable_gpu.runtime.registry import known_home
from portable_gpu.runtime.replay import Replay, ReportReplay, have_equal_zeros
from portable_gpu.runtime.report import ReportSpec, reports_of
from portable_gpu.runtime.small_replay import SmallReplay
from portable_gpu.runtime.views import View, maker_like, new_array, overlap

Key = tuple[Any, ...]
_MOST = 4096  # calls remembered for a queue


class Repeat(Protocol):
    """A call whose plan, kernels and checks depend on nothing but the memory of its arrays."""

    def run(
        self,
        state: QueueState,
        arrays: Sequence[Any],
        out: Any = None,
        scalars: tuple[Any, ...] = (),
    ) -> Any:
        """Run the call on other arrays.

        Args:
            state: The state that remembers the call: :attr:`Call.home`.
            arrays: The inputs.  Their :func:`signature` is that of the first call.
            out: The array for the result, with the signature of the first one; ``None`` for a
                fresh array.  Of several results: a tuple of these, or ``None``.
            scalars: The numbers that may differ from call to call, if the plan takes any.

        Returns:
            The result.  If the inputs are NumPy arrays, it is complete; if they are device arrays,
            kernels may still be computing it.  ``None`` if these arrays need further checks, for
            instance because ``out`` shares their memory.
        """


class _OnHost:
    """A call on contiguous NumPy arrays, whose memory the kernels of a CPU use directly.

    Its launches are recorded once and repeated, as those of :class:`Replay`.
    """

    __slots__ = (
        "_dtype", "_first_written", "_idle", "_may_differ", "_orders", "_plan", "_report",
        "_scalars", "_shape", "state",
    )  # fmt: skip

    def __init__(
        self,
        state: QueueState,
        plan: Plan,
        scalars: tuple[Any, ...],
        result: View,
        orders: Sequence[tuple[int, ...]],
        report: ReportSpec | None,
        written: int,
    ) -> None:
        """Store what the calls have in common.

        Args:
            state: The queue on which they run: the engine's own, or that of its caller.
            plan, scalars: The plan, and its scalars.
            result: A view like that of the results.
            orders: For each array, the order of axes in which its memory is contiguous; ``()`` for
                a contiguous array.  The last one is that of the result.
            report: Values that kernels write in addition to the result, if any.
            written: How many of the last arrays kernels write, in addition to the result.
        """
        self.state, self._plan, self._scalars = state, plan, scalars
        self._shape, self._dtype = result.shape, result.dtype
        self._first_written = len(orders) - 1 - written
        self._orders, self._report = tuple(orders), report
        self._may_differ = have_equal_zeros(scalars)
        self._idle: list[Kernels] = []

    def run(
        self,
        state: QueueState,
        arrays: Sequence[Any],
        out: Any = None,
        scalars: tuple[Any, ...] = (),
    ) -> Any:
        """See :class:`Repeat`."""
        if out is not None and (not out.flags.behaved or overlap(out, arrays)):
            return None
        state = self.state
        try:
            kernels = self._idle.pop()
        except IndexError:  # all are in the middle of a call
            kernels = self._kernels(scalars)
        # A call that raises does not put them back, for their arguments are unknown.
        # Equal scalars may be zeros of different signs.
        if scalars and (self._may_differ or scalars != kernels.scalars or 0 in scalars):
            kernels.move(*self._recorded(scalars))
        in_place, places = state.engine.in_place, kernels.places
        buffers = []
        k = 0
        for array in arrays:
            if not array.flags.aligned:
                self._idle.append(kernels)
                return None
            order = self._orders[k]
            memory_order = array.transpose(order) if order else array
            buffer = in_place(memory_order, array.nbytes, k >= self._first_written)
            for set_argument, index in places[k]:
                set_argument(index, buffer)
            buffers.append(buffer)
            k += 1
        report, values = self._report, None
        try:
            result = np.empty(self._shape, self._dtype) if out is None else out
            if report is not None:
                values = np.empty(report.shape, report.dtype)
        except MemoryError as error:
            if is_of_python(error):
                raise
            raise no_memory(self._shape, error) from error
        order = self._orders[-1]
        buffer = in_place(result.transpose(order) if order else result, result.nbytes, True)
        for set_argument, index in places[k]:
            set_argument(index, buffer)
        buffers.append(buffer)
        if values is not None:
            buffer = in_place(values, values.nbytes, True)
            for set_argument, index in places[-1]:
                set_argument(index, buffer)
            buffers.append(buffer)
        memory, in_flight = (arrays, result, values, buffers), state.in_flight
        key = id(memory)
        try:  # the same as run_to_the_end, without its function call
            in_flight[key] = memory
            workspaces = kernels.take_workspaces(state) if kernels.workspaces else None
            event = kernels.enqueue(state)
            state.wait(event)
            del in_flight[key], workspaces
        except BaseException:
            state.finish()
            in_flight.pop(key, None)
            raise
        self._idle.append(kernels)
        if report is not None and values is not None:
            report.check(values)
        return result if self._shape or out is not None else result[()]

    def direct(self) -> Callable[..., Any] | None:
        """Return the call as a function of its C-ordered arrays, if there is such a function."""
        if any(self._orders):
            return None
        arrays, report = len(self._orders) - 1, self._report
        return direct_call(
            self.state, arrays, self._shape, self._dtype, lambda: self._kernels(()), report
        )

    def _kernels(self, scalars: tuple[Any, ...]) -> Kernels:
        by_address = self.state.engine.takes_host_pointers
        return Kernels(self.state, *self._recorded(scalars), by_address)

    def _recorded(self, scalars: tuple[Any, ...]) -> tuple[Recording, list[int], tuple[Any, ...]]:
        """The launches, where the operands begin in their memory, and the scalars."""
        offsets = [0] * (len(self._orders) + (self._report is not None))
        recorded = Recording.of(self._plan, self.state, tuple(offsets), scalars or self._scalars)
        return recorded, offsets, scalars


class _SeveralResults:
    """A repeated call with several results.

    It is a call with one result, the last, that takes the others as arrays which its kernels write.
    """

    __slots__ = ("_call", "_make")

    def __init__(self, call: Replay | _OnHost, others: Sequence[Any]) -> None:
        """Keep what all calls have in common.

        Args:
            call: The call, whose arrays are the inputs, then all results but the last.
            others: These results, if they are fresh; ``None`` in place of an array of the caller.
        """
        self._call = call
        self._make: list[Callable[..., Any] | None] = []
        for other in others:
            if other is None:
                self._make.append(None)
            elif isinstance(call, _OnHost):
                self._make.append(partial(new_host_array, other.shape, other.dtype))
            else:
                self._make.append(partial(_new_like, maker_like(other), KeptMemory(other.nbytes)))

    def run(
        self,
        state: QueueState,
        arrays: Sequence[Any],
        out: Any = None,
        scalars: tuple[Any, ...] = (),
    ) -> Any:
        """See :class:`Repeat`."""
        outs = [] if out is None else [array for array in out if array is not None]
        for number, array in enumerate(outs):
            if isinstance(array, np.ndarray) and not array.flags.behaved:
                return None
            if overlap(array, (*arrays, *outs[:number])):
                return None
        if isinstance(self._call, _OnHost):
            others = [make() if make else out[k] for k, make in enumerate(self._make)]
        else:
            are_arrays = all(isinstance(array, Array) for array in outs)  # others have no reports
            if not are_arrays and reports_of(*arrays, *outs):
                return None
            queue = (*arrays, *outs)[0].queue
            others = [make(state, queue) if make else out[k] for k, make in enumerate(self._make)]
        last = None if out is None else out[-1]
        result = self._call.run(state, (*arrays, *others), last, scalars)
        if result is None:
            return None
        if isinstance(self._call, _OnHost):
            fresh = zip(others, self._make, strict=True)
            return (*(x[()] if make and not x.shape else x for x, make in fresh), result)
        for other in others:
            state.cover_like(other, result)
            if are_arrays:
                other.reports = result.reports
        return (*others, result)


def _new_like(
    make: Callable[..., Any], memory: KeptMemory, state: QueueState, queue: cl.CommandQueue
) -> Any:
    """Return a fresh device array by a function of :func:`maker_like`."""
    return make(queue, memory.take(state), state.new_events())


def signature(arrays: Sequence[Any]) -> Key | None:
    """Return all that decides how a call on these arrays runs, or ``None`` if it is not remembered.

    A call is not remembered if it has no arrays, arrays of NumPy and of a device, or arrays of
    several queues.  The queue is not part of the result, because each queue has its own calls.  Of
    an offset the lowest four bits count: they decide whether 16-byte loads are aligned.
    """
    if not arrays:
        return None
    first = arrays[0]
    if type(first) is np.ndarray:
        if len(arrays) == 1:
            return first.shape, first.strides, first.dtype
        if len(arrays) == 2:
            second = arrays[1]
            if type(second) is not np.ndarray:
                return None
            return (
                first.shape, first.strides, first.dtype,
                second.shape, second.strides, second.dtype,
            )  # fmt: skip
        key: Key = ()
        for array in arrays:
            if type(array) is not np.ndarray:
                return None
            key += array.shape, array.strides, array.dtype
        return key
    if type(first) not in DEVICE_KINDS or first.queue is None:
        return None
    queue = first.queue
    if len(arrays) == 1:
        return type(first), first.shape, first.strides, first.dtype, first.offset & 15
    key = ()
    for array in arrays:
        kind = type(array)
        if kind not in DEVICE_KINDS or array.queue is not queue:
            return None
        key += kind, array.shape, array.strides, array.dtype, array.offset & 15
    return key


def remember(
    key: Key | Planning | None,
    arrays: Sequence[Any],
    call: Call,
    views: Sequence[View],
    plan: Plan | None,
    scalars: tuple[Any, ...],
    out: Any,
    report: ReportSpec | None,
    scalars_vary: bool,
) -> None:
    """Remember a call by ``key``, if a repeated one needs no further checks.

    Args:
        key: The operation's name, its options, and the :func:`signature` of the arrays; or the
            object that prepares a call; ``None`` if the call is not remembered.
        arrays: The inputs.
        call: The call, which is done.
        views: The views of the inputs and of the results that the plan was made for.
        plan, scalars: The plan that was enqueued, if any, and its scalars.
        out: The caller's array for the result; of several results, a tuple or ``None``.
        report: Values that kernels write in addition to the result, if any.
        scalars_vary: Whether the scalars may differ from call to call.
    """
    if key is None or plan is None:
        return
    *others, _ = call.results
    if others:
        repeat = _of_several(arrays, call, views, plan, scalars, out, report)
    else:
        repeat = _repeat(arrays, call, views, plan, scalars, out, report)
    if isinstance(key, Planning):  # the plan object keeps the call
        key.arrays, key.repetition = tuple(arrays), repeat
    elif repeat is not None:
        home = call.home
        if len(home.known) >= _MOST:
            home.forget_calls()
        home.known.setdefault(key, repeat)
        if isinstance(repeat, _OnHost) and out is None and home is known_home(None):
            direct = None if scalars_vary else repeat.direct()
            if direct is not None and all(array.flags.c_contiguous for array in arrays):
                kinds = [kind for array in arrays for kind in (array.shape, array.dtype)]
                home.direct.setdefault((*key[:2], *kinds), direct)


def _of_several(
    arrays: Sequence[Any],
    call: Call,
    views: Sequence[View],
    plan: Plan,
    scalars: tuple[Any, ...],
    out: tuple[Any, ...] | None,
    report: ReportSpec | None,
) -> Repeat | None:
    """As :func:`_repeat`, for a call with several results."""
    *others, _ = call.results
    outs = (None,) * len(call.results) if out is None else out
    if report is not None and not call.host and any(array is not None for array in outs):
        return None
    operands = *arrays, *others
    repeat = _repeat(operands, call, views, plan, scalars, outs[-1], report, len(others))
    if repeat is None:
        return None
    fresh = [other if array is None else None for other, array in zip(others, outs, strict=False)]
    return _SeveralResults(repeat, fresh)


def _repeat(
    arrays: Sequence[Any],
    call: Call,
    views: Sequence[View],
    plan: Plan,
    scalars: tuple[Any, ...] = (),
    out: Any = None,
    report: ReportSpec | None = None,
    written: int = 0,
) -> Replay | _OnHost | None:
    """Return a repetition of a call, or ``None`` where each call has to check its arrays.

    Kernels write the last ``written`` arrays, in addition to the result.
    """
    state = call.state
    *inputs, result = views
    if not result.size or not state.in_order or any(not view.size for view in inputs):
        return None
    operands = arrays if out is None else (*arrays, out)
    if isinstance(operands[0], DEVICE_KINDS):
        if any(a.queue != state.queue for a in operands):
            return None
        if report is not None and out is not None:  # which may be of a kind without reports
            return None
        blank = new_array(state, None, result.shape, result.dtype, state.empty_buffer)
        reported = None
        if report is not None:
            small = new_array(state, None, report.shape, report.dtype, state.empty_buffer)
            reported = ReportReplay(small, report.check)
        kind = SmallReplay if call.is_small(views) else Replay
        return kind(plan, scalars, operands, blank, reported)
    engine = state.engine
    if not engine.target.is_cpu or not engine.maps_host_memory:
        return None
    # A plan for a copy of an array does not have the strides of the array itself.
    orders = [order for order in map(_contiguous_order, operands) if order is not None]
    if len(orders) < len(operands) or not all(map(View.is_of, views, operands)):
        return None
    orders += [()] if out is None else []
    return _OnHost(state, plan, scalars, result, orders, report, written)


def _contiguous_order(array: np.ndarray[Any, Any]) -> tuple[int, ...] | None:
    """Return the order of axes in which memory is contiguous.

    It is ``()`` for a contiguous array, and ``None`` if there is no such order.
    """
    if array.flags.forc:
        return ()
    order = tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    return order if array.transpose(order).flags.c_contiguous else None
