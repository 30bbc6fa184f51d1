"""Operations of each thread by itself: arithmetic, comparisons, conversions, loads and stores."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from emulator.machine import (
    DTYPES,
    Group,
    Step,
    address,
    count,
    numbers,
    reader,
    shared_view,
    writer,
)
from emulator.memory import Fault, whole
from emulator.text import Address, Instruction, Operand, Symbol

_WIDER = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: (a != b) & (a == a) & (b == b),
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "lo": lambda a, b: a < b, "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b, "hs": lambda a, b: a >= b,
    "num": lambda a, b: (a == a) & (b == b), "nan": lambda a, b: (a != a) | (b != b),
    "equ": lambda a, b: (a == b) | (a != a) | (b != b), "neu": lambda a, b: a != b,
    "ltu": lambda a, b: ~(a >= b), "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b), "geu": lambda a, b: ~(a < b),
}  # fmt: skip
_LOGIC: dict[str, Callable[[Any, Any], Any]] = {
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
}  # fmt: skip


def _divided(a: Any, b: Any) -> Any:
    """A quotient, towards 0 where the numbers are whole."""
    if a.dtype.kind == "f":
        return a / b
    if a.dtype.kind == "u":
        return a // b
    return (np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)


def _left(x: Any) -> Any:
    """The remainder of a division."""
    a, b = x
    return (a - _divided(a, b) * b).astype(a.dtype)


def _shifted_left(a: Any, b: Any) -> Any:
    bits = 8 * a.dtype.itemsize
    return np.where(b < bits, a << np.minimum(b, bits - 1).astype(a.dtype), 0).astype(a.dtype)


def _shifted_right(a: Any, b: Any) -> Any:
    bits = 8 * a.dtype.itemsize
    if a.dtype.kind == "i":
        return a >> np.minimum(b, bits - 1).astype(a.dtype)
    return np.where(b < bits, a >> np.minimum(b, bits - 1).astype(a.dtype), 0).astype(a.dtype)


def _fused(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, in float32 rounded twice at most, in float64 once more than fma does."""
    if a.dtype == np.float32:
        return (a.astype(np.float64) * b + c).astype(np.float32)
    return a * b + c


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **_LOGIC,
    "add": np.add, "sub": np.subtract, "div": _divided, "rem": lambda a, b: _left((a, b)),
    "min": np.fmin, "max": np.fmax,
}  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs, "neg": np.negative, "not": np.invert, "mov": lambda a: a,
    "sqrt": np.sqrt, "ex2": np.exp2, "lg2": np.log2, "rcp": lambda a: (1 / a).astype(a.dtype),
    "popc": lambda a: np.bitwise_count(a).astype(np.uint32),
    "brev": lambda a: np.array([int(f"{x:032b}"[::-1], 2) for x in np.atleast_1d(a)], np.uint32),
}  # fmt: skip


def arithmetic(i: Instruction) -> Step | None:
    """Instructions that compute one register from others."""
    kind = i.modifiers[-1] if i.modifiers else ""
    if kind not in DTYPES:
        return None
    if i.name in ("mul", "mad") and i.modifiers[0] in ("wide", "hi", "lo"):
        return _whole_product(i, kind)
    if i.name in ("shl", "shr"):
        shift = _shifted_left if i.name == "shl" else _shifted_right
        return _apply(i, (kind, "u32"), shift)
    if i.name == "bfe":
        return _apply(i, (kind, "u32", "u32"), _field)
    if i.name == "bfi":
        return _apply(i, (kind, kind, "u32", "u32"), _with_field)
    if i.name == "prmt":
        return _apply(i, ("u32", "u32", "u32"), _permuted)
    if i.name == "selp":
        return _apply(i, (kind, kind, "pred"), lambda a, b, p: np.where(p, a, b).astype(a.dtype))
    if i.name in ("fma", "mad"):
        return _apply(i, (kind,) * 3, _fused)
    if i.name == "mul":
        return _apply(i, (kind,) * 2, np.multiply)
    if i.name == "mov" and isinstance(i.operands[0], tuple):
        return _unpack(i, kind)
    if i.name == "mov" and isinstance(i.operands[1], tuple):
        return _pack(i, kind)
    if i.name in _BINARY:
        return _apply(i, (kind,) * 2, _BINARY[i.name])
    if i.name in _UNARY:
        return _apply(i, (kind,), _UNARY[i.name])
    return None


def _apply(i: Instruction, kinds: tuple[str, ...], function: Callable[..., Any]) -> Step:
    put = writer(i.operands[0])
    get = [reader(x, kind) for x, kind in zip(i.operands[1:], kinds, strict=True)]

    def step(group: Group, threads: Any) -> None:
        put(group, threads, function(*(item(group, threads) for item in get)))

    return step


