"""The operands of a call on a group: where each block of them is.

An operand is an array of NumPy, an array in blocks, a replicated one, or a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from portable_gpu.arguments import shown, whole
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    DeviceMemoryError,
    DTypeError,
    ShapeError,
    UnsupportedError,
)
from portable_gpu.multi import moves, transfers
from portable_gpu.multi.array import GroupArray
from portable_gpu.multi.collectives import owners_of, replicated
from portable_gpu.multi.failures import working
from portable_gpu.multi.member import Member
from portable_gpu.multi.timeline import current_call
from portable_gpu.runtime.array import DEVICE_KINDS, Array
from portable_gpu.runtime.views import as_array, check_no_overlap, check_output

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup
    from portable_gpu.runtime.engine import Engine

T = TypeVar("T")


def axis_of(axis: Any, ndim: int, name: str) -> int:
    """Return an axis counted from 0.

    Raises:
        AxisError: The array has no such axis.
    """
    number = whole(axis, name)
    if not -ndim <= number < ndim:
        raise AxisError(f"{name} is {number}, and the array has {ndim} axes")
    return number % ndim


def check_parts(arrays: Sequence[Any], axis: int) -> None:
    """Check that arrays differ along one axis at most.

    Raises:
        ShapeError, DTypeError: They do not.
    """
    first = arrays[0]
    for number, array in enumerate(arrays):
        if array.dtype != first.dtype:
            raise DTypeError(f"part {number} has dtype {array.dtype}, and part 0 has {first.dtype}")
        rest = [extent for at, extent in enumerate(array.shape) if at != axis]
        of_first = [extent for at, extent in enumerate(first.shape) if at != axis]
        if array.ndim != first.ndim or rest != of_first:
            raise ShapeError(
                f"part {number} has shape {array.shape}, and part 0 has {first.shape}; "
                f"parts differ along axis {axis} at most"
            )


class Cut(NamedTuple):
    """The blocks of the work of a call.

    Attributes:
        axis: The axis that is cut into blocks.
        bounds: The first index of each block, and the extent of the axis.
        members: The device of each block.
    """

    axis: int
    bounds: Sequence[int]
    members: Sequence[Member]

    def range(self, number: int) -> tuple[int, int]:
        """Return the first index of a block, and its end."""
        return self.bounds[number], self.bounds[number + 1]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The range of each block."""
        return [self.range(number) for number in range(len(self.members))]


def operand(group: DeviceGroup, value: Any, name: str) -> Any:
    """Return an argument as an array of the group or of NumPy.

    Raises:
        ArgumentError: It is an array of another group.
        ArgumentTypeError: It is an array on one device.
        DTypeError: The dtype is not supported.
    """
    if isinstance(value, GroupArray):
        group.check_own(value, name)
        return value
    if isinstance(value, DEVICE_KINDS):
        raise ArgumentTypeError(
            f"{name} is an array on one device; group.broadcast({name}) copies it to each, and "
            f"group.asarray({name}) in blocks"
        )
    return as_array(value, name)


def refuse(arguments: Mapping[str, Any], *names: str) -> None:
    """Refuse options that a group does not take.

    Raises:
        UnsupportedError: One of them is not ``None``.
    """
    for name in names:
        if arguments[name] is not None:
            raise UnsupportedError(f"{name}= is not taken with engine= a DeviceGroup")


def check_kind(group: DeviceGroup, out: Any, on_host: bool) -> None:
    """Check that ``out`` is an array of NumPy or of the group, as the result is.

    Raises:
        ArgumentTypeError, ArgumentError: It is not.
    """
    if out is None:
        return
    if not on_host and isinstance(out, GroupArray):
        group.check_own(out, "out")
    elif not on_host or not isinstance(out, np.ndarray):
        kind = "an array of NumPy" if on_host else "an array of the group"
        raise ArgumentTypeError(f"out is {shown(out)}; expected {kind}")


def check_out(out: Any, shape: Sequence[int], dtype: Any, inputs: Mapping[str, Any]) -> None:
    """Check that ``out``, which is of the right kind, fits the result.

    Args:
        out: An array of NumPy or of the group, or ``None``.
        shape: The shape of the result.
        dtype: Its dtype.
        inputs: The operands by their names; they may not share memory with ``out``.

    Raises:
        ShapeError, DTypeError, ReadOnlyError, OverlapError: It does not.
    """
    if isinstance(out, np.ndarray):
        check_output(out, tuple(shape), dtype, "out", True)
        check_no_overlap(out, "out", [(x, name) for name, x in inputs.items()])
    elif out is not None:
        if out.shape != tuple(shape):
            raise ShapeError(f"out has shape {out.shape}, the result has {tuple(shape)}")
        if out.dtype != dtype:
            raise DTypeError(f"out has dtype {out.dtype}, the result has {dtype}")


