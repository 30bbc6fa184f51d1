"""The call that loops make: arrays of a kind met before, and nothing left to check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from portable_gpu.runtime.engine import QueueState
from portable_gpu.runtime.views import Shape, new_array, twin

Key = tuple[Any, ...]
Enqueue = Callable[[QueueState, Sequence[Any], tuple[int, ...]], cl.Event]
NUMBERS = (float, int, complex)  # what a key may hold: values that are their own identity
_INPUT = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
_OUTPUT = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
_MOST = 4096  # calls remembered; queues that are gone are forgotten with the rest

_known: dict[Key, _OnDevice | _OnHost] = {}


@dataclass(slots=True)
class _OnDevice:
    """A call on device arrays of one queue.

    Attributes:
        state: The queue.
        enqueue: Enqueues it, given buffers and offsets (in elements) of inputs and result.
        blank: The result's shape, dtype and queue, with no memory of its own.
        inside: For each input the events last seen, all of this queue.
    """

    state: QueueState
    enqueue: Enqueue
    blank: Any
    inside: list[Sequence[cl.Event]]

    def again(self, arrays: Sequence[Any]) -> Any:
        """The enqueued result; ``None`` if there are events of other queues to wait for."""
        buffers: list[Any] = []
        offsets: list[int] = []
        for position, array in enumerate(arrays):
            if array.events != self.inside[position]:
                if self.state.outside(array.events):
                    return None
                self.inside[position] = list(array.events)
            buffers.append(array.base_data)
            offsets.append(array.offset // array.dtype.itemsize if array.offset else 0)
        blank = self.blank
        memory = self.state.engine.allocate(blank.nbytes)
        result = twin(blank, memory)
        buffers.append(memory)
        offsets.append(0)
        result.events.append(self.enqueue(self.state, buffers, tuple(offsets)))
        return result


@dataclass(slots=True)
class _OnHost:
    """A call on contiguous NumPy arrays, which a CPU device works on in place."""

    state: QueueState
    enqueue: Enqueue
    shape: Shape
    dtype: np.dtype[Any]
    offsets: tuple[int, ...]

    def again(self, arrays: Sequence[Any]) -> Any:
        """The finished result; ``None`` if an array lies at an odd address."""
        context = self.state.engine.context
        buffers = []
        for array in arrays:
            if not array.flags.aligned:
                return None
            buffers.append(cl.Buffer(context, _INPUT, hostbuf=array))
        result = np.empty(self.shape, self.dtype)
        buffers.append(cl.Buffer(context, _OUTPUT, hostbuf=result))
        self.enqueue(self.state, buffers, self.offsets).wait()
        return result if self.shape else result[()]


def again(head: Key, arrays: Sequence[Any]) -> tuple[Any, Key | None]:
    """The result of a call met before, or else the key to :func:`remember` it by.

    Args:
        head: The operation and its hashable options.
        arrays: The inputs.

    Returns:
        ``(result, key)``: the result (of NumPy arrays: finished, of device arrays: enqueued), or
        ``None`` and the key; both are ``None`` where the inputs are neither all NumPy arrays nor
        all device arrays.
    """
    kind = type(arrays[0])
    key: Key
    if kind is cla.Array:
        for array in arrays:
            if type(array) is not kind:
                return None, None
        key = (head, *[(a.queue, a.shape, a.strides, a.dtype, a.offset & 15) for a in arrays])
    elif kind is np.ndarray:
        for array in arrays:
            if type(array) is not kind:
                return None, None
        key = (head, *[(a.shape, a.strides, a.dtype) for a in arrays])
    else:
        return None, None
    known = _known.get(key)
    return None if known is None else known.again(arrays), key


def remember(
    key: Key | None,
    arrays: Sequence[Any],
    state: QueueState,
    enqueue: Enqueue,
    shape: Shape,
    dtype: np.dtype[Any],
) -> None:
    """Let :func:`again` answer ``key``, if nothing is left to check when it comes again.

    Args:
        key: From :func:`again`.
        arrays: The inputs.
        state: The queue that the call went to.
        enqueue: What it did.
        shape, dtype: Of its result.
    """
    if key is None or not prod(shape) or not state.in_order or any(not a.size for a in arrays):
        return
    known: _OnDevice | _OnHost
    if isinstance(arrays[0], cla.Array):
        if any(a.queue is not state.queue for a in arrays):
            return
        blank = new_array(state, shape, dtype, state.empty_buffer)
        known = _OnDevice(state, enqueue, blank, [()] * len(arrays))
    else:
        in_place = state.engine.target.is_cpu and state.engine.maps_host_memory
        most = state.engine.target.facts.max_alloc_size
        plain = all(a.flags.forc and a.dtype.isnative and a.nbytes <= most for a in arrays)
        if not in_place or not plain:
            return
        known = _OnHost(state, enqueue, shape, dtype, (0,) * (len(arrays) + 1))
    if len(_known) >= _MOST:
        _known.clear()
    _known[key] = known
