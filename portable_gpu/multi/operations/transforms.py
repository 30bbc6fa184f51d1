"""Fourier transforms on a group, by slabs.

Each device transforms its blocks along the axes that are not cut.  If the axis of the blocks is
transformed too, the blocks are exchanged for blocks of another axis, which have all of that one::

    | slab 0 |                     |   |   |   |
    | slab 1 |  -> exchange ->     | 0 | 1 | 2 |  -> the transform along the first axis
    | slab 2 |                     |   |   |   |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from portable_gpu.errors import UnsupportedError
from portable_gpu.multi import transfers
from portable_gpu.multi.array import GroupArray, GroupBlock
from portable_gpu.multi.member import Member
from portable_gpu.multi.operations.host_arrays import compute_on_host, in_parts
from portable_gpu.multi.operations.operands import (
    Cut,
    compute_on_each,
    kernels,
    on_device,
    operand,
    refuse,
)
from portable_gpu.ops.fft import call
from portable_gpu.runtime.views import check_output

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup

#: The least bytes of a row that a command for copies of boxes copies fast on GPUs.
_LEAST_ROW = 1 << 11


def transform(group: DeviceGroup, arguments: Mapping[str, Any]) -> Any:
    """Transform an array; the arguments are those of :func:`portable_gpu.ops.fft.call.transform`.

    Returns:
        For an array of the group a :class:`GroupArray`: in the same blocks, if their axis is not
        transformed, else in blocks along the longest other axis.  For one of NumPy one of NumPy.

    Raises:
        UnsupportedError: The transform is of real numbers or of cosines, or the array has one axis.
    """
    if arguments["kind"] != "c2c":
        raise UnsupportedError(
            "engine is a DeviceGroup, which computes fft, fft2, fftn and their inverses alone"
        )
    x = operand(group, arguments["x"], "x")
    lengths, axes = (call.whole_numbers(arguments[name], name) for name in ("s", "axes"))
    places, lengths = call.axes_and_lengths(x, lengths, axes, "c2c")
    job = _SlabTransform(
        group, arguments["norm"], arguments["inverse"], dict(zip(places, lengths, strict=True))
    )
    shape = tuple(job.lengths.get(axis, extent) for axis, extent in enumerate(x.shape))
    if isinstance(x, GroupArray):
        refuse(arguments, "out")
        return _of_group(job, x, shape)
    return _on_host(job, x, shape, arguments["out"])


class _SlabTransform:
    """A transform, without its arrays.

    Attributes:
        group, norm, inverse: See :func:`portable_gpu.ops.fft.call.transform`.
        lengths: The length of the transform along each of its axes.
    """

    def __init__(
        self, group: DeviceGroup, norm: str | None, inverse: bool, lengths: Mapping[int, int]
    ) -> None:
        self.group, self.norm, self.inverse, self.lengths = group, norm, inverse, lengths

    def compute(self, x: Any, axes: Sequence[int], engine: Any, out: Any = None) -> Any:
        """Transform a part of the array along some of the axes on one device."""
        lengths = tuple(self.lengths[axis] for axis in axes)
        return call.transform(
            "c2c", x, lengths, tuple(axes), self.norm, inverse=self.inverse, out=out, engine=engine
        )

    def others(self, cut: int) -> list[int]:
        """Return the axes of the transform that are not cut."""
        return [axis for axis in self.lengths if axis != cut]

    def of_blocks(self, x: GroupArray, axes: Sequence[int], shape: tuple[int, ...]) -> GroupArray:
        """Transform the blocks of an array along axes that are not cut."""

        def work(member: Member, number: int) -> GroupBlock:
            block = x.blocks[number]
            its = on_device(self.group, member, block.array)
            with kernels(member, number, False):
                result = self.compute(its, axes, member.engine)
                # What waits for this block waits for no later one.
                result.events = [cl.enqueue_marker(member.engine.queue)]
            return GroupBlock(block.start, block.stop, member, member.count(result))

        blocks = self.group.for_blocks([block.member for block in x.blocks], work)
        return GroupArray(self.group, shape, blocks[0].array.dtype, x.axis, blocks)


def _of_group(job: _SlabTransform, x: GroupArray, shape: tuple[int, ...]) -> GroupArray:
    """Transform an array of the group."""
    if x.axis is None:

        def whole(x: Any, out: Any, engine: Any) -> Any:
            return job.compute(x, list(job.lengths), engine, out)

        return compute_on_each(job.group, whole, {"x": x})
    if x.axis not in job.lengths:
        return job.of_blocks(x, list(job.lengths), shape)
    others = [axis for axis in range(x.ndim) if axis != x.axis]
    if not others:
        raise UnsupportedError(
            "x has one axis, which is cut; a transform by a DeviceGroup needs a second axis, and "
            "x.gather() copies x to one device"
        )
    between = [*shape]
    between[x.axis] = x.shape[x.axis]
    first = x.axis
    if job.others(first):
        x = job.of_blocks(x, job.others(first), tuple(between))
    axis = max(others, key=lambda each: (between[each], -each))
    x = exchanged(x, axis)  # frees the blocks of the other axis, whose memory the results take
    return job.of_blocks(x, [first], shape)


def exchanged(x: GroupArray, axis: int) -> GroupArray:
    """Return an array in blocks along another axis."""
    assert x.axis is not None
    before = x.axis
    group = x.group
    bounds = group.bounds(x.shape[axis], x.nbytes)
    owners = group.owners(len(bounds) - 1)
    devices = list(dict.fromkeys(owners))
    numbers = [[k for k, owner in enumerate(owners) if owner is member] for member in devices]

    def work(member: Member, number: int) -> list[GroupBlock]:
        blocks = []
        for k in numbers[number]:
            extents = [*x.shape]
            extents[axis] = bounds[k + 1] - bounds[k]
            array = member.empty(extents, x.dtype)
            blocks.append(GroupBlock(bounds[k], bounds[k + 1], member, array))
        # The next device sends first, so that devices do not all receive from the same one.
        senders = sorted(group.members, key=lambda each: (each.index - member.index) % group.size)
        for sender in senders:
            sources = [each for each in x.blocks if each.member is sender and each.array.size]
            boxes = [
                transfers.common_box(
                    source.array, before, source.start, block.array, axis, block.start
                )
                for source in sources
                for block in blocks
            ]
            if not all(map(_has_long_rows, boxes)):
                for source in sources:
                    _copy_by_kernels(source, before, blocks, axis, member)
            elif sender is member:
                with member.named_errors():
                    for box in boxes:
                        transfers.copy_box(member, box)
                    copied = cl.enqueue_marker(member.engine.queue)
                for block in blocks:
                    block.array.events = [copied]
            else:
                transfers.move_boxes(sender, boxes, member)
        return blocks

    made = group.for_blocks(devices, work, waits=group.size > 1)
    blocks = [block for its in made for block in its]
    return GroupArray(group, x.shape, x.dtype, axis, blocks)


def _has_long_rows(box: transfers.Box) -> bool:
    """Return whether commands for copies of boxes copy a box fast; its array is in C order."""
    array = box.source.array
    return box.extents[0] >= _LEAST_ROW and array.flags.c_contiguous and not array.offset


def _copy_by_kernels(
    source: GroupBlock, before: int, blocks: Sequence[GroupBlock], axis: int, member: Member
) -> None:
    """Copy what blocks of a device along ``axis`` need of a block along the axis ``before``."""
    first, end = blocks[0].start, blocks[-1].stop
    piece = transfers.part(source.array, axis, first, end)
    if source.member is not member:
        piece = transfers.move(source.member, piece, member)
    with member.named_errors():
        for block in blocks:
            target = transfers.part(block.array, before, source.start, source.stop)
            target[...] = transfers.part(piece, axis, block.start - first, block.stop - first)


def _on_host(job: _SlabTransform, x: Any, shape: tuple[int, ...], out: Any) -> Any:
    """Transform an array of NumPy."""
    group = job.group
    dtype = np.result_type(call.dtype_of_transforms(x.dtype, "c2c"), np.complex64)
    if out is not None:
        check_output(out, shape, dtype, "out", True)
    apart = [axis for axis in range(x.ndim) if axis not in job.lengths]
    if not prod(shape) or not x.size or not job.lengths:
        return job.compute(x, list(job.lengths), group.engines[0], out)
    if x.ndim == 1:
        raise UnsupportedError("x has one axis; a transform by a DeviceGroup needs a second axis")
    result: Any = np.empty(shape, dtype) if out is None else out

    def in_blocks(source: Any, target: Any, cut_axis: int, axes: Sequence[int]) -> None:
        bounds = group.bounds(source.shape[cut_axis], max(source.nbytes, target.nbytes))
        cut = Cut(cut_axis, bounds, group.owners(len(bounds) - 1))

        def enqueue(blocks: Sequence[Any], part: Any, engine: Any) -> None:
            job.compute(blocks[0], axes, engine, part)

        compute_on_host(group, cut, [in_parts(source, cut_axis)], target, enqueue)

    if apart:
        in_blocks(x, result, max(apart, key=lambda axis: x.shape[axis]), list(job.lengths))
        return result
    first, *others = range(x.ndim)
    between = np.empty((x.shape[first], *shape[1:]), dtype)
    in_blocks(x, between, first, job.others(first))
    in_blocks(between, result, max(others, key=lambda axis: shape[axis]), [first])
    return result
