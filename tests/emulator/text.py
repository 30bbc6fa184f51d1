"""PTX text as statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

#: Bits of each register type.
WIDTHS = {
    "pred": 1, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "b32": 32, "u32": 32, "s32": 32,
    "f32": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64,
}  # fmt: skip
_ENTRY = re.compile(r"\.entry\s+(\w+)\s*\((.*?)\)[^{]*\{", re.DOTALL)
_PARAMETER = re.compile(r"\.param\s+(.*?)(\w+)(?:\[(\d+)\])?\s*$", re.DOTALL)
_SHARED = re.compile(r"\.shared\s+\.align\s+(\d+)\s+\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?")
_LABEL = re.compile(r"\s*(\$?[\w$]+):(?!:)")
_ADDRESS = re.compile(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\d+))?\s*\]$")
_FLOAT = re.compile(r"0[fFdD]([0-9a-fA-F]+)$")


@dataclass(frozen=True)
class Register:
    """A register of every thread."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A number as its bits (floats) or its value (whole numbers)."""

    value: int


@dataclass(frozen=True)
class Symbol:
    """A parameter, a shared array, a label or a special register."""

    name: str


@dataclass(frozen=True)
class Address:
    """``[base + offset]``."""

    base: Register | Symbol
    offset: int


Operand: TypeAlias = "Register | Constant | Symbol | Address | tuple[Operand, ...]"


@dataclass(frozen=True)
class Instruction:
    """A statement: ``@p name.of.modifiers operands;``.

    Attributes:
        name, modifiers: The opcode.
        operands: What follows.
        guard: The predicate register, and whether it is negated.
        text: As written.
    """

    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: tuple[str, bool] | None
    text: str


@dataclass
class Kernel:
    """An entry function.

    Attributes:
        parameters: Name and bytes of each.
        widths: Bits of each register.
        shared: Place of each shared array.
        shared_bytes: Of all of them.
        code: Its instructions.
        labels: The instruction that each label stands before.
    """

    parameters: list[tuple[str, int]]
    widths: dict[str, int] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


def read(ptx: str, name: str) -> Kernel:
    """The entry ``name`` of a module."""
    ptx = re.sub(r"//[^\n]*", "", ptx)
    entry = next(match for match in _ENTRY.finditer(ptx) if match.group(1) == name)
    kernel = Kernel([_parameter(text) for text in _split(entry.group(2))])
    for array in _SHARED.finditer(ptx[: entry.start()]):  # of the module, not of the function
        _place(kernel, array)
    scopes: list[dict[str, str]] = [{}]
    body = _by_names(ptx[entry.end() :], [item for item, _ in kernel.parameters])
    for count, (kind, text) in enumerate(_statements(body)):
        if kind == "open":
            scopes.append({})
        elif kind == "close":
            scopes.pop()
        elif kind == "label":
            kernel.labels[text] = len(kernel.code)
        elif text.startswith(".reg"):
            _declare(kernel, text, scopes, count)
        elif (array := _SHARED.match(text)) is not None:
            _place(kernel, array)
        elif not text.startswith("."):
            kernel.code.append(_instruction(text, scopes))
    return kernel


def _by_names(body: str, parameters: list[str]) -> str:
    """The text, where parameters are read by their names and not by addresses in registers."""
    places = {name: name for name in parameters}
    for move in re.finditer(r"mov\.[bu]64\s+(%rd\d+), (\S+);", body):
        register, place = move.groups()
        if place in places:
            places[register] = places[place]
            body = body.replace(move[0], "")
    loads = re.compile(r"(ld\.param\.\S+\s+[^\[;]*\[)(%rd\d+)")
    return loads.sub(lambda load: load[1] + places.get(load[2], load[2]), body)


def _statements(body: str) -> Iterator[tuple[str, str]]:
    """Statements, labels and braces up to the end of the function."""
    at, depth = 0, 0
    while depth >= 0:
        while body[at].isspace():
            at += 1
        label = _LABEL.match(body, at)
        if label is not None:
            yield "label", label.group(1)
            at = label.end()
        elif body[at] in "{}":
            depth += 1 if body[at] == "{" else -1
            yield ("open" if body[at] == "{" else "close"), ""
            at += 1
        else:
            end = body.index(";", at)
            yield "statement", " ".join(body[at:end].split())
            at = end + 1


def _split(text: str) -> list[str]:
    """Parts between the commas that no bracket encloses."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "{[(") - (character in "}])")
        if character == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def _parameter(text: str) -> tuple[str, int]:
    match = _PARAMETER.match(text)
    assert match is not None, text
    kinds, name, count = match.groups()
    words = [word for word in kinds.split() if word[1:] in WIDTHS or word == ".b8"]
    size = 1 if words[0] == ".b8" else WIDTHS[words[0][1:]] // 8
    return name, size * int(count or 1)


def _place(kernel: Kernel, array: re.Match[str]) -> None:
    align, kind, name, length = array.groups()
    size = (1 if kind == "b8" else WIDTHS[kind] // 8) * int(length or 1)
    start = -(-kernel.shared_bytes // int(align)) * int(align)
    kernel.shared[name] = start
    kernel.shared_bytes = start + size


def _declare(kernel: Kernel, text: str, scopes: list[dict[str, str]], count: int) -> None:
    _, kind, names = text.split(None, 2)
    for name in _split(names):
        prefix, _, many = name.partition("<")
        for each in [f"{prefix}{i}" for i in range(int(many[:-1]))] if many else [name]:
            unique = each if len(scopes) == 1 else f"{each}@{count}"
            scopes[-1][each] = unique
            kernel.widths[unique] = WIDTHS[kind[1:]]


def _instruction(text: str, scopes: list[dict[str, str]]) -> Instruction:
    guard = None
    rest = text
    if rest.startswith("@"):
        first, _, rest = rest.partition(" ")
        negated = first.startswith("@!")
        register = _operand(first.lstrip("@!"), scopes)
        assert isinstance(register, Register), text
        guard = register.name, negated
    opcode, _, rest = rest.strip().partition(" ")
    name, *modifiers = opcode.split(".")
    operands = tuple(_operand(part, scopes) for part in _split(rest))
    return Instruction(name, tuple(modifiers), operands, guard, text)


def _operand(text: str, scopes: list[dict[str, str]]) -> Operand:
    if text.startswith("{"):
        return tuple(_operand(part, scopes) for part in _split(text[1:-1]))
    if text.startswith("["):
        parts = _split(text[1:-1])
        if len(parts) > 1:  # a tensor map and coordinates
            return tuple(_operand(part, scopes) for part in parts)
        match = _ADDRESS.match(text)
        assert match is not None, text
        base = _operand(match.group(1), scopes)
        assert isinstance(base, Register | Symbol), text
        return Address(base, int(match.group(2) or 0))
    for scope in reversed(scopes):
        if text in scope:
            return Register(scope[text])
    if (number := _FLOAT.match(text)) is not None:
        return Constant(int(number.group(1), 16))
    try:
        return Constant(int(text, 0))
    except ValueError:
        return Symbol(text)
