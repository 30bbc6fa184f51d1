"""Expressions of arrays on a group, element by element: each device computes its blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.dtypes import as_dtype
from portable_gpu.multi.array import GroupArray, GroupBlock
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
    copies_of,
    cut_of,
    on_device,
    operand,
    recorded_kernels,
)
from portable_gpu.ops.elementwise import elementwise as compute
from portable_gpu.ops.elementwise.api import common_of, updated_inputs
from portable_gpu.runtime.broadcast import NUMBERS, broadcast

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup

_NUMBERS = (*NUMBERS, np.generic)


def elementwise(group: DeviceGroup, arguments: Mapping[str, Any]) -> Any:
    """Compute an expression; the arguments are those of :func:`portable_gpu.elementwise`.

    Returns:
        For arrays of the group a :class:`GroupArray`: in the blocks of ``out``, else of the first
        operand that is cut, or replicated.  For arrays of NumPy one of NumPy.
    """
    numbers: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for name, value in arguments["inputs"].items():
        if isinstance(value, _NUMBERS):
            numbers[name] = value
            continue
        array = operand(group, value, name)
        if isinstance(array, np.ndarray) and not array.shape:
            numbers[name] = array[()]
        else:
            arrays[name] = array
    out, dtype = arguments["out"], arguments["dtype"]
    shape = broadcast({name: x.shape for name, x in arrays.items()}) if arrays else ()
    on_host = not any(isinstance(x, GroupArray) for x in (*arrays.values(), out))
    check_kind(group, out, on_host)
    options = {"dtype": dtype, **numbers}
    evaluate = partial(compute, arguments["expression"])
    if on_host and (not shape or not prod(shape)):
        return compute_on_one(
            group, lambda engine: evaluate(**options, **arrays, out=out, engine=engine)
        )
    result_dtype = common_of(arrays, numbers) if dtype is None else as_dtype(dtype)
    updated = [] if out is None else updated_inputs(out, arrays)
    others = {name: x for name, x in arrays.items() if name not in updated}
    check_out(out, shape, result_dtype, others)
    if on_host:
        result = np.empty(shape, result_dtype) if out is None else out
        _on_host(group, evaluate, others, updated, options, result)
        return result
    cut = cut_of(arrays.values() if out is None else [out], len(shape), shape)
    if cut is None:
        return compute_on_each(group, partial(evaluate, **options), arrays, out)
    operands = {name: _aligned(group, x, cut, shape) for name, x in others.items()}
    outs = None if out is None else blocks_of(out, cut)

    def work(member: Member, number: int) -> GroupBlock:
        blocks: dict[str, Any] = {
            name: on_device(group, member, x[number]) for name, x in operands.items()
        }
        target = None if outs is None else outs[number]
        check_target(member, target)
        blocks |= dict.fromkeys(updated, target)
        with recorded_kernels(member, number):
            result = evaluate(**options, **blocks, out=target, engine=member.engine)
        return GroupBlock(
            *cut.range(number), member, member.count(result) if out is None else result
        )

    waits = any(isinstance(x, np.ndarray) for x in arrays.values())
    blocks = group.for_blocks(cut.members, work, waits=waits)
    if out is not None:
        return out
    return GroupArray(group, shape, blocks[0].array.dtype, cut.axis, blocks)


def _on_host(
    group: DeviceGroup,
    evaluate: Any,
    arrays: Mapping[str, Any],
    updated: Sequence[str],
    options: Mapping[str, Any],
    result: Any,
) -> None:
    """Compute an expression of arrays of NumPy.

    Args:
        group: The group.
        evaluate: Computes the expression of blocks.
        arrays: The inputs that are arrays.
        updated: The names of inputs that are ``result`` itself.
        options: The other arguments.
        result: The array for the result.
    """
    bounds = group.bounds(len(result), result.nbytes)
    cut = Cut(0, bounds, group.owners(len(bounds) - 1))
    operands = []
    for x in arrays.values():
        axis = _axis_in(x, 0, result.shape)
        operands.append(as_whole(group, x) if axis is None else in_parts(x, axis))

    def enqueue(blocks: Sequence[Any], target: Any, engine: Any) -> None:
        named = dict(zip(arrays, blocks, strict=True)) | dict.fromkeys(updated, target)
        evaluate(**options, **named, out=target, engine=engine)

    compute_on_host(group, cut, operands, result, enqueue, reads_result=bool(updated))


def _aligned(group: DeviceGroup, x: Any, cut: Cut, shape: tuple[int, ...]) -> list[Any]:
    """Return what each block reads of an operand that broadcasts to a shape."""
    axis = _axis_in(x, cut.axis, shape)
    return copies_of(group, x, cut) if axis is None else blocks_of(x, cut._replace(axis=axis))


def _axis_in(x: Any, axis: int, shape: tuple[int, ...]) -> int | None:
    """Return the axis of an operand that is an axis of a shape; ``None`` if it broadcasts there."""
    operand_axis = axis - (len(shape) - x.ndim)
    return operand_axis if operand_axis >= 0 and x.shape[operand_axis] == shape[axis] else None
