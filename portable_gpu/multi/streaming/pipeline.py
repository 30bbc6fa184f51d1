"""Blocks of a result, computed one after another from tiles of the operands.

On a device with memory of its own, two buffers for each operand and for the result are allocated
before the first block.  One thread enqueues everything that an engine does::

    calling thread  | read 1, upload 1 | read 2, upload 2 | store 1 | read 3, upload 3 | store 2 |
    queue of kernels                   | kernel 1         | kernel 2          | kernel 3 |

A kernel is enqueued and not waited for.  While it runs, the next tiles are read and copied to the
other buffers by a second queue, and the previous block is copied back and written.  Large copies
are made by the threads of :mod:`portable_gpu.multi.copying`.

On a CPU, kernels work on the host's memory.  A tile of a NumPy array or of a memmap is a view, and
so is a block of a result that is one; the operating system reads the pages of the next tiles while
the kernel runs.  Only tiles of Zarr arrays are copied.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.multi import failures
from portable_gpu.multi.copying import Copies, PendingCopy, copies
from portable_gpu.multi.member import DEVICE_ERRORS, Member
from portable_gpu.multi.streaming.job import Job, StreamBlock, StreamStep, extents_of
from portable_gpu.multi.streaming.place import StreamPlace
from portable_gpu.multi.streaming.storage import Index, Values
from portable_gpu.multi.transfers import download, upload
from portable_gpu.progress import ProgressCallback
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.events import marker
from portable_gpu.side_by_side import Task, run_tasks

#: The least bytes that devices read for which copies have threads of their own: to start them takes
#: about 2 ms.
_LEAST_BYTES_FOR_THREADS = 1 << 26


def run(job: Job, place: StreamPlace, progress: ProgressCallback | None) -> None:
    """Compute all blocks, and wait.

    Each of several devices takes the next block as soon as it has enqueued one, and has a thread.
    If one fails, the others end after the step that they compute.  Then they compute the blocks
    that are not stored, or the error is raised.

    Args:
        job: The operation.
        place: The devices.
        progress: Called with the work done and all work.

    Raises:
        DeviceMemoryError, DeviceFailedError: A device failed, and the others do not go on, or
            failed too.
    """
    shared = _Shared(job, progress)
    members = place.members
    while True:
        try:
            _run_with_copies(job, members, shared)
            return
        except DEVICE_ERRORS as error:
            members = [member for member in members if not member.is_in(error)]
            if not (place.retries and members):
                raise
        failures.drain(place.members)
        shared.begin_again()


def _run_with_copies(job: Job, members: Sequence[Member], shared: _Shared) -> None:
    """Compute the blocks that are not stored; large copies have threads of their own."""
    apart = [member for member in members if not member.engine.maps_host_memory]
    if apart and _bytes_read(job) >= _LEAST_BYTES_FOR_THREADS:
        with copies(apart) as running:
            _run(job, members, shared, running)
    else:
        _run(job, members, shared, None)


def _bytes_read(job: Job) -> int:
    """Return the bytes of all tiles that are read."""
    sizes = [operand.dtype.itemsize for operand in job.operands]
    return sum(
        prod(extents_of(index)) * size
        for numbered in job.blocks
        for step in numbered.steps
        for index, size in zip(step.reads, sizes, strict=True)
    )


def _run(job: Job, members: Sequence[Member], shared: _Shared, running: Copies | None) -> None:
    """See :func:`run`; ``running`` makes the copies, if they have threads of their own."""
    blocks = deque(
        numbered for numbered in enumerate(job.blocks) if numbered[0] not in shared.stored
    )
    runners = [_Runner(job, member, blocks, shared, running) for member in members]
    if len(runners) == 1:
        runners[0].run()
        return
    try:
        run_tasks([_task(runner) for runner in runners], len(runners))
    except BaseException:
        shared.is_abandoned = True
        while any(runner.is_running for runner in runners):
            time.sleep(1e-3)
        raise


def _task(runner: _Runner) -> Task:
    def task() -> Sequence[Task]:
        runner.run()
        return ()

    return task


class _Shared:
    """The state that the threads of several devices share.

    Attributes:
        stored: The numbers of the blocks that are stored.
        is_abandoned: Whether the threads end, because a device failed or the call is left.
    """

    def __init__(self, job: Job, progress: ProgressCallback | None) -> None:
        self._job, self._progress, self._lock = job, progress, threading.Lock()
        self._total, self._done = self._work(range(len(job.blocks))), 0.0
        self.stored: set[int] = set()
        self.is_abandoned = False

    def begin_again(self) -> None:
        """Prepare for the blocks that are not stored."""
        self.is_abandoned, self._done = False, self._work(self.stored)

    def _work(self, numbers: Iterable[int]) -> float:
        return sum(step.work for number in numbers for step in self._job.blocks[number].steps)

    def add(self, work: float) -> None:
        """Count work that is done."""
        if self._progress is None:
            return
        with self._lock:
            self._done += work
            self._progress(self._done, self._total)


class _Runner:
    """The blocks that one device computes."""

    def __init__(
        self,
        job: Job,
        member: Member,
        blocks: deque[tuple[int, StreamBlock]],
        shared: _Shared,
        running: Copies | None,
    ) -> None:
        self._job, self._member, self._blocks, self._shared = job, member, blocks, shared
        self._copies, self._number = running, 0
        self.is_running = False

    def run(self) -> None:
        """Compute blocks until none is left."""
        self.is_running = True
        try:
            if self._member.engine.maps_host_memory:
                self._compute(_HostMemory(self._job))
            else:
                with self._member.named_errors():
                    memory = _DeviceMemory(self._job, self._member, self._copies)
                self._compute(memory)
        except DEVICE_ERRORS as error:
            self._shared.is_abandoned = True
            if str(error).startswith("device ") and not self._member.is_named(error):
                raise  # the copies of all devices end with the error of one
            count = len(self._job.blocks)
            raise failures.block_error(error, self._member, self._number, count) from error
        except BaseException:
            self._shared.is_abandoned = True
            raise
        finally:
            self.is_running = False

    def _compute(self, memory: _HostMemory | _DeviceMemory) -> None:
        unstored: Callable[[], None] | None = None
        for number, block in _until_empty(self._blocks):
            self._number = number
            array = memory.block(block.place)
            for count, step in enumerate(block.steps, 1):
                if self._shared.is_abandoned:
                    return
                tiles = [memory.load(which, index) for which, index in enumerate(step.reads)]
                memory.prefetch(self._next_step(block, count))
                recorded = self._member.recorded(self._job.name, self._member.engine.queue)
                with recorded, memory.enqueue_lock:
                    array = self._job.compute(self._member.engine, step, tiles, array)
                memory.launched()
                if unstored is not None:
                    unstored()
                    unstored = None
                self._shared.add(step.work)
            is_stored = partial(self._shared.stored.add, number)
            unstored = memory.storing(block.place, array, is_stored)
        if unstored is not None:
            unstored()
        memory.finish()

    def _next_step(self, block: StreamBlock, count: int) -> StreamStep | None:
        """Return the step after the first ``count`` of a block."""
        if count < len(block.steps):
            return block.steps[count]
        try:
            return self._blocks[0][1].steps[0]
        except IndexError:
            return None


def _until_empty(
    blocks: deque[tuple[int, StreamBlock]],
) -> Iterator[tuple[int, StreamBlock]]:
    while True:
        try:
            yield blocks.popleft()
        except IndexError:
            return


class _HostMemory:
    """Tiles in the memory of the host, for an engine that computes there."""

    enqueue_lock = nullcontext()

    def __init__(self, job: Job) -> None:
        self._job = job
        self._known: list[tuple[Index | None, Any]] = [(None, None)] * len(job.operands)

    def load(self, which: int, index: Index) -> Values:
        known, tile = self._known[which]
        if known != index:
            self._known[which] = (None, None)  # frees the memory of the last tile
            tile = self._job.operands[which].read(index)
            self._known[which] = (index, tile)
        values: Values = tile
        return values

    def prefetch(self, step: StreamStep | None) -> None:
        if step is not None:
            for operand, index, known in zip(
                self._job.operands, step.reads, self._known, strict=True
            ):
                if index != known[0]:
                    operand.prefetch(index)

    def block(self, place: Any) -> Values | None:
        if self._job.block is None:
            return None
        dtype = self._job.block[1]
        tile = self._job.sink.in_place(place, dtype)
        return np.empty(extents_of(place), dtype) if tile is None else tile

    def launched(self) -> None:
        """Do nothing: the call has waited."""

    def finish(self) -> None:
        """Do nothing: all blocks are stored."""

    def storing(
        self, place: Any, array: Any, is_stored: Callable[[], None]
    ) -> Callable[[], None] | None:
        """Write a block, unless it is in its place, and call ``is_stored``."""
        if self._job.block is None or self._job.sink.in_place(place, array.dtype) is None:
            self._job.sink.write(place, array)
        is_stored()
        return None


@dataclass
class _Buffer:
    memory: cl.Buffer
    index: Index | None = None
    used: cl.Event | None = None
    stored: PendingCopy | None = None
    is_stored: Callable[[], None] | None = None

    def wait_until_stored(self) -> None:
        """Wait until the block in it is stored, if it is on its way."""
        if self.stored is not None and self.is_stored is not None:
            self.stored.wait()
            self.is_stored()
            self.stored = self.is_stored = None


class _DeviceMemory:
    """Two buffers for each operand and for the block, on a device with memory of its own."""

    def __init__(self, job: Job, member: Member, running: Copies | None) -> None:
        self._job, self._member, self._copies = job, member, running
        #: Held while kernels are enqueued, if other threads enqueue copies.
        self.enqueue_lock: AbstractContextManager[Any]
        self.enqueue_lock = nullcontext() if running is None else member.engine.staging.enqueue_lock
        sizes = [
            prod(tile) * operand.dtype.itemsize
            for tile, operand in zip(job.tiles, job.operands, strict=True)
        ]
        self._tiles = [deque([self._buffer(size), self._buffer(size)]) for size in sizes]
        self._blocks: deque[_Buffer] = deque()
        if job.block is not None:
            size = prod(job.block[0]) * job.block[1].itemsize
            self._blocks.extend([self._buffer(size), self._buffer(size)])
        self._in_use: list[_Buffer] = []

    def _buffer(self, nbytes: int) -> _Buffer:
        return _Buffer(self._member.empty((max(1, nbytes),), np.uint8).base_data)

    def load(self, which: int, index: Index) -> Array:
        """Return a tile on the device: from a buffer that has it, or by a copy."""
        buffers, operand = self._tiles[which], self._job.operands[which]
        for buffer in buffers:
            if buffer.index == index:
                break
        else:
            buffer = buffers[0]  # the one that was used before the other
            if buffer.used is not None:
                buffer.used.wait()
            buffer.index = None
            array = self._array(buffer, extents_of(index), operand.dtype)
            self._upload(operand.read(index), array)
            buffer.index = index
        buffers.remove(buffer)
        buffers.append(buffer)
        self._in_use.append(buffer)
        return self._array(buffer, extents_of(index), operand.dtype)

    def _upload(self, values: Values, array: Array) -> None:
        """Copy a tile to the device; kernels that are enqueued from now on wait for the copy."""
        if self._copies is None or not values.size:
            upload(self._member, values, array)
            return
        self._copies.upload(values, [(self._member, array)]).wait()
        self._member.kernels_after_copies()

    def _array(self, buffer: _Buffer, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return Array(self._member.engine.queue, shape, dtype, data=buffer.memory)

    def prefetch(self, step: StreamStep | None) -> None:
        """Do nothing: tiles are read while a kernel runs."""

    def block(self, place: Any) -> Array | None:
        if self._job.block is None:
            return None
        self._blocks.rotate()
        buffer = self._blocks[0]
        buffer.wait_until_stored()
        return self._array(buffer, extents_of(place), self._job.block[1])

    def launched(self) -> None:
        """Record the event after which the tiles are free, and flush the queue."""
        used = marker(self._member.engine.queue)
        for buffer in self._in_use:
            buffer.used = used
        self._in_use.clear()

    def storing(
        self, place: Any, array: Any, is_stored: Callable[[], None]
    ) -> Callable[[], None] | None:
        """Return a function that copies a block back and writes it, to call after a launch.

        ``is_stored`` is called when the block is written.
        """
        arrays = array if self._job.block is None else (array,)
        buffer = None if self._job.block is None else self._blocks[0]
        for array in arrays:
            list(array.events)  # the first reading of them notes the end of all kernels so far

        def store() -> None:
            if buffer is None:
                self._job.sink.write(
                    place, tuple([array.get(self._member.copies) for array in arrays])
                )
                is_stored()
            else:
                self._download(place, array, buffer, is_stored)

        return store

    def finish(self) -> None:
        """Wait for the copies of blocks that are not complete."""
        for buffer in self._blocks:
            buffer.wait_until_stored()

    def _download(
        self, place: Any, array: Array, buffer: _Buffer, is_stored: Callable[[], None]
    ) -> None:
        tile = self._job.sink.in_place(place, array.dtype)
        if tile is not None and self._copies is not None and tile.size:
            with self._member.named_errors():
                for event in array.events:
                    event.wait()
            buffer.is_stored = is_stored
            buffer.stored = self._copies.download(self._member, array, tile)
            return
        values = np.empty(array.shape, array.dtype) if tile is None else tile
        download(self._member, array, values)
        if tile is None:
            self._job.sink.write(place, values)
        is_stored()
