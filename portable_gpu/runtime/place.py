"""Checks of the arguments ``engine=``, ``queue=`` and ``wait_for=`` of calls."""

from __future__ import annotations

from typing import Any

import pyopencl as cl

from portable_gpu.arguments import of_kind, shown
from portable_gpu.errors import ArgumentTypeError, ContextMismatchError
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target


def check_place(engine: Any, queue: Any) -> None:
    """Raise ArgumentTypeError unless ``engine`` and ``queue`` are ``None`` or of these types."""
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
    except Exception:  # raised by the value's own methods, too
        raise ArgumentTypeError(
            f"wait_for is {shown(wait_for)}; a list of events would do"
        ) from None
    for event in events:
        of_kind(event, cl.Event, "an element of wait_for", "a pyopencl.Event")
    return events


def check_events(events: list[cl.Event], context: cl.Context) -> None:
    """Raise ContextMismatchError if an event of ``wait_for=`` belongs to another context."""
    if any(event.get_info(cl.event_info.CONTEXT) != context for event in events):
        raise ContextMismatchError("an event of wait_for is of another OpenCL context")
