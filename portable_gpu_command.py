"""The entry point of ``portable-gpu``, which handles Ctrl-C before other modules are imported.

Python imports the package ``portable_gpu`` before any module in it, so this module is outside it.
"""

from __future__ import annotations

import os
import signal
import sys
from threading import Event, Thread, main_thread

#: A signal that raises KeyboardInterrupt in the main thread, also while that waits.  Other programs
#: do not send it.  LLVM, which OpenCL implementations use, handles most signals, but not this one.
_RAISED = getattr(signal, "SIGURG", signal.SIGINT)


def main() -> int:
    """Run the command, and return the exit status."""
    begun, ended = Event(), Event()
    if _obeys_interrupts():
        # A thread takes the signal.  It is blocked in all others and in the processes that they
        # start: PoCL links kernels by processes, and aborts where one of them is interrupted.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        signal.signal(_RAISED, signal.default_int_handler)
        Thread(target=_pass_interrupts_on, args=(begun, ended), daemon=True).start()
    try:
        from portable_gpu.cli import main as run

        begun.set()
        return run()
    except KeyboardInterrupt:  # a second one
        return 128 + signal.SIGINT
    finally:
        ended.set()


def _obeys_interrupts() -> bool:
    """Whether SIGINT is for us (not in a script's background), and a thread can take it."""
    obeys = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return obeys and hasattr(signal, "sigwait")


def _pass_interrupts_on(begun: Event, ended: Event) -> None:
    """Raise KeyboardInterrupt in the main thread for each SIGINT, while the command is at work."""
    main_identity = main_thread().ident
    assert main_identity is not None
    while True:
        signal.sigwait([signal.SIGINT])
        if not begun.is_set():  # it might be taken for a failed import
            os.write(2, b"interrupted\n")
            os._exit(128 + signal.SIGINT)
        if not ended.is_set():
            signal.pthread_kill(main_identity, _RAISED)


if __name__ == "__main__":
    sys.exit(main())
