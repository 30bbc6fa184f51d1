"""Copies between NumPy and the devices of a group.

Each device has a queue for copies and another for kernels, so that copies overlap with kernels.  A
C-ordered array of NumPy is copied by the engine's :class:`~portable_gpu.runtime.staging.Staging`:
large copies to GPUs with memory of their own go through its pinned buffers, 8 MiB each, at most
160 MiB a device, and so do large arrays with other strides.  Small ones of these go through two
such buffers.  An upload, for example (a download runs the other way)::

    host   | fill buffer 0 | fill buffer 1   | fill buffer 0   | ...
    device                 | read buffer 0   | read buffer 1   | ...
"""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from portable_gpu.multi.issue import LEAST_BYTES_FOR_THREADS
from portable_gpu.multi.member import Member
from portable_gpu.multi.moves import host_buffer, in_c_order, move
from portable_gpu.runtime import staging
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.host_arrays import new_host_array
from portable_gpu.runtime.views import check_output

if TYPE_CHECKING:
    from portable_gpu.multi.array import GroupArray


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
    _copy(member, values, in_c_order(member, array), "download")


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


def asnumpy(x: GroupArray, out: _Values | None) -> _Values:
    """Copy an array of a group to NumPy; see ``GroupArray.asnumpy``."""
    if out is None:
        out = new_host_array(x.shape, x.dtype)
    else:
        check_output(out, x.shape, x.dtype, "out", True)
    if x.axis is None:
        block = x.readable_copy()
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
        hosts = [buffers.enter_context(host_buffer(size, member, member.copies)) for _ in range(2)]

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
            event = staging.enqueue_copy(
                member.copies, array.base_data, host, place, wait_for, writes=writes,
                is_blocking=False,
            )  # fmt: skip
            member.copies.flush()
            in_flight.append((host, chunk, event))
        while in_flight:
            finish_oldest()
