"""Copies between NumPy and the devices of a group, and between two devices.

Each device has a queue for copies and another for kernels, so that copies run under kernels.
The host's side goes through the pinned pieces of the device's engine
(:class:`portable_gpu.runtime.staging.Staging`): at most 64 MiB a device, which are made at the
first large copy, reused, and freed with the engine::

    NumPy  | piece 0 | piece 1 | piece 2 | ...      the host fills one piece
    device           | piece 0 | piece 1 | ...      while the device reads the other

Buffers of two devices have no common context.  A copy from device to device is a copy to the host
and one from there, in pieces that overlap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from portable_gpu.multi.issue import LEAST_COPY
from portable_gpu.multi.member import Member
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.host_arrays import new_host_array
from portable_gpu.runtime.views import check_output

if TYPE_CHECKING:
    from portable_gpu.multi.array import GroupArray

#: Bytes of a piece.
PIECE = 4 << 20

_Values = np.ndarray[Any, Any]


def upload(member: Member, values: _Values, array: Array) -> None:
    """Copy values to a C-ordered array of a device, and wait for the copy.

    It waits for the events of the array, and not for kernels that were enqueued without them.

    Args:
        member: The device.
        values: An array of NumPy of the same shape and dtype, with any strides.
        array: The array.
    """
    if not values.size:
        return
    with member.recorded("upload", None, values.nbytes):
        before = list(array.events)
        if values.flags.c_contiguous:
            staging, memory = member.engine.staging, array.base_data
            staging.copy(member.copies, memory, values, array.offset, before, writes=True)
        else:
            _in_pieces(member, values, array, before, writes=True)


def download(member: Member, array: Array, values: _Values) -> None:
    """Copy an array of a device to NumPy, and wait for its values and for the copy.

    Args:
        member: The device.
        array: The array, with any strides.
        values: An array of NumPy of the same shape and dtype, with any strides.
    """
    if not values.size:
        return
    array.check()
    if not array.flags.c_contiguous:
        array = array.copy()
    with member.recorded("download", None, values.nbytes):
        before = list(array.events)
        if values.flags.c_contiguous:
            staging, memory = member.engine.staging, array.base_data
            staging.copy(member.copies, memory, values, array.offset, before, writes=False)
        else:
            _in_pieces(member, values, array, before, writes=False)


def move(source: Member, array: Array, target: Member) -> Array:
    """Return a C-ordered copy of an array on another device, and wait for the copy.

    Raises:
        DeviceMemoryError: The other device lacks memory.
    """
    array.check()
    if not array.flags.c_contiguous:
        array = array.copy()
    fresh = target.empty(array.shape, array.dtype)
    moving: deque[tuple[_Values, cl.Event, int]] = deque()
    with (
        ExitStack() as pieces,
        source.recorded("send", None, array.nbytes),
        target.recorded("receive", None, array.nbytes),
    ):
        size = min(PIECE, array.nbytes)
        free = [pieces.enter_context(_piece(source, size)) for _ in range(2)]
        pieces.callback(target.copies.finish)
        sent: dict[int, cl.Event] = {}  # the copy that last read each piece
        before = list(array.events)
        for number, start in enumerate(range(0, array.nbytes, PIECE)):
            piece = free[number % 2][: min(PIECE, array.nbytes - start)]
            if number % 2 in sent:
                sent[number % 2].wait()
            event = cl.enqueue_copy(
                source.copies, piece, array.base_data, src_offset=array.offset + start,
                wait_for=before, is_blocking=False,
            )  # fmt: skip
            source.copies.flush()
            moving.append((piece, event, start))
            if len(moving) == 2:
                _send(target, fresh, moving, sent)
        while moving:
            _send(target, fresh, moving, sent)
    return fresh


def _send(
    target: Member,
    array: Array,
    moving: deque[tuple[_Values, cl.Event, int]],
    sent: dict[int, cl.Event],
) -> None:
    """Copy the oldest piece that is on the host to the second device."""
    piece, event, start = moving.popleft()
    event.wait()
    sent[start // PIECE % 2] = cl.enqueue_copy(
        target.copies, array.base_data, piece, dst_offset=array.offset + start, is_blocking=False
    )
    target.copies.flush()


def asnumpy(x: GroupArray, out: _Values | None) -> _Values:
    """``GroupArray.asnumpy``."""
    if out is None:
        out = new_host_array(x.shape, x.dtype)
    else:
        check_output(out, x.shape, x.dtype, "out", True)
    result = out
    if x.axis is None:
        block = x.blocks[0]
        download(block.member, block.array, result)
        return result

    def copy(member: Member, number: int) -> None:
        block = x.blocks[number]
        download(member, block.array, part(result, x.axis, block.start, block.stop))

    x.group.for_blocks([block.member for block in x.blocks], copy, waits=x.nbytes >= LEAST_COPY)
    return result


def gathered(x: GroupArray, member: Member) -> Array:
    """``GroupArray.gather`` of an array in blocks."""
    whole = member.empty(x.shape, x.dtype)
    for block in x.blocks:
        array = block.array
        if block.member is not member:
            array = move(block.member, array, member)
        if array.size:
            part(whole, x.axis, block.start, block.stop)[...] = array
    return whole


def part(array: Any, axis: int | None, start: int, stop: int) -> Any:
    """Return ``array[..., start:stop, ...]``, a view of the axis."""
    if axis is None:
        return array
    return array[(slice(None),) * axis + (slice(start, stop),)]


def _in_pieces(
    member: Member, values: _Values, array: Array, before: list[cl.Event], *, writes: bool
) -> None:
    """Copy between a C-ordered array of a device and an array of NumPy that is not C-ordered."""
    moving: deque[tuple[_Values, _Values, cl.Event]] = deque()
    itemsize = values.dtype.itemsize
    with ExitStack() as pieces:
        size = min(PIECE, values.nbytes)
        free = [pieces.enter_context(_piece(member, size)) for _ in range(2)]

        def end() -> None:
            pinned, its_values, event = moving.popleft()
            event.wait()
            if not writes:
                np.copyto(its_values, pinned.view(values.dtype).reshape(its_values.shape))

        for number, (start, some) in enumerate(_parts(values, PIECE)):
            if len(moving) == 2:
                end()
            pinned = free[number % 2][: some.nbytes]
            place = array.offset + start * itemsize
            if writes:
                np.copyto(pinned.view(values.dtype).reshape(some.shape), some)
                event = cl.enqueue_copy(
                    member.copies, array.base_data, pinned, dst_offset=place,
                    wait_for=before, is_blocking=False,
                )  # fmt: skip
            else:
                event = cl.enqueue_copy(
                    member.copies, pinned, array.base_data, src_offset=place,
                    wait_for=before, is_blocking=False,
                )  # fmt: skip
            member.copies.flush()
            moving.append((pinned, some, event))
        while moving:
            end()


def _parts(values: _Values, nbytes: int, start: int = 0) -> Iterator[tuple[int, _Values]]:
    """Cut an array into parts that follow each other in C order.

    Yields:
        The number of elements before the part, and the part, of at most ``nbytes``.
    """
    if values.nbytes <= nbytes or not values.ndim:
        yield start, values
        return
    row = values.size // values.shape[0]
    count = max(1, nbytes // (row * values.dtype.itemsize))
    for first in range(0, values.shape[0], count):
        some = values[first : first + count]
        inner = some[0] if len(some) == 1 else some
        yield from _parts(inner, nbytes, start + first * row)


@contextmanager
def _piece(member: Member, nbytes: int) -> Iterator[_Values]:
    """Lend a piece of pinned memory, or of other memory where no piece is free."""
    staging = member.engine.staging
    piece = staging.take() if nbytes >= _LEAST_PINNED else None
    if piece is None:
        yield np.empty(nbytes, np.uint8)
        return
    try:
        yield piece.memory
    finally:
        member.copies.finish()
        staging.give_back(piece)


#: Smaller copies take other memory: the first piece costs an allocation of pinned memory.
_LEAST_PINNED = 1 << 16
