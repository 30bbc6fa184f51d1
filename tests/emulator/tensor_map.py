"""Tensor maps: the copy engine's description of a tensor, and what it copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from emulator.machine import Group, Step, address, numbers, reader
from emulator.memory import Fault, Memory
from emulator.text import Constant, Instruction

#: How the 128 bytes are used here; NVIDIA does not say how its own are.
_MAP = np.dtype(
    [("global_address", "u8"), ("global_stride", "u8", 4), ("global_dim", "u4", 5),
     ("box_dim", "u4", 5), ("element_stride", "u4", 5), ("rank", "u1"), ("elemtype", "u1"),
     ("interleave_layout", "u1"), ("swizzle_mode", "u1"), ("fill_mode", "u1"), ("rest", "u1", 23)]
)  # fmt: skip
assert _MAP.itemsize == 128
_BYTES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 4, 9: 8, 10: 2, 11: 4, 12: 4}


def change(i: Instruction) -> Step | None:
    """``tensormap.replace`` of a map in shared memory, and ``tensormap.cp_fenceproxy``."""
    if i.name != "tensormap":
        return None
    if i.modifiers[0] == "cp_fenceproxy":
        return _publish(i)
    name = i.modifiers[2]
    where = address(i.operands[0], "u32")
    value = reader(i.operands[-1], "u64" if i.modifiers[-1] == "b64" else "u32")
    ordinal = (
        i.operands[1].value if len(i.operands) > 2 and isinstance(i.operands[1], Constant) else 0
    )

    def step(group: Group, threads: Any) -> None:
        for thread in numbers(threads):
            item = slice(thread, thread + 1)
            at = int(np.atleast_1d(where(group, item))[0])
            if at % 128:
                raise Fault("a tensor map that is not aligned")
            fields = group.shared[at : at + 128].view(_MAP)[name]
            number = np.atleast_1d(value(group, item))[0]
            if fields.ndim > 1:
                fields[0, ordinal] = number
            else:
                fields[0] = number

    return step


def _publish(i: Instruction) -> Step:
    to, source = address(i.operands[0]), address(i.operands[1], "u32")

    def step(group: Group, threads: Any) -> None:
        places = np.atleast_1d(to(group, threads))[:1] + np.arange(128)
        start = int(np.atleast_1d(source(group, threads))[0])
        group.grid.memory.store(places, group.shared[start : start + 128])

    return step


def copied_box(memory: Memory, at: Any, start: list[int], to: int) -> Any:
    """The bytes that a map gives of a box, as they are stored in shared memory from ``to`` on.

    What is outside of the tensor is zero.

    Args:
        memory: Global memory.
        at: The map's address.
        start: The box's first element, the fastest dimension first.
        to: A place in shared memory: the swizzle depends on the place.

    Raises:
        Fault: The map breaks a rule of NVIDIA's manual.
    """
    fields = memory.load(at + np.arange(128), np.uint8).view(_MAP)[0]
    rank, size = int(fields["rank"]) + 1, _BYTES[int(fields["elemtype"])]
    _check(fields, rank, size, len(start))
    box = [int(x) for x in fields["box_dim"][:rank]]
    extents = [int(x) for x in fields["global_dim"][:rank]]
    strides = [size, *(int(x) for x in fields["global_stride"][: rank - 1])]
    shape = tuple(reversed(box))
    places, inside = np.zeros(shape, np.int64), np.ones(shape, bool)
    for axis in range(rank):
        along = np.arange(box[axis]) + start[axis]
        along = along.reshape([-1 if a == rank - 1 - axis else 1 for a in range(rank)])
        places = places + along * strides[axis]
        inside = inside & (along >= 0) & (along < extents[axis])
    values = np.zeros((*shape, size), np.uint8)
    tensor = int(fields["global_address"])
    if inside.any():
        first = tensor + places[inside]
        values[inside] = memory.load(first[:, None] + np.arange(size), np.uint8)
    else:
        memory.load(np.array([tensor]), np.uint8)  # as an H200 does
    plain = values.reshape(-1)
    offset = to + np.arange(plain.size)
    swizzled = np.empty_like(plain)
    swizzled[(offset ^ (offset >> 7 & 7) << 4) - to] = plain
    return swizzled


def _check(fields: Any, rank: int, size: int, given: int) -> None:
    if given != rank:
        raise Fault(f"{given} coordinates for a tensor of {rank} dimensions")
    if int(fields["global_address"]) % 16:
        raise Fault("the tensor does not start at a multiple of 16 bytes")
    if any(int(x) % 16 or int(x) >= 1 << 40 for x in fields["global_stride"][: rank - 1]):
        raise Fault("a stride is not a multiple of 16 bytes, or too large")
    if any(not 1 <= int(x) <= 256 for x in fields["box_dim"][:rank]):
        raise Fault("a box is longer than 256 elements")
    if int(fields["box_dim"][0]) * size > 128:
        raise Fault("the swizzle of 128 bytes takes boxes of 128 bytes at most")
    if any(int(x) != 1 for x in fields["element_stride"][:rank]):
        raise Fault("element strides are 1")
    if int(fields["interleave_layout"]) or int(fields["swizzle_mode"]) != 3:
        raise Fault("only the swizzle of 128 bytes is emulated")
