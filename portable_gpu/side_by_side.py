"""A thread pool that stays usable if a signal handler raises an exception at any step.

A pool of ``concurrent.futures`` can then hang: an exception between two steps of a ``Condition``
leaves a lock locked, and the shutdown of the pool waits for a thread that waits for that lock.
Here the threads share only containers whose methods are atomic, and the calling thread polls these.

The calling thread runs no tasks, so that signal handlers, which run in the main thread, do not wait
for the end of a long task in machine code.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

#: A task; it returns the tasks that can start after it.
Task = Callable[[], Iterable["Task"]]

#: The interval of polling is this part of the time passed, between these limits in seconds.
_POLL_FRACTION, _MIN_POLL, _MAX_POLL = 0.02, 5e-5, 2e-3


class NoThreadError(RuntimeError):
    """The system starts no thread, and some tasks have not run."""


def run_tasks(tasks: Iterable[Task], threads: int) -> None:
    """Run all tasks, and those that they return, and wait for their end.

    Args:
        tasks: The first tasks, in the order in which they are started.
        threads: The number of threads.

    An exception of a task or of a signal handler ends the call at once.  It does not wait for the
    threads: each ends after its present task.
    """
    _ThreadPool(tasks, threads).run()


@contextlib.contextmanager
def tasks_running(tasks: Iterable[Task], threads: int) -> Iterator[None]:
    """Run all tasks while the block is executed, and wait for them at its end.

    Args:
        tasks, threads: See :func:`run_tasks`.

    An exception of a task or of a signal handler ends the block at once.
    """
    pool = _ThreadPool(tasks, threads)
    try:
        pool.begin()
        yield
    except BaseException:
        pool.abandon()
        raise
    pool.run()


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _ThreadPool:
    def __init__(self, tasks: Iterable[Task], threads: int) -> None:
        self._todo, self._threads = deque(tasks), threads
        self._running: set[object] = set()  # a token of each thread, from before it starts
        self._errors: list[BaseException] = []
        self._is_abandoned = False

    def begin(self) -> None:
        """Start the threads."""
        self._start(len(self._todo))

    def abandon(self) -> None:
        """Start no further task, and free the tasks that have not started."""
        self._is_abandoned = True
        self._todo.clear()

    def run(self) -> None:
        """Wait in the calling thread until all tasks are done."""
        begin = time.perf_counter()
        try:
            while self._errors or self._running or self._todo:
                if self._errors:
                    self._raise()
                self.begin()
                passed = time.perf_counter() - begin
                time.sleep(min(max(_MIN_POLL, _POLL_FRACTION * passed), _MAX_POLL))
        except BaseException:
            self.abandon()
            raise

    def _raise(self) -> NoReturn:
        """Raise the first error, and keep no reference to it.

        A local variable of this frame would be a reference from the error to itself, by its
        traceback.  All that the frames of its task hold would then stay in memory until Python's
        garbage collector runs.
        """
        error = self._errors[0]
        self.abandon()
        self._errors.clear()
        try:
            raise error
        finally:
            del error

    def _start(self, count: int) -> None:
        """Start up to ``count`` threads, within the number of threads of the pool."""
        for _ in range(min(count, self._threads - len(self._running))):
            token = object()
            self._running.add(token)
            try:
                _thread.start_new_thread(self._work, (token,))
            except RuntimeError as error:  # the system starts no more threads
                self._running.discard(token)
                if not self._running and not self._errors:
                    raise NoThreadError(str(error)) from error
                return

    def _work(self, token: object) -> None:
        """Run tasks until none is left."""
        try:
            while not (self._errors or self._is_abandoned):
                try:
                    task = self._todo.popleft()
                except IndexError:
                    return
                self._todo.extend(task())
                self._start(len(self._todo) - 1)
        except BaseException as error:
            self._errors.append(error)
            if self._is_abandoned:  # nothing raises and frees this error: see _raise
                self._errors.clear()
        finally:
            self._running.discard(token)
