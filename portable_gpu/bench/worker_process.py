"""The start of a worker process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection, parent_process


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Start processes in this context: Ctrl-C does not reach them before :func:`settle` either.

    A process imports the library first, for a second or more, and an interrupt of that prints a
    traceback.  Windows has no such signals.
    """
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def settle() -> None:
    """Leave Ctrl-C to the main process, print nothing, and end when the main process ends.

    Compilers print messages.  A main process that is killed ends no workers, and those would wait
    for it without end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    silent = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silent, stream)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
