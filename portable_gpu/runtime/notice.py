"""Lines that say that compilation takes long, so that calls do not seem to hang."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator

#: Seconds of compilation, in this process, after which the first line appears.
PATIENCE = 1.0
#: On a terminal, each further line appears after this multiple of the seconds before it.
_LATER = 4
_KEPT = "; programs are kept for the next time"

_log = logging.getLogger("portable_gpu")
_programs = _lines = 0
_spent = 0.0


@contextlib.contextmanager
def compiling(device: str, kept: bool, programs: int = 1) -> Iterator[None]:
    """Count this block as the compilation of one program, or of a part of one.

    After a second of compilation, a line says so, with the number of programs.  On a terminal it is
    written to stderr, and again after 4, 16 ... seconds.  Otherwise it is logged once, as a warning
    of the logger ``portable_gpu``; what is less urgent would not appear by default.

    Args:
        device: The name that the line shows.
        kept: Whether there is a disk cache.
        programs: 0 for a part of a program that is counted already.
    """
    global _programs, _spent
    _programs += programs
    begin = time.monotonic()
    timer = None
    if _lines == 0 or _is_terminal():
        left = max(0.0, PATIENCE * _LATER**_lines - _spent)
        timer = threading.Timer(left, _say, (device, kept, _lines, begin))
        timer.daemon = True
        with contextlib.suppress(RuntimeError):  # the process may have no more threads
            timer.start()
    try:
        yield
    finally:
        _spent += time.monotonic() - begin
        if timer is not None:
            timer.cancel()


def _say(device: str, kept: bool, lines: int, begin: float) -> None:
    global _lines
    if _lines != lines:  # another thread has said so
        return
    _lines += 1
    seconds = _spent + time.monotonic() - begin
    text = (
        f"portable_gpu is compiling for {device}: program {_programs}, {seconds:.0f} s so far"
        f"{_KEPT if kept else ''}"
    )
    with contextlib.suppress(Exception):  # of a terminal that is gone, or of the user's handlers
        if _is_terminal():
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
        else:
            _log.warning(text)


def _is_terminal() -> bool:
    with contextlib.suppress(AttributeError, OSError, ValueError):  # any object, or a closed file
        return bool(sys.stderr.isatty())
    return False
