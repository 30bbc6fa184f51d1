"""Cholesky factors on a group, by block columns that are distributed to the devices in turns.

Columns of a large array of NumPy are copied to devices with memory of their own while the first
ones are factorised, and panels of L are copied back while the next ones are computed::

    | 0         |      device 0 has the block columns 0, 2, ...; device 1 has 1, 3, ...
    | 0 1       |
    | 0 1 0     |      A factor U is L^H, and its block rows are the block columns of L.
    | 0 1 0 1   |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag
from portable_gpu.errors import (
    ArgumentError,
    ShapeError,
    UnsupportedError,
)
from portable_gpu.multi import failures, moves, transfers
from portable_gpu.multi.array import GroupArray, GroupBlock
from portable_gpu.multi.copying import copies
from portable_gpu.multi.member import Member
from portable_gpu.multi.operations.block_columns import BlockColumn, Factorisation
from portable_gpu.multi.operations.operands import on_device, operand, refuse
from portable_gpu.multi.operations.substitutions import substitute
from portable_gpu.multi.operations.transforms import exchanged
from portable_gpu.ops.factor.arguments import check_dtype, common_dtype
from portable_gpu.runtime.array import Array
from portable_gpu.side_by_side import NoThreadError

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup


#: The least bytes of NumPy's matrix whose copies have threads of their own: to start them takes
#: about 2 ms.
_LEAST_BYTES_FOR_COPIES = 1 << 26


def cholesky(group: DeviceGroup, arguments: Mapping[str, Any]) -> Any:
    """Factorise a matrix; the arguments are those of :func:`portable_gpu.linalg.cholesky`.

    Returns:
        For an array of the group a :class:`GroupArray`: L in block columns, or U in block rows.
        For one of NumPy one of NumPy.

    Raises:
        NotPositiveDefiniteError: A pivot is not a positive number; it is raised in the call.
    """
    refuse(arguments, "out")
    if arguments["overwrite_a"]:
        raise UnsupportedError("overwrite_a= is not taken with engine= a DeviceGroup")
    lower, precision = arguments["lower"], arguments["precision"]
    a = operand(group, arguments["a"], "a")
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ShapeError(f"a has shape {a.shape}; expected a square matrix")
    check_dtype(a.dtype, "a")
    if not a.size:
        return a if isinstance(a, GroupArray) else np.empty(a.shape, a.dtype)

    def factorised() -> Any:
        members = failures.working(group)
        if lower and members is group.members and _copies_under_kernels(group, a):
            with suppress(NoThreadError):
                return _cholesky_of_host(group, a, precision)
        columns = _columns(group, a, lower, members)
        Factorisation(columns, precision).run()
        return _result(group, a, columns, lower)

    return failures.run_with_retry(group, factorised)


def _copies_under_kernels(group: DeviceGroup, a: Any) -> bool:
    """Return whether a matrix is copied while it is factorised.

    It is a large one of NumPy, and each device has memory of its own.
    """
    apart = not any(member.engine.maps_host_memory for member in group.members)
    is_large = isinstance(a, np.ndarray) and a.nbytes >= _LEAST_BYTES_FOR_COPIES
    return is_large and apart


def _cholesky_of_host(group: DeviceGroup, a: Any, precision: str | None) -> Any:
    """Return the factor L of an array of NumPy, which is copied under the kernels."""
    bounds = group.bounds(a.shape[0], a.nbytes)
    factor = np.zeros(a.shape, a.dtype)
    columns = []
    for k, (start, stop) in enumerate(pairwise(bounds)):
        member = group.members[k % group.size]
        array = member.empty((a.shape[0] - start, stop - start), a.dtype)
        columns.append(BlockColumn(start, stop, member, array))
    with copies(list(dict.fromkeys(column.member for column in columns))) as running:
        uploads = [
            running.upload(a[c.start :, c.start : c.stop], [(c.member, c.array)]) for c in columns
        ]
        panels: SimpleQueue[tuple[BlockColumn, cl.Event] | None] = running.queue()
        work = Factorisation(columns, precision, uploads, panels)

        def factorised() -> None:
            try:
                work.run()
            finally:
                panels.put(None)

        def store() -> None:
            downloads = []
            while (entry := panels.get()) is not None:
                column, done = entry
                with column.member.named_errors():
                    done.wait()
                target = factor[column.start :, column.start : column.stop]
                downloads.append(running.download(column.member, column.array, target))
            for download in downloads:
                download.wait()

        running.side_by_side([factorised, store])
    return factor


def _columns(
    group: DeviceGroup, a: Any, lower: bool, members: Sequence[Member]
) -> list[BlockColumn]:
    """Return copies of the block columns of L's triangle, distributed to some devices in turns."""
    axis = 1 if lower else 0
    if isinstance(a, GroupArray) and a.axis not in (None, axis):
        a = exchanged(a, axis)
    if isinstance(a, GroupArray) and a.axis is not None:
        bounds = a.bounds
    else:
        bounds = group.bounds(a.shape[0], a.nbytes)
    owners = [members[k % len(members)] for k in range(len(bounds) - 1)]

    def copy(member: Member, number: int) -> BlockColumn:
        start, stop = bounds[number : number + 2]
        array = member.empty((a.shape[0] - start, stop - start), a.dtype)
        part: Any
        if isinstance(a, np.ndarray):
            part = a[start:, start:stop] if lower else a[start:stop, start:].conj().T
            transfers.upload(member, part, array)
            return BlockColumn(start, stop, member, array)
        if a.axis is None:
            part = transfers.part(a.copy_on(member), axis, start, stop)
        else:
            block = a.blocks[number]
            part = block.array
            if block.member is not member:
                part = moves.move(block.member, part, member)
        part = part[start:] if lower else part[:, start:]
        array[...] = part if lower else _adjoint(part)
        return BlockColumn(start, stop, member, array)

    return group.for_blocks(owners, copy, waits=True)


