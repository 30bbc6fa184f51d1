"""Copies of arrays from one device of a group to another, and of boxes from array to array.

The devices of a group have contexts of their own, so a copy from one to another is a download and
an upload through host memory.  It is made in pieces: while one piece is uploaded, the next is
downloaded.  At most four pinned buffers of 8 MiB hold the pieces.  Downloads for other devices have
a queue of their own, so that a device sends and receives at the same time.
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

#: The pieces that are on the host at the same time, two in each direction: while the host waits for
#: one of the two, the bus copies the other.
_PIECES_ON_HOST = 4
#: The bytes from which a copy uses pinned memory, whose first buffer has to be allocated.
_LEAST_PINNED = 1 << 16

_Values = np.ndarray[Any, Any]


def in_c_order(member: Member, array: Array) -> Array:
    """Return an array if it is in C order, else a copy; raise errors reported for its values."""
    with member.named_errors():
        array.check()
        return array if array.flags.c_contiguous else array.copy()


class BoxInArray(NamedTuple):
    """The place of a box in a C-ordered array of a device.

    Attributes:
        array: The array.
        origin: The first byte in a row, the first row in a slice, and the first slice.
        pitches: The bytes from row to row, and from slice to slice.
    """

    array: Array
    origin: tuple[int, int, int]
    pitches: tuple[int, int]


class Box(NamedTuple):
    """A box of bytes that is copied from one array to another.

    Attributes:
        extents: The bytes of a row, the rows of a slice, and the number of slices.
        source, target: Where the box is in the two arrays.
    """

    extents: tuple[int, int, int]
    source: BoxInArray
    target: BoxInArray


def common_box(
    source: Array, source_axis: int, source_start: int,
    target: Array, target_axis: int, target_start: int,
) -> Box:  # fmt: skip
    """Return the box of the elements that two blocks of one array have in common.

    Args:
        source, target: The blocks, which begin at the first byte of their buffers.
        source_axis, target_axis: The axes along which the array is divided: two different ones.
        source_start, target_start: The indices along them at which the blocks begin.
    """
    low, high = sorted((source_axis, target_axis))
    inner = prod(source.shape[high + 1 :]) * source.dtype.itemsize
    between = prod(source.shape[low + 1 : high])
    divided = {
        source_axis: (source_start, source.shape[source_axis]),
        target_axis: (target_start, target.shape[target_axis]),
    }
    (low_start, low_extent), (high_start, high_extent) = divided[low], divided[high]
    places = []
    # A block has all indices along the axis of the other one, so the box begins there where the
    # other block begins.  Along its own axis the box has all of the block, and begins at 0.
    for array, axis in ((source, source_axis), (target, target_axis)):
        column = 0 if axis == high else high_start * inner
        row = 0 if axis == low else low_start * between
        row_pitch = array.shape[high] * inner
        pitches = row_pitch, array.shape[low] * between * row_pitch
        places.append(BoxInArray(array, (column, row, 0), pitches))
    slices = prod(source.shape[:low])
    return Box((high_extent * inner, low_extent * between, slices), *places)


def copy_box(member: Member, box: Box) -> None:
    """Enqueue a copy between two arrays of one device, after its kernels so far."""
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
        into: A C-ordered array on the other device that receives the copy; ``None``: a new one.

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
    pitches = nbytes, nbytes
    places = [BoxInArray(array, (array.offset, 0, 0), pitches) for array in (source, target)]
    return Box((nbytes, 1, 1), *places)


def move_boxes(source: Member, boxes: Sequence[Box], target: Member) -> None:
    """Copy boxes from arrays of a device to arrays of another, and wait for the copies.

    A download waits for the events of the source's array.  An upload waits for the earlier copies
    to its device only.
    """
    pieces = [piece for box in boxes for piece in _pieces(box, staging.PIECE)]
    if not pieces:
        return
    nbytes = sum(prod(box.extents) for box in boxes)
    with (
        ExitStack() as buffers,
        source.recorded("send", None, nbytes),
        target.recorded("receive", None, nbytes),
    ):
        count = min(_PIECES_ON_HOST, len(pieces))
        slots = _host_slots(
            buffers, count, max(prod(box.extents) for box, _ in pieces), source, target
        )
        in_flight: deque[_MovingPiece] = deque()
        last_upload: dict[int, cl.Event] = {}  # by the number of the slot
        for number, (piece, wait_for) in enumerate(pieces):
            slot = number % count
            memory = slots[slot][: prod(piece.extents)]
            if slot in last_upload:
                with target.named_errors():
                    last_upload[slot].wait()
            with source.named_errors():
                downloaded = _copy_piece(
                    source.sends, piece.source, memory, piece.extents, wait_for, writes=False
                )
            in_flight.append(_MovingPiece(memory, piece, downloaded, slot))
            if 2 * len(in_flight) > count:  # half of the slots are for downloads
                _forward(source, target, in_flight.popleft(), last_upload)
        while in_flight:
            _forward(source, target, in_flight.popleft(), last_upload)


def _host_slots(
    buffers: ExitStack, count: int, nbytes: int, source: Member, target: Member
) -> list[_Values]:
    """Return host memory for ``count`` pieces of ``nbytes``; several small ones share a buffer."""
    slots: list[_Values] = []
    in_buffer = staging.PIECE // nbytes
    while len(slots) < count:
        rows = min(in_buffer, count - len(slots))
        memory = host_buffer(rows * nbytes, source, source.sends, target.copies)
        slots += list(buffers.enter_context(memory)[: rows * nbytes].reshape(rows, nbytes))
    return slots


class _MovingPiece(NamedTuple):
    """A piece of a box on the way from one device to another.

    Attributes:
        memory: The piece's memory on the host.
        piece: The piece.
        downloaded: The event of the download.
        slot: The number of the slot that the memory is in.
    """

    memory: _Values
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
            target.copies, piece.target, moving.memory, piece.extents, [], writes=True
        )


def _pieces(box: Box, nbytes: int) -> Iterator[tuple[Box, list[cl.Event]]]:
    """Yield the pieces of a box, with the events that the download of each waits for.

    A piece is a box of at most ``nbytes`` in one slice.  Downloads are in order, so only the first
    one waits.
    """
    width, rows, slices = box.extents
    if not width * rows * slices:
        return
    wait_for = list(box.source.array.events)
    piece_width, piece_rows = min(width, nbytes), max(1, nbytes // width)
    starts = product(range(slices), range(0, rows, piece_rows), range(0, width, piece_width))
    for slice_number, row, byte in starts:
        extents = min(piece_width, width - byte), min(piece_rows, rows - row), 1
        places = []
        for place in (box.source, box.target):
            x, y, z = place.origin
            places.append(place._replace(origin=(x + byte, y + row, z + slice_number)))
        yield Box(extents, *places), wait_for
        wait_for = []


def _copy_piece(
    queue: cl.CommandQueue,
    place: BoxInArray,
    memory: _Values,
    extents: tuple[int, int, int],
    wait_for: Sequence[cl.Event],
    *,
    writes: bool,
) -> cl.Event:
    """Enqueue a copy between rows of an array and contiguous memory of the host."""
    data, (x, y, z), (row_pitch, slice_pitch) = place.array.base_data, place.origin, place.pitches
    target_and_source = (data, memory) if writes else (memory, data)
    options: dict[str, Any]
    if extents[1] == 1:
        name = "dst_offset" if writes else "src_offset"
        options = {name: x + y * row_pitch + z * slice_pitch}
    else:
        options = {
            "buffer_origin": place.origin, "host_origin": (0, 0, 0), "region": extents,
            "buffer_pitches": place.pitches, "host_pitches": (extents[0], memory.nbytes),
        }  # fmt: skip
    event = cl.enqueue_copy(
        queue, *target_and_source, **options, wait_for=list(wait_for), is_blocking=False
    )
    queue.flush()
    return event


@contextmanager
def host_buffer(nbytes: int, member: Member, *queues: cl.CommandQueue) -> Iterator[_Values]:
    """Lend at least ``nbytes`` of the host's memory; at the end wait for the queues that use it.

    The memory is pinned where copies of the device are then faster and a pinned buffer is free.
    """
    pinned = member.engine.staging
    piece = pinned.take() if pinned.pays and nbytes >= _LEAST_PINNED else None
    has_ended = False
    try:
        yield np.empty(nbytes, np.uint8) if piece is None else piece.memory
        for queue in queues:
            queue.finish()
        has_ended = True
    except BaseException:  # the first error is raised, also if the queues have another
        has_ended = _have_ended(queues)
        raise
    finally:
        if piece is not None and has_ended:
            pinned.give_back(piece)
        elif piece is not None:  # a device may still use the memory
            pinned.give_up()


def _have_ended(queues: Sequence[cl.CommandQueue]) -> bool:
    """Wait for the commands of queues; return False if a device failed."""
    try:
        for queue in queues:
            queue.finish()
    except cl.Error:
        return False
    return True
