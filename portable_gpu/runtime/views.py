"""Arrays in, arrays out: one strided view for NumPy arrays and pyopencl arrays alike.

The view is the Matrix of the founding texts with any number of axes: a buffer, an offset, a
shape and strides, the latter three in elements.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from portable_gpu.dtypes import element
from portable_gpu.errors import (
    ArgumentError,
    DTypeError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
)
from portable_gpu.runtime.array import TO_ONE_SIDE, Array, LentArray
from portable_gpu.runtime.place import check_events, check_place, events_of
from portable_gpu.runtime.queue_state import let_go
from portable_gpu.runtime.registry import queue_for, state_for

if TYPE_CHECKING:
    from portable_gpu.runtime.engine import Engine
    from portable_gpu.runtime.plan import Plan
    from portable_gpu.runtime.queue_state import QueueState

Shape = tuple[int, ...]
AnyArray = Any  # numpy.ndarray | pyopencl.array.Array | anything numpy.asarray takes
_HOST_MEMORY = (1, 3, 11, 13)  # DLPack's CPU, pinned by two vendors' drivers, and managed
# What an object's own methods raise; an exception of a signal handler's is to come through.
_REFUSALS = (
    TypeError, ValueError, ArithmeticError, AttributeError, BufferError, LookupError, RuntimeError,
)  # fmt: skip
_HOST = "the host's memory"
_PARENT, _USE_HOST_PTR = cl.mem_info.ASSOCIATED_MEMOBJECT, cl.mem_flags.USE_HOST_PTR


@dataclass(slots=True)
class View:
    """A strided view of device memory; offset and strides count elements.

    ``address`` is where a buffer starts that is made of the caller's memory; the device's own
    buffers start at round addresses.  Not frozen, for that doubles the time to make one.
    """

    buffer: Any
    offset: int
    shape: Shape
    strides: Shape
    dtype: np.dtype[Any]
    address: int = 0

    @property
    def size(self) -> int:
        """Number of elements."""
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    def is_of(self, array: np.ndarray[Any, Any]) -> bool:
        """Whether it shows all of a NumPy array as that lies in memory, and not a copy."""
        itemsize = self.dtype.itemsize
        strides = tuple([s * itemsize for s in self.strides])
        start = self.address + self.offset * itemsize
        return (start, strides, self.shape, self.dtype) == (
            array.ctypes.data, array.strides, array.shape, array.dtype
        )  # fmt: skip

    @property
    def alignment(self) -> int:
        """The greatest power of two, up to 128, that divides the address of the first element."""
        address = (self.address + self.offset * self.dtype.itemsize) | 128
        return address & -address


def as_array(value: AnyArray, name: str) -> Any:
    """``value`` as a NumPy or pyopencl array of a supported dtype, never copied needlessly.

    Of a subclass of ``numpy.ndarray`` the memory counts, and the result is a plain array.

    Raises:
        DTypeError: ``value`` cannot be an array, is a masked one, or has an unsupported dtype.
    """
    if not isinstance(value, (np.ndarray, cla.Array)):
        try:
            value = _from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)
        except _REFUSALS as error:
            raise DTypeError(
                f"{name} is a {type(value).__name__}, not an array that NumPy can take: {error}"
            ) from error
    _refuse_masked(value, name)
    try:
        if isinstance(value, np.ndarray) and not value.dtype.isnative:
            value = value.astype(value.dtype.newbyteorder("="))
        element(value.dtype)
    except DTypeError as error:
        of_objects = value.dtype == object  # what NumPy makes of pyopencl's arrays
        hint = f"; {TO_ONE_SIDE}" if of_objects else ""
        raise DTypeError(f"{name}: {error}{hint}") from None
    return value


def _refuse_masked(array: Any, name: str) -> None:
    """Raise DTypeError for an array some of whose elements may not count."""
    if type(array) is not np.ndarray and isinstance(array, np.ndarray) and hasattr(array, "mask"):
        raise DTypeError(
            f"{name} is a {type(array).__name__}, whose mask kernels do not see; pass "
            "x.compressed(), x.filled(value), or numpy.asarray(x) to have all elements count"
        )


def _from_dlpack(value: Any) -> np.ndarray[Any, Any]:
    kind = value.__dlpack_device__()[0]
    if kind not in _HOST_MEMORY:
        raise BufferError(
            f"it lies on a device (of DLPack's kind {int(kind)}); copy it to the CPU first"
        )
    return np.from_dlpack(value)


def contiguous_strides(shape: Shape) -> Shape:
    """Strides of a C-ordered array, in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


