"""Instructions by what they do, and counts of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Flag, auto
from types import MappingProxyType

#: A matrix instruction does at least as much as this many others, when loops are compared.
_MATRIX_WEIGHT = 64


class Kind(Flag):
    """What an instruction does; several at once where it does several things.

    ``VECTOR`` is whatever a SIMD's arithmetic units run, moves, comparisons and selections too;
    ``ARITHMETIC`` is the part of it that computes, on data or on addresses.  ``LANES`` are
    exchanges between lanes that are no DPP: shuffles, and those over AMD's LDS crossbar.  ``DOT``
    are multiply-adds of several narrow numbers to one sum.  ``WIDE_MULTIPLY`` are AMD's products of
    32-bit integers, at a quarter of the rate of those of 24 bits.
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


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        opcode: As the assembly has it.
        kind: What it does.
        loads: Bytes that a work-item loads from global memory.
    """

    opcode: str
    kind: Kind
    loads: int = 0


@dataclass(frozen=True)
class Mix:
    """How many instructions of each kind there are.

    Attributes:
        vector, arithmetic, fma, dot, wide_multiply, matrix, dpp, lanes, lds, scratch: Of these
            kinds.
        memory: Loads and stores of global and local memory.
        loads: How many loads from global memory bring so many bytes.
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
        """Count."""
        every = list(instructions)

        def count(kind: Kind) -> int:
            return sum(bool(i.kind & kind) for i in every)

        loads = Counter(i.loads for i in every if i.loads)
        return cls(
            vector=count(Kind.VECTOR),
            arithmetic=count(Kind.ARITHMETIC),
            fma=count(Kind.FMA),
            dot=count(Kind.DOT),
            wide_multiply=count(Kind.WIDE_MULTIPLY),
            matrix=count(Kind.MATRIX),
            dpp=count(Kind.DPP),
            lanes=count(Kind.LANES),
            lds=count(Kind.LDS),
            scratch=count(Kind.SCRATCH),
            memory=count(Kind.LDS | Kind.GLOBAL),
            loads=MappingProxyType(dict(sorted(loads.items()))),
        )

    @property
    def arithmetic_weight(self) -> int:
        """How much is computed, for comparing loops."""
        return self.arithmetic + _MATRIX_WEIGHT * self.matrix

    @property
    def fma_share(self) -> float:
        """Multiply-adds among the vector and local memory instructions."""
        return self.fma / max(1, self.vector + self.lds)

    @property
    def matrix_share(self) -> float:
        """Matrix instructions among the vector and local memory instructions."""
        return self.matrix / max(1, self.vector + self.lds)

    @property
    def arithmetic_per_memory(self) -> float:
        """Arithmetic instructions for each load or store."""
        return self.arithmetic / max(1, self.memory)
