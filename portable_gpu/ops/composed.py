"""Plans of functions that make several calls: their calls are traced, and repeated as one plan.

The function runs once, on arrays of a queue whose state appends the plan of each call to a list in
place of running it.  Memory that a call of the function allocates becomes a temporary of one plan,
except that of the result and of the reports, which each call of the plan allocates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyopencl as cl

from portable_gpu.errors import ArgumentError
from portable_gpu.runtime.array import DEVICE_KINDS, Array
from portable_gpu.runtime.call import TracedCall
from portable_gpu.runtime.kept_memory import KeptMemory
from portable_gpu.runtime.plan import Plan, Temporary, arrange
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.registry import STATE
from portable_gpu.runtime.repeat import Repeat
from portable_gpu.runtime.replay import Replay
from portable_gpu.runtime.report import NO_VALUES, KernelReport, reports_of
from portable_gpu.runtime.small_replay import SmallReplay
from portable_gpu.runtime.views import extent, maker_like, new_array


class _TracedState(QueueState):
    """Replaces the state of a queue, and keeps the calls that would run there."""

    def __init__(self, state: QueueState, queue: cl.CommandQueue) -> None:
        self.engine, self.queue, self.empty_buffer = state.engine, queue, state.empty_buffer
        self.in_order = False  # so that no call is remembered
        self.enqueue_without_event = None
        self.known, self.direct, self.in_flight = {}, {}, {}
        self.traced: list[TracedCall] = []

    def allocate(self, nbytes: int) -> Any:
        """See :meth:`QueueState.allocate`."""
        return self.engine.allocate(nbytes)


@dataclass(frozen=True)
class _Place:
    """The place of an operand of a traced call: its whole array, and its byte offset there."""

    whole: int | Temporary
    start: int
    itemsize: int


class ComposedPlan(Plan):
    """The plans of traced calls in their order, with their temporaries in one workspace."""

    def __init__(
        self,
        traced: Sequence[TracedCall],
        operands: Sequence[Array],
    ) -> None:
        """Find out where each call reads and writes.

        Args:
            traced: The calls.
            operands: The arrays of the trace that calls of this plan pass.

        Raises:
            ArgumentError: A call reads memory that none has written.
        """
        self.flop = sum(step.plan.flop for step in traced)
        self.bytes = sum(step.plan.bytes for step in traced)
        self.kept_bytes = sum(step.plan.kept_bytes for step in traced)
        self._itemsizes = [array.dtype.itemsize for array in operands]
        self._starts = [array.offset for array in operands]
        whole_of: dict[int, int | Temporary] = {}
        for index, array in enumerate(operands):
            whole_of.setdefault(array.base_data.int_ptr, index)
        self._calls = []
        for step in traced:
            for base in step.written:
                if base is not None and base.int_ptr not in whole_of:
                    whole_of[base.int_ptr] = Temporary(str(len(whole_of)), base.size, 1)
            if any(view.buffer.int_ptr not in whole_of for view in step.views if view.size):
                raise ArgumentError(
                    "a plan cannot be made of this call: in the middle of its work it copies "
                    "values to the device; pass arrays that are there"
                )
            places = [
                _Place(
                    whole_of.get(view.buffer.int_ptr, 0),
                    view.offset * view.dtype.itemsize,
                    view.dtype.itemsize,
                )
                for view in step.views
            ]
            self._calls.append((step.plan, places, step.scalars))
        used = [[place.whole for place in places] for _, places, _ in self._calls]
        self._temporaries, self._nbytes = arrange(used)
        self.workspace_bytes = self._nbytes + max(step.plan.workspace_bytes for step in traced)

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`."""
        space = state.workspace(self._nbytes) if self._nbytes else None
        event: cl.Event | None = None
        for plan, places, call_scalars in self._calls:
            passed, starts = [], []
            for place in places:
                whole, start = place.whole, place.start
                if isinstance(whole, Temporary):
                    passed.append(space)
                    start += self._temporaries[whole]
                else:
                    passed.append(buffers[whole])
                    start += offsets[whole] * self._itemsizes[whole] - self._starts[whole]
                starts.append(start // place.itemsize)
            event = plan.enqueue(state, passed, tuple(starts), call_scalars, wait_for)
            wait_for = state.after(event)
        return event


class ComposedCall:
    """A repeated call of a planned function that makes several calls, on device arrays."""

    def __init__(self, replay: Replay, reports: Sequence[tuple[Any, KernelReport]]) -> None:
        """Keep what all calls have in common.

        Args:
            replay: The launches; it takes the inputs and the memory of reports.
            reports: An array like that of each report, and the report.
        """
        self._replay = replay
        self._reports = [
            (maker_like(blank), KeptMemory(blank.nbytes), report.check_values)
            for blank, report in reports
        ]

    def run(
        self,
        state: QueueState,
        arrays: Sequence[Any],
        out: Any = None,
        scalars: tuple[Any, ...] = (),
    ) -> Any:
        """See :class:`portable_gpu.runtime.repeat.Repeat`."""
        if out is not None and reports_of(*arrays, out):
            return None
        queue = (*arrays, out)[0].queue
        written = [
            make(queue, memory.take(state), state.new_events()) for make, memory, _ in self._reports
        ]
        result = self._replay.run(state, (*arrays, *written), out, scalars)
        if result is None:
            return None
        for array in written:
            state.cover_like(array, result)
        checks = [check for _, _, check in self._reports]
        reports = [KernelReport(*pair) for pair in zip(written, checks, strict=True)]
        if reports:
            result.reports = (*reports_of(*arrays), *reports)
        return result


def composed(
    function: Callable[..., Any],
    positional: Sequence[Any],
    arguments: Mapping[str, Any],
    inputs: Sequence[str],
    out: str | None,
    state: QueueState,
) -> tuple[Repeat | None, list[Any]]:
    """Trace a call on device arrays.

    Args:
        function, positional, arguments: The call.
        inputs, out: The names of the arrays that calls pass.
        state: The queue of the arrays.

    Returns:
        The repetition of the call, or ``None`` where there is none and the function must be called
        each time; and the arrays within other arguments, which a repetition takes after the inputs.

    Raises:
        ArgumentError: The function reads or writes values on the host in the middle of its work.
    """
    queue = cl.CommandQueue.from_int_ptr(state.queue.int_ptr, retain=True)
    traced = _TracedState(state, queue)
    setattr(queue, STATE, traced)
    constants: list[Any] = []
    stand_ins: list[Array] = []

    def replaced(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)([replaced(item) for item in value])
        if not isinstance(value, DEVICE_KINDS):
            return value
        constants.append(value)
        stand_ins.append(_stand_in(value, traced, queue))
        return stand_ins[-1]

    named: dict[str, Any] = {name: _stand_in(arguments[name], traced, queue) for name in inputs}
    values = [arguments[name] for name in inputs]
    target = None
    if out is not None:
        named[out] = target = _stand_in(arguments[out], traced, queue)
    for name, value in arguments.items():
        if out is not None and value is arguments[out]:
            named[name] = target
        elif name not in named:
            named[name] = replaced(value)
    result = function(*map(replaced, positional), **named)
    operands = [*(named[name] for name in inputs), *stand_ins]
    values += constants
    everything = values if out is None else [*values, arguments[out]]
    if any(array.queue != state.queue or not array.size for array in everything):
        return None, constants
    if not isinstance(result, Array) or not traced.traced or not state.in_order:
        return None, constants
    reports = [report for report in result.reports if report is not NO_VALUES]
    written = [report.values for report in reports]
    fresh = written if target is not None else [*written, result]
    known = {array.base_data.int_ptr for array in operands}
    for array in fresh:  # each becomes the memory of one array
        base = array.base_data
        if base is None or base.size != array.nbytes or not array.flags.c_contiguous:
            return None, constants
        if base.int_ptr in known:
            return None, constants
        known.add(base.int_ptr)
    if target is not None and result.base_data != target.base_data:
        return None, constants
    plan = ComposedPlan(traced.traced, [*operands, *written, result])
    blanks = [_blank(state, array) for array in written]
    passed = [*values, *written, *([] if out is None else [arguments[out]])]
    kind = SmallReplay if _is_small(traced.traced, state) else Replay
    replay = kind(plan, (), passed, _blank(state, result))
    return ComposedCall(replay, list(zip(blanks, reports, strict=True))), constants


def _blank(state: QueueState, array: Array) -> Any:
    return new_array(state, None, array.shape, array.dtype, state.empty_buffer)


def _is_small(traced: Sequence[TracedCall], state: QueueState) -> bool:
    """Return whether the calls together may run on the calling thread."""
    flops = [step.call.flop for step in traced]
    nbytes = sum(view.size * view.dtype.itemsize for step in traced for view in step.views)
    known = [flop for flop in flops if flop is not None]
    return len(known) == len(flops) and state.is_small(nbytes, sum(known))


def _stand_in(array: Any, state: _TracedState, queue: cl.CommandQueue) -> Array:
    """Return an array in fresh memory, with the offset and the strides of another array."""
    _, end = extent(array)
    base = state.engine.allocate(array.offset + end)
    stand_in = Array(
        queue, array.shape, array.dtype, data=base, offset=array.offset, strides=array.strides
    )
    stand_in.reports = (NO_VALUES,)
    return stand_in
