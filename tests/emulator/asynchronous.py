"""Barriers that count arrivals and bytes, and copies that announce themselves there."""

from __future__ import annotations

from typing import Any

import numpy as np

from emulator.machine import (
    Barrier,
    Group,
    Step,
    address,
    count,
    numbers,
    reader,
    shared_view,
    writer,
)
from emulator.memory import Fault
from emulator.tensor_map import copied_box
from emulator.text import Constant, Instruction

_SIXTEEN = np.dtype([("0", "u8"), ("1", "u8")])


def barrier(i: Instruction) -> Step | None:
    """``mbarrier``."""
    if i.name != "mbarrier":
        return None
    what = i.modifiers[0]
    if what == "init":
        return _init(i)
    if what in ("try_wait", "test_wait"):
        return _wait(i)
    assert what == "arrive", i.text
    where = address(i.operands[1], "u32")
    announced = reader(i.operands[2], "u32") if "expect_tx" in i.modifiers else None

    def arrive(group: Group, threads: Any) -> None:
        places = np.broadcast_to(where(group, threads), count(threads))
        sizes = announced(group, threads) if announced is not None else np.uint32(0)
        for place, size in zip(places, np.broadcast_to(sizes, places.shape), strict=True):
            _barrier(group, place).bytes += int(size)
            _barrier(group, place).change(arrivals=1)

    return arrive


def _init(i: Instruction) -> Step:
    where, arrivals = address(i.operands[0], "u32"), reader(i.operands[1], "u32")

    def init(group: Group, threads: Any) -> None:
        places = np.broadcast_to(where(group, threads), count(threads))
        counts = np.broadcast_to(arrivals(group, threads), places.shape)
        for place, expected in zip(places, counts, strict=True):
            group.barriers[int(place)] = Barrier(int(expected), int(expected))
            group.shown.discard(int(place))

    return init


def _wait(i: Instruction) -> Step:
    assert "parity" in i.modifiers
    put, where = writer(i.operands[0]), address(i.operands[1], "u32")
    parity = reader(i.operands[2], "u32")

    def wait(group: Group, threads: Any) -> Any:
        places = np.broadcast_to(where(group, threads), count(threads))
        bits = np.broadcast_to(parity(group, threads), places.shape)
        phases = {place: _barrier(group, place).phase for place in np.unique(places)}
        put(group, threads, True)
        return np.array([phases[place] for place in places]) % 2 != bits

    return wait


def _barrier(group: Group, place: Any) -> Barrier:
    result = group.barriers.get(int(place))
    if result is None:
        raise Fault("no barrier was made there")
    return result


def copy(i: Instruction) -> Step | None:
    """``cp.async`` of 4, 8 or 16 bytes, its commit groups, and its arrivals at barriers."""
    if i.name != "cp" or i.modifiers[:1] != ("async",) or "bulk" in i.modifiers:
        return None
    if "mbarrier" in i.modifiers:
        return _arrival(i)
    if "commit_group" in i.modifiers:
        return _commit
    if "wait_group" in i.modifiers or "wait_all" in i.modifiers:
        pending = i.operands[0].value if isinstance(i.operands[0], Constant) else 0
        return lambda group, threads: group.finish(numbers(threads), pending)
    to, source = address(i.operands[0], "u32"), address(i.operands[1])
    assert isinstance(i.operands[2], Constant)
    size = i.operands[2].value
    existing = reader(i.operands[3], "u32") if len(i.operands) > 3 else None
    dtype = {4: np.dtype("u4"), 8: np.dtype("u8"), 16: _SIXTEEN}[size]

    def step(group: Group, threads: Any) -> None:
        total = count(threads)
        places = np.broadcast_to(to(group, threads), total).copy()
        places_from = np.broadcast_to(source(group, threads), total).copy()
        who, there = numbers(threads), np.full(total, size, np.uint32)
        if existing is not None:
            there[:] = existing(group, threads)
            if np.any((there != 0) & (there != size)):
                raise Fault("a copy of a part is not emulated")

        def work() -> None:
            values = np.zeros(total, dtype)
            inside = there > 0
            if inside.any():
                values[inside] = group.grid.memory.load(places_from[inside], dtype)
            array, index = shared_view(group, places, dtype)
            array[index] = values
            if group.races is not None:
                group.races.write(places, size, who)
            group.unshown[places[:, None] + np.arange(size)] = True

        if group.races is not None:  # from now on no thread may read the old values
            group.races.write(places, size, who)
        group.later(who, work)

    return step


