"""Read the assembly of AMD's GPUs, as clang prints it with ``-S``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from portable_gpu.isa.kernel import CompiledKernel
from portable_gpu.isa.loops import Block, inner_loop
from portable_gpu.isa.mix import Instruction, InstructionKind, Mix

_FUNCTION = re.compile(r"^(\w+):[^\n]*\n(.*?)^\.Lfunc_end", re.MULTILINE | re.DOTALL)
_LABEL = re.compile(r"([.\w$]+):")
_BRANCH = re.compile(r"s_c?branch")
_FLOAT_FMA = re.compile(
    r"v_(pk_|dual_)?(fma|fmac|fmaak|fmamk|mad|madak|madmk|mac|fma_mix|fma_mixlo|fma_mixhi|mad_mix"
    r"|mad_mixlo|mad_mixhi)(_legacy)?_(f16|f32|f64)"
)
_DOT = re.compile(r"v_(dual_)?dot\d\w*_f(16|32)_")
_WIDE_MULTIPLY = re.compile(r"v_(mul_(lo|hi)_[iu]32|mad_[iu]64_[iu]32)")
_MATRIX = re.compile(r"v_(s?mfma|smfmac|s?wmma)")
_NO_ARITHMETIC = re.compile(
    r"v_(pk_|dual_)?(mov|movrel|cndmask|cmpx?|readlane|readfirstlane|writelane|accvgpr|swap|nop|cvt|perm)"
)
_DPP_OPERAND = re.compile(r"\b(quad_perm|row_\w+|wave_\w+|dpp8)\b")
_CROSSBAR = re.compile(r"ds_(swizzle|b?permute)|v_permlane")
#: Kernels access their buffers by flat_ and global_; buffer_ is always scratch memory.
_SCRATCH = re.compile(r"(scratch|buffer)_(load|store)")
_GLOBAL = re.compile(r"(global|flat)_(load|store|atomic)")
_GLOBAL_LOAD = re.compile(r"(?:global|flat)_load_(?:d16_)?(?:hi_)?(\w+)")
_BYTES = {
    "ubyte": 1, "sbyte": 1, "u8": 1, "i8": 1,
    "ushort": 2, "sshort": 2, "short": 2, "u16": 2, "i16": 2, "b16": 2,
    "dword": 4, "b32": 4, "dwordx2": 8, "b64": 8,
    "dwordx3": 12, "b96": 12, "dwordx4": 16, "b128": 16,
}  # fmt: skip


def read(text: str) -> Iterator[CompiledKernel]:
    """Yield the kernels of an assembly; the mix includes the functions that kernels may call."""
    metadata = text.partition(".amdgpu_metadata")[2]
    for entry in re.split(r"^  - ", metadata, flags=re.MULTILINE)[1:]:
        name = re.search(r"^    \.name:\s+(\S+)", entry, re.M)
        if name is None:
            continue
        facts = {key: int(value) for key, value in re.findall(r"\.(\w+):\s+(\d+)\s*$", entry, re.M)}
        bodies = dict(_FUNCTION.findall(text))
        mix = Mix.of(
            i for body in bodies.values() for item in blocks(body) for i in item.instructions
        )
        # A frame may be reserved and never used.
        scratch = facts.get("private_segment_fixed_size", 0) if mix.scratch else 0
        yield CompiledKernel(
            name=name[1],
            registers=facts.get("vgpr_count", 0),
            scalars=facts.get("sgpr_count", 0),
            scratch=scratch,
            spills=facts.get("vgpr_spill_count", 0),
            scalar_spills=facts.get("sgpr_spill_count", 0),
            local=facts.get("group_segment_fixed_size", 0),
            group_size=facts.get("max_flat_workgroup_size", 0),
            wave=facts.get("wavefront_size", 0),
            mix=mix,
            loop=inner_loop(blocks(bodies.get(name[1], ""))),
        )


def blocks(body: str) -> Iterator[Block]:
    """Yield the basic blocks of a function."""
    label, count = "entry", 0
    instructions: list[Instruction] = []
    for raw in body.splitlines():
        line = raw.partition(";")[0].strip()
        if match := _LABEL.match(line):
            yield Block(label, tuple(instructions), (match[1],))
            label, instructions = match[1], []
        elif line and not line.startswith("."):
            instructions.append(instruction(line))
            opcode = instructions[-1].opcode
            if _BRANCH.match(opcode) or opcode == "s_endpgm":
                count += 1
                following = f"{label}+{count}"
                targets = [line.split()[-1]] if opcode != "s_endpgm" else []
                if opcode.startswith("s_cbranch"):
                    targets.append(following)
                yield Block(label, tuple(instructions), tuple(targets))
                label, instructions = following, []
    yield Block(label, tuple(instructions), ())


def instruction(line: str) -> Instruction:
    """Return the instruction of one line."""
    opcode, _, operands = line.partition(" ")
    kind, loads = InstructionKind.NONE, 0
    if _CROSSBAR.match(opcode):
        kind = InstructionKind.LANES
    elif opcode.startswith("ds_"):
        kind = InstructionKind.LDS
    elif _SCRATCH.match(opcode):
        kind = InstructionKind.SCRATCH
    elif _GLOBAL.match(opcode):
        kind = InstructionKind.GLOBAL
        if load := _GLOBAL_LOAD.match(opcode):
            loads = _BYTES.get(load[1], 0)
    elif opcode.startswith("v_"):
        kind = InstructionKind.VECTOR
        if _MATRIX.match(opcode):
            kind |= InstructionKind.MATRIX | InstructionKind.ARITHMETIC
        elif _FLOAT_FMA.match(opcode):
            kind |= InstructionKind.FMA | InstructionKind.ARITHMETIC
        elif _DOT.match(opcode):
            kind |= InstructionKind.DOT | InstructionKind.FMA | InstructionKind.ARITHMETIC
        elif not _NO_ARITHMETIC.match(opcode) or "::" in operands:
            kind |= InstructionKind.ARITHMETIC
        if _WIDE_MULTIPLY.match(opcode):
            kind |= InstructionKind.WIDE_MULTIPLY
        if "::" in operands:
            kind |= instruction(operands.partition("::")[2].strip()).kind & (
                InstructionKind.FMA | InstructionKind.DOT
            )
        if "_dpp" in opcode or _DPP_OPERAND.search(operands):
            kind |= InstructionKind.DPP
    return Instruction(opcode, kind, loads)
