"""The call that loops make: arrays of a kind met before, and nothing left to check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.call import Call, Planning
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.registry import STATE, known_home
from portable_gpu.runtime.replay import BesideReplay, Kernels, Recording, Replay
from portable_gpu.runtime.views import Shape, View, new_array, overlap

Key = tuple[Any, ...]
NUMBERS = (float, int, complex)  # what a key may hold: values that are their own identity
_MOST = 4096  # calls remembered for a queue


class Repeat(Protocol):
    """A call with everything found, built and checked but the arrays' memory."""

    def run(
        self,
        state: QueueState,
        arrays: Sequence[Any],
        out: Any = None,
        scalars: tuple[Any, ...] = (),
    ) -> Any:
        """Do it again.

        Args:
            state: What remembers the call: :attr:`Call.home`.
            arrays: Inputs like the first ones in all that :func:`signature` tells.
            out: Where the result goes, like the first one likewise; fresh memory without it.
            scalars: Numbers that may differ from call to call, where the plan takes any.

        Returns:
            The result (of NumPy arrays: finished, of device arrays: enqueued), or ``None`` if
            these arrays need more than this, for instance because ``out`` shares their memory.
        """


@dataclass(frozen=True)
class Beside:
    """Something small that kernels write beside the result, for the host to look at.

    Attributes:
        shape, dtype: Of it.
        look: What looks at the values, and may raise.
    """

    shape: Shape
    dtype: np.dtype[Any]
    look: Callable[[np.ndarray[Any, Any]], None]


class _OnHost:
    """A call on NumPy arrays without gaps, which a CPU device works on in place.

    Its launches are recorded once and repeated, as those of :class:`Replay`.
    """

    __slots__ = ("_beside", "_dtype", "_idle", "_orders", "_plan", "_scalars", "_shape", "state")

    def __init__(
        self,
        state: QueueState,
        plan: Plan,
        scalars: tuple[Any, ...],
        result: View,
        orders: Sequence[tuple[int, ...]],
        beside: Beside | None,
    ) -> None:
        """Note what stays.

        Args:
            state: Where it runs: the engine's own queue, or its caller's.
            plan, scalars: What is enqueued.
            result: What the result is like.
            orders: Of each array's axes, in which its memory is contiguous; ``()`` where it is so
                as it is.  The result's is last.
            beside: What is written beside the result, if anything is.
        """
        self.state, self._plan, self._scalars = state, plan, scalars
        self._shape, self._dtype = result.shape, result.dtype
        self._orders, self._beside = tuple(orders), beside
        self._idle: list[Kernels] = []

    def run(
        self,
        state: QueueState,
        arrays: Sequence[Any],
        out: Any = None,
        scalars: tuple[Any, ...] = (),
    ) -> Any:
        """See :class:`Repeat`."""
        if out is not None and (not out.flags.behaved or overlap(out, arrays)):
            return None
        state = self.state
        try:
            kernels = self._idle.pop()
        except IndexError:  # all are in the middle of a call
            kernels = self._kernels(scalars)
        # A call that raises does not put them back: who knows which arguments they have.
        if scalars != kernels.scalars or 0 in scalars:  # whose sign may be another
            kernels.move(*self._recorded(scalars))
        in_place, places = state.engine.in_place, kernels.places
        buffers = []
        k = 0
        for array in arrays:
            if not array.flags.aligned:
                self._idle.append(kernels)
                return None
            order = self._orders[k]
            lies = array.transpose(order) if order else array
            buffer = in_place(lies, array.nbytes, False)
            for set_argument, index in places[k]:
                set_argument(index, buffer)
            buffers.append(buffer)
            k += 1
        result = np.empty(self._shape, self._dtype) if out is None else out
        order = self._orders[-1]
        buffer = in_place(result.transpose(order) if order else result, result.nbytes, True)
        for set_argument, index in places[k]:
            set_argument(index, buffer)
        buffers.append(buffer)
        beside, values = self._beside, None
        if beside is not None:
            values = np.empty(beside.shape, beside.dtype)
            buffer = in_place(values, values.nbytes, True)
            for set_argument, index in places[-1]:
                set_argument(index, buffer)
            buffers.append(buffer)
        memory, in_flight = (arrays, result, values, buffers), state.in_flight
        key = id(memory)
        try:  # as run_to_the_end, which costs a call more
            in_flight[key] = memory
            rooms = kernels.take_rooms(state)
            event = kernels.enqueue(state)
            state.wait(event)
            del in_flight[key], rooms
        except BaseException:
            state.finish()
            in_flight.pop(key, None)
            raise
        self._idle.append(kernels)
        if beside is not None and values is not None:
            beside.look(values)
        return result if self._shape or out is not None else result[()]

    def _kernels(self, scalars: tuple[Any, ...]) -> Kernels:
        by_address = self.state.engine.takes_host_pointers
        return Kernels(self.state, *self._recorded(scalars), by_address)

    def _recorded(self, scalars: tuple[Any, ...]) -> tuple[Recording, list[int], tuple[Any, ...]]:
        """The launches, where the operands begin in their memory, and the scalars."""
        offsets = [0] * (len(self._orders) + (self._beside is not None))
        recorded = Recording.of(self._plan, self.state, tuple(offsets), scalars or self._scalars)
        return recorded, offsets, scalars


