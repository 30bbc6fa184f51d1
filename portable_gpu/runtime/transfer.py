"""Copy arrays to the device and back to NumPy, and share them with other libraries by DLPack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import one_of
from portable_gpu.errors import ExportError, HostMemoryError, reraise_of_signal
from portable_gpu.runtime import fork
from portable_gpu.runtime.array import DEVICE_KINDS, Array
from portable_gpu.runtime.host_copy import get
from portable_gpu.runtime.place import check_place
from portable_gpu.runtime.registry import state_for
from portable_gpu.runtime.views import AnyArray, as_array, inverse, new_array, order_of_axes
from portable_gpu.targets.cpu import RUNTIMES

if TYPE_CHECKING:
    from portable_gpu.runtime.engine import Engine

_DLPACK_CPU, _DLPACK_OPENCL = (1, 0), 4


def asarray(
    x: AnyArray,
    *,
    order: str = "K",
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
) -> Array:
    """Copy an array to the device.

    Args:
        x: A NumPy array, a list, a number, or a CPU array of another library by DLPack, of any
            shape, strides and supported dtype; or an array on the device.
        order: The order of the elements in memory.  ``"K"``: that of ``x``, without gaps between
            elements, as ``numpy.copy`` has it, so channels-last images stay channels-last; an array
            that repeats elements (stride 0) is C-ordered.  ``"C"``: C order.
        engine: The engine of the copy; the default engine if it is not given.
        queue: The queue of the copy, instead of the engine's.

    Returns:
        An array of ``x``'s shape and dtype: a copy, complete when the call returns.  For an array
        on the device the result shares memory, events and queue, unless ``order="C"`` takes a copy
        on the device.  If another queue or context is requested, the copy goes through the host.
        There is no ``wait_for``: a copy waits for the events of ``x``, to which
        :meth:`Array.add_event` adds others.

    Raises:
        DTypeError: ``x`` is not an array, or its dtype is not supported.
        ArgumentError: ``order`` is another value.
        ContextMismatchError: ``queue`` and ``engine`` belong to different contexts.
        DeviceMemoryError: The array cannot be allocated.
        HostMemoryError: ``x`` has gaps, and the host has no memory for a copy without them.
    """
    check_place(engine, queue)
    one_of(order, ("K", "C"), "order")
    array = as_array(x, "x")
    if isinstance(array, DEVICE_KINDS):
        same_queue = queue is None or queue == array.queue
        if same_queue and (engine is None or engine.context == array.context):
            on_device = array if isinstance(array, Array) else Array.of(array)
            is_ordered = order == "K" or on_device.flags.c_contiguous
            return on_device if is_ordered else on_device.copy()
        array = asnumpy(array)
    axes = order_of_axes(array) if order == "K" else None
    source = array if axes is None else array.transpose(axes)
    state = state_for([], engine, queue)
    result: Array = new_array(state, queue or state.engine.queue, source.shape, source.dtype)
    if source.size:
        memory: Any = result.base_data
        try:
            values = np.require(source, requirements="C")
        except MemoryError as error:
            reraise_of_signal(error)
            raise HostMemoryError(
                f"x has shape {array.shape} and strides; the host has no memory for a copy in the "
                f"order of the result: {error}"
            ) from error
        state.engine.staging.copy(state.queue, memory, values, writes=True)
    return result if axes is None else result.transpose(inverse(axes))


def asnumpy(x: AnyArray) -> np.ndarray[Any, Any]:
    """Copy an array back to NumPy.

    Args:
        x: An array on the device, with any strides; or anything that :func:`asarray` takes, which
            is returned as a NumPy array, without a copy if possible.

    Returns:
        An array of ``x``'s shape and dtype with a copy of its elements.  The call first waits for
        all events of ``x``, to which :meth:`Array.add_event` adds others; there is no ``wait_for``.

    Raises:
        DTypeError: ``x`` is not an array, or its dtype is not supported.
    """
    array = as_array(x, "x")
    return get(array) if isinstance(array, DEVICE_KINDS) else np.asarray(array)


def dlpack_device(array: Array) -> tuple[int, int]:
    """DLPack's code for the device of an array."""
    return _DLPACK_CPU if _is_on_cpu(array) else (_DLPACK_OPENCL, 0)


def to_dlpack(array: Array, device: tuple[int, int] | None, copy: bool | None) -> Any:
    """Return a DLPack capsule of an array, once all its events have ended.

    On a CPU device whose memory is the host's, the capsule shares the memory and keeps it alive,
    unless a copy is requested.  Writes of later kernels are visible there once they are done.

    Args:
        array: The array.
        device: DLPack's code for the device that the consumer wants.
        copy: Whether the consumer wants a copy; ``None``: only if necessary.

    Raises:
        ExportError: The array is on a device whose memory cannot be shared, and no copy on the CPU
            was requested.
    """
    fork.refuse()
    array.check()
    on_cpu = _is_on_cpu(array)
    if isinstance(array.base_data, cl.SVMPointer):
        raise ExportError("the array is in shared virtual memory, which DLPack does not support")
    if (device is None and not on_cpu) or device not in (None, _DLPACK_CPU):
        raise ExportError(
            "DLPack shares an array with a CPU's memory only; "
            "portable_gpu.asnumpy(x) copies it to the host"
        )
    if not on_cpu or copy:
        if copy is False:
            raise ExportError("an array on a GPU cannot be given to the CPU without a copy")
        return asnumpy(array).__dlpack__()
    return _shared(array).__dlpack__()


class _Mapping:
    """The mapped memory of a CPU device's buffer, unmapped when the last view of it is freed.

    It refers to the array too, because a pool reuses the memory of freed arrays.
    """

    def __init__(self, array: Any) -> None:
        queue, buffer = array.queue or cl.CommandQueue(array.context), array.base_data
        flags: Any = cl.map_flags.READ | cl.map_flags.WRITE
        memory, _ = cl.enqueue_map_buffer(
            queue, buffer, flags, 0, (buffer.size,), np.dtype(np.uint8), wait_for=list(array.events)
        )
        self._keep = array, memory
        self.__array_interface__ = memory.__array_interface__


def _shared(array: Array) -> np.ndarray[Any, Any]:
    """The memory of an array on a CPU device, as a NumPy array."""
    if not array.size:
        return np.empty(array.shape, array.dtype)
    return _view(array, np.asarray(_Mapping(array)), array.offset)


def _view(array: Any, memory: np.ndarray[Any, Any], offset: int) -> np.ndarray[Any, Any]:
    return np.ndarray(array.shape, array.dtype, memory, offset, array.strides)


def _is_on_cpu(array: Any) -> bool:
    """Whether an array is in the host's memory, where other libraries can access it in place.

    That holds for CPUs with the runtimes that are known to map buffers in place.  The mapping of
    another runtime may be a copy, which does not show the writes of later kernels.
    """
    device = array.context.devices[0] if array.queue is None else array.queue.device
    kinds = cl.device_type
    is_cpu = device.type & kinds.CPU and not device.type & kinds.GPU
    return bool(is_cpu and device.platform.name in RUNTIMES)


Array._dlpack_device = dlpack_device
Array._to_dlpack = to_dlpack
Array._from_numpy = asarray
