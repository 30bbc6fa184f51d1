"""Copies between NumPy and the devices of a group, by threads that a call starts once.

The threads of a single copy are started for it, which takes 1 to 2 ms.  A call with many copies
starts its threads once, and they take pieces of all its copies.  A piece that several devices need
is copied to pinned memory once, from where each device reads it::

    thread   | fill buffer 0 | fill buffer 1   | fill buffer 0   | ...
    device 0 |               | read buffer 0   | read buffer 1   | ...
    device 1 |               | read buffer 0   | read buffer 1   | ...

Pieces for the host are copied before pieces for devices, because their values exist already.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from portable_gpu.multi.member import Member
from portable_gpu.runtime import staging
from portable_gpu.runtime.array import Array
from portable_gpu.side_by_side import Task, cores, run_tasks, tasks_running

_Values = np.ndarray[Any, Any]
#: Threads for each device; :mod:`portable_gpu.runtime.staging` has this number for a single array.
_THREADS_PER_DEVICE = 8
_BUFFERS_OF_THREAD = 2


class PendingCopy:
    """A copy whose pieces the threads of a call copy."""

    def __init__(self, copies: Copies, pieces: int) -> None:
        """Make a copy of a number of pieces."""
        self._copies, self._pieces = copies, pieces
        self._ended: list[None] = []
        # A queue, because a signal handler cannot interrupt its methods.
        self._wakes: SimpleQueue[None] = SimpleQueue()

    @property
    def has_ended(self) -> bool:
        """Whether all pieces are copied."""
        return len(self._ended) == self._pieces

    def end_piece(self) -> None:
        """Count a piece that is copied."""
        self._ended.append(None)
        if len(self._ended) == self._pieces:
            self.wake()

    def wake(self) -> None:
        """End the calls of :meth:`wait`."""
        self._wakes.put(None)

    def wait(self) -> None:
        """Wait until values are in NumPy, or until the commands for devices are enqueued.

        Raises:
            BaseException: What ended the copies.
        """
        self._wakes.get()
        self._wakes.put(None)  # wake other threads that wait
        self._copies.check()


class _CopyPiece(NamedTuple):
    """A piece of a copy.

    Attributes:
        copy: The copy.
        values: A part of NumPy's array.
        arrays: The arrays of the devices, with the devices.
        first_byte: The first byte of the piece in each of these arrays.
        uploads: Whether the devices' memory is written.
    """

    copy: PendingCopy
    values: _Values
    arrays: Sequence[tuple[Member, Array]]
    first_byte: int
    uploads: bool


class _Moving(NamedTuple):
    """A piece whose commands are enqueued."""

    buffer: _HostBuffer
    piece: _CopyPiece
    events: Sequence[cl.Event]
    begin: float


class _HostBuffer:
    """A pinned buffer of an engine; pageable memory if none is free, or pinning saves no time.

    All devices copy from it: those of other contexts read pinned memory as fast as its own.
    """

    def __init__(self, member: Member) -> None:
        self._staging = member.engine.staging
        self._pinned = self._staging.take() if self._staging.pays else None
        pinned = self._pinned
        self.memory: _Values
        self.memory = np.empty(staging.PIECE, np.uint8) if pinned is None else pinned.memory

    def give_back(self) -> None:
        """Return the buffer, which no command uses."""
        if self._pinned is not None:
            self._staging.give_back(self._pinned)

    def discard(self) -> None:
        """Leave the buffer to a device that failed and may still use it."""
        if self._pinned is not None:
            self._staging.give_up()


class Copies:
    """The copies of a call, and the threads that make them; see :func:`copies`."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self.threads = min(_THREADS_PER_DEVICE * len(members), cores())
        self._uploads: deque[_CopyPiece] = deque()
        self._downloads: deque[_CopyPiece] = deque()
        # A token for each piece.  A thread that gets one and finds no piece ends.
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._copies: list[PendingCopy] = []
        self._queues: list[SimpleQueue[Any]] = []
        self._is_abandoned = False
        self._error: BaseException | None = None
        self._active: set[object] = set()
        self._numbers = itertools.count()  # the numbers of the threads

    def upload(self, values: _Values, arrays: Sequence[tuple[Member, Array]]) -> PendingCopy:
        """Begin to copy values to a C-ordered array of each of some devices.

        Args:
            values: An array of NumPy with any strides, which has elements.
            arrays: The devices with arrays of the same shape and dtype, which no command uses.
        """
        return self._begin(values, arrays, self._uploads, uploads=True)

    def download(self, member: Member, array: Array, values: _Values) -> PendingCopy:
        """Begin to copy a C-ordered array, whose values exist, to NumPy.

        Args:
            member: The device.
            array: The array.
            values: An array of NumPy of the same shape and dtype, with any strides.
        """
        return self._begin(values, [(member, array)], self._downloads, uploads=False)

    def _begin(
        self,
        values: _Values,
        arrays: Sequence[tuple[Member, Array]],
        pending: deque[_CopyPiece],
        *,
        uploads: bool,
    ) -> PendingCopy:
        parts = list(staging.chunks(values, staging.PIECE))
        copy = PendingCopy(self, len(parts))
        self._copies.append(copy)
        for start, part in parts:
            pending.append(_CopyPiece(copy, part, arrays, start * values.dtype.itemsize, uploads))
            self._tokens.put(None)
        if self._is_abandoned:  # perhaps before the copy was in the list
            copy.wake()
        return copy

    def queue(self) -> SimpleQueue[Any]:
        """Return a queue from one task to another, whose last entry is ``None``.

        An error that ends the copies puts ``None`` too, because the task that would put it may not
        have been started then, and the other task would wait forever.
        """
        made: SimpleQueue[Any] = SimpleQueue()
        self._queues.append(made)
        if self._is_abandoned:  # perhaps before the queue was in the list
            made.put(None)
        return made

    def check(self) -> None:
        """Raise the error that ended the copies, if there is one."""
        if self._is_abandoned:
            raise self._error or RuntimeError("the call of the copies has ended")

    def abandon(self, error: BaseException) -> None:
        """Copy no further piece, and end all waits with an error."""
        if not self._is_abandoned:
            self._error = error
            self._is_abandoned = True
        self._uploads.clear()
        self._downloads.clear()
        self.close()
        for copy in list(self._copies):
            copy.wake()
        for queue in list(self._queues):
            queue.put(None)

    def close(self) -> None:
        """Let the threads end when all pieces are copied."""
        for _ in range(self.threads):
            self._tokens.put(None)

    def side_by_side(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Run tasks in threads of their own, and wait for all of them.

        An error of a task, or of a signal handler, ends the copies, and thereby the other tasks.
        """
        todo = dict(enumerate(tasks))

        def run(number: int) -> Sequence[Task]:
            token = object()
            self._active.add(token)
            try:
                self.check()
                todo.pop(number)()  # nothing refers to the task when the thread is not active
            except BaseException as error:
                self.abandon(error)
            finally:
                self._active.discard(token)
            return ()

        # In the context of the calling thread, which has the name of the call.
        run_tasks([partial(copy_context().run, run, number) for number in todo], len(todo))
        self.check()

    def wait(self) -> None:
        """Wait until no thread uses an array."""
        while self._active:
            time.sleep(1e-4)

    def forget(self) -> None:
        """Refer to no error, whose traceback refers to arrays and to this object."""
        self._error = None

    def work(self) -> Sequence[Task]:
        """Copy pieces in one thread until there are no more."""
        token = object()
        self._active.add(token)
        try:
            self._work()  # its variables, which refer to arrays, are gone before the token is
        finally:
            self._active.discard(token)
        return ()

    def _work(self) -> None:
        """See :meth:`work`."""
        buffers: list[_HostBuffer] = []
        moving: deque[_Moving] = deque()
        try:
            member = self._members[next(self._numbers) % len(self._members)]
            while not self._is_abandoned:
                try:  # if commands run, it waits for their end and not for a piece
                    self._tokens.get(block=not moving)
                except Empty:
                    self._end(moving)
                    continue
                piece = self._next()
                if piece is None:
                    break
                if len(buffers) < _BUFFERS_OF_THREAD:
                    buffers.append(_HostBuffer(member))
                    buffer = buffers[-1]
                else:
                    used = {id(copy.buffer) for copy in moving}
                    free = [copy for copy in buffers if id(copy) not in used]
                    buffer = free[0] if free else self._end(moving)
                self._enqueue(piece, buffer, moving)
            while moving and not self._is_abandoned:
                self._end(moving)
        except BaseException as error:
            self.abandon(error)
        finally:
            for copy in moving:
                if not _await(copy.events):
                    buffers.remove(copy.buffer)
                    copy.buffer.discard()
            for buffer in buffers:
                buffer.give_back()

    def _next(self) -> _CopyPiece | None:
        for pending in (self._downloads, self._uploads):
            try:
                return pending.popleft()
            except IndexError:
                pass
        return None

    def _enqueue(self, piece: _CopyPiece, buffer: _HostBuffer, moving: deque[_Moving]) -> None:
        """Enqueue the copies of a piece, for which values for devices are first copied."""
        begin, values = time.perf_counter(), piece.values
        host = buffer.memory[: values.nbytes]
        if piece.uploads:
            np.copyto(host.view(values.dtype).reshape(values.shape), values)
        events: list[cl.Event] = []
        moving.append(_Moving(buffer, piece, events, begin))  # also if a command is refused
        for member, array in piece.arrays:
            place = array.offset + piece.first_byte
            with member.named_errors(), member.engine.staging.enqueue_lock:
                queue = member.copies if piece.uploads else member.sends
                event = staging.enqueue_copy(
                    queue, array.base_data, host, place, writes=piece.uploads, is_blocking=False
                )
                events.append(event)
                queue.flush()
        if piece.uploads:
            piece.copy.end_piece()

    def _end(self, moving: deque[_Moving]) -> _HostBuffer:
        """Wait for the oldest commands, and return their buffer."""
        buffer, piece, events, begin = moving[0]
        for (member, _), event in zip(piece.arrays, events, strict=True):
            with member.named_errors():
                event.wait()
        values = piece.values
        if not piece.uploads:
            host = buffer.memory[: values.nbytes]
            np.copyto(values, host.view(values.dtype).reshape(values.shape))
            piece.copy.end_piece()
        moving.popleft()
        for member, _ in piece.arrays:
            for recorder in [*member.recorders]:
                name = "upload" if piece.uploads else "download"
                recorder.copied(name, begin, values.nbytes)
        return buffer


@contextmanager
def copies(members: Sequence[Member]) -> Iterator[Copies]:
    """Provide copies to and from devices; the end of the block waits for all of them.

    An exception of the block or of a signal handler ends the copies.  Until the exception leaves
    this function, each thread ends the piece that it copies.

    Raises:
        NoThreadError: The system starts no thread.
    """
    running = Copies(members)
    try:
        with tasks_running([running.work] * running.threads, running.threads):
            yield running
            running.close()
        running.check()
    except BaseException as error:
        running.abandon(error)
        raise
    finally:
        running.wait()
        running.forget()


def _await(events: Sequence[cl.Event]) -> bool:
    """Wait for the events of devices; return False if a device failed."""
    have_ended = True
    for event in events:  # not all at once: they belong to several contexts
        try:
            event.wait()
        except cl.Error:
            have_ended = False
    return have_ended
