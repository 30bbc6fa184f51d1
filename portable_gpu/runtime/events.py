"""Launches without an event, and events for those who ask for one later.

On some devices an event costs more than the launch that it belongs to (``Target.launch_events``),
and pyopencl asks for one each time.  On an in-order queue few of them are ever looked at.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pyopencl as cl
import pyopencl._cl

_POINTER, _UINT = ctypes.c_void_p, ctypes.c_uint


def _find_enqueue() -> Callable[..., int] | None:
    """``clEnqueueNDRangeKernel`` of the OpenCL loader that pyopencl has loaded, if it shows."""
    try:
        function = ctypes.CDLL(pyopencl._cl.__file__).clEnqueueNDRangeKernel
    except (AttributeError, OSError):  # Windows looks for it in pyopencl's own file alone
        return None
    function.argtypes = [
        _POINTER, _POINTER, _UINT, _POINTER, _POINTER, _POINTER, _UINT, _POINTER, _POINTER,
    ]  # fmt: skip
    function.restype = ctypes.c_int
    return function


enqueue_without_event = _find_enqueue()


def marker(queue: cl.CommandQueue) -> cl.Event:
    """An event of the end of all that an in-order queue has been given, for any queue to await."""
    event = cl.enqueue_marker(queue)
    queue.flush()  # OpenCL asks for it before another queue waits for the event
    return event


class QueueEvents(list[cl.Event]):
    """The events of an array that one in-order queue writes by launches without an event.

    Whoever looks finds a :func:`marker`, made at the first look: it covers the array, and all
    else that the queue has been given by then.  Others may append events of their own.  Views
    share the list, as they share pyopencl's.
    """

    __slots__ = ("_is_covered", "queue")

    def __init__(self, queue: cl.CommandQueue) -> None:
        self.queue = queue
        self._is_covered = False

    def renew(self) -> None:
        """The array was written anew, after all the events that are here."""
        list.clear(self)
        self._is_covered = False

    def present(self) -> list[cl.Event]:
        """The events that are here, without a look."""
        return list.copy(self)

    def __radd__(self, others: list[cl.Event]) -> list[cl.Event]:
        return others + list(self)

    def _look(self) -> None:
        if not self._is_covered:
            list.insert(self, 0, marker(self.queue))  # in front of what others have appended
            self._is_covered = True


def _looking(name: str) -> Callable[..., Any]:
    method = getattr(list, name)

    def look(self: QueueEvents, *args: Any, **options: Any) -> Any:
        self._look()
        return method(self, *args, **options)

    look.__name__ = name
    return look


#: What a list has that shows none of its items.
_BLIND = {"__class_getitem__", "__doc__", "__getattribute__", "__hash__", "__init__", "__new__",
          "__sizeof__", "append", "extend"}  # fmt: skip
for _name in vars(list).keys() - _BLIND:
    setattr(QueueEvents, _name, _looking(_name))
