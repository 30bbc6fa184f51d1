"""NumPy views as pyopencl arrays with the same strides, which pyopencl itself cannot copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from portable_gpu.runtime.engine import Engine


def launch(
    queue: cl.CommandQueue, kernel: cl.Kernel, size: tuple[int, ...], *arguments: Any
) -> None:
    """Launch a kernel that the library has built; its calls bind their arguments one by one."""
    for index, argument in enumerate(arguments):
        kernel.set_arg(index, argument)
    cl.enqueue_nd_range_kernel(queue, kernel, size, None)


def _bytes_of(view: Any) -> tuple[int, int]:
    """The first byte that a view touches, seen from its first element, and how many they are."""
    steps = [s * (n - 1) for s, n in zip(view.strides, view.shape, strict=True)]
    low = sum(step for step in steps if step < 0)
    return low, sum(step for step in steps if step > 0) - low + view.itemsize


def on_device(engine: Engine, view: Any, queue: Any = None, rim: int = 0) -> Any:
    """``view`` as a pyopencl array: same shape and strides, ``rim`` elements inside its buffer."""
    queue = engine.queue if queue is None else queue
    view = np.asarray(view)
    if view.size == 0:
        return cla.empty(queue, view.shape, view.dtype)
    low, nbytes = _bytes_of(view)
    address = view.__array_interface__["data"][0] + low
    span = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_ubyte * nbytes).from_address(address))
    margin = np.zeros(rim * view.itemsize, np.uint8)
    memory = cla.to_device(queue, np.concatenate([margin, span, margin]))
    array = cla.Array(
        queue,
        view.shape,
        view.dtype,
        strides=view.strides,
        data=memory.base_data,
        offset=margin.size - low,
    )
    array.add_event(memory.events[-1]) if memory.events else None
    return array


def from_device(array: Any) -> Any:
    """The values of a pyopencl array of any strides, as a NumPy array."""
    import pyopencl as cl

    for event in array.events:
        event.wait()
    if not array.size:
        return np.empty(array.shape, array.dtype)
    memory = np.empty(array.base_data.size, np.uint8)
    cl.enqueue_copy(array.queue, memory, array.base_data)
    return np.ndarray(array.shape, array.dtype, memory, array.offset, array.strides).copy()
