"""Checks of the arguments ``engine=``, ``queue=`` and ``wait_for=`` of calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from portable_gpu.arguments import of_kind, shown
from portable_gpu.errors import (
    ArgumentTypeError,
    ContextMismatchError,
    UnsupportedError,
    reraise_of_signal,
)
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target

if TYPE_CHECKING:
    from portable_gpu.runtime.call import Call
    from portable_gpu.runtime.repeat import Repeat


class SeveralCallsError(Exception):
    """A function that is planned as one call makes several."""


class Planning:
    """Replaces ``engine=`` in a call that is prepared and not run, and receives the results.

    Attributes:
        engine, queue: The engine and the queue that calls will run on.
        call: The prepared call.
        arrays: The inputs of the call, in the order in which ``repetition`` takes other arrays.
        repetition: Repeats the call on other arrays; ``None`` if each call must check its arrays.
    """

    def __init__(self, engine: Engine | None, queue: cl.CommandQueue | None) -> None:
        self.engine, self.queue = engine, queue
        self.call: Call | None = None
        self.arrays: tuple[Any, ...] = ()
        self.repetition: Repeat | None = None


class EngineGroup(ABC):
    """Replaces ``engine=`` in a call that several engines compute: ``multi.DeviceGroup``."""

    @abstractmethod
    def compute(self, function: str, arguments: Mapping[str, Any]) -> Any:
        """Compute a public function on the engines of the group.

        Args:
            function: The name of the function.
            arguments: Its arguments by their names, not checked.
        """


def check_place(engine: Any, queue: Any) -> None:
    """Raise ArgumentTypeError unless ``engine`` and ``queue`` are ``None`` or of these types.

    Raises:
        SeveralCallsError: A function that makes several calls is planned as one.
        UnsupportedError: The function is not one that a group of engines computes.
    """
    if isinstance(engine, Planning):
        raise SeveralCallsError
    if isinstance(engine, EngineGroup):
        raise UnsupportedError(
            "engine is a DeviceGroup, which does not compute this function (docs/multi.md lists "
            "those that it computes); expected one of its engines"
        )
    if engine is not None:
        of_kind(engine, Engine, "engine", "a portable_gpu.Engine or None")
    if queue is not None:
        of_kind(queue, cl.CommandQueue, "queue", "a pyopencl.CommandQueue or None")


def check_target(target: Any) -> None:
    """Raise ArgumentTypeError unless ``target`` is a Target or the name of a class, or ``None``."""
    if target is not None and not isinstance(target, Target):
        of_kind(target, str, "target", "a device class's name, a Target or None")


def events_of(wait_for: Any) -> list[cl.Event]:
    """The events of ``wait_for=``.

    Raises:
        ArgumentTypeError: It is not a sequence of events.
    """
    if wait_for is None:
        return []
    try:
        events = list(wait_for)
    except Exception as error:  # raised by the value's own methods, too
        reraise_of_signal(error)
        raise ArgumentTypeError(
            f"wait_for is {shown(wait_for)}; expected a list of events"
        ) from None
    for event in events:
        of_kind(event, cl.Event, "an element of wait_for", "a pyopencl.Event")
    return events


def check_events(events: list[cl.Event], context: cl.Context) -> None:
    """Raise ContextMismatchError if an event of ``wait_for=`` belongs to another context."""
    if any(event.get_info(cl.event_info.CONTEXT) != context for event in events):
        raise ContextMismatchError("an event of wait_for is of another OpenCL context")
