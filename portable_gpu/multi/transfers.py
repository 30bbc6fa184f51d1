"""Copies between NumPy and the devices of a group, and between two devices.

Each device has a queue for copies and another for kernels, so that copies overlap with kernels.  A
C-ordered array of NumPy is copied by the engine's :class:`~portable_gpu.runtime.staging.Staging`:
large copies to GPUs with memory of their own go through its pinned buffers, 8 MiB each, at most
160 MiB a device, and so do large arrays with other strides.  Small ones of these go through two
such buffers, and copies from one device to another through four.  An upload, for example (a
download runs the other way)::

    host   | fill buffer 0 | fill buffer 1   | fill buffer 0   | ...
    device                 | read buffer 0   | read buffer 1   | ...

Buffers of two devices have no common context, so a copy from one device to another is a download
and an upload, piece by piece: while one piece is uploaded, the next is downloaded.  A third queue
sends arrays to other devices, so that a device sends and receives at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from math import prod
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


class Side(NamedTuple):
    """The place of the rows of a box in a C-ordered array of a device.

    Attributes:
        array: The array.
        origin: The first byte in a row, the first row in a slice, and the first slice.
        pitches: The bytes from row to row, and from slice to slice.
    """

    array: Array
    origin: tuple[int, int, int]
    pitches: tuple[int, int]


class Box(NamedTuple):
    """Bytes that are copied from an array of a device to another array.

    Attributes:
        extents: The bytes of a row, the rows of a slice, and the number of slices.
        source, target: Where they are in the two arrays.
    """

    extents: tuple[int, int, int]
    source: Side
    target: Side


def common_box(source: Array, axis: int, start: int, target: Array, other: int, first: int) -> Box:
    """Return the elements that two blocks of one array have in common.

    Args:
        source, axis, start: A block along an axis, and the index in the array at which it begins.
        target, other, first: A block along another axis, and the index at which it begins.
    """
    low, high = sorted((axis, other))
    slices = prod(source.shape[:low])
    between = prod(source.shape[low + 1 : high])
    inner = prod(source.shape[high + 1 :]) * source.dtype.itemsize
    rows, width = source.shape[axis], target.shape[other]
    if axis == high:
        rows, width = width, rows
    # A slice is a part of the first of the two axes, and a row a part of the second.
    sides = []
    for array in (source, target):
        pitch = array.shape[high] * inner
        sides.append((array, pitch, array.shape[low] * between * pitch))
    origins = [(first * inner, 0, 0), (0, start * between, 0)]
    if axis == high:
        origins = [(0, first * between, 0), (start * inner, 0, 0)]
    ends = [
        Side(array, origin, (pitch, whole))
        for (array, pitch, whole), origin in zip(sides, origins, strict=True)
    ]
    return Box((width * inner, rows * between, slices), *ends)


def copy_box(member: Member, box: Box) -> None:
    """Enqueue a copy between two arrays of one device, behind its kernels."""
    source, target = box.source, box.target
    cl.enqueue_copy(
        member.engine.queue, target.array.base_data, source.array.base_data,
        src_origin=source.origin, dst_origin=target.origin, region=box.extents,
        src_pitches=source.pitches, dst_pitches=target.pitches,
    )  # fmt: skip


def move(source: Member, array: Array, target: Member, into: Array | None = None) -> Array:
    """Return a C-ordered copy of an array on another device, and wait for the copy.

    Args:
        source: The device of the array.
        array: The array.
        target: The other device.
        into: An array there of the same shape and dtype, which gets the copy; ``None``: a new one.

    Raises:
        DeviceMemoryError: The other device lacks memory, or the array is not C-ordered and its own
            device lacks memory for a copy.
    """
    array = _checked(source, array)
    if into is None:
        into = target.empty(array.shape, array.dtype)
    move_boxes(source, [all_bytes(array, into)], target)
    return into


def all_bytes(source: Array, target: Array) -> Box:
    """Return the box of all bytes of two C-ordered arrays of one shape and dtype."""
    nbytes = source.nbytes
    sides = [Side(each, (each.offset, 0, 0), (nbytes, nbytes)) for each in (source, target)]
    return Box((nbytes, 1, 1), *sides)


def move_boxes(source: Member, boxes: Sequence[Box], target: Member) -> None:
    """Copy boxes from arrays of a device to arrays of another, and wait for the copies.

    The copy of a box waits for the events of its array alone.
    """
    nbytes = sum(prod(box.extents) for box in boxes)
    if not nbytes:
        return
    with (
        ExitStack() as buffers,
        source.recorded("send", None, nbytes),
        target.recorded("receive", None, nbytes),
    ):
        size = min(staging.PIECE, nbytes)
        count = min(_BUFFERS_OF_MOVE, -(-nbytes // staging.PIECE))
        queues = source.sends, target.copies
        hosts = [buffers.enter_context(_buffer(size, source, *queues)) for _ in range(count)]
        in_flight: deque[_MovingPiece] = deque()
        last_upload: dict[int, cl.Event] = {}  # of each buffer
        pieces = (piece for box in boxes for piece in _pieces(box, staging.PIECE))
        for number, (piece, wait_for) in enumerate(pieces):
            slot = number % count
            host = hosts[slot][: piece.extents[0] * piece.extents[1]]
            if slot in last_upload:
                with target.named_errors():
                    last_upload[slot].wait()
            with source.named_errors():
                downloaded = _copy_piece(
                    source.sends, piece.source, host, piece.extents, wait_for, writes=False
                )
            in_flight.append(_MovingPiece(host, piece, downloaded, slot))
            if 2 * len(in_flight) > count:  # half the buffers are downloaded, the others uploaded
                _forward(source, target, in_flight.popleft(), last_upload)
        while in_flight:
            _forward(source, target, in_flight.popleft(), last_upload)


class _MovingPiece(NamedTuple):
    """A piece of a box on the way from one device to another.

    Attributes:
        host: The buffer of the host.
        piece: The piece.
        downloaded: The event of the download.
        slot: The number of the buffer.
    """

    host: _Values
    piece: Box
    downloaded: cl.Event
    slot: int


def _forward(
    source: Member, target: Member, moving: _MovingPiece, last_upload: dict[int, cl.Event]
) -> None:
    """Wait until a piece is on the host, then enqueue its upload."""
    with source.named_errors():
        moving.downloaded.wait()
    with target.named_errors():
        piece = moving.piece
        last_upload[moving.slot] = _copy_piece(
            target.copies, piece.target, moving.host, piece.extents, [], writes=True
        )


def _pieces(box: Box, nbytes: int) -> Iterator[tuple[Box, list[cl.Event]]]:
    """Cut a box into boxes of one slice, of at most ``nbytes``.

    Yields:
        The box, and the events that its download waits for; those behind it in the queue need none.
    """
    width, rows, slices = box.extents
    if not width * rows * slices:
        return
    wait_for = list(box.source.array.events)
    across, down = min(width, nbytes), max(1, nbytes // width)
    for at in product(range(slices), range(0, rows, down), range(0, width, across)):
        slice_number, row, byte = at
        extents = min(across, width - byte), min(down, rows - row), 1
        sides = []
        for side in (box.source, box.target):
            x, y, z = side.origin
            sides.append(side._replace(origin=(x + byte, y + row, z + slice_number)))
        yield Box(extents, *sides), wait_for
        wait_for = []


def _copy_piece(
    queue: cl.CommandQueue,
    side: Side,
    host: _Values,
    extents: tuple[int, int, int],
    wait_for: Sequence[cl.Event],
    *,
    writes: bool,
) -> cl.Event:
    """Enqueue a copy between rows of an array and a buffer of the host, which has no gaps."""
    data, (x, y, z), (row_pitch, slice_pitch) = side.array.base_data, side.origin, side.pitches
    pair = (data, host) if writes else (host, data)
    options: dict[str, Any]
    if extents[1] == 1:
        name = "dst_offset" if writes else "src_offset"
        options = {name: x + y * row_pitch + z * slice_pitch}
    else:
        options = {
            "buffer_origin": side.origin, "host_origin": (0, 0, 0), "region": extents,
            "buffer_pitches": side.pitches, "host_pitches": (extents[0], host.nbytes),
        }  # fmt: skip
    event = cl.enqueue_copy(queue, *pair, **options, wait_for=list(wait_for), is_blocking=False)
    queue.flush()
    return event


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
