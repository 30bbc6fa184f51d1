"""Copies from one device of a group to another, and of boxes within a device.

Buffers of two devices have no common context, so a copy from one device to another is a download
and an upload, piece by piece: while one piece is uploaded, the next is downloaded.  The pieces go
through at most four pinned buffers of 8 MiB.  A queue of its own sends arrays to other devices, so
that a device sends and receives at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from portable_gpu.multi.member import Member
from portable_gpu.runtime import staging
from portable_gpu.runtime.array import Array

#: The buffers of a copy from one device to another: with two, the bus has no next piece while the
#: host waits for one.
_BUFFERS_OF_MOVE = 4
#: Smaller copies use pageable memory: the first pinned buffer costs an allocation.
_LEAST_PINNED = 1 << 16

_Values = np.ndarray[Any, Any]


def in_c_order(member: Member, array: Array) -> Array:
    """Return an array, whose values exist, in C order."""
    with member.named_errors():
        array.check()
        return array if array.flags.c_contiguous else array.copy()


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
    array = in_c_order(source, array)
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
        hosts = [buffers.enter_context(host_buffer(size, source, *queues)) for _ in range(count)]
        in_flight: deque[_MovingPiece] = deque()
        last_upload: dict[int, cl.Event] = {}  # by the number of the buffer
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
        Each box, and the events that its download waits for; only the first one has any.
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


@contextmanager
def host_buffer(nbytes: int, member: Member, *queues: cl.CommandQueue) -> Iterator[_Values]:
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
