"""Work for several threads that a signal handler's exception may leave at any step.

A pool of ``concurrent.futures`` hangs then: an exception between two steps of a ``Condition``
leaves a lock taken, and the pool's end waits for a thread that waits for that lock.  Here threads
share nothing but containers whose methods are single steps, and the calling thread looks at them.

It does no work itself: a compiled loop that returns a named tuple calls Python for it, and where a
handler raises there, numba goes on with an object that is not there.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

#: What there is to do; it returns what there is to do then.
Task = Callable[[], Iterable["Task"]]

#: Seconds between two looks at the threads: the least, the most, and as a part of those passed.
_LEAST, _MOST, _PART = 5e-5, 2e-3, 0.02


class NoThreadError(RuntimeError):
    """The system gives no thread, and there is work to do."""


def work_off(tasks: Iterable[Task], threads: int) -> None:
    """Do all tasks, and those that they return, and wait.

    Args:
        tasks: The first ones, in the order in which they are begun.
        threads: How many threads work at a time.

    An exception of a task or of a signal handler leaves the call, which does not wait for the
    threads then: they end after the task that they are at.
    """
    _Crew(tasks, threads).run()


@contextlib.contextmanager
def meanwhile(tasks: Iterable[Task], threads: int) -> Iterator[None]:
    """Do all tasks while the calling thread does something else, and wait for them afterwards.

    Args:
        tasks, threads: As :func:`work_off` takes them.

    An exception leaves it as it leaves :func:`work_off`.
    """
    crew = _Crew(tasks, threads)
    try:
        crew.begin()
        yield
    except BaseException:
        crew.leave()
        raise
    crew.run()


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Crew:
    def __init__(self, tasks: Iterable[Task], threads: int) -> None:
        self._todo, self._threads = deque(tasks), threads
        self._running: set[object] = set()  # a token of each thread, from before it starts
        self._errors: list[BaseException] = []
        self._is_left = False

    def begin(self) -> None:
        """Start the threads."""
        self._start(len(self._todo))

    def leave(self) -> None:
        """Begin no further task."""
        self._is_left = True

    def run(self) -> None:
        """Wait for all of it, by the calling thread."""
        begin = time.perf_counter()
        try:
            while self._errors or self._running or self._todo:
                if self._errors:
                    raise self._errors[0]
                self.begin()
                passed = time.perf_counter() - begin
                time.sleep(min(max(_LEAST, _PART * passed), _MOST))
        except BaseException:
            self.leave()
            raise

    def _start(self, wanted: int) -> None:
        """Start ``wanted`` threads, as far as there may be more."""
        for _ in range(min(wanted, self._threads - len(self._running))):
            token = object()
            self._running.add(token)
            try:
                _thread.start_new_thread(self._work, (token,))
            except RuntimeError as error:  # the system gives no more
                self._running.discard(token)
                if not self._running and not self._errors:
                    raise NoThreadError(str(error)) from error
                return

    def _work(self, token: object) -> None:
        """Do tasks until none is left to begin."""
        try:
            while not (self._errors or self._is_left):
                try:
                    task = self._todo.popleft()
                except IndexError:
                    return
                self._todo.extend(task())
                self._start(len(self._todo) - 1)
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._running.discard(token)
