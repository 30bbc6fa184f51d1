"""The work of a call on the blocks of its arrays: from one host thread, or from one a device.

From one thread, kernels and copies of all devices are enqueued in turns before anything waits:
threads that enqueue wait for each other, because they share the interpreter's lock.  Work that
waits, such as a copy of pageable memory or a kernel that reads NumPy's memory, takes a thread for
each device, which waits without the lock.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any, TypeVar

from portable_gpu.multi.member import Member
from portable_gpu.side_by_side import NoThreadError, Task, run_tasks

T = TypeVar("T")
#: The smallest copy, in bytes, for which each device has a thread; to start threads takes 0.2 ms.
LEAST_BYTES_FOR_THREADS = 1 << 20
#: The work on one block, given its device and its number.
Work = Callable[[Member, int], T]


def in_turns(members: Sequence[Member], work: Work[T]) -> list[T]:
    """Do the work on all blocks in the calling thread, one block of each device at a time.

    Args:
        members: The device of each block.
        work: See :data:`Work`.
    """
    queues = _by_member(members)
    results: dict[int, T] = {}
    try:
        while any(queues.values()):
            for member, numbers in queues.items():
                if numbers:
                    number = numbers.popleft()
                    results[number] = work(member, number)
    except BaseException:
        results.clear()  # the traceback refers to it
        raise
    return [results[number] for number in range(len(members))]


def side_by_side(members: Sequence[Member], work: Work[T]) -> list[T]:
    """Do the work on all blocks, in one thread for each device, and wait for the threads.

    An exception, also of a signal handler, is raised after each thread has ended the block that it
    works on.  A second one ends this wait.

    Args:
        members, work: As in :func:`in_turns`.
    """
    queues = _by_member(members)
    results: dict[int, T] = {}
    errors: list[BaseException] = []
    running: set[int] = set()
    is_abandoned = False

    def run(member: Member, numbers: deque[int]) -> Sequence[Task]:
        running.add(member.index)
        try:
            while not is_abandoned and not errors:
                try:
                    number = numbers.popleft()
                except IndexError:
                    break
                results[number] = work(member, number)
        except BaseException as error:
            errors.append(error)
        finally:
            running.discard(member.index)
        return ()

    def task(member: Member, numbers: deque[int]) -> Task:
        context = copy_context()  # the calling thread's context, with the name of the call
        return lambda: context.run(run, member, numbers)

    try:
        try:
            run_tasks([task(*pair) for pair in queues.items()], len(queues))
        except NoThreadError:
            for member, numbers in queues.items():
                run(member, numbers)
            _wait_for(running)
    except BaseException:
        is_abandoned = True
        _wait_for(running)
        results.clear()
        raise
    if errors:
        results.clear()
        error = errors[0]
        errors.clear()  # the traceback refers to this frame
        try:
            raise error
        finally:
            del error
    return [results[number] for number in range(len(members))]


def storing_later(
    members: Sequence[Member],
    work: Callable[[Member, int], Callable[[], Any] | None],
    attempt: Callable[[Member, int, Callable[[], Any]], Any],
) -> Work[None]:
    """Return work that stores the result of a block after the work on the device's next block.

    Args:
        members: The device of each block.
        work: Returns the function that stores the result; ``None`` of a block that failed.
        attempt: Calls a function for a device and a block.
    """
    last = {member: number for number, member in enumerate(members)}
    unstored: dict[Member, tuple[int, Callable[[], Any]]] = {}

    def do(member: Member, number: int) -> None:
        store = work(member, number)
        due = [unstored.pop(member)] if member in unstored else []
        if store is not None:
            unstored[member] = number, store
            if number == last[member]:
                due.append(unstored.pop(member))
        for stored_number, stored in due:
            attempt(member, stored_number, stored)

    return do


def storing_now(work: Callable[[Member, int], Callable[[], Any]]) -> Work[None]:
    """Return work that stores the result of a block at once."""

    def do(member: Member, number: int) -> None:
        work(member, number)()

    return do


def _wait_for(running: set[int]) -> None:
    while running:
        time.sleep(1e-4)


def _by_member(members: Sequence[Member]) -> dict[Member, deque[int]]:
    """Return the numbers of the blocks of each device."""
    result: dict[Member, deque[int]] = {}
    for number, member in enumerate(members):
        result.setdefault(member, deque()).append(number)
    return result
