"""Strided views of memory, for NumPy arrays and device arrays; checks of arrays and outputs.

A view is a buffer, an offset, a shape and strides; offset and strides count elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from portable_gpu.dtypes import element
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceMemoryError,
    DTypeError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
    UnsupportedError,
)
from portable_gpu.runtime.array import DEVICE_KINDS, TO_ONE_SIDE, Array
from portable_gpu.runtime.layout import c_strides

if TYPE_CHECKING:
    from portable_gpu.runtime.queue_state import QueueState

Shape = tuple[int, ...]
AnyArray = Any  # numpy.ndarray | Array | pyopencl.array.Array | anything numpy.asarray takes
_HOST_MEMORY = (1, 3, 11, 13)  # DLPack's CPU, pinned by two vendors' drivers, and managed
# Exceptions of an object's methods; those that signal handlers raise must propagate.
_REFUSALS = (
    TypeError, ValueError, ArithmeticError, AttributeError, BufferError, LookupError, RuntimeError,
)  # fmt: skip
_HOST = "the host's memory"
_ARRAYS = (np.ndarray, *DEVICE_KINDS)
_PARENT, _USE_HOST_PTR = cl.mem_info.ASSOCIATED_MEMOBJECT, cl.mem_flags.USE_HOST_PTR

#: The attribute of a buffer's Python object that refers to its :class:`Memory`.
MEMORY = "_portable_gpu"


class Memory:
    """The properties of a buffer; each Python object of a buffer has its own.

    It identifies the buffer without keeping it alive.

    Attributes:
        size: Bytes.
        origin: The memory of which it is a part, and its first byte there; ``None`` until queried.
        address: Its address, where a call has needed it and it is known; else 0.
    """

    __slots__ = ("address", "origin", "size")

    def __init__(self, size: int) -> None:
        self.size, self.address = size, 0
        self.origin: tuple[Any, int] | None = None


def memory_of(base: Any) -> Memory:
    """Return the properties of a buffer, or of shared virtual memory, which has no attributes."""
    memory: Memory | None = getattr(base, MEMORY, None)
    if memory is None:
        memory = Memory(base.size)
        try:  # noqa: SIM105  # contextlib.suppress takes longer than the rest
            setattr(base, MEMORY, memory)
        except AttributeError:
            pass
    return memory


def origin_of(base: Any) -> tuple[Any, int]:
    """Return the memory of which a buffer is a part, and the buffer's first byte there."""
    memory = memory_of(base)
    if memory.origin is None:
        memory.origin = _origin(base)
    return memory.origin


@dataclass(slots=True)
class View:
    """A strided view of device memory; offset and strides count elements.

    ``address`` is the host address of a buffer on the caller's memory; it is 0 for the device's own
    buffers, which are aligned.  The class is not frozen, because that would double the time to
    make a view.
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
        """Whether it is a view of the memory of a NumPy array, and not of a copy."""
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


def as_array(value: AnyArray, name: str, overwrite: bool = False) -> Any:
    """Return ``value`` as a NumPy or device array of a supported dtype, without needless copies.

    A subclass of ``numpy.ndarray`` is treated as a plain array on its memory.

    Raises:
        ArgumentError: It is to be overwritten, and has another byte order.
        ArgumentTypeError: ``value`` cannot be an array, or is a masked one.
        DTypeError: It has an unsupported dtype.
        UnsupportedError: It is an array of several devices.
    """
    if not isinstance(value, _ARRAYS):
        kind = type(value).__name__
        try:
            value = _from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)
        except UnsupportedError as error:  # an array of several devices
            raise UnsupportedError(f"{name} is a {kind}: {error}") from None
        except _REFUSALS as error:
            raise ArgumentTypeError(
                f"{name} is a {kind}, not an array that NumPy can take: {error}"
            ) from error
        if value.dtype.kind in "OSU":
            hint = (
                f"; {TO_ONE_SIDE}" if value.shape and value.dtype == object else ""
            )  # a list of arrays, for instance
            raise ArgumentTypeError(f"{name} is a {kind}; expected an array of numbers{hint}")
    if type(value) not in _ARRAYS:
        _refuse_masked(value, name)
    try:
        if isinstance(value, np.ndarray) and not value.dtype.isnative:
            if overwrite:
                raise ArgumentError(
                    f"{name} has another byte order ({value.dtype.str}) and is to be overwritten; "
                    "convert it first"
                )
            value = value.astype(value.dtype.newbyteorder("="))
        element(value.dtype)
    except DTypeError as error:
        of_objects = value.dtype == object  # what NumPy makes of pyopencl's arrays
        hint = f"; {TO_ONE_SIDE}" if of_objects else ""
        raise DTypeError(f"{name}: {error}{hint}") from None
    return value


def _refuse_masked(array: Any, name: str) -> None:
    """Raise ArgumentTypeError for a masked array."""
    if type(array) is not np.ndarray and isinstance(array, np.ndarray) and hasattr(array, "mask"):
        raise ArgumentTypeError(
            f"{name} is a {type(array).__name__}, whose mask kernels do not see; pass "
            "x.compressed(), x.filled(value), or numpy.asarray(x) to have all elements count"
        )


def _from_dlpack(value: Any) -> np.ndarray[Any, Any]:
    kind = value.__dlpack_device__()[0]
    if kind not in _HOST_MEMORY:
        raise BufferError(
            f"it is on a device (of DLPack's kind {int(kind)}); copy it to the CPU first"
        )
    return np.from_dlpack(value)


def contiguous_strides(shape: Shape) -> Shape:
    """Strides of a C-ordered array, in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def new_array(
    state: QueueState,
    queue: cl.CommandQueue | None,
    shape: Shape,
    dtype: np.dtype[Any],
    data: Any | None = None,
) -> Any:
    """Return a C-ordered array on a queue, not filled: in new memory, or in ``data``.

    Args:
        state, queue: The state of the queue, and the caller's object for the queue.
        shape, dtype: The shape and the dtype of the array.
        data: The memory of the array.

    Raises:
        DeviceMemoryError: The memory cannot be allocated.
    """
    size = prod(shape)
    itemsize = dtype.itemsize
    if data is None and size:
        try:
            data = state.allocate(size * itemsize)
        except DeviceMemoryError as error:
            raise DeviceMemoryError(f"an array of shape {shape} and {dtype}: {error}") from error
    array = object.__new__(Array)
    array.queue, array.context = queue, state.engine.context
    array.shape, array.dtype, array.strides = shape, dtype, c_strides(shape, itemsize)
    array.events, array.nbytes, array.size = state.new_events(), size * itemsize, size
    array.base_data, array.offset, array.reports = data, 0, ()
    return array


