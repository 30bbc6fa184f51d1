"""The raw facts that a device reports, and the Target that kernels are specialised for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Source = Literal["queried", "probed", "derived", "assumed", "forced"]
Exchange = Literal[
    "warp_shuffle", "warp_volatile", "wavefront_dpp", "wavefront_lds", "khr_subgroup", "serial"
]

MatrixUnits = Literal["", "mma", "wgmma", "mfma"]


@dataclass(frozen=True)
class DeviceFacts:
    """The raw facts that a device reports.  Plain data: tests record it.

    A field is ``None`` where the device does not answer the query.  Sizes are in bytes.
    """

    platform_name: str = ""
    platform_version: str = ""
    name: str = "unknown device"
    vendor: str = ""
    vendor_id: int = 0
    type: Literal["gpu", "cpu", "accelerator"] = "gpu"
    driver_version: str = ""
    version: str = "OpenCL 1.2"
    opencl_c_version: str = "OpenCL C 1.2"
    extensions: frozenset[str] = frozenset()
    compute_units: int = 1
    max_work_group_size: int = 256
    local_mem_size: int = 32768
    local_mem_is_dedicated: bool = True
    global_mem_size: int = 1 << 30
    max_alloc_size: int = 1 << 28
    cache_size: int = 0
    cacheline_size: int = 64
    native_float_width: int = 1
    host_unified_memory: bool = False
    svm: bool = False
    system_svm: bool = False
    warp_size_nv: int | None = None
    compute_capability_nv: tuple[int, int] | None = None
    wavefront_width_amd: int | None = None
    gfxip_amd: tuple[int, int] | None = None
    board_name_amd: str | None = None
    max_num_sub_groups: int = 0
    sub_group_size_probed: int | None = None
    preferred_multiple_probed: int | None = None

    def __repr__(self) -> str:
        return f"<DeviceFacts {self.name!r}, {self.type} of {self.platform_name!r}>"


@dataclass(frozen=True)
class Fact:
    """One derived fact: its value, its source, and the reason in a few words."""

    value: object
    source: Source
    why: str


@dataclass(frozen=True)
class Target:
    """The device that kernels are specialised for.  Frozen; holds no OpenCL object.

    Attributes:
        facts: The raw answers of the device.
        device_class: Name of its row in :data:`portable_gpu.targets.DEVICE_CLASSES`.
        device_define: The value of ``-DDEVICE=``.
        cuda_sm: NVIDIA compute capability as ``10 * major + minor``; 0 elsewhere.
        subgroup_size: Work-items of a hardware SIMD group (warp 32, wavefront 64, CPU 1).
        exchange: How the lanes of a sub-group exchange values; a file of ``cl_kernels/subgroup``.
        lockstep: Whether a sub-group runs in lock-step without barriers (false if a class is forced
            on a device of another class, and if nothing is known).
        fp64: Whether double precision is available.
        double_rate: How many float32 operations take the time of one float64 operation.
        fp16: Whether the device lists half arithmetic (storage does not need it).
        compute_units: Compute units (SMs, CUs, cores).
        local_mem_size: Usable local memory of a work-group, bytes.
        max_work_group_size: Work-items of the largest work-group.
        registers: 32-bit registers that one work-item may use before it spills.
        resident_registers: The maximum of registers with which two sub-groups fit a SIMD.
        local_mem_per_unit: Local memory that the groups resident on a compute unit share, bytes.
        static_local_mem: Local memory that a kernel may declare for a group, bytes; drivers may
            take more of it in the source than they report.
        unbound_group: Kernels do not state the size of groups of up to this number of work-items,
            because the compiler would spill registers.
        matrix_units: Instructions for small matrices: ``wgmma`` (by warpgroups, from local memory;
            ``mma`` too), ``mma`` (by warps, from registers), ``mfma`` (by wavefronts, from
            registers), or none.
        matrix_instructions: Those of ``mfma`` that the device has, by name.
        dot2: Whether one instruction adds two products of float16 to a float32 sum, subnormal
            numbers among them.
        tensor_maps: Whether kernels can describe tensors to the copy engine (TMA, SM 90).
        forward_progress: Whether all work-groups that have started make progress while others
            wait, so that a group may wait for one that started before it (docs/devices.md).
        shared_cache: Cache of global memory that all compute units share, bytes, where it is known
            to hold more than they have in registers; else 0.
        volatile_is_shared: Whether other work-groups see volatile stores, in their order.
        launch_events: Whether a launch with an event takes the device no longer than without.
        memory_channels: Channels over which memory is interleaved; 0 if not known.
        channel_bytes: Adjacent bytes that belong to one channel.
        sector_bytes: The smallest piece of memory that a GPU reads.
        local_banks: Words of 4 bytes that local memory serves at once.
        simds: SIMDs of a compute unit, each with registers for at least two sub-groups.
        vector_bytes: Width of the CPU's vector registers in bytes, or of the widest useful load.
        rows_in_place: Rows of an operand that a CPU's tile of a product reads where they are stored
            as fast as it reads packed ones.
        builtins_inline: Whether the compiler inlines OpenCL's built-in functions.
        requires_subgroup_size: Whether a kernel must ask for its sub-group size by attribute.
        cl_std: The value of ``-cl-std=``.
        forced: Whether the class, or its generation, was requested and is not the device's own.
        figures: Figures that were measured on this device: the name of a row, its values as JSON,
            and a remark on the measurement.
        provenance: The source of each derived field.
    """

    facts: DeviceFacts
    device_class: str
    device_define: str
    cuda_sm: int
    subgroup_size: int
    exchange: Exchange
    lockstep: bool
    fp64: bool
    double_rate: int
    fp16: bool
    compute_units: int
    local_mem_size: int
    max_work_group_size: int
    vector_bytes: int
    rows_in_place: int
    builtins_inline: bool
    requires_subgroup_size: bool
    cl_std: str
    registers: int
    resident_registers: int
    local_mem_per_unit: int
    static_local_mem: int
    unbound_group: int
    matrix_units: MatrixUnits
    matrix_instructions: tuple[str, ...]
    dot2: bool
    tensor_maps: bool
    forward_progress: bool
    shared_cache: int
    volatile_is_shared: bool
    launch_events: bool
    memory_channels: int
    channel_bytes: int
    sector_bytes: int
    local_banks: int
    simds: int
    forced: bool = False
    figures: tuple[tuple[str, str, str], ...] = ()
    provenance: Mapping[str, Fact] = field(default_factory=dict, compare=False, hash=False)

    def __repr__(self) -> str:
        return f"<Target {self.facts.name!r} as {self.device_class}>"

    @property
    def is_cpu(self) -> bool:
        """Whether the CPU path is taken: one work-item a group, explicit vectors."""
        return self.exchange == "serial"

    def register_limit(self, registers: int) -> tuple[str, ...]:
        """Options that limit the registers of a work-item, if the compiler accepts them.

        There are none before SM 80: ptxas would spill kernels there that it does not spill for
        later ones.
        """
        has_option = self.cuda_sm >= 80 and not self.forced
        return (f"-cl-nv-maxrregcount={registers}",) if has_option else ()

    @property
    def options(self) -> tuple[str, ...]:
        """The ``-D`` options by which the OpenCL source knows the device."""
        return (
            f"-cl-std={self.cl_std}",
            f"-DDEVICE={self.device_define}",
            f"-DCUDA_SM={self.cuda_sm}",
            f"-DWAVEFRONT_SIZE={self.subgroup_size}",
            f"-DLOCKSTEP={int(self.lockstep)}",
            f"-DSUBGROUP_FUNCTIONS={int(self.exchange == 'khr_subgroup')}",
            f"-DDPP={int(self.exchange == 'wavefront_dpp')}",
            f"-DBUILTINS_INLINE={int(self.builtins_inline)}",
            f"-DREQUIRE_SUBGROUP_SIZE={int(self.requires_subgroup_size)}",
        )
