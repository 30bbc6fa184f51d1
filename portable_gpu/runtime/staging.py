"""Copy large arrays between host memory and a GPU through pinned memory.

A GPU copies pinned host memory at the full rate of the bus.  Other memory is copied by a single
thread of the driver, through small pinned pieces.  This module uses several threads.  Each of them
has two pieces, and fills or empties one while the GPU copies the other.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyopencl as cl

from portable_gpu.runtime import fork
from portable_gpu.side_by_side import NoThreadError, Task, cores, run_tasks

if TYPE_CHECKING:
    from portable_gpu.runtime.engine import Engine

#: The smallest copy, in bytes, that uses threads: starting all of them takes about 2 ms.
LEAST = 32 << 20
PIECE = 8 << 20  # bytes of a pinned piece
# Bytes of the smallest and of the largest share, which is what a thread copies at a time.
_LEAST_SHARE, _LARGEST_SHARE = 1 << 19, 4 << 20
_THREADS = 8
_PIECES_OF_THREAD = 2
_PIECES_OF_MOVES = 4  # of copies to another device, while threads have all others
_ALIGNMENT = 4096  # bytes: each share is a multiple of it

_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_Events = Sequence[cl.Event]


class Staging:
    """The pinned pieces of an engine, at most 160 MiB, and the copies through them.

    The first large copies allocate the pieces, and they are freed with the engine.  Concurrent
    calls share them.  A call that finds no free piece lets the driver copy.
    """

    def __init__(self, engine: Engine) -> None:
        """Note whether the device has memory of its own; nothing is allocated."""
        facts = engine.target.facts
        #: Whether pinned memory is faster.
        self.pays = facts.type == "gpu" and not facts.host_unified_memory
        self._context, self._device = engine.context, engine.device
        self._free: deque[_Piece] = deque()
        self._unmade = deque(
            [None] * (_THREADS * _PIECES_OF_THREAD + _PIECES_OF_MOVES)
        )  # one for each piece that may be made
        #: Held by a worker thread while it enqueues, as PoCL crashes where several enqueue at
        #: once.  Signal handlers run in the main thread alone, so none can leave the lock held.
        self.enqueue_lock = threading.Lock()
        fork.retire_in_children(self)

    def takes(self, nbytes: int) -> bool:
        """Return whether a copy of ``nbytes`` is large enough to go through pinned pieces."""
        return self.pays and nbytes >= LEAST

    def copy(
        self,
        queue: cl.CommandQueue,
        memory: Any,
        values: np.ndarray[Any, Any],
        offset: int = 0,
        wait_for: _Events | None = None,
        *,
        writes: bool,
    ) -> None:
        """Copy an array of NumPy to the device or from it, and wait.

        Args:
            queue: The queue of the copy's commands.
            memory: The buffer on the device.
            values: A C- or Fortran-ordered array; its bytes are copied in the order of its memory.
            offset: The first byte in ``memory``.
            wait_for: Events that the copy waits for.
            writes: Whether the device's memory is written.

        If the call raises an exception, it first waits until no thread uses ``values``.  If a
        second exception interrupts this wait, each thread may still finish the piece that it
        copies.
        """
        if not self.takes(values.nbytes) or isinstance(memory, cl.SVMPointer):
            enqueue_copy(queue, memory, values, offset, wait_for, writes=writes)
            return
        flat = _bytes_of(values)
        copy = _Copy(self, queue, memory, flat, offset, wait_for, writes)
        copy.run()
        if copy.uncopied:
            at = copy.uncopied[0].start
            enqueue_copy(queue, memory, flat[at:], offset + at, wait_for, writes=writes)

    def copy_strided(
        self,
        queue: cl.CommandQueue,
        memory: Any,
        values: np.ndarray[Any, Any],
        offset: int = 0,
        wait_for: _Events | None = None,
        *,
        writes: bool,
    ) -> None:
        """Copy an array of NumPy with any strides to the device or from it, and wait.

        The array on the device is C-ordered.  The arguments are those of :meth:`copy`, which says
        what an exception leaves; the copy is one for which :meth:`takes` is true.
        """
        copy = _Copy(self, queue, memory, values, offset, wait_for, writes)
        copy.run()
        for start, part in copy.uncopied:
            packed = np.ascontiguousarray(part) if writes else np.empty(part.shape, part.dtype)
            enqueue_copy(queue, memory, packed, offset + start, wait_for, writes=writes)
            if not writes:
                np.copyto(part, packed)

    def take(self) -> _Piece | None:
        """Return a piece for the caller alone, or None if there is no free one."""
        try:
            return self._free.pop()
        except IndexError:
            pass
        try:
            self._unmade.pop()
        except IndexError:
            return None
        try:
            with self.enqueue_lock:
                return _Piece(self._context, self._device, PIECE)
        except cl.Error:  # the system gives no more pinned memory
            self.give_up()
            return None

    def give_back(self, piece: _Piece) -> None:
        """Return a piece that no command uses, so that other threads can take it."""
        self._free.append(piece)

    def give_up(self) -> None:
        """Let another piece be made in place of one that is not given back."""
        self._unmade.append(None)


class _Piece:
    """Pinned memory, mapped for as long as it lives."""

    def __init__(self, context: cl.Context, device: cl.Device, nbytes: int) -> None:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        self._buffer = cl.Buffer(context, flags, nbytes)
        self._queue = cl.CommandQueue(context, device)  # waits for no kernel
        both: Any = cl.map_flags.READ | cl.map_flags.WRITE
        self.memory: _Bytes
        self.memory, _ = cl.enqueue_map_buffer(
            self._queue, self._buffer, both, 0, (nbytes,), np.dtype(np.uint8)
        )


class _Share(NamedTuple):
    """A part of the host's array.

    Attributes:
        start: Its first byte in the copy on the device.
        values: A view of it.
    """

    start: int
    values: np.ndarray[Any, Any]


class _Copy:
    """One copy: its threads take shares from a list until none is left.

    Attributes:
        uncopied: The shares that no thread has taken, in order.
    """

    def __init__(
        self,
        staging: Staging,
        queue: cl.CommandQueue,
        memory: Any,
        values: np.ndarray[Any, Any],
        offset: int,
        wait_for: _Events | None,
        writes: bool,
    ) -> None:
        self._staging, self._queue, self._memory = staging, queue, memory
        self._offset, self._writes = offset, writes
        self._wait_for = list(wait_for or ())
        self._threads = min(_THREADS, cores())
        share = -(-values.nbytes // (self._threads * _PIECES_OF_THREAD))
        share = -(-share // _ALIGNMENT) * _ALIGNMENT
        parts = chunks(values, min(PIECE, _LARGEST_SHARE, max(_LEAST_SHARE, share)))
        self.uncopied = deque(_Share(at * values.itemsize, part) for at, part in parts)
        self._working: set[object] = set()
        self._is_abandoned = False

    def run(self) -> None:
        """Copy all shares for which there are pieces and threads, and wait for the threads."""
        if self._wait_for:
            cl.wait_for_events(self._wait_for)
        tasks: list[Task] = [self._work] * min(self._threads, len(self.uncopied))
        try:
            run_tasks(tasks, self._threads)
        except NoThreadError:
            return
        except BaseException:
            self._is_abandoned = True
            while self._working:
                time.sleep(1e-4)
            raise

    def _work(self) -> Sequence[Task]:
        """Copy shares in one thread: fill or empty a piece while the device copies another."""
        token = object()
        self._working.add(token)
        pieces: list[_Piece] = []
        moving: deque[tuple[_Piece, _Share, cl.Event]] = deque()
        try:
            while not self._is_abandoned:
                piece = self._free_piece(pieces, moving)
                if piece is None:
                    break
                try:
                    share = self.uncopied.popleft()
                except IndexError:
                    break
                self._begin(piece, share, moving)
            while moving and not self._is_abandoned:
                self._end(moving)
        finally:
            try:
                for piece, _, event in moving:
                    try:
                        event.wait()
                    except cl.Error:  # the device failed
                        pieces.remove(piece)
                        self._staging.give_up()
            finally:
                for piece in pieces:
                    self._staging.give_back(piece)
                self._working.discard(token)
        return ()

    def _free_piece(
        self, pieces: list[_Piece], moving: deque[tuple[_Piece, _Share, cl.Event]]
    ) -> _Piece | None:
        """Return a piece that no command uses; None if the thread can have none."""
        if len(pieces) < _PIECES_OF_THREAD:
            another = self._staging.take()
            if another is not None:
                pieces.append(another)
                return another
        return self._end(moving) if moving else None

    def _begin(
        self, piece: _Piece, share: _Share, moving: deque[tuple[_Piece, _Share, cl.Event]]
    ) -> None:
        values = share.values
        pinned = piece.memory[: values.nbytes]
        if self._writes:
            np.copyto(pinned.view(values.dtype).reshape(values.shape), values)
        place = self._offset + share.start
        with self._staging.enqueue_lock:
            event = enqueue_copy(
                self._queue, self._memory, pinned, place, writes=self._writes, is_blocking=False
            )
            moving.append((piece, share, event))  # also if the flush fails
            self._queue.flush()

    def _end(self, moving: deque[tuple[_Piece, _Share, cl.Event]]) -> _Piece:
        """Wait for the oldest command, and return its piece."""
        piece, (_, values), event = moving[0]
        event.wait()
        if not self._writes and not self._is_abandoned:
            pinned = piece.memory[: values.nbytes]
            np.copyto(values, pinned.view(values.dtype).reshape(values.shape))
        moving.popleft()
        return piece


def _bytes_of(values: np.ndarray[Any, Any]) -> _Bytes:
    """Return the memory of a contiguous array as bytes."""
    values = np.asarray(values)  # np.matrix would keep two axes
    assert values.flags.forc
    order = values if values.flags.c_contiguous else values.T
    return order.reshape(-1).view(np.uint8)


def chunks(
    values: np.ndarray[Any, Any], nbytes: int, start: int = 0
) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
    """Cut an array into views that follow each other in C order.

    Yields:
        The number of elements before the view, and the view, of at most ``nbytes``.
    """
    if values.nbytes <= nbytes or not values.ndim:
        yield start, values
        return
    row = values.size // values.shape[0]
    count = max(1, nbytes // (row * values.dtype.itemsize))
    for first in range(0, values.shape[0], count):
        part = values[first : first + count]
        inner = part[0, ...] if len(part) == 1 else part
        yield from chunks(inner, nbytes, start + first * row)


def enqueue_copy(
    queue: cl.CommandQueue,
    memory: Any,
    values: np.ndarray[Any, Any],
    offset: int,
    wait_for: _Events | None = None,
    *,
    writes: bool,
    is_blocking: bool = True,
) -> cl.Event:
    """Copy with one call of the driver; the arguments are those of :meth:`Staging.copy`."""
    if writes:
        return cl.enqueue_copy(
            queue, memory, values, dst_offset=offset, wait_for=wait_for, is_blocking=is_blocking
        )
    return cl.enqueue_copy(
        queue, values, memory, src_offset=offset, wait_for=wait_for, is_blocking=is_blocking
    )