def places(views: Sequence[View]) -> tuple[list[Any], tuple[int, ...]]:
    """Return the buffers and offsets (in elements) of views, the arguments of plans."""
    return [view.buffer for view in views], tuple([view.offset for view in views])


def maker_like(array: Any) -> Callable[[cl.CommandQueue, Any, list[cl.Event]], Any]:
    """Return a function that makes arrays like one with offset 0, from queue, buffer and events.

    It takes 0.2 us; the public constructor takes several microseconds.
    """
    context, shape, dtype, strides = array.context, array.shape, array.dtype, array.strides
    nbytes, size, allocate = array.nbytes, array.size, object.__new__

    def make(queue: cl.CommandQueue, data: Any, events: list[cl.Event]) -> Any:
        fresh: Any = allocate(Array)
        fresh.queue = queue
        fresh.context = context
        fresh.shape = shape
        fresh.dtype = dtype
        fresh.strides = strides
        fresh.events = events
        fresh.nbytes = nbytes
        fresh.size = size
        fresh.base_data = data
        fresh.offset = 0
        fresh.reports = ()
        return fresh

    return make


def extent(array: Any) -> tuple[int, int]:
    """Return the bytes of a device array before its first element, and the end of those after."""
    if not array.size:
        return 0, 0
    low, end = bounds(array, 0)
    return -low, end


def check_extent(array: Any, touched: tuple[int, int], name: str = "an array") -> None:
    """Raise ArgumentError unless a device array's buffer holds all of it.

    pyopencl makes arrays on buffers that are too small without an error, and a kernel would access
    other memory.  (Buffers that were released explicitly are not detected: pyopencl crashes.)

    Args:
        array: The array.
        touched: The result of :func:`extent`.
        name: The name of the array in the message.
    """
    before, end = touched
    if not end:
        return
    base, offset = array.base_data, array.offset
    size = 0 if base is None else memory_of(base).size
    if offset < before or offset + end > size:
        raise ArgumentError(
            f"{name} takes bytes {offset - before} to {offset + end} of its buffer, "
            f"which has {size}; make it on a buffer that is large enough"
        )


def check_output(out: Any, shape: Shape, dtype: np.dtype[Any], name: str, host: bool) -> None:
    """Raise unless ``out`` is a writable array of ``shape`` and ``dtype``, of the right kind."""
    if not isinstance(out, (np.ndarray, *DEVICE_KINDS)):
        raise ArgumentTypeError(
            f"{name} is a {type(out).__name__}; expected an array of NumPy or a portable_gpu.Array"
        )
    _refuse_masked(out, name)
    if host != isinstance(out, np.ndarray):
        kind = "on the device" if host else "of NumPy"
        expected = "an array of NumPy" if host else "a portable_gpu.Array"
        raise ArgumentError(f"{name} is an array {kind}; expected {expected}, as the result is")
    if tuple(out.shape) != tuple(shape):
        raise ShapeError(f"{name} has shape {tuple(out.shape)}, the result has {tuple(shape)}")
    if out.dtype != dtype:
        raise DTypeError(f"{name} has dtype {out.dtype}, the result has {dtype}")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ReadOnlyError(f"{name} is read-only; pass a writable array")
    if may_overlap_itself(out):
        raise OverlapError(f"{name} overlaps itself: strides {out.strides} for {out.shape}")


def check_no_overlap(out: Any, out_name: str, inputs: Sequence[tuple[Any, str]]) -> None:
    """Raise OverlapError if ``out`` shares memory with any of ``inputs`` (array, name)."""
    position = overlap(out, [array for array, _ in inputs])
    if position:
        name = inputs[position - 1][1]
        raise OverlapError("{} shares memory with {}; pass a separate array", out_name, name)


