"""What a compiler's output says of one kernel."""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.isa.loops import Loop
from portable_gpu.isa.mix import Mix


@dataclass(frozen=True)
class Kernel:
    """One kernel, as compiled.

    Attributes:
        name: The function.
        registers: Vector registers of a work-item, those of matrix sums among them (where they
            are a file of their own, gfx908, the larger number).
        scalars: Scalar registers of a wave; 0 where there are none.
        scratch: Bytes of private memory of a work-item, in a frame that is really touched.
        spills: Registers (AMD) or bytes (NVIDIA) that did not fit the registers.
        scalar_spills: AMD's scalar registers that did not fit.  They go to lanes of a vector
            register, not to memory: no fault.
        local: Bytes of local memory of a group.
        group_size: Work-items of a group.
        wave: Work-items of a wave.
        mix: All instructions.
        loop: The inner loop, ``None`` in straight code.
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
