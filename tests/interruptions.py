"""Exceptions from signal handlers, after a time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(BaseException):
    """The exception that the handler raises, as KeyboardInterrupt would be."""


def stop(*_: Any) -> None:
    raise Interrupted


@contextmanager
def handler(of_signal: Callable[..., Any]) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, of_signal)
    try:
        yield
    finally:  # a last call of the handler would start the timer again, and that end the process
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupted(work: Callable[[], Any], after: float) -> bool:
    """Whether ``work`` was left by an exception ``after`` seconds."""
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        try:
            work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupted:
        return True
    return False
