"""Operations of a warp's threads, or of four warps', together: exchanges and matrix products."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np

from emulator.machine import Group, Step, address, count, numbers, reader, shared_view, writer
from emulator.memory import Fault
from emulator.text import Constant, Instruction

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")
_LANES = np.arange(32)
_SIXTEEN = np.dtype([("0", "u8"), ("1", "u8")])
_GROUP, _QUAD = _LANES // 4, _LANES % 4


def shuffle(i: Instruction) -> Step | None:
    """``shfl``."""
    if i.name != "shfl":
        return None
    mode = next(m for m in i.modifiers if m in ("bfly", "idx", "up", "down"))
    put = writer(i.operands[0])
    assert not isinstance(i.operands[0], tuple)
    value, by = reader(i.operands[1], "b32"), reader(i.operands[2], "s32")
    assert isinstance(i.operands[3], Constant)
    assert i.operands[3].value == 31, "segments are not emulated"

    def step(group: Group, threads: Any) -> None:
        lanes = numbers(threads)
        everyone = slice(0, group.grid.size)
        values = np.broadcast_to(value(group, everyone), group.grid.size)
        distance = np.broadcast_to(by(group, threads), lanes.shape)
        lane = lanes % 32
        source = {
            "bfly": lane ^ distance, "idx": distance, "up": lane - distance,
            "down": lane + distance,
        }[mode]  # fmt: skip
        source = np.where((source < 0) | (source > 31), lane, source)
        put(group, threads, values[lanes - lane + source])

    return step


def multiply(i: Instruction) -> Step | None:
    """``mma.sync``: each warp multiplies what its lanes hold."""
    if i.name != "mma":
        return None
    m, n, k = _shape(i)
    kind = i.modifiers[-2]
    d, a, b, c = i.operands
    assert isinstance(d, tuple)
    assert isinstance(a, tuple)
    assert isinstance(b, tuple)
    assert isinstance(c, tuple)
    real = "f64" if kind == "f64" else "f32"
    held_a, held_b = _held_a(kind, m, k), _held_b(kind, k)
    held_c = [(row, col) for row in range(0, m, 8) for col in range(2)]
    if m == 8:
        held_c = [(0, 0), (0, 1)]
    puts = [writer(x) for x in d]
    get_a, get_b = ([reader(x, kind if kind == "f64" else "b32") for x in xs] for xs in (a, b))
    get_c = [reader(x, real) for x in c]

    def step(group: Group, threads: Any) -> None:
        warps = _warps(threads)
        A, B, C = np.zeros((warps, m, k)), np.zeros((warps, k, n)), np.zeros((warps, m, n))
        for (row, col), value in zip(held_a, _elements(get_a, kind, group, threads), strict=True):
            A[:, _GROUP + row, (_QUAD * _step_of(kind) + col)] = value
        for row, value in zip(held_b, _elements(get_b, kind, group, threads), strict=True):
            B[:, _QUAD * _step_of(kind) + row, _GROUP] = value
        for (row, col), get in zip(held_c, get_c, strict=True):
            C[:, _GROUP + row, 2 * _QUAD + col] = _by_warp(get(group, threads), warps)
        result = C + A @ B
        for (row, col), put in zip(held_c, puts, strict=True):
            values = result[:, _GROUP + row, 2 * _QUAD + col]
            put(group, threads, values.reshape(-1).astype(np.float64 if real == "f64" else "f4"))

    return step


def load_matrices(i: Instruction) -> Step | None:
    """``ldmatrix``: each warp loads matrices of 8 rows of 16 bytes, whose addresses its lanes give.

    Lane 4g + c has of each matrix the c-th word of row g, or (``trans``) elements 2c and 2c + 1 of
    column g.
    """
    if i.name != "ldmatrix":
        return None
    assert {"m8n8", "b16", "shared"} <= set(i.modifiers), i.text
    registers = i.operands[0]
    assert isinstance(registers, tuple)
    puts, where, turned = (
        [writer(x) for x in registers],
        address(i.operands[1], "u32"),
        "trans" in i.modifiers,
    )

    def step(group: Group, threads: Any) -> None:
        warps = _warps(threads)
        at = np.broadcast_to(where(group, threads), 32 * warps)
        lanes = np.tile(8 * len(puts) > _LANES, warps)  # the others' addresses are not used
        if group.races is not None:
            group.races.read(at[lanes], 16, numbers(threads)[lanes])
        rows, index = shared_view(group, at[lanes], _SIXTEEN)
        words = rows[index].view(np.uint16).reshape(warps, len(puts), 8, 8)
        if turned:
            words = words.swapaxes(2, 3)
        for number, put in enumerate(puts):
            values = np.ascontiguousarray(words[:, number]).view(np.uint32)
            put(group, threads, values.reshape(-1))

    return step


def _shape(i: Instruction) -> tuple[int, int, int]:
    match = next(result for m in i.modifiers if (result := _SHAPE.match(m)))
    m, n, k = map(int, match.groups())
    return m, n, k


def _step_of(kind: str) -> int:
    return 1 if kind == "f64" else 2


def _held_a(kind: str, m: int, k: int) -> list[tuple[int, int]]:
    """Row (beyond lane / 4) and column (beyond the quad's) of each element that a lane holds."""
    rows = [0] if m == 8 else [0, 8]
    if kind == "f64":
        return [(row, col) for col in range(0, k, 4) for row in rows]
    return [(row, col + e) for col in range(0, k, 8) for row in rows for e in range(2)]


def _held_b(kind: str, k: int) -> list[int]:
    if kind == "f64":
        return list(range(0, k, 4))
    return [row + e for row in range(0, k, 8) for e in range(2)]


def _warps(threads: Any) -> int:
    return count(threads) // 32


def _by_warp(values: Any, warps: int) -> Any:
    return np.broadcast_to(values, warps * 32).reshape(warps, 32)


def _elements(gets: Any, kind: str, group: Group, threads: Any) -> list[Any]:
    """The values of lanes, element by element, as float64."""
    warps = _warps(threads)
    result = []
    for get in gets:
        bits = _by_warp(get(group, threads), warps)
        result += [bits] if kind == "f64" else [_wide(bits & 0xFFFF, kind), _wide(bits >> 16, kind)]
    return result


def _wide(bits: Any, kind: str) -> Any:
    """16 bits, in the low half of words, as float64."""
    if kind == "f16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def warpgroup(i: Instruction) -> Step | None:
    """``wgmma``: four warps multiply tiles in shared memory; A may be in registers.

    The product is done at once.  Its operands have to stay as they are until a wait has ended.
    """
    if i.name != "wgmma" or i.modifiers[0] == "fence":
        return None
    if i.modifiers[0] == "commit_group":
        return _commit
    if i.modifiers[0] == "wait_group":
        assert isinstance(i.operands[0], Constant)
        pending = i.operands[0].value
        return lambda group, threads: _wait(group, threads, pending)
    return _warpgroup_product(i)


def _warpgroups(threads: Any) -> list[int]:
    return [int(first) for first in numbers(threads)[::128]]


def _commit(group: Group, threads: Any) -> None:
    for first in _warpgroups(threads):
        group.products.setdefault(first, [[]]).append([])


def _wait(group: Group, threads: Any, pending: int) -> None:
    for first in _warpgroups(threads):
        in_flight = group.products.setdefault(first, [[]])
        while len(in_flight) > pending + 1:
            for look, seen in in_flight.pop(0):
                if not np.array_equal(look(), seen, equal_nan=False):
                    raise Fault("an operand of a matrix instruction was overwritten in flight")


def _warpgroup_product(i: Instruction) -> Step:
    m, n, k = _shape(i)
    kind = i.modifiers[-1]
    sums, a, b, use_sums, *rest = i.operands
    assert isinstance(sums, tuple)
    turns = [x.value for x in rest[2:] if isinstance(x, Constant)] or [0, 0]
    gets, puts = [reader(x, "f32") for x in sums], [writer(x) for x in sums]
    live = [reader(x, "b32") for x in a] if isinstance(a, tuple) else []
    tiles = [(b, n, turns[-1])] if live else [(a, m, turns[0]), (b, n, turns[1])]
    descriptors = [(reader(x, "u64"), extent, bool(turn)) for x, extent, turn in tiles]
    keep = reader(use_sums, "pred")
    thread = np.arange(128)
    register = np.arange(n // 2)[:, None]
    rows = thread // 32 * 16 + thread % 32 // 4 + register // 2 % 2 * 8
    cols = register // 4 * 8 + thread % 4 * 2 + register % 2

    def step(group: Group, threads: Any) -> None:
        for first in _warpgroups(threads):
            some = slice(first, first + 128)
            places = [
                _places(_same(get(group, some)), extent, k, kind, turn)
                for get, extent, turn in descriptors
            ]
            if any(group.unshown[at].any() for at in places):
                raise Fault("the matrix unit was not shown what threads have written")
            reads = group.products.setdefault(first, [[]])[-1]
            looks = [partial(np.take, group.shared, at) for at in places]
            looks += [partial(get, group, some) for get in live]
            reads += [(look, look().copy()) for look in looks]
            operands = [_values(group, at, kind) for at in places]
            if live:
                operands.insert(0, _fragments([get(group, some) for get in live], kind))
            A, B = operands
            C = np.zeros((m, n))
            if np.broadcast_to(keep(group, some), 128)[0]:
                C[rows, cols] = [get(group, some) for get in gets]
            result = (C + A @ B.T)[rows, cols].astype(np.float32)
            for put, values in zip(puts, result, strict=True):
                put(group, some, values)

    return step


def _same(values: Any) -> int:
    unique = np.unique(values)
    if unique.size > 1:
        raise Fault("threads of a warpgroup give different descriptors")
    return int(unique[0])


def _places(descriptor: int, extent: int, k: int, kind: str, turned: bool) -> Any:
    """The address of the bytes of each element: shape (extent, k, bytes), 128-byte swizzle."""
    size = 4 if kind == "tf32" else 2
    start, leading, stride = ((descriptor >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    if descriptor >> 62 != 1:
        raise Fault("only the swizzle of 128 bytes is emulated")
    row, step = np.arange(extent)[:, None], np.arange(k)
    if turned:
        block = 64 * 2 // size
        at = row % block * size + row // block * leading + step % 8 * 128 + step // 8 * stride
    else:
        at = row % 8 * 128 + row // 8 * stride + step * size
    at = start + at
    at = at ^ (at >> 7 & 7) << 4
    return at[..., None] + np.arange(size)


def _values(group: Group, places: Any, kind: str) -> Any:
    bytes_ = np.ascontiguousarray(group.shared[places])
    if kind == "tf32":
        return _tf32(bytes_.view(np.uint32)[..., 0])
    return _wide(bytes_.view(np.uint16)[..., 0], kind)


def _tf32(bits: Any) -> Any:
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def _fragments(registers: list[Any], kind: str) -> Any:
    """A of m64k8 (tf32) or m64k16, of which each thread holds four registers."""
    thread, size = np.arange(128), 1 if kind == "tf32" else 2
    row, step = thread // 32 * 16 + thread % 32 // 4, thread % 4 * size
    result = np.zeros((64, 8 * size))
    for i, bits in enumerate(np.broadcast_to(x, 128) for x in registers):
        parts = (
            [_tf32(bits)] if size == 1 else [_wide(bits & 0xFFFF, kind), _wide(bits >> 16, kind)]
        )
        for e, part in enumerate(parts):
            result[row + i % 2 * 8, step + i // 2 * 4 * size + e] = part
    return result
