"""The call that loops make: arrays of a kind met before, and nothing left to check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine, QueueState
from portable_gpu.runtime.events import QueueEvents
from portable_gpu.runtime.views import Shape, new_array, overlap, twin

Key = tuple[Any, ...]
Enqueue = Callable[[QueueState, Sequence[Any], tuple[int, ...]], cl.Event | None]
NUMBERS = (float, int, complex)  # what a key may hold: values that are their own identity
_MOST = 4096  # calls remembered; queues that are gone are forgotten with the rest

_known: dict[Key, Repeat] = {}


class Repeat(Protocol):
    """A call with everything found, built and checked but the arrays' memory."""

    state: QueueState

    def __call__(self, arrays: Sequence[Any], out: Any = None) -> Any:
        """Do it again.

        Args:
            arrays: Inputs like the first ones in all that :func:`signature` tells.
            out: Where the result goes, like the first one likewise; fresh memory without it.

        Returns:
            The result (of NumPy arrays: finished, of device arrays: enqueued), or ``None`` if
            these arrays need more than this.
        """


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

    def __call__(self, arrays: Sequence[Any], out: Any = None) -> Any:
        buffers: list[Any] = []
        offsets: list[int] = []
        for position, array in enumerate(arrays):
            events = array.events
            if isinstance(events, QueueEvents):
                if self.state.outside(events):
                    return None
            elif events != self.inside[position]:
                if self.state.outside(events):
                    return None
                self.inside[position] = list(events)
            buffers.append(array.base_data)
            offsets.append(array.offset // array.dtype.itemsize if array.offset else 0)
        if out is None:
            blank = self.blank
            data = self.state.allocate(blank.nbytes)
            buffers.append(data)
            offsets.append(0)
            event = self.enqueue(self.state, buffers, tuple(offsets))
            return twin(blank, data, self.state.new_events() if event is None else [event])
        if self.state.outside(out.events):
            return None
        buffers.append(out.base_data)
        offsets.append(out.offset // out.dtype.itemsize)
        self.state.cover(out.events, self.enqueue(self.state, buffers, tuple(offsets)))
        return out


@dataclass(slots=True)
class _OnHost:
    """A call on contiguous NumPy arrays, which a CPU device works on in place."""

    state: QueueState
    enqueue: Enqueue
    shape: Shape
    dtype: np.dtype[Any]
    offsets: tuple[int, ...]

    def __call__(self, arrays: Sequence[Any], out: Any = None) -> Any:
        if out is not None and not out.flags.behaved:
            return None
        in_place = self.state.engine.in_place
        buffers = []
        for array in arrays:
            if not array.flags.aligned:
                return None
            buffers.append(in_place(array, array.nbytes, False))
        result = np.empty(self.shape, self.dtype) if out is None else out
        buffers.append(in_place(result, result.nbytes, True))
        self.state.event(self.enqueue(self.state, buffers, self.offsets)).wait()
        return result if self.shape or out is not None else result[()]


def signature(arrays: Sequence[Any]) -> Key | None:
    """All that decides how a call on these arrays runs; ``None`` for a mixture of kinds."""
    kind = type(arrays[0])
    for array in arrays:
        if type(array) is not kind and not (kind in DEVICE_KINDS and type(array) in DEVICE_KINDS):
            return None
    if kind in DEVICE_KINDS:
        return tuple([(a.queue, a.shape, a.strides, a.dtype, a.offset & 15) for a in arrays])
    if kind is np.ndarray:
        return tuple([(a.shape, a.strides, a.dtype) for a in arrays])
    return None


def again(head: Key, arrays: Sequence[Any], out: Any = None) -> tuple[Any, Key | None]:
    """The result of a call met before, or else the key to :func:`remember` it by.

    Args:
        head: The operation and its hashable options.
        arrays: The inputs.
        out: The caller's array for the result.

    Returns:
        ``(result, key)``: the result, as :class:`Repeat` gives it, or ``None`` and the key; both
        are ``None`` where the inputs are neither all NumPy arrays nor all device arrays.
    """
    kinds = signature(arrays if out is None else (*arrays, out))
    if kinds is None:
        return None, None
    key = (head, kinds) if out is None else (head, kinds, "out")
    known = _known.get(key)
    if known is None:
        return None, key
    if out is not None and any(overlap(out, array) for array in arrays):
        return None, None
    return known(arrays, out), key


def forget(engine: Engine) -> None:
    """Drop the calls of an engine, which hold its programs and memory."""
    for key, known in list(_known.items()):
        if known.state.engine is engine:
            _known.pop(key, None)


def remember(
    key: Key | None,
    arrays: Sequence[Any],
    state: QueueState,
    enqueue: Enqueue,
    shape: Shape,
    dtype: np.dtype[Any],
    out: Any = None,
) -> None:
    """Let :func:`again` answer ``key``, if nothing is left to check when it comes again.

    Args:
        key: From :func:`again`.
        arrays: The inputs.
        state: The queue that the call went to.
        enqueue: What it did.
        shape, dtype: Of its result.
        out: The caller's array for it.
    """
    if key is None:
        return
    known = repeat(arrays, state, enqueue, shape, dtype, out)
    if known is not None:
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = known


def repeat(
    arrays: Sequence[Any],
    state: QueueState,
    enqueue: Enqueue,
    shape: Shape,
    dtype: np.dtype[Any],
    out: Any = None,
) -> Repeat | None:
    """A :class:`Repeat` of a call, or ``None`` where arrays have to be looked at each time.

    Args:
        arrays: The inputs.
        state: The queue that the call goes to.
        enqueue: What it does.
        shape, dtype: Of its result.
        out: The caller's array for the result.
    """
    if not prod(shape) or not state.in_order or any(not a.size for a in arrays):
        return None
    everything = arrays if out is None else (*arrays, out)
    if isinstance(arrays[0], cla.Array):
        if any(a.queue is not state.queue for a in everything):
            return None
        blank = new_array(state, shape, dtype, state.empty_buffer)
        return _OnDevice(state, enqueue, blank, [()] * len(arrays))
    engine = state.engine
    if not engine.target.is_cpu or not engine.maps_host_memory:
        return None
    if not all(a.flags.forc and a.dtype.isnative for a in everything):
        return None
    return _OnHost(state, enqueue, shape, dtype, (0,) * (len(arrays) + 1))
