"""Arrays to the device, back to NumPy, and to other libraries by DLPack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from portable_gpu.errors import ExportError
from portable_gpu.runtime import fork
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.place import check_place
from portable_gpu.runtime.registry import state_for
from portable_gpu.runtime.views import AnyArray, _bounds, as_array, new_array
from portable_gpu.targets.cpu import RUNTIMES

if TYPE_CHECKING:
    from portable_gpu.runtime.engine import Engine

_DLPACK_CPU, _DLPACK_OPENCL = (1, 0), 4


def asarray(
    x: AnyArray, *, engine: Engine | None = None, queue: cl.CommandQueue | None = None
) -> Array:
    """Bring an array to the device.

    Args:
        x: A NumPy array, a list, a number, an array of another library that speaks DLPack from the
            CPU, of any shape, strides and supported dtype; or an array on the device.
        engine: Where to, the default engine without it.
        queue: On this queue, instead of the engine's.

    Returns:
        An array of ``x``'s shape and dtype: a C-ordered copy, done when the call returns; an array
        on the device shares its memory, events and queue, unless another queue or context is asked
        for, which goes by the host.

    Raises:
        DTypeError: ``x`` is no array, or its dtype is not supported.
        ContextMismatchError: ``queue`` and ``engine`` are of different contexts.
        DeviceMemoryError: The device has no room for it.
    """
    check_place(engine, queue)
    array = as_array(x, "x")
    if isinstance(array, cla.Array):
        same_queue = queue is None or queue == array.queue
        if same_queue and (engine is None or engine.context == array.context):
            return array if isinstance(array, Array) else _of_our_kind(array)
        array = asnumpy(array)
    state = state_for([], engine, queue)
    result: Array = new_array(state, queue or state.engine.queue, array.shape, array.dtype)
    if array.size:
        memory: Any = result.base_data
        cl.enqueue_copy(state.queue, memory, np.require(array, requirements="C"))
    return result


def asnumpy(x: AnyArray) -> np.ndarray[Any, Any]:
    """Bring an array back to NumPy.

    Args:
        x: An array on the device, with any strides; or what :func:`asarray` takes, which comes
            back as a NumPy array without a copy where that is possible.

    Returns:
        An array of ``x``'s shape and dtype, with a copy of its elements as they are after all its
        events: the call waits for them.

    Raises:
        DTypeError: ``x`` is no array, or its dtype is not supported.
    """
    array = as_array(x, "x")
    if not isinstance(array, cla.Array):
        return np.asarray(array)
    fork.refuse()
    queue = array.queue or state_for([array], None, None).queue
    if array.flags.forc or not array.size:
        return cast("np.ndarray[Any, Any]", array.get(queue))
    low, end = _bounds(array, array.offset)
    span = np.empty(end - low, np.uint8)
    memory: Any = array.base_data
    cl.enqueue_copy(queue, span, memory, src_offset=low, wait_for=list(array.events))
    return _view(array, span, array.offset - low).copy()


def dlpack_device(array: Array) -> tuple[int, int]:
    """What DLPack calls the device that an array lies on."""
    return _DLPACK_CPU if _is_on_cpu(array) else (_DLPACK_OPENCL, 0)


def to_dlpack(array: Array, device: tuple[int, int] | None, copy: bool | None) -> Any:
    """A DLPack capsule of an array, after all its events.

    Where a CPU device's memory is the host's as it lies, the capsule shares it, and keeps it alive,
    unless a copy is asked for.  Kernels that write to the array later are seen there, once they are
    done.

    Args:
        array: The array.
        device: What DLPack calls the device that the consumer wants it on.
        copy: Whether it wants a copy; ``None``: only if there has to be one.

    Raises:
        ExportError: The array lies on a device whose memory cannot be shared, and no copy on the
            CPU was asked for.
    """
    fork.refuse()
    on_cpu = _is_on_cpu(array)
    if isinstance(array.base_data, cl.SVMPointer):
        raise ExportError("the array lies in shared virtual memory, which DLPack has no word for")
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
    """The memory of a CPU device's buffer, for as long as somebody looks at it.

    It holds the array too: a pool gives memory of arrays that are gone to others.
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
    """Whether an array lies in the host's memory, where others can see it as it is.

    Of a CPU that is so by the runtimes that are known to map a buffer where it lies: another's
    mapping may be a copy, which sees no later kernel.
    """
    device = array.context.devices[0] if array.queue is None else array.queue.device
    kinds = cl.device_type
    is_cpu = device.type & kinds.CPU and not device.type & kinds.GPU
    return bool(is_cpu and device.platform.name in RUNTIMES)


def _of_our_kind(array: cla.Array) -> Array:
    ours: Array = Array.__new__(Array)
    ours.__dict__ = dict(array.__dict__)
    return ours
