"""The choice of engine and queue of a call, and the lifetimes of engines and states.

=====================  ==========================  ==============================================
object                 referred to by              freed when
=====================  ==========================  ==============================================
the default engine     this module                 it is closed, or the process ends
a context's engine     the states of its queues,   the last of these is freed
                       the context's own object
an engine that a user  the user                    it is dropped (Python's collector), or closed
opened
a queue's state        the queue's Python object   that is freed, or the state's engine is closed
state of a queue for   the engine                  the engine is freed, or 64 newer ones exist
``engine=``
=====================  ==========================  ==============================================

No object here refers to a user's Python object for a queue or a context.  So these are freed as
soon as the user drops them, together with their states.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Hashable, Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.errors import ArgumentError, ContextMismatchError
from portable_gpu.runtime import fork
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.queue_state import QueueState

#: The attribute of a pyopencl queue that holds its state, and of a context that holds its engine.
STATE = "_portable_gpu"

_lock = threading.RLock()
_default: Engine | None = None
_NO_CALLS: dict[Hashable, Any] = {}
_by_context: weakref.WeakValueDictionary[tuple[int, int], Engine] = weakref.WeakValueDictionary()


def default_engine() -> Engine:
    """Return the engine of calls without ``engine=``.

    It is opened at its first use, on the device that ``portable-gpu info`` shows as the default.

    Raises:
        DeviceNotFoundError: There is no OpenCL device.
        ForkError: The process was forked from one that had used OpenCL.
    """
    global _default
    engine = _default
    if engine is None or engine.is_closed:
        fork.check()  # before the lock, which another thread of the parent may have held
        with _lock:
            engine = _default
            if engine is None or engine.is_closed:
                engine = _default = Engine()
    return engine


def state_for(
    arrays: Sequence[Any], engine: Engine | None, queue: cl.CommandQueue | None
) -> QueueState:
    """Return the state of the queue on which a call with these device arrays runs.

    It is ``queue=``, or else the queue of the first array that has one, or else the engine's.

    Raises:
        ContextMismatchError: Arrays, queue and engine are of different contexts.
        ArgumentError: The engine is closed.
    """
    chosen = queue_for(arrays, queue)
    if chosen is None and engine is None and not arrays:
        return _default_state()
    context = check_contexts(arrays, engine, chosen)
    if engine is not None:
        return engine.state(chosen)
    return _state_of_context(context) if chosen is None else _state_of_queue(chosen)


def check_contexts(
    arrays: Sequence[Any], engine: Engine | None, queue: cl.CommandQueue | None
) -> cl.Context | None:
    """Return the common context of device arrays, which ``engine`` and ``queue`` share.

    Raises:
        ContextMismatchError: They are of different contexts.
    """
    context = context_of(arrays)
    if engine is not None and context is not None and engine.context != context:
        raise ContextMismatchError("an array is of another OpenCL context than engine=")
    if queue is not None and context is not None and queue.context != context:
        raise ContextMismatchError("queue= is of another OpenCL context than the arrays")
    if engine is not None and queue is not None and queue.context != engine.context:
        raise ContextMismatchError("queue= is of another OpenCL context than engine=")
    return context


def queue_for(arrays: Sequence[Any], queue: cl.CommandQueue | None) -> cl.CommandQueue | None:
    """Return ``queue``, or else the queue of the first array that has one."""
    if queue is not None:
        return queue
    return next((array.queue for array in arrays if array.queue is not None), None)


def known_state(queue: cl.CommandQueue) -> QueueState | None:
    """Return the state of a queue for calls without ``engine=``, if it exists."""
    state: QueueState | None = getattr(queue, STATE, None)
    return state


def known_home(engine: Engine | None) -> QueueState | None:
    """Return the state of the queue that an engine (or the default engine) made, if it exists."""
    if engine is None:
        engine = _default
    return None if engine is None else engine.home


def direct_calls() -> dict[Hashable, Any]:
    """Return the cached calls of the default engine on C-ordered NumPy arrays, as functions."""
    home = None if _default is None else _default.home
    return _NO_CALLS if home is None else home.direct


def context_of(arrays: Sequence[Any]) -> cl.Context | None:
    """Return the common context of device arrays.

    Raises:
        ContextMismatchError: They have two contexts.
    """
    context: cl.Context | None = None
    for array in arrays:
        if context is not None and array.context != context:
            raise ContextMismatchError(
                "arrays of two OpenCL contexts in one call; copy one over by NumPy first"
            )
        context = array.context
    return context


def _state_of_queue(queue: cl.CommandQueue) -> QueueState:
    state = known_state(queue)
    if state is not None and not state.engine.is_closed:
        return state
    fork.check()
    with _lock:
        engine = _engine_of(queue.context, queue)
    state = engine.state() if queue == engine.queue else QueueState(engine, queue)
    try:
        setattr(queue, STATE, state)
    except AttributeError:  # a pyopencl whose queues take no attributes
        state = engine.state(queue)
    return state


def _default_state() -> QueueState:
    """Return the state of the default engine, which another thread may close at any time."""
    while True:
        engine = default_engine()
        try:
            return engine.state()
        except ArgumentError:
            if not engine.is_closed:
                raise


def _state_of_context(context: cl.Context | None) -> QueueState:
    if context is None:
        return _default_state()
    fork.check()
    with _lock:
        engine = _engine_of(context, None)
        with contextlib.suppress(AttributeError):
            setattr(context, STATE, engine)
    return engine.state()


def _engine_of(context: cl.Context, queue: cl.CommandQueue | None) -> Engine:
    """Return the engine of calls without ``engine=`` on arrays of a context."""
    if _default is not None and not _default.is_closed and _default.context == context:
        return _default
    device = context.devices[0] if queue is None else queue.device
    key = (context.int_ptr, device.int_ptr)
    engine = _by_context.get(key)
    if engine is None or engine.is_closed:
        own_queue = cl.CommandQueue(context, device) if queue is None else queue
        engine = _by_context[key] = Engine(queue=own_queue)
    return engine
