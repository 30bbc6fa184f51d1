"""Read PTX as clang prints it, and the output of ``ptxas -v``.

Registers, spills and local memory are those of ptxas.  Instructions are counted in the PTX, before
ptxas unrolls, schedules and folds address arithmetic.  The machine code is not read, because only
NVIDIA's toolkit has its disassembler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from portable_gpu.isa.kernel import CompiledKernel
from portable_gpu.isa.loops import Block, inner_loop
from portable_gpu.isa.mix import Instruction, InstructionKind, Mix

_WARP = 32
_FUNCTION = re.compile(
    r"\.(?:entry|func)\b[^{;]*?(\w+)\([^{;]*?^\{(.*?)^\}", re.MULTILINE | re.DOTALL
)
_ENTRY_END = re.compile(r"(^\.entry [^{]*?)\)\n\{", re.MULTILINE)
_LABEL = re.compile(r"(\$?\w+):$")
_PREDICATE = re.compile(r"^@!?%?\w+\s+")
_ARITHMETIC = re.compile(
    r"addc?|subc?|mul(24)?|madc?|mad24|fma|sad|abs|neg|min|max|div|rem|rcp|r?sqrt|sin|cos|lg2|ex2|tanh"
    r"|and|or|xor|c?not|lop3|sh[lrf]|bf[ei]|bmsk|popc|clz|brev|prmt|dp[24]a"
)
_OTHER_VECTOR = frozenset({"mov", "setp", "set", "selp", "slct", "cvt", "cvta", "copysign"})
_MATRIX = ("wgmma.mma_async", "mma.sync", "wmma.mma")
_BITS = re.compile(r"\.[bsuf](8|16|32|64|128)\b")
_VECTOR_WIDTH = re.compile(r"\.v([248])\b")
_ASYNC_BYTES = re.compile(r",\s*(4|8|16)\s*(?:,|$)")


def read(ptx: str, log: str, group_size: int) -> Iterator[CompiledKernel]:
    """Each kernel that ptxas compiled; functions that it may call are counted with it.

    Args:
        ptx: The text.
        log: The output of ``ptxas -v``.
        group_size: Work-items of a group; clang does not write it into PTX.
    """
    for entry in re.split(r"Compiling entry function '", log)[1:]:
        name = entry.partition("'")[0]
        stack, stores, loads = (
            _number(rf"(\d+) bytes {counter}", entry)
            for counter in ("stack frame", "spill stores", "spill loads")
        )
        bodies = dict(_FUNCTION.findall(ptx))
        yield CompiledKernel(
            name=name,
            registers=_number(r"Used (\d+) registers", entry),
            scalars=0,
            scratch=stack,
            spills=stores + loads,
            scalar_spills=0,
            local=_number(r"(\d+) bytes smem", entry),
            group_size=group_size,
            wave=_WARP,
            mix=Mix.of(
                i for body in bodies.values() for item in blocks(body) for i in item.instructions
            ),
            loop=inner_loop(blocks(bodies.get(name, ""))),
        )


def with_group_size(ptx: str, size: int) -> str:
    """PTX that states the kernel's group size, as drivers write it and clang does not.

    ptxas then allocates at most as much registers to each work-item as such a group can have.  It
    allocates fewer, and spills, if that makes one more group resident.
    """
    return _ENTRY_END.sub(rf"\1)\n.reqntid {size}, 1, 1\n{{", ptx)


def blocks(body: str) -> Iterator[Block]:
    """The basic blocks of a function's text between its braces."""
    label, count = "entry", 0
    instructions: list[Instruction] = []
    for line in _statements(body):
        if match := _LABEL.match(line):
            yield Block(label, tuple(instructions), (match[1],))
            label, instructions = match[1], []
            continue
        bare = _PREDICATE.sub("", line, count=1)
        instructions.append(instruction(bare))
        opcode = instructions[-1].opcode
        ends = opcode in ("ret", "exit", "trap")
        if ends or opcode.partition(".")[0] == "bra":
            count += 1
            following = f"{label}+{count}"
            targets = [] if ends else [bare.split()[-1]]
            if bare != line:
                targets.append(following)
            yield Block(label, tuple(instructions), tuple(targets))
            label, instructions = following, []
    yield Block(label, tuple(instructions), ())


def instruction(line: str) -> Instruction:
    """The instruction of one statement without its predicate."""
    opcode = line.split(maxsplit=1)[0]
    base = opcode.partition(".")[0]
    kind, loads = InstructionKind.NONE, 0
    if opcode.startswith(_MATRIX):
        kind = InstructionKind.VECTOR | InstructionKind.ARITHMETIC | InstructionKind.MATRIX
    elif opcode.startswith("cp.async") and ".global" in opcode:
        kind = InstructionKind.LDS | InstructionKind.GLOBAL
        size = _ASYNC_BYTES.search(line.partition("]")[2].partition("]")[2])
        loads = int(size[1]) if size else 0
    elif base in ("ld", "ldu", "st", "atom", "red", "ldmatrix", "stmatrix"):
        kind = _memory(opcode)
        if base in ("ld", "ldu") and kind == InstructionKind.GLOBAL:
            loads = _width(opcode)
    elif base == "shfl":
        kind = InstructionKind.LANES
    elif _ARITHMETIC.fullmatch(base):
        kind = InstructionKind.VECTOR | InstructionKind.ARITHMETIC
        if base == "fma" or (base == "mad" and ".f" in opcode):
            kind |= InstructionKind.FMA
    elif base in _OTHER_VECTOR:
        kind = InstructionKind.VECTOR
    return Instruction(opcode, kind, loads)


def _memory(opcode: str) -> InstructionKind:
    if ".local" in opcode:
        return InstructionKind.SCRATCH
    if ".shared" in opcode or opcode.startswith(("ldmatrix", "stmatrix")):
        return InstructionKind.LDS
    return (
        InstructionKind.NONE if ".param" in opcode or ".const" in opcode else InstructionKind.GLOBAL
    )


def _width(opcode: str) -> int:
    bits, vector = _BITS.search(opcode), _VECTOR_WIDTH.search(opcode)
    return (int(bits[1]) // 8 if bits else 0) * (int(vector[1]) if vector else 1)


def _statements(body: str) -> Iterator[str]:
    """Labels and instructions one by one; inline assembly has several in a line, and braces."""
    for raw in body.splitlines():
        line = raw.partition("//")[0].strip()
        if _LABEL.match(line):
            yield line
            continue
        for part in re.sub(r"^\{|\}\s*$", "", line).split(";"):
            statement = part.strip()
            if statement and statement[0] not in ".{}":
                yield statement


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0
