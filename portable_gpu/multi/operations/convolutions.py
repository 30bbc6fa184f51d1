"""Convolutions on a group: each device convolves its blocks of images with all filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.errors import ArgumentError
from portable_gpu.multi.array import GroupArray, GroupBlock
from portable_gpu.multi.collectives import owners_of
from portable_gpu.multi.member import Member
from portable_gpu.multi.operations.host_arrays import as_whole, compute_on_host, in_parts
from portable_gpu.multi.operations.operands import (
    Cut,
    blocks_of,
    check_kind,
    check_out,
    check_target,
    compute_on_each,
    compute_on_one,
    on_device,
    operand,
    recorded_kernels,
    refuse,
)
from portable_gpu.ops.conv.api import common_dtype
from portable_gpu.ops.conv.functions import conv1d, conv2d, conv3d
from portable_gpu.ops.conv.shapes import Options, geometry

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup

_OPTIONS = ("stride", "padding", "dilation", "groups", "precision", "algo", "workspace_limit")
_NAMES = ("input", "weight", "the result")


def _convolution(
    compute: Callable[..., Any], rank: int, group: DeviceGroup, arguments: Mapping[str, Any]
) -> Any:
    """Convolve images.

    Args:
        compute: The function for one device.
        rank: The number of spatial axes.
        group: The group.
        arguments: Those of :func:`portable_gpu.nn.conv2d`.

    Returns:
        For arrays of the group a :class:`GroupArray`: in the blocks of ``out``, or else those of
        ``input``; replicated if that is.  For arrays of NumPy one of NumPy.

    Raises:
        ArgumentError: ``out`` or ``input`` is cut along another axis than that of the batch.
    """
    refuse(arguments, "epilogue")
    x = operand(group, arguments["input"], "input")
    filters = {
        name: operand(group, arguments[name], name)
        for name in ("weight", "bias")
        if arguments[name] is not None
    }
    out = arguments["out"]
    on_host = not any(isinstance(array, GroupArray) for array in (x, out, *filters.values()))
    check_kind(group, out, on_host)
    options = {name: arguments[name] for name in _OPTIONS}
    four = [options[name] for name in _OPTIONS[:4]]
    extents = geometry(Options(rank, *four), x.shape, filters["weight"].shape, None, _NAMES)
    shape = (extents.filters, *extents.y_size[3 - rank :])
    if extents.batched:
        shape = (extents.batch, *shape)
    convolve = partial(compute, **options)
    arrays = {"input": x, **filters}
    dtype = common_dtype(tuple(arrays.values()), tuple(arrays))
    check_out(out, shape, dtype, arrays)
    for name, array in (("input", x), ("out", out)):
        if isinstance(array, GroupArray) and array.axis not in (
            None,
            0 if extents.batched else None,
        ):
            raise ArgumentError(
                f"{name} is cut along axis {array.axis}; expected blocks of images (axis 0 of "
                f"{rank + 2}), or group.broadcast({name}), which copies all of it to each device"
            )
    if not extents.batched or x.shape[0] == 0:
        if on_host:
            return compute_on_one(group, lambda engine: convolve(**arrays, out=out, engine=engine))
        x = arrays["input"] = group.broadcast(x)
    like = x if out is None else out
    if isinstance(like, GroupArray) and like.axis is None:
        return compute_on_each(group, convolve, arrays, out)
    if isinstance(like, GroupArray):
        cut = Cut(0, like.bounds, owners_of(group, like.blocks))
    else:
        bounds = group.bounds(x.shape[0], max(x.nbytes, prod(shape) * x.dtype.itemsize))
        cut = Cut(0, bounds, group.owners(len(bounds) - 1))
    if on_host:
        result: Any = np.empty(shape, dtype) if out is None else out
        _on_host(group, convolve, arrays, cut, result)
        return result
    if isinstance(x, GroupArray) and (x.axis, x.bounds) != (0, tuple(cut.bounds)):
        x = group.broadcast(x)
    images = blocks_of(x, cut)
    copies = {name: group.broadcast(array) for name, array in filters.items()}
    outs = None if out is None else blocks_of(out, cut)

    def work(member: Member, number: int) -> GroupBlock:
        arguments = {name: replicated.copy_on(member) for name, replicated in copies.items()}
        target = None if outs is None else outs[number]
        check_target(member, target)
        moved_images = on_device(group, member, images[number])
        with recorded_kernels(member, number):
            result = convolve(moved_images, **arguments, out=target, engine=member.engine)
        return GroupBlock(
            *cut.range(number), member, member.count(result) if outs is None else result
        )

    blocks = group.for_blocks(cut.members, work, waits=isinstance(x, np.ndarray))
    if out is not None:
        return out
    return GroupArray(group, shape, blocks[0].array.dtype, 0, blocks)


def _on_host(
    group: DeviceGroup,
    convolve: Callable[..., Any],
    arrays: Mapping[str, Any],
    cut: Cut,
    result: Any,
) -> None:
    """Convolve images of NumPy."""
    x, *filters = arrays.values()
    reads = [in_parts(x, 0), *[as_whole(group, array) for array in filters]]

    def enqueue(blocks: Sequence[Any], target: Any, engine: Any) -> None:
        convolve(**dict(zip(arrays, blocks, strict=True)), out=target, engine=engine)

    compute_on_host(group, cut, reads, result, enqueue)


#: The convolutions by their names, for :data:`portable_gpu.multi.operations.FUNCTIONS`.
FUNCTIONS: dict[str, Callable[[DeviceGroup, Mapping[str, Any]], Any]] = {
    f"conv{rank}d": partial(_convolution, compute, rank)
    for rank, compute in ((1, conv1d), (2, conv2d), (3, conv3d))
}
