"""Copies between the host and arrays of any strides on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import of_kind
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ReadOnlyError,
    ShapeError,
)
from portable_gpu.runtime import fork, staging
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.events import QueueEvents
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.registry import state_for
from portable_gpu.runtime.views import (
    bounds,
    check_extent,
    extent,
    may_overlap_itself,
    new_array,
    order_of_axes,
)

# A transfer includes the gaps between elements if it has at most four times the bytes of the
# elements, or a few pages: that costs less than a kernel that packs them.
_GAPS, _FEW = 4, 1 << 16


def get(array: Any, queue: cl.CommandQueue | None = None, into: Any = None) -> Any:
    """Return the values of an array of this library or of pyopencl in NumPy: ``Array.get``."""
    if isinstance(array, Array):
        array.check()
    queue_of_copy = _queue(array, queue)
    if into is not None:
        _check_host(array, into, "ary")
        if not into.flags.writeable:
            raise ReadOnlyError("ary is read-only; pass a writable array")
    if array.size:
        result = into if into is not None and _has_same_strides(array, into) else None
        result, _ = _read(array, queue_of_copy, result, True)
        if not result.flags.forc:
            axes = order_of_axes(result)
            if axes is None or not result.transpose(axes).flags.c_contiguous:
                result = result.copy(order="K")  # which has no gaps
    else:
        result = np.empty(array.shape, array.dtype)
        for event in _before(array, queue_of_copy):
            event.wait()
    if into is None or into is result:
        return result
    into[...] = result
    return into


def get_async(
    array: Array, queue: cl.CommandQueue | None = None, into: Any = None
) -> tuple[Any, cl.Event]:
    """Start to copy the values; return the NumPy array and the event: ``Array.get_async``."""
    array.check()
    queue_of_copy = _queue(array, queue)
    if into is not None:
        _check_host(array, into, "ary")
        if not into.flags.c_contiguous or not into.flags.writeable:
            raise ReadOnlyError("ary is read-only or not C-ordered; pass a writable C-ordered one")
    if not array.size:
        result = np.empty(array.shape, array.dtype) if into is None else into
        return result, cl.enqueue_marker(queue_of_copy, wait_for=_before(array, queue_of_copy))
    source = array
    if into is not None and not _has_same_strides(array, into):
        source = array.copy(queue_of_copy)
    result, event = _read(source, queue_of_copy, into, False)
    array.add_event(event)
    return result, event


def put(
    array: Array, values: Any, queue: cl.CommandQueue | None = None, asynchronous: bool = False
) -> None:
    """Copy values of NumPy to the device: ``Array.set``."""
    _check_host(array, values, "ary")
    if not array.size:
        return
    queue_of_copy = _queue(array, queue)
    check_extent(array, extent(array))
    low, end = bounds(array, array.offset)
    is_svm = isinstance(array.base_data, cl.SVMPointer)
    if end - low != array.nbytes or may_overlap_itself(array) or (is_svm and low):
        state = state_for([], None, queue_of_copy)
        dense = new_array(state, queue_of_copy, array.shape, array.dtype)
        put(dense, values, queue_of_copy, asynchronous)
        Array._assign(array, dense, queue_of_copy)
        return
    span = values
    if not _has_same_strides(array, values):
        span = np.empty(end - low, np.uint8)
        np.ndarray(array.shape, array.dtype, span, array.offset - low, array.strides)[...] = values
    before = _before(array, queue_of_copy)
    if not asynchronous:
        _copy_and_wait(queue_of_copy, array.base_data, span, low, before, True)
        return
    event = cl.enqueue_copy(
        queue_of_copy, array.base_data, span, dst_offset=low, wait_for=before, is_blocking=False
    )
    array.add_event(event)


def mapped(
    array: Array,
    queue: cl.CommandQueue | None = None,
    flags: Any = None,
    is_blocking: bool = True,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Map the memory of an array to the host's addresses: ``Array.map_to_host``."""
    array.check()
    queue_of_map = _queue(array, queue)
    if not array.size or not isinstance(array.base_data, cl.MemoryObjectHolder):
        raise ArgumentError(
            "an array without elements or without a buffer has nothing to map; get() copies it"
        )
    if flags is None:
        flags = cl.map_flags.READ | cl.map_flags.WRITE
    low, end = bounds(array, array.offset)
    memory, event = cl.enqueue_map_buffer(
        queue_of_map, array.base_data, flags, low, (end - low,), np.dtype(np.uint8),
        wait_for=[*events_of(wait_for), *array.events], is_blocking=is_blocking,
    )  # fmt: skip
    result = np.ndarray(array.shape, array.dtype, memory, array.offset - low, array.strides)
    return result if is_blocking else (result, event)


