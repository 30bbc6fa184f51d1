"""Collective operations: copies of arrays on all devices, and sums by a fixed tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from portable_gpu.arguments import shown
from portable_gpu.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from portable_gpu.multi import moves, transfers
from portable_gpu.multi.array import GroupArray, GroupBlock
from portable_gpu.multi.failures import working
from portable_gpu.multi.issue import LEAST_BYTES_FOR_THREADS
from portable_gpu.multi.member import Member
from portable_gpu.multi.merge_tree import merged
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.runtime.array import Array

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup

#: Arrays on a device.
Arrays = tuple[Member, list[Array]]


def replicated(group: DeviceGroup, copies: Sequence[tuple[Member, Array]]) -> GroupArray:
    """Return the array of a group whose copies exist on some devices."""
    _, first = copies[0]
    blocks = [GroupBlock(0, 1, member, copy) for member, copy in copies]
    return GroupArray(group, first.shape, first.dtype, None, blocks)


def broadcast(group: DeviceGroup, x: Any) -> GroupArray:
    """``DeviceGroup.broadcast`` of an array of NumPy."""

    def copy(member: Member, _number: int) -> tuple[Member, Array]:
        array = member.empty(x.shape, x.dtype)
        transfers.upload(member, x, array)
        return member, array

    waits, members = x.nbytes >= LEAST_BYTES_FOR_THREADS, working(group)
    return replicated(group, group.for_blocks(members, copy, waits=waits, can_move=False))


def owners_of(group: DeviceGroup, blocks: Sequence[GroupBlock]) -> list[Member]:
    """Return the device that computes each block: its own, or another if that failed."""
    able = working(group)
    return [
        block.member if block.member in able else able[number % len(able)]
        for number, block in enumerate(blocks)
    ]


def spread(group: DeviceGroup, source: Member, array: Array) -> GroupArray:
    """Return copies of an array of one device on all devices."""
    copies = [
        (member, array if member is source else moves.move(source, array, member))
        for member in working(group)
    ]
    return replicated(group, copies)


def all_gather(x: GroupArray) -> GroupArray:
    """Return an array in blocks as copies on all devices."""
    if x.axis is None:
        return x
    group = x.group
    return replicated(group, [(member, transfers.gathered(x, member)) for member in working(group)])


def all_reduce(group: DeviceGroup, parts: Sequence[GroupBlock]) -> GroupArray:
    """``DeviceGroup.all_reduce``: pairs of neighbours are added, then pairs of these sums."""
    shape, dtype = parts[0].array.shape, parts[0].array.dtype
    for number, part in enumerate(parts):
        if part.array.shape != shape:
            raise ShapeError(
                f"part {number} has shape {part.array.shape}, and part 0 has {shape}; "
                "parts that are added have one shape"
            )
        if part.array.dtype != dtype:
            raise DTypeError(f"part {number} has dtype {part.array.dtype}, and part 0 has {dtype}")
    owners, moved = owners_of(group, parts), []
    for part, owner in zip(parts, owners, strict=True):
        array = part.array
        if owner is not part.member:
            array = moves.move(part.member, array, owner)
        moved.append((owner, [array]))
    member, [total] = merged(moved, added)
    return spread(group, member, total)


def listed(parts: Any) -> list[Any]:
    """Return the argument ``parts`` as a list.

    Raises:
        ArgumentTypeError: It is no sequence.
    """
    try:
        return list(parts)
    except TypeError:
        raise ArgumentTypeError(f"parts is {shown(parts)}; expected a list of arrays") from None


def parts_of(group: DeviceGroup, parts: Any) -> list[GroupBlock]:
    """Return the parts of a sum: the blocks of an array, or arrays on devices of the group.

    Raises:
        ArgumentError: There is none, or one is not on a device of the group.
        ArgumentTypeError: They are no sequence.
    """
    if isinstance(parts, GroupArray):
        if parts.group is not group:
            raise ArgumentError("parts is an array of another group; expected one of this group")
        return list(parts.blocks)
    blocks = []
    for number, array in enumerate(listed(parts)):
        contexts = {member.engine.context: member for member in group.members}
        member = contexts.get(array.context) if isinstance(array, Array) else None
        if member is None:
            raise ArgumentError(
                f"part {number} is not an array on a device of the group; "
                "group.engines has the engines for portable_gpu.asarray"
            )
        blocks.append(GroupBlock(number, number + 1, member, array))
    if not blocks:
        raise ArgumentError("parts is empty; expected a sum of one array or more")
    return blocks


def added(left: Arrays, right: Arrays) -> Arrays:
    """Return the sums of two lists of arrays, as fresh arrays on the device of the left one."""
    (member, mine), (source, others) = left, right
    if source is not member:
        others = [moves.move(source, other, member) for other in others]
    with member.named_errors():
        pairs = zip(mine, others, strict=True)
        sums = [elementwise("x + y", x=x, y=y, engine=member.engine) for x, y in pairs]
    return member, sums
