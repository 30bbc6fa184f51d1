"""One line on the terminal if compilation takes long, so that calls do not seem to hang."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

#: Seconds of compilation, in this process, after which the line appears.
PATIENCE = 2.0
_KEPT = "; they are kept for the next time"

_said = False
_spent = 0.0


@contextlib.contextmanager
def compiling(device: str, kept: bool) -> Iterator[None]:
    """Count this block as compilation for ``device``; ``kept``: whether there is a disk cache."""
    global _spent
    timer = None
    with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):
        # stderr may be any object, or closed; the process may have no room for another thread
        if not _said and sys.stderr.isatty():
            timer = threading.Timer(max(0.0, PATIENCE - _spent), _say, (device, kept))
            timer.daemon = True
            timer.start()
    begin = time.monotonic()
    try:
        yield
    finally:
        _spent += time.monotonic() - begin
        if timer is not None:
            timer.cancel()


def _say(device: str, kept: bool) -> None:
    global _said
    if not _said:
        _said = True
        with contextlib.suppress(AttributeError, OSError, ValueError):  # the terminal is gone
            sys.stderr.write(f"portable_gpu compiles kernels for {device}{_KEPT if kept else ''}\n")
            sys.stderr.flush()