def _read(array: Any, queue: cl.CommandQueue, into: Any, is_blocking: bool) -> tuple[Any, Any]:
    """Copy the values of a nonempty array; return them, and the event unless the copy blocks.

    They go to ``into``, which has the strides of the array, or to new memory.
    """
    check_extent(array, extent(array))
    low, end = bounds(array, array.offset)
    span = end - low
    is_svm = isinstance(array.base_data, cl.SVMPointer)
    if span > max(_GAPS * array.nbytes, _FEW) or (is_svm and low):
        copy = Array._converted(array, array.dtype, queue)
        return _read(copy, queue, into, is_blocking)
    result = into
    if result is None:
        memory = np.empty(span, np.uint8)
        result = np.ndarray(array.shape, array.dtype, memory, array.offset - low, array.strides)
    else:
        memory = result
    before = _before(array, queue)
    if is_blocking:
        _copy_and_wait(queue, array.base_data, memory, low, before, False)
        return result, None
    event = cl.enqueue_copy(
        queue, memory, array.base_data, src_offset=low, wait_for=before, is_blocking=False
    )
    return result, event


def _copy_and_wait(
    queue: cl.CommandQueue,
    memory: Any,
    values: np.ndarray[Any, Any],
    offset: int,
    before: list[cl.Event],
    writes: bool,
) -> None:
    """Copy from a buffer to a NumPy array, or with ``writes`` in the other direction, and wait.

    Small copies do not open an engine.  The copy waits for the events ``before``.
    """
    copy: Callable[..., Any] = staging.enqueue_copy
    if values.nbytes >= staging.LEAST:
        copy = state_for([], None, queue).engine.staging.copy
    copy(queue, memory, values, offset, before, writes=writes)


def _queue(array: Any, queue: Any) -> cl.CommandQueue:
    """Return the queue of a copy: the caller's, or else that of the array."""
    fork.refuse()
    if queue is not None:
        return of_kind(queue, cl.CommandQueue, "queue", "a pyopencl.CommandQueue or None")
    default: cl.CommandQueue = array.queue or state_for([array], None, None).queue
    return default


def _before(array: Any, queue: cl.CommandQueue) -> list[cl.Event]:
    """Return the events of an array for which a command on a queue must wait."""
    events = array.events
    if isinstance(events, QueueEvents) and events.queue == queue:
        return events.present()
    return list(events)


def _has_same_strides(array: Any, values: np.ndarray[Any, Any]) -> bool:
    """Whether a NumPy array has the strides of a device array, and no gaps."""
    return values.strides == array.strides and values.flags.forc


def _check_host(array: Any, values: Any, name: str) -> None:
    if not isinstance(values, np.ndarray):
        raise ArgumentTypeError(f"{name} is a {type(values).__name__}, not an array of NumPy")
    if values.shape != array.shape:
        raise ShapeError(f"{name} has shape {values.shape}, the array has {array.shape}")
    if values.dtype != array.dtype:
        raise DTypeError(f"{name} has dtype {values.dtype}, the array has {array.dtype}")


Array._get = get
Array._get_async = get_async
Array._set = put
Array._map = mapped
