"""Launches without an event, and events on demand.

On some devices an event costs more than the launch that it belongs to (``Target.launch_events``),
and pyopencl creates one for each launch.  On an in-order queue few of them are ever used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyopencl as cl

from portable_gpu.runtime.inside_pyopencl import find_enqueue

enqueue_without_event = find_enqueue()


def marker(queue: cl.CommandQueue) -> cl.Event:
    """An event of the end of all work on an in-order queue; any queue may wait for it."""
    event = cl.enqueue_marker(queue)
    queue.flush()  # OpenCL requires it before another queue waits for the event
    return event


class QueueEvents(list[cl.Event]):
    """The events of an array that one in-order queue writes by launches without an event.

    The first read of the list creates a :func:`marker`, which covers the array and everything else
    enqueued by then.  Users may append events of their own.  Views share the list, as with
    pyopencl's.

    Attributes:
        queue: The queue, by the state's own object.
        is_untouched: Whether the list was neither read nor extended since the array was written.
        _is_covered: Whether a read creates no marker: there is one, or the array has its values.
    """

    __slots__ = ("_is_covered", "is_untouched", "queue")
    queue: cl.CommandQueue
    is_untouched: bool
    _is_covered: bool

    @classmethod
    def of(cls, queue: cl.CommandQueue) -> QueueEvents:
        """Make the list for an array that a queue will write; faster than an ``__init__``."""
        events = cls()
        events.queue = queue
        events.is_untouched = True
        events._is_covered = False
        return events

    @classmethod
    def ended(cls, queue: cl.CommandQueue) -> QueueEvents:
        """Make the list for an array that has its values already."""
        events = cls()
        events.queue = queue
        events.is_untouched = events._is_covered = True
        return events

    def renew(self) -> None:
        """Record that the array was written again, by a command that follows the list's events."""
        if not self.is_untouched:
            list.clear(self)
            self.is_untouched = True
        self._is_covered = False

    def end(self) -> None:
        """Record that the array has its values: there is nothing to wait for."""
        self.renew()
        self._is_covered = True

    @property
    def has_ended(self) -> bool:
        """Whether the array has its values, and the list no events of users."""
        return self._is_covered and self.is_untouched

    def present(self) -> list[cl.Event]:
        """The events of the list, without creating a marker."""
        return list.copy(self)

    def append(self, event: cl.Event) -> None:
        """Add an event, without creating a marker."""
        self.is_untouched = False
        list.append(self, event)

    def extend(self, events: Iterable[cl.Event]) -> None:
        """Add events, without creating a marker."""
        self.is_untouched = False
        list.extend(self, events)

    def __radd__(self, others: list[cl.Event]) -> list[cl.Event]:
        return others + list(self)

    def _look(self) -> None:
        if not self._is_covered:
            self.is_untouched = False
            list.insert(self, 0, marker(self.queue))  # before events that users have appended
            self._is_covered = True


def _looking(name: str) -> Callable[..., Any]:
    method = getattr(list, name)

    def look(self: QueueEvents, *args: Any, **options: Any) -> Any:
        self._look()
        return method(self, *args, **options)

    look.__name__ = name
    return look


#: Attributes of a list that show none of its items.
_BLIND = {"__class_getitem__", "__doc__", "__getattribute__", "__hash__", "__init__", "__new__",
          "__sizeof__", "append", "extend"}  # fmt: skip
for _name in vars(list).keys() - _BLIND:
    setattr(QueueEvents, _name, _looking(_name))
