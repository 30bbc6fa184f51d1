"""Kinds of instructions, and counts of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Flag, auto
from types import MappingProxyType

#: When loops are compared, a matrix instruction counts as this many others.
_MATRIX_WEIGHT = 64


class InstructionKind(Flag):
    """The kinds of instructions; an instruction may be of several kinds.

    ``VECTOR``: everything that a SIMD's arithmetic units run, including moves, comparisons and
    selections.  ``ARITHMETIC``: the vector instructions that compute, on data or on addresses.
    ``LANES``: exchanges between lanes other than DPP, which are shuffles and uses of AMD's LDS
    crossbar.  ``DOT``: multiply-adds of several narrow numbers to one sum.  ``WIDE_MULTIPLY``:
    AMD's products of 32-bit integers, at a quarter of the rate of 24-bit products.
    """

    NONE = 0
    VECTOR = auto()
    ARITHMETIC = auto()
    FMA = auto()
    DOT = auto()
    WIDE_MULTIPLY = auto()
    MATRIX = auto()
    DPP = auto()
    LANES = auto()
    LDS = auto()
    GLOBAL = auto()
    SCRATCH = auto()


#: The kinds whose instructions are counted by their names.
_COUNTED = [
    kind for kind in InstructionKind if kind not in (InstructionKind.NONE, InstructionKind.GLOBAL)
]


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        opcode: The opcode in the assembly.
        kind: Its kinds.
        loads: Bytes that a work-item loads from global memory.
    """

    opcode: str
    kind: InstructionKind
    loads: int = 0


@dataclass(frozen=True)
class Mix:
    """The number of instructions of each kind.

    Attributes:
        vector, arithmetic, fma, dot, wide_multiply, matrix, dpp, lanes, lds, scratch: Instructions
            of these kinds.
        memory: Loads and stores of global and local memory.
        loads: For each size in bytes, the number of loads from global memory.
    """

    vector: int = 0
    arithmetic: int = 0
    fma: int = 0
    dot: int = 0
    wide_multiply: int = 0
    matrix: int = 0
    dpp: int = 0
    lanes: int = 0
    lds: int = 0
    scratch: int = 0
    memory: int = 0
    loads: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, instructions: Iterable[Instruction]) -> Mix:
        """Count the instructions."""
        every = list(instructions)

        def count(kind: InstructionKind) -> int:
            return sum(bool(i.kind & kind) for i in every)

        loads = Counter(i.loads for i in every if i.loads)
        return cls(
            **{str(kind.name).lower(): count(kind) for kind in _COUNTED},
            memory=count(InstructionKind.LDS | InstructionKind.GLOBAL),
            loads=MappingProxyType(dict(sorted(loads.items()))),
        )

    @property
    def arithmetic_weight(self) -> int:
        """The amount of computation, to compare loops."""
        return self.arithmetic + _MATRIX_WEIGHT * self.matrix

    @property
    def fma_share(self) -> float:
        """The share of multiply-adds in the vector and local memory instructions."""
        return self.fma / max(1, self.vector + self.lds)

    @property
    def matrix_share(self) -> float:
        """The share of matrix instructions in the vector and local memory instructions."""
        return self.matrix / max(1, self.vector + self.lds)

    @property
    def arithmetic_per_memory(self) -> float:
        """Arithmetic instructions for each load or store."""
        return self.arithmetic / max(1, self.memory)
