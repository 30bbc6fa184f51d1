"""AMD GCN and CDNA GPUs: wavefronts of 64 that exchange by DPP (AMD's compiler) or by LDS."""

from __future__ import annotations

import re
from dataclasses import replace

from portable_gpu.targets.device_class import Derivation, DeviceClass
from portable_gpu.targets.target import DeviceFacts

#: The matrix instructions that kernels use, by generation (CDNA 1, 2 and 3 ISA references).
MATRIX_INSTRUCTIONS = {
    "gfx908": ("f32_32x32x2f32", "f32_32x32x8f16", "f32_32x32x4bf16"),
    "gfx90a": ("f32_32x32x2f32", "f32_32x32x8f16", "f32_32x32x8bf16_1k", "f64_16x16x4f64"),
    "gfx942": ("f32_32x32x2f32", "f32_32x32x8f16", "f32_32x32x8bf16_1k", "f64_16x16x4f64"),
}
#: Generations of GCN, CDNA and RDNA that have ``v_dot2_f32_f16`` (clang's ``dot10-insts``), without
#: gfx90a, where it takes subnormal numbers as 0.
_DOT2 = re.compile(r"gfx(906|908|94\d|101[12]|103\d|11\d\d|12\d\d)")
#: Generations that ``gcn-...`` may name; their path runs on any device.
GENERATIONS = ("gfx906", *MATRIX_INSTRUCTIONS)


def is_amd_gpu(facts: DeviceFacts) -> bool:
    """Whether AMD's own driver runs this GPU."""
    amd = facts.vendor_id == 0x1002 or facts.vendor.startswith("Advanced Micro Devices")
    return facts.type == "gpu" and amd


def compiles_for_amdgcn(facts: DeviceFacts) -> bool:
    """Whether the driver's compiler is clang's amdgcn back end, which has the DPP built-ins."""
    before_dpp = facts.name.startswith(("gfx6", "gfx7"))
    return is_amd_gpu(facts) and facts.name.startswith("gfx") and not before_dpp


def derive_wavefront(facts: DeviceFacts, out: Derivation, default: int, simd: int) -> None:
    """Wavefront facts that GCN and RDNA share; ``simd``: vector registers of a SIMD's lane."""
    out.set("registers", 256, "derived", "vector registers of a lane")
    why = f"two wavefronts share the {simd} of a SIMD's lane"
    out.set("resident_registers", min(256, simd // 2), "derived", why)
    out.set("forward_progress", True, "derived", "wavefronts that are resident take turns")
    out.set("memory_channels", 16, "assumed", "so many, or a multiple, on most")
    out.set("channel_bytes", 256, "assumed", "AMD's OpenCL optimization guide")
    if _DOT2.fullmatch(generation(facts)):
        why = "v_dot2_f32_f16" if out.native else "emulated: not a device of this generation"
        out.set("dot2", True, "derived" if out.native else "forced", why)
    if compiles_for_amdgcn(facts) and out.native:
        out.exchange("wavefront_dpp", default, "derived", "amdgcn compiler: DPP built-ins")
    else:
        out.exchange("wavefront_lds", default, "derived", "no DPP built-ins: local memory")
    if not out.native:
        out.set("subgroup_size", default, "forced", "the width of the forced class")
        out.set("lockstep", False, "forced", "not a device of this class: barriers")
    elif facts.wavefront_width_amd is not None:
        out.set("subgroup_size", facts.wavefront_width_amd, "queried", "WAVEFRONT_WIDTH_AMD")
        out.set("lockstep", True, "derived", "a wavefront runs in lock-step")
    else:
        out.set("subgroup_size", default, "assumed", "the usual width of this architecture")
        out.set("lockstep", False, "assumed", "the width is not known: barriers")


def _matches(facts: DeviceFacts) -> bool:
    wave32 = facts.wavefront_width_amd == 32
    new = facts.gfxip_amd is not None and facts.gfxip_amd[0] >= 10
    return is_amd_gpu(facts) and not wave32 and not new


def _derive(facts: DeviceFacts, out: Derivation) -> None:
    # CDNA 2 and 3 have 512, of which a wavefront can use 256 in addition to its accumulators.
    doubled = facts.name.startswith(("gfx90a", "gfx94", "gfx95"))
    derive_wavefront(facts, out, 64, 512 if doubled else 256)
    if generation(facts).startswith(("gfx906", "gfx908", "gfx90a", "gfx94", "gfx95")):
        out.set("double_rate", 2, "derived", "a GPU of data centres")
    if instructions := MATRIX_INSTRUCTIONS.get(generation(facts), ()):
        why = "MFMA" if out.native else "MFMA, emulated: not a device of this generation"
        out.set("matrix_units", "mfma", "derived" if out.native else "forced", why)
        out.set("matrix_instructions", instructions, "derived", "those of the generation")


def generation(facts: DeviceFacts) -> str:
    """The generation of a device: ``gfx90a`` for ``gfx90a:sramecc+:xnack-``."""
    return facts.name.partition(":")[0]


def with_generation(facts: DeviceFacts, name: str) -> DeviceFacts:
    """Return the facts for a device of another generation (``gfx90a``)."""
    return facts if generation(facts) == name else replace(facts, name=name)


GCN = DeviceClass(
    name="gcn",
    define="GCN_DEVICE",
    summary="AMD GCN and CDNA GPUs: wavefronts of 64, LDS or DPP",
    matches=_matches,
    derive=_derive,
    example=DeviceFacts(
        platform_name="AMD Accelerated Parallel Processing",
        name="gfx90a:sramecc+:xnack-",
        vendor="Advanced Micro Devices, Inc.",
        vendor_id=0x1002,
        type="gpu",
        version="OpenCL 2.0",
        opencl_c_version="OpenCL C 2.0",
        extensions=frozenset({"cl_khr_fp64", "cl_khr_fp16", "cl_khr_subgroups"}),
        compute_units=104,
        max_work_group_size=1024,
        local_mem_size=65536,
        wavefront_width_amd=64,
        gfxip_amd=(9, 0),
        preferred_multiple_probed=64,
    ),
)
