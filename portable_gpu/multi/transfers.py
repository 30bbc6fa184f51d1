"""Copies between NumPy and the devices of a group, and between two devices.

Each device has a queue for copies and another for kernels, so that copies overlap with kernels.  A
C-ordered array of NumPy is copied by the engine's :class:`~portable_gpu.runtime.staging.Staging`:
large copies to GPUs with memory of their own go through its pinned buffers, 4 MiB each, at most
64 MiB a device, and so do large arrays with other strides.  Small ones of these go through two such
buffers, and copies from one device to another through four.  An upload, for example (a download
runs the other way)::

    host   | fill buffer 0 | fill buffer 1   | fill buffer 0   | ...
    device                 | read buffer 0   | read buffer 1   | ...

Buffers of two devices have no common context, so a copy from one device to another is a download
and an upload, piece by piece: while one piece is uploaded, the next is downloaded.  A third queue
sends arrays to other devices, so that a device sends and receives at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyopencl as cl

from portable_gpu.multi.issue import LEAST_BYTES_FOR_THREADS
from portable_gpu.multi.member import Member
from portable_gpu.runtime import staging
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.host_arrays import new_host_array
from portable_gpu.runtime.views import check_output

if TYPE_CHECKING:
    from portable_gpu.multi.array import GroupArray

#: The buffers of a copy from one device to another: with two, the bus has no next piece while the
#: host waits for one.
_BUFFERS_OF_MOVE = 4
#: Smaller copies use pageable memory: the first pinned buffer costs an allocation.
_LEAST_PINNED = 1 << 16

_Values = np.ndarray[Any, Any]


def upload(member: Member, values: _Values, array: Array) -> None:
    """Copy values to a C-ordered array of a device, and wait for the copy.

    It first waits for ``array.events``.  Kernels that are not recorded there are not waited for.

    Args:
        member: The device.
        values: An array of NumPy of the same shape and dtype, with any strides.
        array: The array.
    """
    _copy(member, values, array, "upload")


def download(member: Member, array: Array, values: _Values) -> None:
    """Copy an array of a device to NumPy; wait until the array is computed and the copy is done.

    Args:
        member: The device.
        array: The array, with any strides.
        values: An array of NumPy of the same shape and dtype, with any strides.

    Raises:
        DeviceMemoryError: The array is not C-ordered, and the device lacks memory for a copy.
    """
    if not values.size:
        return
    _copy(member, values, _checked(member, array), "download")


def _checked(member: Member, array: Array) -> Array:
    """Return an array, whose values exist, in C order."""
    with member.named_errors():
        array.check()
        return array if array.flags.c_contiguous else array.copy()


def _copy(member: Member, values: _Values, array: Array, name: str) -> None:
    """Copy between NumPy and a C-ordered array; ``name`` is ``"upload"`` or ``"download"``."""
    if not values.size:
        return
    writes = name == "upload"
    with member.named_errors(), member.recorded(name, None, values.nbytes):
        wait_for = list(array.events)
        if values.flags.c_contiguous:
            member.engine.staging.copy(
                member.copies, array.base_data, values, array.offset, wait_for, writes=writes
            )  # which waits for the copy
        elif member.engine.staging.takes(values.nbytes):
            member.engine.staging.copy_strided(
                member.copies, array.base_data, values, array.offset, wait_for, writes=writes
            )
        else:
            _copy_strided(member, values, array, wait_for, writes=writes)


def move(source: Member, array: Array, target: Member) -> Array:
    """Return a C-ordered copy of an array on another device, and wait for the copy.

    Raises:
        DeviceMemoryError: The other device lacks memory, or the array is not C-ordered and its own
            device lacks memory for a copy.
    """
    array = _checked(source, array)
    fresh = target.empty(array.shape, array.dtype)
    if not array.nbytes:
        return fresh
    with (
        ExitStack() as buffers,
        source.recorded("send", None, array.nbytes),
        target.recorded("receive", None, array.nbytes),
    ):
        size = min(staging.PIECE, array.nbytes)
        count = min(_BUFFERS_OF_MOVE, -(-array.nbytes // staging.PIECE))
        queues = source.sends, target.copies
        hosts = [buffers.enter_context(_buffer(size, source, *queues)) for _ in range(count)]
        in_flight: deque[_MovingPiece] = deque()
        last_upload: dict[int, cl.Event] = {}  # of each buffer
        wait_for = list(array.events)
        for number, start in enumerate(range(0, array.nbytes, staging.PIECE)):
            slot = number % count
            host = hosts[slot][: min(staging.PIECE, array.nbytes - start)]
            if slot in last_upload:
                with target.named_errors():
                    last_upload[slot].wait()
            with source.named_errors():
                downloaded = cl.enqueue_copy(
                    source.sends, host, array.base_data, src_offset=array.offset + start,
                    wait_for=wait_for, is_blocking=False,
                )  # fmt: skip
                source.sends.flush()
            in_flight.append(_MovingPiece(host, start, downloaded, slot))
            if 2 * len(in_flight) > count:  # half the buffers are downloaded, the others uploaded
                _forward(source, target, fresh, in_flight.popleft(), last_upload)
        while in_flight:
            _forward(source, target, fresh, in_flight.popleft(), last_upload)
    return fresh


class _MovingPiece(NamedTuple):
    """A piece of an array on the way from one device to another.

    Attributes:
        host: The buffer of the host.
        start: The first byte of the piece in the array.
        downloaded: The event of the download.
        slot: The number of the buffer.
    """

    host: _Values
    start: int
    downloaded: cl.Event
    slot: int


def _forward(
    source: Member,
    target: Member,
    array: Array,
    piece: _MovingPiece,
    last_upload: dict[int, cl.Event],
) -> None:
    """Wait until a piece is on the host, then enqueue its upload."""
    with source.named_errors():
        piece.downloaded.wait()
    with target.named_errors():
        last_upload[piece.slot] = cl.enqueue_copy(
            target.copies, array.base_data, piece.host, dst_offset=array.offset + piece.start,
            is_blocking=False,
        )  # fmt: skip
        target.copies.flush()


def asnumpy(x: GroupArray, out: _Values | None) -> _Values:
    """Copy an array of a group to NumPy; see ``GroupArray.asnumpy``."""
    if out is None:
        out = new_host_array(x.shape, x.dtype)
    else:
        check_output(out, x.shape, x.dtype, "out", True)
    if x.axis is None:
        block = x.blocks[0]
        download(block.member, block.array, out)
        return out
    targets = [part(out, x.axis, block.start, block.stop) for block in x.blocks]

    def copy(member: Member, number: int) -> None:
        download(member, x.blocks[number].array, targets[number])

    members = [block.member for block in x.blocks]
    waits = x.nbytes >= LEAST_BYTES_FOR_THREADS
    x.group.for_blocks(members, copy, waits=waits, can_move=False)
    return out


def gathered(x: GroupArray, member: Member) -> Array:
    """Return an array in blocks as a whole on one device; see ``GroupArray.gather``."""
    assert x.axis is not None
    whole = member.empty(x.shape, x.dtype)
    for block in x.blocks:
        array = block.array
        if not array.size:
            continue
        if block.member is not member:
            array = move(block.member, array, member)
        with member.named_errors():
            part(whole, x.axis, block.start, block.stop)[...] = array
    return whole


def part(array: Any, axis: int, start: int, stop: int) -> Any:
    """Return ``array[..., start:stop, ...]``, a view of the axis."""
    return array[(slice(None),) * axis + (slice(start, stop),)]


def _copy_strided(
    member: Member, values: _Values, array: Array, wait_for: list[cl.Event], *, writes: bool
) -> None:
    """Copy between a C-ordered array of a device and an array of NumPy that is not C-ordered."""
    in_flight: deque[tuple[_Values, _Values, cl.Event]] = deque()
    with ExitStack() as buffers:
        size = min(staging.PIECE, values.nbytes)
        hosts = [buffers.enter_context(_buffer(size, member, member.copies)) for _ in range(2)]

        def finish_oldest() -> None:
            host, chunk, event = in_flight.popleft()
            event.wait()
            if not writes:
                np.copyto(chunk, host.view(values.dtype).reshape(chunk.shape))

        for number, (start, chunk) in enumerate(staging.chunks(values, staging.PIECE)):
            if len(in_flight) == 2:
                finish_oldest()
            host = hosts[number % 2][: chunk.nbytes]
            place = array.offset + start * values.dtype.itemsize
            if writes:
                np.copyto(host.view(values.dtype).reshape(chunk.shape), chunk)
                pair, offset = (array.base_data, host), {"dst_offset": place}
            else:
                pair, offset = (host, array.base_data), {"src_offset": place}
            event = cl.enqueue_copy(
                member.copies, *pair, **offset, wait_for=wait_for, is_blocking=False
            )
            member.copies.flush()
            in_flight.append((host, chunk, event))
        while in_flight:
            finish_oldest()


@contextmanager
def _buffer(nbytes: int, member: Member, *queues: cl.CommandQueue) -> Iterator[_Values]:
    """Lend memory of the host, and wait at the end for the queues whose copies use it.

    It is pinned for the device where that is faster and a pinned buffer is free.
    """
    source = member.engine.staging
    piece = source.take() if source.pays and nbytes >= _LEAST_PINNED else None
    try:
        yield np.empty(nbytes, np.uint8) if piece is None else piece.memory
    finally:
        try:
            for queue in queues:
                queue.finish()
        except cl.Error:  # a device failed, and may still use the memory
            if piece is not None:
                source.give_up()
                piece = None
            raise
        finally:
            if piece is not None:
                source.give_back(piece)
