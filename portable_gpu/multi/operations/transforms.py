"""Fourier transforms of complex and real numbers on a group, by slabs.

Each device transforms its blocks along the axes that are not cut.  If the axis of the blocks is
transformed too, the blocks are exchanged for blocks of another axis, which have all of that one::

    | slab 0 |                     |   |   |   |
    | slab 1 |  -> exchange ->     | 0 | 1 | 2 |  -> the transform along the first axis
    | slab 2 |                     |   |   |   |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyopencl as cl

from portable_gpu.errors import UnsupportedError
from portable_gpu.multi import moves, transfers
from portable_gpu.multi.array import GroupArray, GroupBlock
from portable_gpu.multi.collectives import owners_of
from portable_gpu.multi.member import DEVICE_ERRORS, Member
from portable_gpu.multi.operations.host_arrays import compute_on_host, in_parts
from portable_gpu.multi.operations.operands import (
    Cut,
    compute_on_each,
    compute_on_one,
    on_device,
    operand,
    recorded_kernels,
    refuse,
)
from portable_gpu.ops.fft import call
from portable_gpu.ops.fft.problem import TransformKind
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.views import check_output

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup

#: The least bytes of a row that a command for copies of boxes copies fast on GPUs.
_LEAST_ROW = 1 << 11
#: New blocks of an exchange are in memory of a pool if they take at most this fraction of the
#: memory of a device, 1 / 32: a pool frees what it has unused above 1 / 16, where a driver may wait
#: for all kernels.
_POOLED_DIVISOR = 32


def transform(group: DeviceGroup, arguments: Mapping[str, Any]) -> Any:
    """Transform an array; the arguments are those of :func:`portable_gpu.ops.fft.call.transform`.

    Returns:
        For an array of the group a :class:`GroupArray`: in the same blocks, if their axis is not
        transformed, else in blocks along another axis.  For one of NumPy one of NumPy.

    Raises:
        UnsupportedError: The array has one axis, which is cut.
    """
    x, kind = operand(group, arguments["x"], "x"), arguments["kind"]
    lengths, axes = (call.whole_numbers(arguments[name], name) for name in ("s", "axes"))
    places, lengths = call.axes_and_lengths(x, lengths, axes, kind)
    real = call.dtype_of_transforms(x.dtype, kind)
    job = _SlabTransform(
        group, kind, arguments["norm"], arguments["inverse"],
        dict(zip(places, lengths, strict=True)), np.result_type(real, np.complex64),
    )  # fmt: skip
    if isinstance(x, GroupArray):
        refuse(arguments, "out")
        return _of_group(job, x)
    return _on_host(job, x, arguments["out"])


class _Stage(NamedTuple):
    """A part of a transform, which each device computes for its blocks.

    Attributes:
        cut: The axis of the blocks, which is not transformed.
        kind: Whether input and output are complex, real, or half of a spectrum.
        axes: The axes that are transformed; the last one is that of real numbers.
    """

    cut: int
    kind: TransformKind
    axes: tuple[int, ...]


class _SlabTransform:
    """A transform, without its arrays.

    Attributes:
        group, kind, norm, inverse: See :func:`portable_gpu.ops.fft.call.transform`.
        lengths: The length of the transform along each of its axes.
        spectrum: The dtype of complex results.
    """

    def __init__(
        self,
        group: DeviceGroup,
        kind: TransformKind,
        norm: str | None,
        inverse: bool,
        lengths: Mapping[int, int],
        spectrum: np.dtype[Any],
    ) -> None:
        self.group, self.kind, self.norm, self.inverse = group, kind, norm, inverse
        self.lengths, self.spectrum = lengths, spectrum

    @property
    def whole(self) -> _Stage:
        """The whole transform, of arrays that are not cut."""
        return _Stage(-1, self.kind, tuple(self.lengths))

    def shape(self, stage: _Stage, before: Sequence[int]) -> tuple[int, ...]:
        """Return the shape after a stage."""
        shape = [*before]
        for axis in stage.axes:
            shape[axis] = self.lengths[axis]
        if stage.kind == "r2c":
            shape[stage.axes[-1]] = self.lengths[stage.axes[-1]] // 2 + 1
        return tuple(shape)

    def stages(self, cut: int, shape: Sequence[int]) -> list[_Stage]:
        """Return the stages of an array in blocks along an axis.

        The transform from real numbers is in the first stage, that to real numbers in the last.

        Args:
            cut: The axis.
            shape: The shape of the result; where several axes could be cut next, the longest is.

        Raises:
            UnsupportedError: The array has one axis.
        """
        axes, kind = tuple(self.lengths), self.kind
        if cut not in axes:
            return [_Stage(cut, kind, axes)]
        others = [axis for axis in range(len(shape)) if axis != cut]
        if not others:
            raise UnsupportedError(
                "x has one axis, which is cut; a transform by a DeviceGroup needs a second axis, "
                "and x.gather() copies x to one device"
            )

        def longest(candidates: Sequence[int]) -> int:
            return max(candidates, key=lambda axis: (shape[axis], -axis))

        last = axes[-1]
        if kind == "r2c" and cut == last:
            return self.stages(longest(others), shape)
        rest = tuple(axis for axis in axes if axis != cut and (kind != "c2r" or axis != last))
        first = [_Stage(cut, "c2c" if kind == "c2r" else kind, rest)] if rest else []
        if kind != "c2r":
            return [*first, _Stage(longest(others), "c2c", (cut,))]
        if cut == last:
            return [*first, _Stage(longest(others), "c2r", (last,))]
        if candidates := [axis for axis in others if axis != last]:
            return [*first, _Stage(longest(candidates), "c2r", (cut, last))]
        return [*first, _Stage(last, "c2c", (cut,)), _Stage(cut, "c2r", (last,))]

    def compute(self, stage: _Stage, x: Any, engine: Any, out: Any = None) -> Any:
        """Compute a stage of a part of the array on one device."""
        lengths = tuple(self.lengths[axis] for axis in stage.axes)
        return call.transform(
            stage.kind, x, lengths, stage.axes, self.norm, inverse=self.inverse, out=out,
            engine=engine,
        )  # fmt: skip

    def of_blocks(self, x: GroupArray, stage: _Stage) -> GroupArray:
        """Compute a stage of the blocks of an array."""

        def work(member: Member, number: int) -> GroupBlock:
            block = x.blocks[number]
            array = on_device(self.group, member, block.array)
            with recorded_kernels(member, number):
                result = self.compute(stage, array, member.engine)
                # A copy of this block need not wait for later blocks.
                result.events = [cl.enqueue_marker(member.engine.queue)]
            return GroupBlock(block.start, block.stop, member, member.count(result))

        blocks = self.group.for_blocks(owners_of(self.group, x.blocks), work)
        shape = self.shape(stage, x.shape)
        return GroupArray(self.group, shape, blocks[0].array.dtype, x.axis, blocks)


def _of_group(job: _SlabTransform, x: GroupArray) -> GroupArray:
    """Transform an array of the group."""
    if x.axis is None:

        def whole(x: Any, out: Any, engine: Any) -> Any:
            return job.compute(job.whole, x, engine, out)

        return compute_on_each(job.group, whole, {"x": x})
    stages = job.stages(x.axis, job.shape(job.whole, x.shape))
    exchange: _Exchange | None = None
    for stage, following in zip(stages, [*stages[1:], None], strict=True):
        if x.axis != stage.cut:  # frees the blocks of before for the results
            x = exchanged(x, stage.cut) if exchange is None else exchange.run(x)
        exchange = None
        if following is not None and following.cut != stage.cut:
            # Before kernels are enqueued: memory that is allocated later is free when they end.
            shape = job.shape(stage, x.shape)
            exchange = _Exchange(job.group, shape, job.spectrum, following.cut)
            exchange.allocate()
        x = job.of_blocks(x, stage)
    return x


def exchanged(x: GroupArray, axis: int) -> GroupArray:
    """Return an array in blocks along another axis."""
    return _Exchange(x.group, x.shape, x.dtype, axis).run(x)


class _Exchange:
    """An exchange of the blocks of an array for blocks along another axis."""

    def __init__(
        self, group: DeviceGroup, shape: Sequence[int], dtype: np.dtype[Any], axis: int
    ) -> None:
        """Cut the axis.

        Args:
            group: The group.
            shape, dtype: The shape and the dtype of the array.
            axis: The axis of the new blocks.
        """
        self._group, self._shape, self._dtype, self._axis = group, tuple(shape), dtype, axis
        self._bounds = group.bounds(shape[axis], prod(shape) * dtype.itemsize)
        owners = group.owners(len(self._bounds) - 1)
        self._devices = list(dict.fromkeys(owners))
        self._numbers = [
            [k for k, owner in enumerate(owners) if owner is member] for member in self._devices
        ]
        self._allocated: dict[tuple[Member, int], list[GroupBlock]] = {}

    def allocate(self) -> None:
        """Allocate the new blocks in memory of pools, before kernels are enqueued."""
        length = self._bounds[-1]
        for number, member in enumerate(self._devices):
            indices = sum(self._bounds[k + 1] - self._bounds[k] for k in self._numbers[number])
            nbytes = prod(self._shape) * self._dtype.itemsize * indices // max(1, length)
            if nbytes > member.engine.target.facts.global_mem_size // _POOLED_DIVISOR:
                continue
            with suppress(*DEVICE_ERRORS):  # then the exchange allocates them
                blocks = self._blocks(number, member.pooled, member)
                member.copies_after_kernels()
                self._allocated[member, number] = blocks

    def run(self, x: GroupArray) -> GroupArray:
        """Return the array in the new blocks."""
        made = self._group.for_blocks(
            self._devices, partial(self._receive, x), waits=self._group.size > 1
        )
        blocks = [block for of_device in made for block in of_device]
        return GroupArray(self._group, x.shape, x.dtype, self._axis, blocks)

    def _blocks(
        self, number: int, allocate: Callable[[Sequence[int], Any], Array], member: Member
    ) -> list[GroupBlock]:
        """Allocate the new blocks of a device."""
        blocks = []
        for k in self._numbers[number]:
            start, stop = self._bounds[k : k + 2]
            extents = [*self._shape]
            extents[self._axis] = stop - start
            blocks.append(GroupBlock(start, stop, member, allocate(extents, self._dtype)))
        return blocks

    def _receive(self, x: GroupArray, member: Member, number: int) -> list[GroupBlock]:
        """Copy what the new blocks of a device have of the other ones."""
        assert x.axis is not None
        before, axis, group = x.axis, self._axis, self._group
        blocks = self._allocated.pop((member, number), None)
        if blocks is None:
            blocks = self._blocks(number, member.empty, member)
        # The next device sends first, so that devices do not all receive from the same one.
        senders = sorted(
            group.members, key=lambda sender: (sender.index - member.index) % group.size
        )
        for sender in senders:
            sources = [block for block in x.blocks if block.member is sender and block.array.size]
            boxes = [
                moves.common_box(source.array, before, source.start, block.array, axis, block.start)
                for source in sources
                for block in blocks
            ]
            if not all(map(_has_long_rows, boxes)):
                for source in sources:
                    _copy_by_kernels(source, before, blocks, axis, member)
            elif sender is member:
                with member.named_errors():
                    for box in boxes:
                        moves.copy_box(member, box)
                    copied = cl.enqueue_marker(member.engine.queue)
                for block in blocks:
                    block.array.events = [copied]
            else:
                moves.move_boxes(sender, boxes, member)
        return blocks


def _has_long_rows(box: moves.Box) -> bool:
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
        piece = moves.move(source.member, piece, member)
    with member.named_errors():
        for block in blocks:
            target = transfers.part(block.array, before, source.start, source.stop)
            target[...] = transfers.part(piece, axis, block.start - first, block.stop - first)


def _on_host(job: _SlabTransform, x: Any, out: Any) -> Any:
    """Transform an array of NumPy."""
    group, shape = job.group, job.shape(job.whole, x.shape)
    dtype = job.spectrum
    if job.kind == "c2r":
        dtype = np.empty(0, dtype).real.dtype
    if out is not None:
        check_output(out, shape, dtype, "out", True)
    if not prod(shape) or not x.size or not job.lengths:
        return compute_on_one(group, lambda engine: job.compute(job.whole, x, engine, out))
    if x.ndim == 1:
        raise UnsupportedError("x has one axis; a transform by a DeviceGroup needs a second axis")
    result: Any = np.empty(shape, dtype) if out is None else out
    last = job.whole.axes[-1]
    cut = last if job.kind == "c2r" else 0 if job.kind == "c2c" or last else 1
    if untransformed := [axis for axis in range(x.ndim) if axis not in job.lengths]:
        cut = max(untransformed, key=lambda axis: x.shape[axis])
    stages = job.stages(cut, shape)
    for stage in stages:
        target = result
        if stage is not stages[-1]:
            target = np.empty(job.shape(stage, x.shape), job.spectrum)
        _stage_on_host(job, stage, x, target)
        x = target
    return result


def _stage_on_host(job: _SlabTransform, stage: _Stage, source: Any, target: Any) -> None:
    """Compute a stage of an array of NumPy."""
    group = job.group
    bounds = group.bounds(source.shape[stage.cut], max(source.nbytes, target.nbytes))
    cut = Cut(stage.cut, bounds, group.owners(len(bounds) - 1))

    def enqueue(blocks: Sequence[Any], part: Any, engine: Any) -> None:
        job.compute(stage, blocks[0], engine, part)

    compute_on_host(group, cut, [in_parts(source, stage.cut)], target, enqueue)
