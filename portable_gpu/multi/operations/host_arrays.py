"""Calls on arrays of NumPy, in blocks.

CPUs read and write NumPy's memory.  On devices with memory of their own, copies overlap with
kernels: each device has two buffers for each operand and for the result, which are allocated at the
first block.  The copies are commands of the queue for copies::

    thread of the device | upload 0 | upload 1 | download 0 | upload 2 | download 1 |
    queue of kernels                | kernels 0 | kernels 1            | kernels 2  |

An operand that blocks need as a whole has a copy on each device;
:mod:`portable_gpu.multi.streaming` cuts such operands into tiles too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from portable_gpu.multi import transfers
from portable_gpu.multi.member import Member
from portable_gpu.multi.operations.operands import Cut, on_device, recorded_kernels
from portable_gpu.runtime.array import Array

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup

#: Returns what a block reads of an operand, given the device and the range of the block: an array
#: of NumPy, or one of the device.
Read = Callable[[Member, int, int], Any]


def in_parts(x: Any, axis: int) -> Read:
    """Return a function that reads the part of an array of NumPy for a block."""
    return lambda _, start, stop: transfers.part(x, axis, start, stop)


def as_whole(group: DeviceGroup, x: Any) -> Read:
    """Return a function that reads an array of NumPy as a whole, for every block.

    On a device that does not read NumPy's memory, the first block makes a copy.  So a failure of
    the copy is one of that block, which another device can compute.
    """
    copies: dict[Member, Array] = {}

    def read(member: Member, _start: int, _stop: int) -> Any:
        if member.engine.maps_host_memory:
            return x
        if member not in copies:
            copies[member] = on_device(group, member, x)
        return copies[member]

    return read


def compute_on_host(
    group: DeviceGroup,
    cut: Cut,
    operands: Sequence[Read],
    result: Any,
    compute: Callable[[Sequence[Any], Any, Any], Any],
    *,
    reads_result: bool = False,
) -> None:
    """Compute a result in NumPy, block by block.

    Args:
        group: The group.
        cut: The blocks of the result.
        operands: The function that reads each operand.
        result: The array of NumPy for the result.
        compute: Enqueues the kernels of a block, given its operands, its part of the result, and
            the engine.
        reads_result: Whether the kernels read the result's array.
    """
    buffers = {m: _Buffers(m) for m in group.members if not m.engine.maps_host_memory}

    def part(member: Member, number: int, start: int, stop: int) -> Callable[[], None]:
        """Compute a part of a block; the function that is returned stores its result."""
        target = transfers.part(result, cut.axis, start, stop)
        inputs = [read(member, start, stop) for read in operands]
        own_buffers = buffers.get(member)
        if own_buffers is None:
            with recorded_kernels(member, number, on_host=True):
                compute(inputs, target, member.engine)
            return _store_nothing
        inputs, device_result = own_buffers.load(inputs, target, reads_result)
        with recorded_kernels(member, number):
            compute(inputs, device_result, member.engine)
        return own_buffers.store_later(device_result, target)

    def block(member: Member, number: int) -> Callable[[], None]:
        return part(member, number, *cut.range(number))

    def halves(member: Member, number: int) -> Callable[[], None]:
        start, stop = cut.range(number)
        middle = (start + stop) // 2
        part(member, number, start, middle)()
        return part(member, number, middle, stop)

    group.for_blocks(cut.members, block, waits=True, halves=halves, stores=True)


def _store_nothing() -> None:
    """Do nothing: the result is in place."""


class _Buffers:
    """The buffers of one device, in two sets that blocks take by turns."""

    def __init__(self, member: Member) -> None:
        """Allocate nothing."""
        self._member = member
        self._buffers: dict[tuple[int, int], Array] = {}
        self._turn = 0

    def load(
        self, inputs: Sequence[Any], target: Any, reads_target: bool
    ) -> tuple[list[Any], Array]:
        """Copy the operands of a block to the device; return them, and an array for its result.

        Args:
            inputs: Arrays of NumPy, which are copied, or of the device.
            target: The array of NumPy for the result.
            reads_target: Whether the kernels read it, so that it is copied too.

        Raises:
            DeviceMemoryError: The device lacks memory for the buffers.
        """
        device_result = self._array(len(inputs), target)
        if reads_target:
            transfers.upload(self._member, target, device_result)
        arrays = []
        for number, values in enumerate(inputs):
            array = values
            if isinstance(values, np.ndarray):
                array = self._array(number, values)
                transfers.upload(self._member, values, array)
            arrays.append(array)
        return arrays, device_result

    def store_later(self, result: Array, target: Any) -> Callable[[], None]:
        """Return a function that copies a result to NumPy once all kernels enqueued have ended.

        The next block uses the other set of buffers, and the one after it this set again.  So the
        function must be called before that one is computed.
        """
        queue = self._member.engine.queue
        done = cl.enqueue_marker(queue)
        queue.flush()
        self._turn = 1 - self._turn

        def store() -> None:
            result.events = [done]
            transfers.download(self._member, result, target)

        return store

    def _array(self, number: int, like: Any) -> Array:
        """Return an array of ``like``'s shape in a buffer of this set, which no command uses."""
        key = self._turn, number
        buffer = self._buffers.get(key)
        if buffer is None or buffer.nbytes < like.nbytes:
            self._buffers.pop(key, None)
            buffer = self._buffers[key] = self._member.empty((like.nbytes,), np.uint8)
        queue = self._member.engine.queue
        return Array(queue, like.shape, like.dtype, data=buffer.base_data)
