"""The start of a worker process."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing import connection, parent_process


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