def _whole_product(i: Instruction, kind: str) -> Step:
    part, wide = i.modifiers[0], DTYPES[_WIDER.get(kind, kind)]

    def product(a: Any, b: Any, *c: Any) -> Any:
        if part == "lo":
            result = a * b
        elif part == "wide":
            result = a.astype(wide) * b.astype(wide)
        else:
            bits = 8 * a.dtype.itemsize
            high = [(int(x) * int(y)) >> bits for x, y in np.broadcast(a, b)]
            result = np.array(high, object).astype(a.dtype).reshape(np.broadcast(a, b).shape)
        return result + c[0] if c else result

    kinds = (kind, kind, _WIDER[kind] if part == "wide" else kind)
    return _apply(i, kinds[: len(i.operands) - 1], product)


def _field(a: Any, start: Any, length: Any) -> Any:
    bits = 8 * a.dtype.itemsize
    start, length = (int(np.unique(x & 255)[0]) for x in (start, length))
    up = max(0, bits - start - length)
    return (a << a.dtype.type(up)) >> a.dtype.type(bits - length) if length else a * 0


def _with_field(a: Any, b: Any, start: Any, length: Any) -> Any:
    start, length = (int(np.unique(x & 255)[0]) for x in (start, length))
    mask = np.array(((1 << length) - 1) << start & ((1 << 8 * b.dtype.itemsize) - 1), b.dtype)
    return (b & ~mask) | ((a << b.dtype.type(start)) & mask)


def _permuted(a: Any, b: Any, selector: Any) -> Any:
    bytes_ = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
    result = np.zeros(np.broadcast(a, b, selector).shape, np.uint64)
    for place in range(4):
        which = selector.astype(np.uint64) >> np.uint64(4 * place) & np.uint64(15)
        byte = bytes_ >> (np.uint64(8) * (which & np.uint64(7))) & np.uint64(255)
        sign = np.where(byte >> np.uint64(7), np.uint64(255), np.uint64(0))
        byte = np.where(which & np.uint64(8), sign, byte)
        result |= byte << np.uint64(8 * place)
    return result.astype(np.uint32)


def _unpack(i: Instruction, kind: str) -> Step:
    parts, source = i.operands[0], reader(i.operands[1], kind)
    assert isinstance(parts, tuple)
    puts = [writer(part) for part in parts]
    width = np.dtype(DTYPES[kind]).itemsize // len(parts)

    def step(group: Group, threads: Any) -> None:
        values = np.ascontiguousarray(source(group, threads)).view(f"u{width}")
        for at, put in enumerate(puts):
            put(group, threads, np.ascontiguousarray(values[at :: len(puts)]))

    return step


def _pack(i: Instruction, kind: str) -> Step:
    parts = i.operands[1]
    assert isinstance(parts, tuple)
    width = np.dtype(DTYPES[kind]).itemsize // len(parts)
    gets, put = [reader(part, f"u{8 * width}") for part in parts], writer(i.operands[0])

    def step(group: Group, threads: Any) -> None:
        values = np.empty((count(threads), len(gets)), f"u{width}")
        for at, get in enumerate(gets):
            values[:, at] = get(group, threads)
        put(group, threads, values.reshape(-1).view(DTYPES[kind]))

    return step


def compare(i: Instruction) -> Step | None:
    """``setp``, and logic of predicates."""
    if i.name != "setp":
        return None
    kind, (test, *logic) = i.modifiers[-1], [m for m in i.modifiers[:-1] if m != "ftz"]
    put, a, b = writer(i.operands[0]), reader(i.operands[1], kind), reader(i.operands[2], kind)
    also = reader(i.operands[3], "pred") if logic else None

    def step(group: Group, threads: Any) -> None:
        result = _COMPARE[test](a(group, threads), b(group, threads))
        if also is not None:
            result = _LOGIC[logic[0]](result, also(group, threads))
        put(group, threads, result)

    return step


def convert(i: Instruction) -> Step | None:
    """``cvt`` and ``cvta``."""
    if i.name == "cvta":
        return _apply(i, ("u64",), lambda a: a)
    if i.name != "cvt":
        return None
    kinds = [m for m in i.modifiers if m in DTYPES or m.endswith("x2") or m in ("bf16", "tf32")]
    to, source = kinds
    if to.endswith("x2"):
        return _apply(i, (source, source), lambda a, b: _half(a, to) << 16 | _half(b, to))
    if to == "tf32":
        return _apply(i, ("b32",), lambda a: (a + np.uint32(0x1000)) & np.uint32(0xFFFFE000))
    if to == "bf16":
        return _apply(i, (source,), lambda a: _half(a, to).astype(np.uint16))
    if source == "bf16":
        return _apply(i, ("u16",), lambda a: (a.astype(np.uint32) << 16).view(np.float32))
    dtype, toward = DTYPES[to], next((m for m in i.modifiers if re.match(r"r.i$", m)), "")
    rounded = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}.get(toward)
    return _apply(i, (source,), lambda a: (rounded(a) if rounded else a).astype(dtype))


