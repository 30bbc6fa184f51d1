"""AMD RDNA GPUs: wavefronts of 32 (or 64, where the driver says so)."""

from __future__ import annotations

from portable_gpu.targets.device_class import Derivation, DeviceClass
from portable_gpu.targets.gcn import derive_wavefront, is_amd_gpu
from portable_gpu.targets.target import DeviceFacts


def _matches(facts: DeviceFacts) -> bool:
    wave32 = facts.wavefront_width_amd == 32
    new = facts.gfxip_amd is not None and facts.gfxip_amd[0] >= 10
    return is_amd_gpu(facts) and (wave32 or new)


def _derive(facts: DeviceFacts, out: Derivation) -> None:
    derive_wavefront(facts, out, 32, 1024)


RDNA = DeviceClass(
    name="rdna",
    define="RDNA_DEVICE",
    summary="AMD RDNA GPUs: wavefronts of 32, LDS or DPP",
    matches=_matches,
    derive=_derive,
    example=DeviceFacts(
        platform_name="AMD Accelerated Parallel Processing",
        name="gfx1030",
        vendor="Advanced Micro Devices, Inc.",
        vendor_id=0x1002,
        type="gpu",
        version="OpenCL 2.0",
        opencl_c_version="OpenCL C 2.0",
        extensions=frozenset({"cl_khr_fp64", "cl_khr_fp16", "cl_khr_subgroups"}),
        compute_units=36,
        max_work_group_size=256,
        local_mem_size=65536,
        wavefront_width_amd=32,
        gfxip_amd=(10, 3),
        preferred_multiple_probed=32,
    ),
)
