"""Large copies between the host's memory and a GPU's, through pinned memory.

A driver moves pinned memory at the full rate of the bus, and other memory by one thread of its own,
through small pinned pieces.  Here several threads copy: each has two pieces, of which one is filled
or emptied while the other is moved.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from portable_gpu.runtime import fork
from portable_gpu.side_by_side import NoThreadError, Task, cores, work_off

if TYPE_CHECKING:
    from portable_gpu.runtime.engine import Engine

#: Bytes of a copy that threads pay for: all of them together start in some 2 ms.
LEAST = 32 << 20
#: Bytes of a piece, the least of it that is moved at a time, threads, and pieces of each thread.
_PIECE, _SHARE, _THREADS, _EACH = 4 << 20, 1 << 19, 8, 2
_ALIGNMENT = 4096

_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_Events = Sequence[cl.Event]


class Staging:
    """The pinned pieces of an engine, at most 64 MiB, and the copies through them.

    Pieces are made at the first large copy and go with the engine.  Calls share them; one that
    finds none copies without.
    """

    def __init__(self, engine: Engine) -> None:
        """Note whether the device has memory of its own; nothing is allocated."""
        facts = engine.target.facts
        #: Whether pinned memory is faster.
        self.pays = facts.type == "gpu" and not facts.host_unified_memory
        self._context, self._device = engine.context, engine.device
        self._free: deque[_Piece] = deque()
        self._unmade = deque([None] * (_THREADS * _EACH))  # one for each piece that may be made
        #: Of the threads here, which no signal interrupts; PoCL crashes where several enqueue.
        self.enqueues = threading.Lock()
        fork.retire_in_children(self)

    def takes(self, nbytes: int) -> bool:
        """Whether a copy goes through pieces."""
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
            queue: Where the copy's commands go.
            memory: Of the device.
            values: In C's or Fortran's order; what it holds in the order of its memory is copied.
            offset: The first byte in ``memory``.
            wait_for: Events that come before.
            writes: Whether the device's memory is written.

        Whatever exception leaves the call, no thread uses ``values`` afterwards, unless a second
        exception ends the wait for that; then a thread ends the piece that it is at.
        """
        if not self.takes(values.nbytes) or isinstance(memory, cl.SVMPointer):
            plainly(queue, memory, values, offset, wait_for, writes=writes)
            return
        flat = _bytes_of(values)
        copy = _Copy(self, queue, memory, flat, offset, wait_for, writes)
        copy.run()
        for at, end in copy.left():
            plainly(queue, memory, flat[at:end], offset + at, wait_for, writes=writes)

    def take(self) -> _Piece | None:
        """A piece for the caller alone; None if all are in use, or the system gives no more."""
        try:
            return self._free.pop()
        except IndexError:
            pass
        try:
            self._unmade.pop()
        except IndexError:
            return None
        try:
            with self.enqueues:
                return _Piece(self._context, self._device, _PIECE)
        except cl.Error:  # the system gives no more pinned memory
            self.give_up()
            return None

    def give_back(self, piece: _Piece) -> None:
        """Leave a piece, which no command uses, to others."""
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


class _Copy:
    """One copy: its threads take shares from a list until none is left."""

    def __init__(
        self,
        staging: Staging,
        queue: cl.CommandQueue,
        memory: Any,
        values: _Bytes,
        offset: int,
        wait_for: _Events | None,
        writes: bool,
    ) -> None:
        self._staging, self._queue, self._memory, self._values = staging, queue, memory, values
        self._offset, self._writes, self._size = offset, writes, len(values)
        self._wait_for = list(wait_for or ())
        self._threads = min(_THREADS, cores())
        share = -(-self._size // (self._threads * _EACH))
        share = -(-share // _ALIGNMENT) * _ALIGNMENT
        self._share = min(_PIECE, max(_SHARE, share))
        self._todo = deque(range(0, self._size, self._share))
        self._working: set[object] = set()
        self._is_left = False

    def run(self) -> None:
        """Do all that there are pieces and threads for.  None is at work when it is left."""
        if self._wait_for:
            cl.wait_for_events(self._wait_for)
        tasks: list[Task] = [self._work] * min(self._threads, len(self._todo))
        try:
            work_off(tasks, self._threads)
        except NoThreadError:
            return
        except BaseException:
            self._is_left = True
            while self._working:
                time.sleep(1e-4)
            raise

    def left(self) -> list[tuple[int, int]]:
        """The shares that no thread has taken: where they begin and end."""
        return [(at, min(at + self._share, self._size)) for at in self._todo]

    def _work(self) -> Sequence[Task]:
        """Fill, or empty, one piece while the device moves another one; each thread does this."""
        token = object()
        self._working.add(token)
        pieces: list[_Piece] = []
        moving: deque[tuple[_Piece, int, int, cl.Event]] = deque()
        try:
            while not self._is_left:
                if len(moving) == _EACH:
                    self._end(moving)
                    continue
                piece = self._piece(pieces, moving)
                if piece is None:
                    break
                try:
                    at = self._todo.popleft()
                except IndexError:
                    break
                moving.append(self._begin(piece, at))
            while moving and not self._is_left:
                self._end(moving)
        finally:
            try:
                for piece, _, _, event in moving:
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

    def _piece(
        self, pieces: list[_Piece], moving: deque[tuple[_Piece, int, int, cl.Event]]
    ) -> _Piece | None:
        """A piece that is not being moved: one of the thread's own, or another one."""
        busy = [piece for piece, *_ in moving]
        for piece in pieces:
            if piece not in busy:
                return piece
        another = self._staging.take()
        if another is not None:
            pieces.append(another)
        elif moving:
            self._end(moving)
            return pieces[0]
        return another

    def _begin(self, piece: _Piece, at: int) -> tuple[_Piece, int, int, cl.Event]:
        end = min(at + self._share, self._size)
        pinned = piece.memory[: end - at]
        if self._writes:
            np.copyto(pinned, self._values[at:end])
        place = self._offset + at
        with self._staging.enqueues:
            if self._writes:
                event = cl.enqueue_copy(
                    self._queue, self._memory, pinned, dst_offset=place, is_blocking=False
                )
            else:
                event = cl.enqueue_copy(
                    self._queue, pinned, self._memory, src_offset=place, is_blocking=False
                )
            self._queue.flush()
        return piece, at, end, event

    def _end(self, moving: deque[tuple[_Piece, int, int, cl.Event]]) -> None:
        piece, at, end, event = moving[0]
        event.wait()
        if not self._writes and not self._is_left:
            np.copyto(self._values[at:end], piece.memory[: end - at])
        moving.popleft()


def _bytes_of(values: np.ndarray[Any, Any]) -> _Bytes:
    """The memory of an array without gaps."""
    values = np.asarray(values)  # whose subclass matrix keeps its two axes
    order = values if values.flags.c_contiguous else values.T
    return order.reshape(-1).view(np.uint8)


def plainly(
    queue: cl.CommandQueue,
    memory: Any,
    values: np.ndarray[Any, Any],
    offset: int,
    wait_for: _Events | None,
    *,
    writes: bool,
) -> None:
    """Copy as the driver does it."""
    if writes:
        cl.enqueue_copy(queue, memory, values, dst_offset=offset, wait_for=wait_for)
    else:
        cl.enqueue_copy(queue, values, memory, src_offset=offset, wait_for=wait_for)