def _half(values: Any, kind: str) -> Any:
    """The bits of float32 values rounded to 16 bits, as 32-bit numbers."""
    if kind.startswith("f16"):
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return np.where(values == values, rounded >> np.uint32(16), np.uint32(0x7FFF))


def access(i: Instruction) -> Step | None:
    """``ld`` and ``st`` of parameters, global and shared memory."""
    if i.name not in ("ld", "st"):
        return None
    kind = i.modifiers[-1]
    parts = next((int(m[1]) for m in i.modifiers if m in ("v2", "v4")), 1)
    place, value = i.operands if i.name == "st" else i.operands[::-1]
    registers = value if isinstance(value, tuple) else (value,)
    if "param" in i.modifiers:
        return _parameter(place, registers, kind)
    where, shared, volatile = address(place), "shared" in i.modifiers, "volatile" in i.modifiers
    item = np.dtype(DTYPES[kind])
    vector = np.dtype([(str(n), item) for n in range(parts)]) if parts > 1 else item
    if i.name == "ld":
        puts = [writer(register) for register in registers]

        def load(group: Group, threads: Any) -> None:
            at = np.broadcast_to(where(group, threads), count(threads))
            if shared:
                array, index = shared_view(group, at, vector)
                values = array[index]
                if group.races is not None:
                    group.races.read(at, vector.itemsize, numbers(threads))
            else:
                values = group.grid.memory.load(at, vector)
                if volatile:
                    group.look(at)
            for n, put in enumerate(puts):
                put(group, threads, np.ascontiguousarray(values[str(n)] if parts > 1 else values))

        return load
    gets = [reader(register, kind) for register in registers]

    def store(group: Group, threads: Any) -> None:
        at = np.broadcast_to(where(group, threads), count(threads))
        values = np.empty(count(threads), vector)
        for n, get in enumerate(gets):
            if parts > 1:
                values[str(n)] = get(group, threads)
            else:
                values[:] = get(group, threads)
        if shared:
            array, index = shared_view(group, at, vector)
            array[index] = values
            if group.races is not None:
                group.races.write(at, vector.itemsize, numbers(threads))
            group.unshown[np.asarray(at)[:, None] + np.arange(vector.itemsize)] = True
        else:
            group.grid.memory.store(at, values)

    return store


def _parameter(place: Operand, registers: tuple[Operand, ...], kind: str) -> Step:
    assert isinstance(place, Address)
    assert isinstance(place.base, Symbol)
    name, first, size = place.base.name, place.offset, np.dtype(DTYPES[kind]).itemsize
    puts = [writer(register) for register in registers]

    def step(group: Group, threads: Any) -> None:
        for at, put in enumerate(puts, first // size):
            value = whole(group.grid.arguments[name], DTYPES[kind])[at]
            put(group, threads, np.full(count(threads), value))

    return step


def atomic(i: Instruction) -> Step | None:
    """``atom`` in global or shared memory: threads one after the other.

    To the search for races it only reads: warps may all do it between two barriers.
    """
    if i.name not in ("atom", "red"):
        return None
    what = next(m for m in i.modifiers if m in ("add", "exch", "min", "max", "or", "and", "cas"))
    if what == "cas":
        raise Fault("atom.cas is not emulated")
    kind = i.modifiers[-1]
    result = i.operands[0] if i.name == "atom" else None
    where, value = i.operands[-2:]
    at, get = address(where), reader(value, kind)
    put = None if result is None else writer(result)
    change = {"exch": lambda a, b: b, "or": _LOGIC["or"], "and": _LOGIC["and"]}.get(
        what, _BINARY.get(what)
    )
    assert change is not None
    shared, size = "shared" in i.modifiers, np.dtype(DTYPES[kind]).itemsize

    def step(group: Group, threads: Any) -> None:
        places = np.broadcast_to(at(group, threads), count(threads))
        values = np.broadcast_to(get(group, threads), count(threads))
        before = np.empty(count(threads), DTYPES[kind])
        if shared:
            array, index = shared_view(group, places, DTYPES[kind])
            if group.races is not None:
                group.races.read(places, size, numbers(threads))
        else:
            array, index = group.grid.memory.view(places, DTYPES[kind])
        for n, place in enumerate(index):
            before[n] = array[place]
            array[place] = change(before[n : n + 1], values[n : n + 1])[0]
        if put is not None:
            put(group, threads, before)

    return step


def nothing(i: Instruction) -> Step | None:
    """Fences of memory: here everything is in order."""
    if i.name in ("fence", "membar") or i.text.startswith(("wgmma.fence", "prefetch", "bar.warp")):
        return lambda group, threads: None
    return None
