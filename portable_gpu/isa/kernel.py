"""The facts about one kernel in a compiler's output."""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.isa.loops import Loop
from portable_gpu.isa.mix import Mix


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel, as compiled.

    Attributes:
        name: The function.
        registers: Vector registers of a work-item, including those of matrix sums (gfx908 has
            separate registers for these: the larger of the two numbers).
        scalars: Scalar registers of a wave; 0 if there are none.
        scratch: Bytes of private memory of a work-item, if the kernel accesses it.
        spills: Registers (AMD) or bytes (NVIDIA) that did not fit the registers.
        scalar_spills: AMD's scalar registers that did not fit.  They go to lanes of a vector
            register, not to memory, so they are not a failure.
        local: Bytes of local memory of a group.
        group_size: Work-items of a group.
        wave: Work-items of a wave.
        mix: All instructions.
        loop: The inner loop, ``None`` in straight-line code.
    """

    name: str
    registers: int
    scalars: int
    scratch: int
    spills: int
    scalar_spills: int
    local: int
    group_size: int
    wave: int
    mix: Mix
    loop: Loop | None