def cut_of(arrays: Iterable[Any], ndim: int, shape: Sequence[int]) -> Cut | None:
    """Return the blocks of the first array that is cut, for a shape to which it is broadcast."""
    for x in arrays:
        if isinstance(x, GroupArray) and x.axis is not None:
            axis = x.axis + ndim - x.ndim
            if x.shape[x.axis] == shape[axis]:
                return Cut(axis, x.bounds, owners_of(x.group, x.blocks))
    return None


def blocks_of(x: Any, cut: Cut) -> list[Any]:
    """Return what each block of a call reads of an operand: views, arrays on a device, or copies.

    Args:
        x: An array of NumPy or of the group.
        cut: The blocks of the call, along an axis of ``x``.

    Raises:
        ArgumentError: ``x`` is cut along another axis, or elsewhere.
    """
    if isinstance(x, np.ndarray) or x.axis is None:
        return [transfers.part(x, cut.axis, *pair) for pair in cut.ranges]
    if x.axis != cut.axis or x.bounds != tuple(cut.bounds):
        raise ArgumentError(
            f"an operand is cut along axis {x.axis} at {_some(x.bounds)}, and the call needs it "
            f"along axis {cut.axis} at {_some(cut.bounds)}; group.broadcast(x) copies all of it to "
            "each device"
        )
    return [block.array for block in x.blocks]


def copies_of(group: DeviceGroup, x: Any, cut: Cut) -> list[Any]:
    """Return, for each block, an operand of which it reads all: the replicated array."""
    return [group.broadcast(x)] * len(cut.members)


def on_device(group: DeviceGroup, member: Member, values: Any) -> Array:
    """Return values on a device: its own array, its copy of a replicated array, or a new copy.

    A block whose device failed has operands there; they are copied to the device that computes it.
    """
    if isinstance(values, GroupArray):
        return values.copy_on(member)
    if isinstance(values, np.ndarray):
        fresh = member.empty(values.shape, values.dtype)
        transfers.upload(member, values, fresh)
        return fresh
    array: Array = values
    if array.context == member.engine.context:
        return array
    source = next(m for m in group.members if m.engine.context == array.context)
    return moves.move(source, array, member)


def compute_on_each(
    group: DeviceGroup,
    compute: Callable[..., Any],
    arrays: Mapping[str, Any],
    out: Any = None,
) -> GroupArray:
    """Compute the same call on each device.

    Args:
        group: The group.
        compute: Makes the call, given the arrays by their names, ``out`` and ``engine``.
        arrays: Its arrays, which are copied to each device that has no copy.
        out: A replicated array for the result, or ``None``.
    """
    copies = {name: group.broadcast(x) for name, x in arrays.items()}
    members = working(group) if out is None else [block.member for block in out.blocks]

    def work(member: Member, _: int) -> tuple[Member, Array]:
        arrays = {name: x.copy_on(member) for name, x in copies.items()}
        target = None if out is None else out.copy_on(member)
        with recorded_kernels(member, member.index):
            result: Array = compute(**arrays, out=target, engine=member.engine)
        return member, member.count(result) if out is None else result

    results = group.for_blocks(members, work, can_move=False)
    replicas: GroupArray = replicated(group, results) if out is None else out
    return replicas


def compute_on_one(group: DeviceGroup, compute: Callable[[Engine], T]) -> T:
    """Compute a call of arrays of NumPy that is not cut on one device.

    Args:
        group: The group.
        compute: Makes the call, given the engine.

    Raises:
        DeviceMemoryError, DeviceFailedError: As :meth:`DeviceGroup.for_blocks`, for block 0 of 1.
    """

    def work(member: Member, number: int) -> T:
        with recorded_kernels(member, number, on_host=True):
            return compute(member.engine)

    [result] = group.for_blocks(group.members[:1], work)
    return result


def check_target(member: Member, target: Any) -> None:
    """Check that a block of ``out`` is on a device.

    Raises:
        DeviceMemoryError: It is on another, because its device failed and this one is tried.
    """
    if target is not None and target.context != member.engine.context:
        raise DeviceMemoryError("the block of out= is on another device")


def recorded_kernels(
    member: Member, number: int, *, on_host: bool = False
) -> AbstractContextManager[None]:
    """Record the kernels of a block in the timeline, if one is recorded, and name their errors.

    Args:
        member, number: The device and the block.
        on_host: Whether the call waits for the kernels, because its arrays are NumPy's.
    """
    if not member.recorders:
        return member.named_errors()
    return _recorded(member, number, on_host)


@contextmanager
def _recorded(member: Member, number: int, on_host: bool) -> Iterator[None]:
    """See :func:`recorded_kernels`."""
    queue = None if on_host else member.engine.queue
    name = f"{current_call.get()}, block {number}"
    with member.named_errors(), member.recorded(name, queue):
        yield


def _some(bounds: Sequence[int]) -> str:
    text = ", ".join(map(str, bounds[:4]))
    return text + (", ..." if len(bounds) > 4 else "")