def signature(arrays: Sequence[Any]) -> Key | None:
    """All that decides how a call on these arrays runs; ``None`` for a mixture of kinds or queues.

    The queue is not part of it: what is remembered is kept by the queue.
    """
    first = arrays[0]
    found: Key = ()
    if type(first) in DEVICE_KINDS:
        queue = first.queue
        for array in arrays:
            if type(array) not in DEVICE_KINDS or array.queue is not queue:
                return None
            found += array.shape, array.strides, array.dtype, array.offset & 15
        return None if queue is None else found
    for array in arrays:
        if type(array) is not np.ndarray:
            return None
        found += array.shape, array.strides, array.dtype
    return found


def again(
    head: Key,
    arrays: Sequence[Any],
    out: Any = None,
    engine: Engine | Planning | None = None,
    scalars: tuple[Any, ...] = (),
) -> tuple[Any, Key | Planning | None]:
    """The result of a call met before, or else the key to :func:`remember` it by.

    Args:
        head: The operation and its options.
        arrays: The inputs but for those that are ``out`` itself; there may be none then.
        out: The caller's array for the result.
        engine: The engine that the caller names.
        scalars: Numbers that are no part of the key.

    Returns:
        ``(result, key)``: the result, as :class:`Repeat` gives it, or ``None`` and the key; both
        are ``None`` where the call is not to be remembered: its arrays are of several kinds or
        queues, or an option cannot be hashed (and is to be refused).  A :class:`Planning` is its
        own key.
    """
    kinds = signature(arrays if out is None else (*arrays, out))
    if kinds is None or not (engine is None or isinstance(engine, Engine)):
        return None, engine if kinds is not None and isinstance(engine, Planning) else None
    key = (head, kinds) if out is None else (head, kinds, "out")
    first = arrays[0] if arrays else out
    if type(first) is np.ndarray:
        state = known_home(engine)
    elif engine is None:
        state = getattr(first.queue, STATE, None)
    else:
        state = engine.known_state(first.queue)
    try:
        known = None if state is None else state.known.get(key)
    except TypeError:
        return None, None
    if known is None or state is None:
        return None, key
    return known.run(state, arrays, out, scalars), key


def remember(
    key: Key | Planning | None,
    arrays: Sequence[Any],
    call: Call,
    views: Sequence[View],
    plan: Plan | None,
    scalars: tuple[Any, ...] = (),
    out: Any = None,
    beside: Beside | None = None,
) -> None:
    """Let :func:`again` answer ``key``, if nothing is left to check when it comes again.

    Args:
        key: From :func:`again`.
        arrays: The inputs.
        call: The call, which is done.
        views: What the kernels took the inputs and the result for.
        plan, scalars: What was enqueued, if anything.
        out: The caller's array for the result.
        beside: What is written beside the result, if anything is.
    """
    if key is None or plan is None:
        return
    found = _repeat(arrays, call, views, plan, scalars, out, beside)
    if isinstance(key, Planning):
        key.arrays, key.again = tuple(arrays), found
    elif found is not None:
        known = call.home.known
        if len(known) >= _MOST:
            known.clear()
        known.setdefault(key, found)


def _repeat(
    arrays: Sequence[Any],
    call: Call,
    views: Sequence[View],
    plan: Plan,
    scalars: tuple[Any, ...] = (),
    out: Any = None,
    beside: Beside | None = None,
) -> Repeat | None:
    """A :class:`Repeat` of a call, or ``None`` where arrays have to be looked at each time."""
    state = call.state
    *inputs, result = views
    if not result.size or not state.in_order or any(not view.size for view in inputs):
        return None
    everything = arrays if out is None else (*arrays, out)
    if isinstance(everything[0], DEVICE_KINDS):
        if any(a.queue != state.queue for a in everything):
            return None
        if beside is not None and out is not None:  # whose kind may not tell anything
            return None
        blank = new_array(state, None, result.shape, result.dtype, state.empty_buffer)
        told = None
        if beside is not None:
            small = new_array(state, None, beside.shape, beside.dtype, state.empty_buffer)
            told = BesideReplay(small, beside.look)
        return Replay(plan, scalars, everything, blank, told)
    engine = state.engine
    if not engine.target.is_cpu or not engine.maps_host_memory:
        return None
    # A kernel that took a copy of an array for it knows nothing of the array's own strides.
    orders = [order for order in map(_contiguous_order, everything) if order is not None]
    if len(orders) < len(everything) or not all(map(View.is_of, views, everything)):
        return None
    orders += [()] if out is None else []
    return _OnHost(state, plan, scalars, result, orders, beside)


def _contiguous_order(array: np.ndarray[Any, Any]) -> tuple[int, ...] | None:
    """The order of axes in which memory is contiguous: ``()`` if as it is, ``None`` if in none."""
    if array.flags.forc:
        return ()
    order = tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    return order if array.transpose(order).flags.c_contiguous else None


@dataclass(frozen=True)
class Bound:
    """A call on its queue, with its plan.

    Attributes:
        call: The queue, and the result.
        views: Of its inputs and the result.
        plan: What computes it; ``None`` where the result has no elements.
        scalars: What the plan takes besides.
        out: The caller's array for the result.
        of_copies: Whether inputs are copies of the caller's arrays, in another dtype.
    """

    call: Call
    views: tuple[View, ...]
    plan: Plan | None
    scalars: tuple[Any, ...]
    out: Any
    of_copies: bool = False

    def run(self, key: Key | Planning | None, arrays: Sequence[Any]) -> Any:
        """The result; a call on arrays like these is remembered by ``key``."""
        result = self.call.run(self.plan, self.views, self.scalars)
        if not self.of_copies:
            remember(key, arrays, self.call, self.views, self.plan, self.scalars, self.out)
        return result