class Call:
    """One call: finds its queue, turns its arrays into views, and its results into arrays.

    With NumPy arrays alone the result is a NumPy array and :meth:`run` waits; with any pyopencl
    array among the arguments it is a pyopencl array and nothing waits.  Use as::

        call = Call([a, b], engine, queue, wait_for)
        x = call.input(a, "a")
        y = call.output(shape, dtype, out)
        return call.run(enqueue, (x, y))

    Attributes:
        state: The queue that it runs on.
        home: The state that remembers it: for NumPy arrays, of the engine's own queue.
        queue: The queue, by the object by which the caller knows it.
        host: Whether all arrays are of NumPy.
        engine: The engine that it runs on.
        wait_for: What its first kernel has to wait for.
    """

    def __init__(
        self,
        arrays: Sequence[Any],
        engine: Engine | None,
        queue: cl.CommandQueue | None,
        wait_for: Sequence[cl.Event] | None = None,
        flop: int | None = None,
    ) -> None:
        """Find the queue.

        Args:
            arrays: Those that decide where the call runs (``None`` entries are skipped).
            engine, queue, wait_for: As the caller gave them.
            flop: Operations of the call, which may then run on the calling thread if its arrays
                are of NumPy; ``None`` keeps it where it is.

        Raises:
            ContextMismatchError: Arrays, ``queue`` and ``engine`` are of different contexts.
        """
        check_place(engine, queue)
        let_go()
        on_device = [array for array in arrays if isinstance(array, cla.Array)]
        self.state = self.home = state_for(on_device, engine, queue)
        self.queue = queue_for(on_device, queue) or self.state.engine.queue
        self.host = not on_device
        if self.host and flop is not None and queue is None and not wait_for:
            nbytes = sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
            with contextlib.suppress(ArgumentError):  # it was closed meanwhile
                self.state = self.state.engine.for_host_work(nbytes, flop).state()
        self.engine: Engine = self.state.engine
        self.wait_for: list[cl.Event] | None = self._events(on_device, wait_for)
        self._foreign = [
            array
            for array in on_device
            if array.queue != self.state.queue or isinstance(array, LentArray)
        ]
        self._result: Any = None
        self._download: tuple[Any, np.ndarray[Any, Any]] | None = None
        self._keep: list[Any] = []

    def input(self, array: Any, name: str) -> View:
        """The view of an input array (NumPy memory in place on a CPU device, else uploaded)."""
        if isinstance(array, cla.Array):
            return self._device_view(array, name)
        if not self.host:
            array = _packed(array)
            return _whole(self._upload(array), array)
        return self._host_view(array, name, writable=False)

    def output(
        self,
        shape: Shape,
        dtype: np.dtype[Any],
        out: Any = None,
        name: str = "out",
        read: bool = False,
    ) -> View:
        """The view that the kernel writes, and later :meth:`finish` returns.

        Args:
            shape: What the result must have.
            dtype: Likewise.
            out: The caller's array for it, or ``None`` for a fresh one.
            name: How messages call ``out``.
            read: Whether the kernel also reads it (``beta * c``).

        Raises:
            ShapeError, DTypeError, ReadOnlyError, ArgumentError: ``out`` does not fit.
        """
        if out is None:
            return self._new_output(shape, dtype)
        check_output(out, shape, dtype, name, self.host)
        self._result = out
        if isinstance(out, cla.Array):
            return self._device_view(out, name)
        if self.engine.maps_host_memory:
            return self._host_view(out, name, writable=True)
        staged = _packed(out)
        buffer = self._upload(staged) if read else self.state.workspace(max(1, staged.nbytes))
        self._download = (buffer, out)
        return _whole(buffer, staged)

    def run(
        self, plan: Plan | None = None, views: Sequence[View] = (), scalars: tuple[Any, ...] = ()
    ) -> Any:
        """Enqueue a plan; wait (NumPy) or attach its event (pyopencl).

        Args:
            plan: What to enqueue; without it the result has no elements.
            views: Of its inputs, then of the result.
            scalars: What it takes besides.

        Returns:
            The result.
        """
        if plan is None:
            return self._result
        if self.host:
            run_to_the_end(self.state, self, lambda: self._run_on_host(plan, views, scalars))
        else:
            state = self.state
            if self._foreign:  # whatever is raised before they are held, they stay
                state.in_flight[id(self)] = self
            event = None
            try:
                event = plan.enqueue(state, *places(views), scalars, self.wait_for)
            finally:
                if self._foreign:  # also those of a launch before the one that failed
                    event = state.event(event)
                    state.hold(event, self._foreign)
                    state.in_flight.pop(id(self), None)
            state.cover(self._result.events, event)
        return self._result

    # -- the pieces

    def _run_on_host(self, plan: Plan, views: Sequence[View], scalars: tuple[Any, ...]) -> None:
        state = self.state
        event = plan.enqueue(state, *places(views), scalars, self.wait_for)
        if self._download is None:
            state.event(event).wait()
            return
        buffer, target = self._download
        packed = target.flags.c_contiguous
        staged = target if packed else np.empty(target.shape, target.dtype)
        cl.enqueue_copy(state.queue, staged, buffer, wait_for=state.after(event))
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
            if writable:
                raise ArgumentError(f"{name} has strides {array.strides} bytes, not whole elements")
            array = _packed(array)
            if not self.engine.maps_host_memory:
                return _whole(self._upload(array), array)
        low, high = _bounds(array, array.ctypes.data)
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
            self._result = np.empty(shape, dtype)
            return self._host_view(self._result, "out", writable=True)
        size = 1
        for extent in shape:
            size *= extent
        strides = contiguous_strides(shape)
        if self.host:
            self._result = np.empty(shape, dtype)
            buffer = self.state.workspace(max(1, size * dtype.itemsize))
            self._download = (buffer, self._result)
            return View(buffer, 0, shape, strides, dtype)
        self._result = result = new_array(self.state, self.queue, shape, dtype)
        return View(result.base_data or self.state.empty_buffer, 0, shape, strides, dtype)

    def _upload(self, array: np.ndarray[Any, Any]) -> Any:
        if array.size == 0:
            return self.state.empty_buffer
        self._check_size(array.nbytes)
        buffer = self.state.workspace(array.nbytes)
        event = cl.enqueue_copy(self.state.queue, buffer, array, is_blocking=False)
        self._keep.append((array, buffer, event))
        if not self.state.in_order:
            self.wait_for = [*(self.wait_for or ()), event]
        if not self.host:
            event.wait()  # the caller may change the NumPy array as soon as the call returns
        return buffer

    def _check_size(self, nbytes: int) -> None:
        self.engine.check_allocation(nbytes)


