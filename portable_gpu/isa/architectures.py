"""The published limits of GPU architectures, and the occupancy of a kernel within them.

All have the same form: a compute unit (multiprocessor, work-group processor) has a few SIMDs
(partitions), each with its own registers and a maximum of waves (warps).  Sources: AMD's
Vega, CDNA 2, CDNA 3, RDNA 2 and RDNA 3 ISA references and LLVM's AMDGPU usage guide; NVIDIA's CUDA
C++ Programming Guide, "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Architecture:
    """The limits of one compute unit.

    Attributes:
        name: Its name for compilers.
        wave: Work-items of a wave.
        simds: SIMDs of a compute unit.
        waves: The most waves of a SIMD.
        registers: 32-bit vector registers of a SIMD, for each lane.
        register_granule: Registers are allocated in multiples of this.
        groups: The most work-groups of more than one wave on a compute unit.
        local: Bytes of local memory of a compute unit.
        local_granule: Local memory is allocated in multiples of this.
        local_reserved: Further bytes that each group takes.
        scalars: Scalar registers of a SIMD; 0 if each wave always has all that it can name.
        packs_fma: Whether one instruction may do two multiply-adds of float32.
        device_library: The architecture whose device library is used if its own is missing.
    """

    name: str
    wave: int
    simds: int
    waves: int
    registers: int
    register_granule: int
    groups: int
    local: int
    local_granule: int
    local_reserved: int = 0
    scalars: int = 0
    packs_fma: bool = False
    device_library: str = ""

    @property
    def is_amd(self) -> bool:
        """Whether it is one of AMD's."""
        return self.name.startswith("gfx")

    def registers_of(self, group_size: int) -> int:
        """The most vector registers of a work-item with which a group of ``group_size`` fits."""
        waves = -(-group_size // self.wave)
        share = self.registers // -(-waves // self.simds)
        return share // self.register_granule * self.register_granule


@dataclass(frozen=True)
class Occupancy:
    """The number of waves of one kernel that are resident.

    Attributes:
        waves: Waves of a SIMD, on average.
        by_registers: Waves of a SIMD that registers alone would allow.
        limit: The limit: ``waves``, ``registers``, ``local memory`` or ``groups``.
    """

    waves: float
    by_registers: int
    limit: str


def occupancy(
    architecture: Architecture, registers: int, scalars: int, local: int, group_size: int
) -> Occupancy:
    """The occupancy of a kernel.

    Args:
        architecture: Where it runs.
        registers, scalars: Vector registers of a work-item, scalar registers of a wave.
        local: Bytes of local memory of a group.
        group_size: Work-items of a group.
    """
    a = architecture
    granted = _round_up(max(1, registers), a.register_granule)
    by_registers = min(a.waves, a.registers // granted)
    if a.scalars:
        by_registers = min(by_registers, a.scalars // _round_up(max(1, scalars), 16))
    in_group = -(-group_size // a.wave)
    allocated = _round_up(local + a.local_reserved, a.local_granule)
    groups = {
        "waves": a.simds * a.waves // in_group,
        "registers": a.simds * by_registers // in_group,
        "local memory": a.local // allocated if allocated else a.simds * a.waves,
        "groups": a.groups if in_group > 1 else a.simds * a.waves,
    }
    limit = min(groups, key=lambda resource: groups[resource])
    return Occupancy(groups[limit] * in_group / a.simds, by_registers, limit)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _gcn(name: str) -> Architecture:
    return Architecture(name, 64, 4, 10, 256, 4, 16, 65536, 512, scalars=800)


def _cdna2(name: str, device_library: str = "") -> Architecture:
    return Architecture(
        name, 64, 4, 8, 512, 8, 16, 65536, 512, 0, 800, True, device_library=device_library
    )


ARCHITECTURES: dict[str, Architecture] = {
    a.name: a
    for a in (
        _gcn("gfx803"),
        _gcn("gfx900"),
        _gcn("gfx906"),
        _gcn("gfx908"),
        _cdna2("gfx90a"),
        _cdna2("gfx942", device_library="gfx940"),
        Architecture("gfx1030", 32, 4, 16, 1024, 16, 32, 131072, 512),
        Architecture(
            "gfx1100", 32, 4, 16, 1536, 24, 32, 131072, 512,
            packs_fma=True, device_library="gfx1036",
        ),
        Architecture("sm_60", 32, 2, 32, 1024, 8, 32, 65536, 256),
        Architecture("sm_70", 32, 4, 16, 512, 8, 32, 98304, 256),
        Architecture("sm_80", 32, 4, 16, 512, 8, 32, 167936, 128, 1024),
        Architecture("sm_90", 32, 4, 16, 512, 8, 32, 233472, 128, 1024),
    )
}  # fmt: skip