def _commit(group: Group, threads: Any) -> None:
    group.commits[threads] += 1


def _arrival(i: Instruction) -> Step:
    """It comes after the copies of the same threads, for those are done in order."""
    assert "noinc" in i.modifiers
    where = address(i.operands[0], "u32")

    def step(group: Group, threads: Any) -> None:
        places = np.broadcast_to(where(group, threads), count(threads)).copy()

        def work() -> None:
            for place in places:
                _barrier(group, place).change(arrivals=1)

        group.later(numbers(threads), work)

    return step


def proxy(i: Instruction) -> Step | None:
    """``fence.proxy``: the copy engine sees barriers made before, and a tensor map as it is."""
    if i.name != "fence" or i.modifiers[0] != "proxy":
        return None
    if i.modifiers[1].startswith("async"):
        return _show
    assert "acquire" in i.modifiers, i.text
    where = address(i.operands[0])

    def acquire(group: Group, threads: Any) -> None:
        group.acquired.update(np.atleast_1d(where(group, threads)).tolist())

    return acquire


def _show(group: Group, threads: Any) -> None:
    group.shown.update(group.barriers)
    group.unshown[:] = False


def _run_of_bytes(i: Instruction) -> Step:
    """``cp.async.bulk`` of neighbouring bytes to shared memory."""
    assert "mbarrier::complete_tx::bytes" in i.modifiers, i.text
    target, source = address(i.operands[0], "u32"), address(i.operands[1])
    sizes, announce = reader(i.operands[2], "u32"), address(i.operands[3], "u32")

    def step(group: Group, threads: Any) -> None:
        for thread in numbers(threads):
            item = slice(thread, thread + 1)
            to, at, size, where = (
                int(np.atleast_1d(get(group, item))[0]) for get in (target, source, sizes, announce)
            )
            if where not in group.shown:
                raise Fault("the copy engine was not shown the barrier")
            if to % 16 or at % 16 or size % 16:
                raise Fault("a bulk copy of what is not aligned")

            def work(to: int = to, at: int = at, size: int = size, where: int = where) -> None:
                places = at + np.arange(size, dtype=np.int64)
                group.shared[to : to + size] = group.grid.memory.load(places, np.dtype("u1"))
                _barrier(group, where).change(brought=size)

            group.later(np.array([thread]), work)

    return step


def bulk_copy(i: Instruction) -> Step | None:
    """``cp.async.bulk.tensor``: a box of a tensor to shared memory, by each thread that asks."""
    if i.name != "cp" or "bulk" not in i.modifiers:
        return None
    if "commit_group" in i.modifiers or "wait_group" in i.modifiers:
        return lambda group, threads: None  # of copies that write; there are none
    if "tensor" not in i.modifiers:
        return _run_of_bytes(i)
    assert "mbarrier::complete_tx::bytes" in i.modifiers, i.text
    to, source, where = i.operands[0], i.operands[1], i.operands[2]
    assert isinstance(source, tuple)
    map_at, place = source
    assert isinstance(place, tuple)
    target, announce = address(to, "u32"), address(where, "u32")
    maps = reader(map_at, "u64")
    coordinates = [reader(item, "s32") for item in place]

    def step(group: Group, threads: Any) -> None:
        for thread in numbers(threads):
            item = slice(thread, thread + 1)
            at = np.atleast_1d(maps(group, item)).astype(np.int64)
            start = [int(np.atleast_1d(get(group, item))[0]) for get in coordinates]
            place_to = int(np.atleast_1d(target(group, item))[0])
            barrier_at = int(np.atleast_1d(announce(group, item))[0])
            if barrier_at not in group.shown or int(at[0]) not in group.acquired:
                raise Fault("the copy engine was not shown the barrier, or the tensor map")

            def work(
                at: Any = at, start: list[int] = start, to: int = place_to, where: int = barrier_at
            ) -> None:
                values = copied_box(group.grid.memory, at, start, to)
                if to % 128 or to + values.size > group.shared.size:
                    raise Fault("a box that is not aligned, or outside of shared memory")
                group.shared[to : to + values.size] = values
                _barrier(group, where).change(brought=values.size)

            group.later(np.array([thread]), work)

    return step
