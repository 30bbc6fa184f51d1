"""A call of a public function: its queue, the views of its arrays, and its result."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyopencl as cl

from portable_gpu.errors import ArgumentError
from portable_gpu.runtime.array import DEVICE_KINDS, LentArray
from portable_gpu.runtime.host_arrays import new_host_array
from portable_gpu.runtime.place import (
    Planning,
    SeveralCallsError,
    check_events,
    check_place,
    events_of,
)
from portable_gpu.runtime.queue_state import release_ended
from portable_gpu.runtime.registry import queue_for, state_for
from portable_gpu.runtime.views import (
    Shape,
    View,
    bounds,
    check_extent,
    check_output,
    contiguous_strides,
    extent,
    new_array,
    packed,
    places,
    whole,
)

if TYPE_CHECKING:
    from portable_gpu.runtime.engine import Engine
    from portable_gpu.runtime.plan import Plan
    from portable_gpu.runtime.queue_state import QueueState


class TracedCall(NamedTuple):
    """A call of a function that is planned by a trace of its calls: see :meth:`Call.run`."""

    call: Call
    plan: Plan
    views: Sequence[View]
    scalars: tuple[Any, ...]

    @property
    def written(self) -> list[Any]:
        """The memory that the call writes."""
        arrays = (*self.call.results, *self.call._additional_outputs)
        return [array.base_data for array in arrays]


class Call:
    """A call, which finds its queue, makes views of its arrays, and returns its result.

    If all arrays are NumPy arrays, the result is a NumPy array and :meth:`run` waits.  If any
    array is a device array, the result is a device array and nothing waits.  Use as::

        call = Call([a, b], engine, queue, wait_for)
        x = call.input(a, "a")
        y = call.output(shape, dtype, out)
        return call.run(enqueue, (x, y))

    Attributes:
        state: The state of the queue that the call runs on.
        home: The state that stores the call for repetitions; for NumPy arrays, that of the
            engine's own queue.
        queue: The queue, as the object that the caller has.
        host: Whether all arrays are NumPy arrays.
        engine: The engine that the call runs on.
        wait_for: The events that the first kernel waits for.
        flop: The operations of the call, if they are known.
        is_planned: Whether the call is only prepared, and nothing is enqueued.
    """

    def __init__(
        self,
        arrays: Sequence[Any],
        engine: Engine | Planning | None,
        queue: cl.CommandQueue | None,
        wait_for: Sequence[cl.Event] | None = None,
        flop: int | None = None,
        alone: Callable[[Engine], tuple[float, int]] | None = None,
    ) -> None:
        """Find the queue.

        Args:
            arrays: The arrays whose queue decides where the call runs; ``None`` is skipped.
            engine, queue, wait_for: The arguments of the public function.
            flop: The operations of the call.  A small call on NumPy arrays may run on the calling
                thread; ``None`` prevents that.
            alone: See :meth:`Engine.for_host_work`.

        Raises:
            ContextMismatchError: Arrays, ``queue`` and ``engine`` are of different contexts.
        """
        self.is_planned = isinstance(engine, Planning)
        if isinstance(engine, Planning):
            if engine.call is not None:
                raise SeveralCallsError
            engine.call, queue = self, engine.queue
            engine = engine.engine
        check_place(engine, queue)
        wait_for = events_of(wait_for)
        release_ended()
        on_device = [array for array in arrays if isinstance(array, DEVICE_KINDS)]
        self.state = self.home = state_for(on_device, engine, queue)
        self.queue = queue_for(on_device, queue) or self.state.engine.queue
        self.host = not on_device
        if wait_for is not None:
            wait_for = events_of(wait_for)
        if self.host and flop is not None and queue is None and not wait_for:
            nbytes = sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
            with contextlib.suppress(ArgumentError):  # another thread has closed the engine
                self.state = self.state.engine.for_host_work(nbytes, flop, alone).state()
        self.engine: Engine = self.state.engine
        self.flop = flop
        self._alone = alone
        self.wait_for: list[cl.Event] | None = self._events(on_device, wait_for)
        self._foreign = [
            array
            for array in on_device
            if array.queue != self.state.queue or isinstance(array, LentArray)
        ]
        #: The results, in the order of the calls of :meth:`output`.
        self.results: list[Any] = []
        self._downloads: list[tuple[Any, np.ndarray[Any, Any]]] = []
        self._keep: list[Any] = []
        self._additional_outputs: list[Any] = []

    def is_small(self, views: Sequence[View]) -> bool:
        """Whether repetitions of a call on device arrays may run on the calling thread.

        Args:
            views: Those of all inputs and results.
        """
        if self.flop is None or sys.version_info < (3, 11):  # as for direct calls
            return False
        nbytes = sum(view.size * view.dtype.itemsize for view in views)
        return self.state.is_small(nbytes, self.flop, self._alone)

    def input(self, array: Any, name: str) -> View:
        """The view of an input array (NumPy memory in place on a CPU device, else uploaded)."""
        if isinstance(array, DEVICE_KINDS):
            return self._device_view(array, name)
        if not self.host:
            array = packed(array)
            return whole(self._upload(array), array)
        return self._host_view(array, name, writable=False)

    def output(
        self,
        shape: Shape,
        dtype: np.dtype[Any],
        out: Any = None,
        name: str = "out",
        read: bool = False,
    ) -> View:
        """The view that the kernel writes, and whose array :meth:`run` returns.

        A call with several results makes a view of each.

        Args:
            shape: The shape of the result.
            dtype: The dtype of the result.
            out: The caller's output array, or ``None`` for a new one.
            name: The name of ``out`` in messages.
            read: Whether the kernel also reads the array (``beta * c``).

        Raises:
            ShapeError, DTypeError, ReadOnlyError, ArgumentError: ``out`` does not fit.
        """
        if out is None:
            return self._new_output(shape, dtype)
        check_output(out, shape, dtype, name, self.host)
        self.results.append(out)
        if isinstance(out, DEVICE_KINDS):
            return self._device_view(out, name)
        if self.engine.maps_host_memory:
            return self._host_view(out, name, writable=True)
        staged = packed(out)
        buffer = self._upload(staged) if read else self.state.workspace(max(1, staged.nbytes))
        if out.size:
            self._downloads.append((buffer, out))
        return whole(buffer, staged)

    def additional_output(self, shape: Shape, dtype: np.dtype[Any]) -> tuple[View, Any]:
        """The view of a small additional output of the kernels, and its array.

        The array is a NumPy array if the call is on NumPy arrays and the device works in the
        host's memory.
        """
        if self.host and self.engine.maps_host_memory:
            array = np.empty(shape, dtype)
            return self._host_view(array, "an array", writable=True), array
        made = new_array(self.state, self.state.queue, shape, dtype)
        self._additional_outputs.append(made)
        strides = contiguous_strides(shape)
        return View(made.base_data or self.state.empty_buffer, 0, shape, strides, dtype), made

    def run(
        self, plan: Plan | None = None, views: Sequence[View] = (), scalars: tuple[Any, ...] = ()
    ) -> Any:
        """Enqueue a plan, and wait (NumPy) or attach its event (pyopencl).

        A call that is only prepared enqueues nothing.

        Args:
            plan: The plan; ``None`` if the result has no elements.
            views: The views of the inputs, then of the results.
            scalars: The scalars of the call.

        Returns:
            The result; a tuple of several.
        """
        results = self.results
        result = results[0] if len(results) == 1 else tuple(results)
        if plan is None or self.is_planned:
            return result
        if self.state.traced is not None:
            self.state.traced.append(TracedCall(self, plan, views, scalars))
            return result
        if self.host:
            run_to_the_end(self.state, self, lambda: self._run_on_host(plan, views, scalars))
        else:
            state = self.state
            if self._foreign:  # the state keeps them alive if an exception is raised
                state.in_flight[id(self)] = self
            event = None
            try:
                event = plan.enqueue(state, *places(views), scalars, self.wait_for)
            finally:
                if self._foreign:  # also those of a launch before the one that failed
                    event = state.event(event)
                    state.hold(event, self._foreign)
                    state.in_flight.pop(id(self), None)
            for array in (*results, *self._additional_outputs):
                state.cover(array, event)
        return result

    # -- the pieces

    def _run_on_host(self, plan: Plan, views: Sequence[View], scalars: tuple[Any, ...]) -> None:
        state = self.state
        event = plan.enqueue(state, *places(views), scalars, self.wait_for)
        for array in self._additional_outputs:
            state.cover(array, event)
        if not self._downloads:
            state.wait(event)
            return
        after = state.after(event)
        for buffer, target in self._downloads:
            packed = target.flags.c_contiguous
            staged = target if packed else np.empty(target.shape, target.dtype)
            state.engine.staging.copy(state.queue, buffer, staged, 0, after, writes=False)
            if not packed:
                target[...] = staged

    def _events(
        self, on_device: Sequence[Any], wait_for: Sequence[cl.Event] | None
    ) -> list[cl.Event] | None:
        events = events_of(wait_for)
        check_events(events, self.engine.context)
        for array in on_device:
            events.extend(self.state.outside(array.events))
        return events or None

    def _device_view(self, array: Any, name: str) -> View:
        itemsize = array.dtype.itemsize
        misfit = array.offset % itemsize or any(s % itemsize for s in array.strides)
        if misfit and array.size:
            raise ArgumentError(
                f"{name} has offset {array.offset} and strides {array.strides} bytes, which are "
                f"no multiples of its itemsize {itemsize}; copy it first"
            )
        check_extent(array, extent(array), name)
        return View(
            array.base_data if array.base_data is not None else self.state.empty_buffer,
            array.offset // itemsize,
            array.shape,
            tuple(s // itemsize for s in array.strides),
            array.dtype,
        )

    def _host_view(self, array: np.ndarray[Any, Any], name: str, writable: bool) -> View:
        itemsize = array.dtype.itemsize
        if array.size == 0:
            zeros = (0,) * array.ndim
            return View(self.state.empty_buffer, 0, array.shape, zeros, array.dtype)
        regular = array.flags.aligned and not any(s % itemsize for s in array.strides)
        if not self.engine.maps_host_memory or not regular:
            if writable and array.flags.aligned:
                raise ArgumentError(f"{name} has strides {array.strides} bytes, not whole elements")
            if writable:
                raise ArgumentError(
                    f"{name} is not aligned for {array.dtype}; pass an array that is"
                )
            array = packed(array)
            if not self.engine.maps_host_memory:
                return whole(self._upload(array), array)
        low, high = bounds(array, array.ctypes.data)
        memory = (ctypes.c_char * (high - low)).from_address(low)
        buffer = self.engine.in_place(memory, high - low, writable)
        self._keep.append(array)
        return View(
            buffer,
            (array.ctypes.data - low) // itemsize,
            array.shape,
            tuple(s // itemsize for s in array.strides),
            array.dtype,
            low,
        )

    def _new_output(self, shape: Shape, dtype: np.dtype[Any]) -> View:
        if self.host and self.engine.maps_host_memory:
            self.results.append(made := new_host_array(shape, dtype))
            return self._host_view(made, "out", writable=True)
        size = prod(shape)
        strides = contiguous_strides(shape)
        if self.host:
            self.results.append(made := new_host_array(shape, dtype))
            buffer = self.state.workspace(max(1, size * dtype.itemsize))
            if size:
                self._downloads.append((buffer, made))
            return View(buffer, 0, shape, strides, dtype)
        self.results.append(made := new_array(self.state, self.queue, shape, dtype))
        return View(made.base_data or self.state.empty_buffer, 0, shape, strides, dtype)

    def _upload(self, array: np.ndarray[Any, Any]) -> Any:
        if array.size == 0:
            return self.state.empty_buffer
        self._check_size(array.nbytes)
        buffer = self.state.workspace(array.nbytes)
        if self.engine.staging.takes(array.nbytes):
            self.engine.staging.copy(self.state.queue, buffer, array, writes=True)
            self._keep.append(buffer)
            return buffer
        event = cl.enqueue_copy(self.state.queue, buffer, array, is_blocking=False)
        self._keep.append((array, buffer, event))
        if not self.state.in_order:
            self.wait_for = [*(self.wait_for or ()), event]
        if not self.host:
            event.wait()  # the caller may change the NumPy array as soon as the call returns
        return buffer

    def _check_size(self, nbytes: int) -> None:
        self.engine.check_allocation(nbytes)


def run_to_the_end(
    state: QueueState,
    memory: Any,
    work: Callable[[], None],
    finish: Callable[[], None] | None = None,
) -> None:
    """Do work that enqueues kernels and waits for them; return or raise only when they have ended.

    Python may raise between any two steps: a signal handler's exception, or a failing launch.
    Kernels that were enqueued by then go on.  ``memory`` stays alive until the queue is done, even
    where another exception comes while that is awaited.

    Args:
        state: The queue.
        memory: The memory that the kernels use.
        work: The work.
        finish: Waits for all kernels of the work; without it the end of the state's queue is
            awaited.
    """
    key = id(memory)
    try:
        state.in_flight[key] = memory
        work()
        state.in_flight.pop(key)
    except BaseException:
        (finish or state.finish)()
        state.in_flight.pop(key, None)
        raise
