"""Calls on blocks of NumPy's arrays, on devices with memory of their own: copies run under kernels.

Each device has two buffers for each operand and for the result, which are allocated at the first
block.  The copies are commands of the queue for copies::

    thread of the device | upload 0 | upload 1 | download 0 | upload 2 | download 1 |
    queue of kernels                | kernel 0 | kernel 1              | kernel 2   |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.multi import transfers
from portable_gpu.multi.member import Member
from portable_gpu.runtime.array import Array

#: Computes a block, given the operands and the result on the device.
Compute = Callable[[Sequence[Any], Any], Any]


class StreamedCalls:
    """The calls of one device on blocks, of which the last result is not copied back yet."""

    def __init__(self, member: Member) -> None:
        """Allocate nothing."""
        self._member = member
        self._buffers: dict[tuple[int, int], Array] = {}
        self._count = 0
        self._pending: tuple[Array, Any, cl.Event] | None = None

    def call(
        self, operands: Sequence[Any], target: Any, compute: Compute, *, reads_target: bool
    ) -> None:
        """Copy the operands to the device, enqueue the kernels, and store the result before.

        Args:
            operands: Arrays of NumPy, or of the device.
            target: The array of NumPy for the result.
            compute: Enqueues the kernels.
            reads_target: Whether they read the result's array.

        Raises:
            DeviceMemoryError: The device lacks memory for the buffers.
        """
        member, slot = self._member, self._count % 2
        result = self._array(slot, len(operands), target)
        if reads_target:
            transfers.upload(member, target, result)
        arrays = []
        for number, operand in enumerate(operands):
            if isinstance(operand, np.ndarray):
                arrays.append(self._array(slot, number, operand))
                transfers.upload(member, operand, arrays[-1])
            else:
                arrays.append(operand)
        compute(arrays, result)
        done = cl.enqueue_marker(member.engine.queue)
        member.engine.queue.flush()
        self._count += 1
        previous, self._pending = self._pending, (result, target, done)
        if previous is not None:
            self._store(*previous)

    def finish(self) -> None:
        """Store the last result."""
        previous, self._pending = self._pending, None
        if previous is not None:
            self._store(*previous)

    def _store(self, result: Array, target: Any, done: cl.Event) -> None:
        """Copy a result to NumPy, after its kernels and not after those of the next block."""
        result.events = [done]
        transfers.download(self._member, result, target)

    def _array(self, slot: int, number: int, like: Any) -> Array:
        """Return an array in a buffer, which no command uses."""
        buffer = self._buffers.get((slot, number))
        if buffer is None or buffer.nbytes < like.nbytes:
            self._buffers.pop((slot, number), None)
            buffer = self._buffers[slot, number] = self._member.empty((like.nbytes,), np.uint8)
        queue = self._member.engine.queue
        return Array(queue, like.shape, like.dtype, data=buffer.base_data)


def streamed(members: Sequence[Member]) -> dict[Member, StreamedCalls]:
    """Return the calls of those devices whose memory is not the host's."""
    return {m: StreamedCalls(m) for m in members if not m.engine.maps_host_memory}