def run_to_the_end(state: QueueState, memory: Any, work: Callable[[], None]) -> None:
    """Do work that enqueues kernels and waits for them; let nothing leave before they are done.

    Python may raise between any two steps: a signal handler's exception, or a failing launch.
    Kernels that were enqueued by then go on.  ``memory`` stays alive until the queue is done, even
    where another exception comes while that is awaited.
    """
    key = id(memory)
    try:
        state.in_flight[key] = memory
        work()
        state.in_flight.pop(key)
    except BaseException:
        state.finish()
        state.in_flight.pop(key, None)
        raise


def new_array(
    state: QueueState,
    queue: cl.CommandQueue | None,
    shape: Shape,
    dtype: np.dtype[Any],
    data: Any | None = None,
) -> Any:
    """A C-ordered array on a queue, not filled: of fresh memory, or of ``data``.

    Args:
        state, queue: The queue, and the object by which the caller knows it.
        shape, dtype: Of the array.
        data: Its memory.

    Raises:
        DeviceMemoryError: The device has no room for it.
    """
    size = prod(shape)
    itemsize = dtype.itemsize
    if data is None and size:
        data = state.allocate(size * itemsize)
    # The public constructor costs 12 us, the one that pyopencl's own slicing uses 1 us.
    return Array(
        None,
        shape,
        dtype,
        data=data,
        events=state.new_events(),
        strides=tuple([s * itemsize for s in contiguous_strides(shape)]) if shape else (),
        _fast=True,
        _size=size,
        _context=state.engine.context,
        _queue=queue,
    )


def places(views: Sequence[View]) -> tuple[list[Any], tuple[int, ...]]:
    """Buffers and offsets (in elements) of views, as plans take them."""
    return [view.buffer for view in views], tuple([view.offset for view in views])


def twin(array: Any, queue: cl.CommandQueue, data: Any, events: list[cl.Event]) -> Any:
    """A pyopencl array like ``array``, on a queue, in other memory and with other events.

    Costs 0.3 us, the quickest constructor 1.1.
    """
    fresh = Array.__new__(Array)
    fresh.__dict__ = {**array.__dict__, "queue": queue, "base_data": data, "events": events}
    return fresh


def extent(array: Any) -> tuple[int, int]:
    """Bytes before the first element of a pyopencl array that it touches, and end of the others."""
    if not array.size:
        return 0, 0
    low, end = _bounds(array, 0)
    return -low, end


def check_extent(array: Any, touched: tuple[int, int], name: str = "an array") -> None:
    """Raise ArgumentError unless a pyopencl array's buffer holds all of it.

    pyopencl makes arrays on buffers that are too small without a word, and a kernel would read or
    write what lies beyond.  (It cannot tell of a buffer that was released by hand, and crashes if
    it is asked.)

    Args:
        array: The array.
        touched: What :func:`extent` says of it.
        name: How the message calls it.
    """
    before, end = touched
    if not end:
        return
    base, offset = array.base_data, array.offset
    size = 0 if base is None else base.size
    if offset < before or offset + end > size:
        raise ArgumentError(
            f"{name} takes bytes {offset - before} to {offset + end} of its buffer, "
            f"which has {size}; make it on a buffer that is large enough"
        )


