"""Two fields of PoCL's structures: the unfinished commands of a queue, the address of a buffer.

OpenCL has no query for either.  A small call runs on the calling thread only if its queue has no
unfinished commands, and then its kernels get the addresses of the arrays' buffers
(:mod:`portable_gpu.runtime.small_replay`).  The positions of the fields are found by experiment,
once for each platform; they are not used if the experiment does not find exactly one position.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable, Iterator
from ctypes import c_size_t
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.runtime.inside_pyopencl import run_on_device
from portable_gpu.runtime.views import memory_of, parent_of

_WORD = ctypes.sizeof(c_size_t)
_STRUCTURE = 512  # bytes that are searched
_MEMORY = Path("/proc/self/mem")
#: The numbers of unfinished commands in the experiment, and the sizes of its buffers.
_COUNTS, _SIZES = (0, 1, 3, 6), (64, 256, 4096)
_FLAGS = cl.mem_flags.READ_WRITE


@dataclass(frozen=True)
class PoclStructures:
    """The positions of the fields.

    Attributes:
        count: The offset of the number of unfinished commands, in the structure of a queue.
        address: The offset of the address of the memory, in the structure of a buffer.
    """

    count: int
    address: int

    def unfinished(self, queue: cl.CommandQueue) -> Any:
        """Return an object whose ``value`` is the number of unfinished commands of a queue.

        It must not be read after the queue was released.  It is read without PoCL's lock:
        :mod:`portable_gpu.runtime.small_replay` says why that is enough.
        """
        return c_size_t.from_address(queue.int_ptr + self.count)

    def address_of(self, base: Any) -> int:
        """Return the address of a buffer; 0 for a part of one, and before it is allocated.

        The address stays the same as long as the buffer exists.
        """
        memory = memory_of(base)
        if memory.address or not isinstance(base, cl.MemoryObjectHolder):
            return memory.address
        # A plain buffer may be a part of another one; a buffer of a memory pool is never one.
        if type(base) is not cl.Buffer or parent_of(base) is None:
            memory.address = c_size_t.from_address(base.int_ptr + self.address).value
        return memory.address

    def address_of_new(self, base: Any, is_kept: bool) -> int:
        """Return the address of a buffer of a pool; one that is used once gets no attribute."""
        if is_kept:
            return self.address_of(base)
        return int(c_size_t.from_address(base.int_ptr + self.address).value)


@lru_cache(maxsize=4096)
def svm_at(address: int) -> cl.SVM[Any]:
    """Return the kernel argument for an address."""
    return cl.SVM((ctypes.c_char * 1).from_address(address))


_known_structures: dict[str, PoclStructures | None] = {}


def structures_of(context: cl.Context, device: cl.Device) -> PoclStructures | None:
    """Return the positions of the fields, or ``None`` if they are unknown."""
    platform = device.platform.version
    if platform not in _known_structures:
        _known_structures[platform] = _find(context, device)
    return _known_structures[platform]


def _find(context: cl.Context, device: cl.Device) -> PoclStructures | None:
    try:
        queue = cl.CommandQueue(context, device)
        counts = _only(_positions_of_count(context, queue))
        addresses = _only(_positions_of_address(context, queue))
    except cl.Error:  # the call for which the experiment is made must not fail
        return None
    return None if counts is None or addresses is None else PoclStructures(counts, addresses)


def _only(positions: Iterable[int]) -> int | None:
    every = list(positions)
    return every[0] if len(every) == 1 else None


def _positions_of_count(context: cl.Context, queue: cl.CommandQueue) -> Iterator[int]:
    """Return the positions of words that are the number of unfinished commands of a queue.

    A command that waits for an event counts, and so does one that is running.
    """
    gate = cl.UserEvent(context)
    seen = []
    try:
        enqueued = 0
        for count in _COUNTS:
            while enqueued < count:
                cl.enqueue_marker(queue, [gate])
                enqueued += 1
            seen.append(_words(queue.int_ptr))
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
        queue.finish()
    seen.append(_words(queue.int_ptr))
    run_on_device(queue, lambda: seen.append(_words(queue.int_ptr)))
    seen.append(_words(queue.int_ptr))
    for at, values in enumerate(zip(*seen, strict=False)):
        if values == (*_COUNTS, 0, 1, 0):
            yield at * _WORD


def _positions_of_address(context: cl.Context, queue: cl.CommandQueue) -> Iterator[int]:
    """Return the positions of words that are the address of the memory that kernels use.

    Buffers in the host's memory have it from the start, and others may have 0 until a command uses
    them.
    """
    candidates: set[int] | None = None
    for flags, size in product((_FLAGS | cl.mem_flags.ALLOC_HOST_PTR, _FLAGS), _SIZES):
        buffer = cl.Buffer(context, flags, size)
        words = _words(buffer.int_ptr)
        values = np.arange(size, dtype=np.uint8)
        cl.enqueue_copy(queue, buffer, values)
        mapped, _ = cl.enqueue_map_buffer(
            queue, buffer, cl.map_flags.READ, 0, (size,), np.dtype(np.uint8)
        )
        address = mapped.ctypes.data
        mapped.base.release(queue)
        queue.finish()
        # Memory that is written by its address is the memory that commands read.
        ctypes.memset(address, 7, size // 2)
        values[: size // 2] = 7
        copy = np.empty_like(values)
        cl.enqueue_copy(queue, copy, buffer)
        if not np.array_equal(copy, values):
            return
        known = (address,) if flags != _FLAGS else (address, 0)
        both = zip(words, _words(buffer.int_ptr), strict=False)
        here = {at * _WORD for at, (a, b) in enumerate(both) if a in known and b == address}
        candidates = here if candidates is None else candidates & here
    yield from candidates or ()


def _words(place: int) -> tuple[int, ...]:
    """Return words of this process's memory, none if no memory is mapped at this address.

    They are read by the operating system, so an unmapped address is not a crash.
    """
    with contextlib.suppress(OSError, OverflowError), _MEMORY.open("rb", 0) as memory:
        content = os.pread(memory.fileno(), _STRUCTURE, place)
        whole = len(content) // _WORD * _WORD
        return tuple(np.frombuffer(content[:whole], np.uintp).tolist())
    return ()