def _result(group: DeviceGroup, a: Any, columns: list[BlockColumn], lower: bool) -> Any:
    """Return the factor with zeros in its other triangle."""
    if isinstance(a, np.ndarray):
        factor = np.zeros(a.shape, a.dtype)

        def fetch(member: Member, number: int) -> None:
            start, stop, _, array = columns[number]
            if lower:
                transfers.download(member, array, factor[start:, start:stop])
            else:
                transfers.download(member, _adjoint(array), factor[start:stop, start:])

        owners = [column.member for column in columns]
        group.for_blocks(owners, fetch, waits=True, can_move=False)
        return factor

    def fill(member: Member, number: int) -> GroupBlock:
        start, stop, _, array = columns[number]
        width = stop - start
        block = member.empty((a.shape[0], width) if lower else (width, a.shape[0]), a.dtype)
        block.fill(0)
        if lower:
            block[start:] = on_device(group, member, array)
        else:
            block[:, start:] = _adjoint(on_device(group, member, array))
        return GroupBlock(start, stop, member, block)

    blocks = group.for_blocks([column.member for column in columns], fill)
    return GroupArray(group, a.shape, a.dtype, 1 if lower else 0, blocks)


def _adjoint(array: Array) -> Array:
    return (array.conj() if array.dtype.kind == "c" else array).T


def cho_solve(group: DeviceGroup, arguments: Mapping[str, Any]) -> Any:
    """Solve with a factor; the arguments are those of :func:`portable_gpu.linalg.cho_solve`.

    The right-hand sides are moved from device to device, in the order of the block columns, forward
    and back; 256 and more of them are cut into panels, so that devices work at the same time.

    Returns:
        A replicated :class:`GroupArray` if ``b`` is an array of the group, else one of NumPy.
    """
    refuse(arguments, "out", "a", "refine")
    if arguments["overwrite_b"]:
        raise UnsupportedError("overwrite_b= is not taken with engine= a DeviceGroup")
    c, lower = arguments["c_and_lower"], arguments["lower"]
    if isinstance(c, tuple):
        c, lower = c
    lower, precision = flag(bool(lower), "lower"), arguments["precision"]
    factor, b = operand(group, c, "c"), operand(group, arguments["b"], "b")
    if factor.ndim != 2 or factor.shape[0] != factor.shape[1]:
        raise ShapeError(f"the factor has shape {factor.shape}; expected a square matrix")
    if b.ndim not in (1, 2) or b.shape[0] != factor.shape[0]:
        raise ShapeError(f"b has shape {b.shape}; {factor.shape[0]} rows are needed")
    dtype = common_dtype(factor.dtype, b.dtype)
    if dtype != factor.dtype:
        raise ArgumentError(f"b is {b.dtype}, and the factor is {factor.dtype}; convert one")
    values = np.asarray(b.asnumpy() if isinstance(b, GroupArray) else b, dtype)

    def solved() -> np.ndarray[Any, Any]:
        x = values.reshape(len(values), -1).copy()
        if x.size:
            substitute(_columns(group, factor, lower, failures.working(group)), x, precision)
        return x.reshape(b.shape)

    x = failures.run_with_retry(group, solved)
    return group.broadcast(x) if isinstance(b, GroupArray) else x