def overlap(out: Any, arrays: Sequence[Any]) -> int:
    """Return the position, from 1, of the first array that shares memory with ``out``; 0 if none.

    A NumPy array and a device array never share memory.
    """
    if isinstance(out, np.ndarray):
        for position, array in enumerate(arrays, 1):
            both = isinstance(array, np.ndarray) and np.may_share_memory(out, array)
            if both and np.shares_memory(out, array):
                return position
        return 0
    if not isinstance(out, DEVICE_KINDS) or out.base_data is None or not out.size:
        return 0
    base, origin = origin_of(out.base_data)
    low, high = bounds(out, origin + out.offset)
    for position, array in enumerate(arrays, 1):
        if not isinstance(array, DEVICE_KINDS) or array.base_data is None or not array.size:
            continue
        other, start = origin_of(array.base_data)
        if other != base:
            continue
        first, end = bounds(array, start + array.offset)
        if first < high and low < end:
            return position
    return 0


def parent_of(base: Any) -> Any:
    """Return the buffer of which a buffer is a part, if it is one."""
    return base.get_info(_PARENT)


def _origin(base: Any) -> tuple[Any, int]:
    try:
        parent = parent_of(base)
    except AttributeError:  # shared virtual memory is not a memory object
        return _HOST, base.svm_ptr
    origin = 0
    if parent is not None and base.get_info(cl.mem_info.TYPE) == cl.mem_object_type.BUFFER:
        origin = base.get_info(cl.mem_info.OFFSET)
        base = parent
    if base.flags & _USE_HOST_PTR:  # several buffers may be made of the same memory
        return _HOST, base.get_host_array((1,), np.uint8).ctypes.data + origin
    return base.int_ptr, origin


def bounds(array: Any, origin: int) -> tuple[int, int]:
    """Return the first byte and the end of a nonempty array whose first element is at origin."""
    steps = [s * (n - 1) for s, n in zip(array.strides, array.shape, strict=True)]
    low = sum(step for step in steps if step < 0)
    high = sum(step for step in steps if step > 0)
    return origin + low, origin + high + array.dtype.itemsize


def may_overlap_itself(array: Any) -> bool:
    """Whether a stride is less than the span of the axes with smaller strides; slices never are."""
    axes = sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1)
    span = array.dtype.itemsize
    for stride, extent in axes if array.size else ():
        if stride < span:
            return True
        span += stride * (extent - 1)
    return False


def order_of_axes(x: Any) -> tuple[int, ...] | None:
    """The axes from the largest stride to the smallest; ``None`` if that is their order.

    ``None`` as well for an array that repeats elements (stride 0), which has no order of its own,
    and for what is no array.  The place of an axis of extent 1 means nothing.
    """
    if type(x) in _ARRAYS:  # their shapes are tuples
        return _order_of(x.shape, x.strides)
    return _order_of(tuple(x.shape), tuple(x.strides)) if isinstance(x, _ARRAYS) else None


@lru_cache(maxsize=1024)
def _order_of(shape: Shape, strides: tuple[int, ...]) -> tuple[int, ...] | None:
    steps = [abs(step) for step in strides]
    used = [step for step, extent in zip(steps, shape, strict=True) if extent > 1]
    if 0 in shape or 0 in used or used == sorted(used, reverse=True):
        return None
    return tuple(sorted(range(len(steps)), key=lambda axis: -steps[axis]))


@lru_cache(maxsize=1024)
def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another one."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def permuted(array: Any, order: tuple[int, ...]) -> Any:
    """``array.transpose(order)``, with an order of :func:`order_of_axes` or its inverse.

    It takes a third of the time of an array's method, which checks the axes.
    """
    if type(array) is not Array:
        return array.transpose(order)
    of_axes = _permutation(order)
    view = object.__new__(Array)
    view.queue, view.context, view.dtype = array.queue, array.context, array.dtype
    view.offset, view.size, view.nbytes = array.offset, array.size, array.nbytes
    view.shape, view.strides = of_axes(array.shape), of_axes(array.strides)
    view.base_data, view.events, view.reports = array.base_data, array.events, array.reports
    return view


@lru_cache(maxsize=1024)
def _permutation(order: tuple[int, ...]) -> Callable[[Shape], Shape]:
    of_axes: Callable[[Shape], Shape] = itemgetter(*order)  # of two axes at least: it makes tuples
    return of_axes


def packed(array: Any) -> Any:
    """``array``, or a copy of it in C order and aligned."""
    return np.require(array, requirements=("C_CONTIGUOUS", "ALIGNED"))


def whole(buffer: Any, array: np.ndarray[Any, Any]) -> View:
    """Return the view of a buffer that has the elements of an array in C order."""
    return View(buffer, 0, array.shape, contiguous_strides(array.shape), array.dtype)


__all__ = [
    "AnyArray",
    "Shape",
    "View",
    "as_array",
    "check_no_overlap",
    "check_output",
    "contiguous_strides",
]
