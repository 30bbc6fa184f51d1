"""The devices of a call, and the memory that its tiles may take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from portable_gpu.arguments import of_kind, whole
from portable_gpu.errors import ArgumentError
from portable_gpu.multi.group import DeviceGroup
from portable_gpu.multi.member import Member
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.registry import default_engine


class StreamPlace(NamedTuple):
    """The devices on which a call computes, and its memory.

    Attributes:
        members: The devices.
        limit: The bytes that tiles may take on each.
        retries: Whether other devices compute the blocks of one that fails.
    """

    members: Sequence[Member]
    limit: int
    retries: bool


def place_of(engine: Any, memory_limit: Any) -> StreamPlace:
    """Return the devices of a call.

    Args:
        engine: The argument: an engine, a group, or None for the default engine.
        memory_limit: The argument; None for the group's limit, or three quarters of the smallest
            device's memory.

    Returns:
        The devices, with a limit of at most twice the largest buffer, since tiles take up to half
        of it.

    Raises:
        ArgumentTypeError, ArgumentError: An argument is none of these, or the group is closed.
    """
    members: Sequence[Member]
    retries = isinstance(engine, DeviceGroup) and engine.on_failure == "retry"
    if isinstance(engine, DeviceGroup):
        if engine.is_closed:
            raise ArgumentError("engine is a group that is closed; open another, or pass none")
        members = engine.members
        memory_limit = engine.memory_limit if memory_limit is None else memory_limit
    else:
        accepted = "a portable_gpu.Engine, a portable_gpu.multi.DeviceGroup or None"
        chosen = default_engine() if engine is None else engine
        single = of_kind(chosen, Engine, "engine", accepted)
        members = (Member(0, single, single.target.facts.global_mem_size),)
    facts = [member.engine.target.facts for member in members]
    max_bytes = min([2 * device.max_alloc_size for device in facts])
    if memory_limit is None:
        memory = min([device.global_mem_size for device in facts]) * 3 // 4
        return StreamPlace(members, min(max_bytes, memory), retries)
    limit = whole(memory_limit, "memory_limit")
    if limit < 1:
        raise ArgumentError(f"memory_limit is {limit}; expected a positive number of bytes")
    return StreamPlace(members, min(limit, max_bytes), retries)