def check_output(out: Any, shape: Shape, dtype: np.dtype[Any], name: str, host: bool) -> None:
    """Raise unless ``out`` is a writable array of ``shape`` and ``dtype``, of the right kind."""
    if not isinstance(out, (np.ndarray, cla.Array)):
        raise DTypeError(f"{name} is a {type(out).__name__}, not a NumPy or pyopencl array")
    _refuse_masked(out, name)
    if host != isinstance(out, np.ndarray):
        where = "NumPy" if host else "pyopencl"
        raise ArgumentError(
            f"{name} is a {type(out).__module__} array; the result is a {where} one"
        )
    if tuple(out.shape) != tuple(shape):
        raise ShapeError(f"{name} has shape {tuple(out.shape)}, the result has {tuple(shape)}")
    if out.dtype != dtype:
        raise DTypeError(f"{name} has dtype {out.dtype}, the result has {dtype}")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ReadOnlyError(f"{name} is read-only; pass a writable array")
    if _may_overlap_itself(out):
        raise OverlapError(f"{name} overlaps itself: strides {out.strides} for {out.shape}")


def check_no_overlap(out: Any, out_name: str, inputs: Sequence[tuple[Any, str]]) -> None:
    """Raise OverlapError if ``out`` shares memory with any of ``inputs`` (array, name)."""
    found = overlap(out, [array for array, _ in inputs])
    if found:
        raise OverlapError(
            f"{out_name} shares memory with {inputs[found - 1][1]}; pass a separate array"
        )


def overlap(out: Any, arrays: Sequence[Any]) -> int:
    """Which of ``arrays``, counted from 1, shares memory with ``out``; 0 if none does.

    One array of NumPy and one of a device never do.
    """
    if isinstance(out, np.ndarray):
        for position, array in enumerate(arrays, 1):
            both = isinstance(array, np.ndarray) and np.may_share_memory(out, array)
            if both and np.shares_memory(out, array):
                return position
        return 0
    if not isinstance(out, cla.Array) or out.base_data is None or not out.size:
        return 0
    base, origin = _origin(out)
    for position, array in enumerate(arrays, 1):
        if not isinstance(array, cla.Array) or array.base_data is None or not array.size:
            continue
        other, start = _origin(array)
        if other != base:
            continue
        (low, high), (first, end) = _bounds(out, origin), _bounds(array, start)
        if first < high and low < end:
            return position
    return 0


def _origin(array: Any) -> tuple[Any, int]:
    """The memory that an array's is part of, and where there its first element lies."""
    base, origin = array.base_data, array.offset
    try:
        parent = base.get_info(_PARENT)
    except AttributeError:  # shared virtual memory is no memory object
        return _HOST, base.svm_ptr + origin
    if parent is not None and base.get_info(cl.mem_info.TYPE) == cl.mem_object_type.BUFFER:
        origin += base.get_info(cl.mem_info.OFFSET)
        base = parent
    if base.flags & _USE_HOST_PTR:  # several buffers may be made of the same memory
        return _HOST, base.get_host_array((1,), np.uint8).ctypes.data + origin
    return base.int_ptr, origin


def _bounds(array: Any, origin: int) -> tuple[int, int]:
    """First byte and end of what ``array`` (not empty) may touch, its first element at origin."""
    steps = [s * (n - 1) for s, n in zip(array.strides, array.shape, strict=True)]
    low = sum(step for step in steps if step < 0)
    high = sum(step for step in steps if step > 0)
    return origin + low, origin + high + array.dtype.itemsize


def _may_overlap_itself(array: Any) -> bool:
    """Whether a stride is less than what the axes below it span; no slice of an array is so."""
    axes = sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1)
    span = array.dtype.itemsize
    for stride, extent in axes if array.size else ():
        if stride < span:
            return True
        span += stride * (extent - 1)
    return False


def _packed(array: Any) -> Any:
    """``array``, or a copy of it in C order and aligned."""
    return np.require(array, requirements=("C_CONTIGUOUS", "ALIGNED"))


def _whole(buffer: Any, array: np.ndarray[Any, Any]) -> View:
    return View(buffer, 0, array.shape, contiguous_strides(array.shape), array.dtype)


__all__ = [
    "AnyArray",
    "Call",
    "Shape",
    "View",
    "as_array",
    "check_no_overlap",
    "check_output",
    "contiguous_strides",
]
