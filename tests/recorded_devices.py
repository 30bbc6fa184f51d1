"""Facts that devices report, and what the library should derive.

PoCL, Intel's CPU runtime, llvmpipe of Mesa 22, Oclgrind and the H200 were recorded from the
devices.  The others are written after public ``clinfo`` listings, cut to the fields that detection
reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from portable_gpu.targets import DeviceFacts

_NV = frozenset({"cl_khr_fp64", "cl_khr_int64_base_atomics", "cl_nv_device_attribute_query"})
_ROCM = frozenset(
    {"cl_khr_fp64", "cl_khr_fp16", "cl_khr_subgroups", "cl_amd_device_attribute_query"}
)
_NEO = frozenset(
    {
        "cl_khr_fp16",
        "cl_khr_subgroups",
        "cl_khr_subgroup_shuffle",
        "cl_intel_subgroups",
        "cl_intel_required_subgroup_size",
    }
)


@dataclass(frozen=True)
class Expected:
    """The parts of a Target that decide which text a device gets."""

    device_class: str
    exchange: str
    subgroup_size: int
    lockstep: bool
    fp64: bool = True
    cuda_sm: int = 0
    cl_std: str = "CL1.2"


def _nvidia(name: str, capability: tuple[int, int], compute_units: int) -> DeviceFacts:
    return DeviceFacts(
        platform_name="NVIDIA CUDA",
        name=name,
        vendor="NVIDIA Corporation",
        vendor_id=0x10DE,
        version="OpenCL 3.0 CUDA" if capability >= (5, 0) else "OpenCL 1.1 CUDA",
        extensions=_NV,
        compute_units=compute_units,
        max_work_group_size=1024,
        local_mem_size=49152,
        cacheline_size=128,
        warp_size_nv=32,
        compute_capability_nv=capability,
    )


def _amd(name: str, width: int | None, gfxip: tuple[int, int] | None) -> DeviceFacts:
    return DeviceFacts(
        platform_name="AMD Accelerated Parallel Processing",
        name=name,
        vendor="Advanced Micro Devices, Inc.",
        vendor_id=0x1002,
        version="OpenCL 2.0 AMD-APP",
        opencl_c_version="OpenCL C 2.0",
        extensions=_ROCM,
        compute_units=64,
        max_work_group_size=256,
        local_mem_size=65536,
        wavefront_width_amd=width,
        gfxip_amd=gfxip,
    )


def _intel_gpu(name: str, probed: int | None, fp64: bool) -> DeviceFacts:
    return DeviceFacts(
        platform_name="Intel(R) OpenCL Graphics",
        name=name,
        vendor="Intel(R) Corporation",
        vendor_id=0x8086,
        version="OpenCL 3.0 NEO",
        opencl_c_version="OpenCL C 3.0",
        extensions=_NEO | {"cl_khr_fp64"} if fp64 else _NEO,
        compute_units=512,
        max_work_group_size=1024,
        local_mem_size=65536,
        max_num_sub_groups=128,
        sub_group_size_probed=probed,
        preferred_multiple_probed=probed,
    )


INTEL_CPU = DeviceFacts(
    platform_name="Intel(R) OpenCL",
    platform_version="OpenCL 3.1 LINUX",
    name="Intel(R) Xeon(R) Processor",
    vendor="Intel(R) Corporation",
    vendor_id=0x8086,
    type="cpu",
    driver_version="2026.22.10.0.01_160000",
    version="OpenCL 3.1 (Build 0)",
    opencl_c_version="OpenCL C 3.1",
    extensions=_NEO | {"cl_khr_fp64"},
    compute_units=2,
    max_work_group_size=8192,
    local_mem_size=262144,
    local_mem_is_dedicated=False,
    native_float_width=16,
    host_unified_memory=True,
    max_num_sub_groups=2048,
    sub_group_size_probed=16,
    preferred_multiple_probed=128,
)
POCL = DeviceFacts(
    platform_name="Portable Computing Language",
    platform_version="OpenCL 3.0 PoCL 3.0-rc2",
    name="pthread-Intel(R) Xeon(R) Processor",
    vendor="GenuineIntel",
    vendor_id=0x8086,
    type="cpu",
    driver_version="3.0-rc2",
    version="OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-rocketlake",
    opencl_c_version="OpenCL C 1.2 PoCL",
    extensions=frozenset({"cl_khr_fp64", "cl_khr_int64_base_atomics"}),
    compute_units=2,
    max_work_group_size=4096,
    local_mem_size=2 << 20,
    local_mem_is_dedicated=False,
    native_float_width=16,
    host_unified_memory=True,
)
POCL_ZEN4 = replace(
    POCL,
    name="pthread-AMD EPYC",
    vendor="AuthenticAMD",
    version="OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-znver3",
)
_RUSTICL_AMD = DeviceFacts(
    platform_name="rusticl",
    name="AMD Radeon RX 6800 (radeonsi, navi21, LLVM 17.0.6, DRM 3.57)",
    vendor="AMD",
    vendor_id=0x1002,
    version="OpenCL 3.0",
    extensions=frozenset({"cl_khr_fp64"}),
    compute_units=60,
    max_work_group_size=1024,
    local_mem_size=65536,
    preferred_multiple_probed=64,
)
H200 = _nvidia("NVIDIA H200", (9, 0), 132)
RDNA2 = _amd("gfx1030", 32, (10, 3))

RECORDED: dict[str, tuple[DeviceFacts, Expected]] = {
    "GTX 480": (
        _nvidia("GeForce GTX 480", (2, 0), 15),
        Expected("nvidia", "warp_volatile", 32, True, cuda_sm=20),
    ),
    "K40": (
        _nvidia("Tesla K40c", (3, 5), 15),
        Expected("nvidia", "warp_shuffle", 32, True, cuda_sm=35),
    ),
    "GTX 1080 Ti": (
        _nvidia("NVIDIA GeForce GTX 1080 Ti", (6, 1), 28),
        Expected("nvidia", "warp_shuffle", 32, True, cuda_sm=61),
    ),
    "V100": (
        _nvidia("Tesla V100-SXM2-16GB", (7, 0), 80),
        Expected("nvidia", "warp_shuffle", 32, False, cuda_sm=70),
    ),
    "H200": (H200, Expected("nvidia", "warp_shuffle", 32, False, cuda_sm=90)),
    "RTX 5090": (
        _nvidia("NVIDIA GeForce RTX 5090", (12, 0), 170),
        Expected("nvidia", "warp_shuffle", 32, False, cuda_sm=120),
    ),
    "HD 7970, AMD's old driver": (
        _amd("Tahiti", 64, (6, 0)),
        Expected("gcn", "wavefront_lds", 64, True),
    ),
    "R9 290, GCN 1.1 has no DPP": (
        _amd("gfx701", 64, (7, 0)),
        Expected("gcn", "wavefront_lds", 64, True),
    ),
    "Vega 10": (_amd("gfx900", 64, (9, 0)), Expected("gcn", "wavefront_dpp", 64, True)),
    "MI250": (
        _amd("gfx90a:sramecc+:xnack-", 64, (9, 0)),
        Expected("gcn", "wavefront_dpp", 64, True),
    ),
    "MI300X": (
        _amd("gfx942:sramecc+:xnack-", 64, (9, 4)),
        Expected("gcn", "wavefront_dpp", 64, True),
    ),
    "RX 6800": (RDNA2, Expected("rdna", "wavefront_dpp", 32, True)),
    "RX 7900, driver in wave64 mode": (
        _amd("gfx1100", 64, (11, 0)),
        Expected("rdna", "wavefront_dpp", 64, True),
    ),
    "RX 6800, Mesa: the width is not told": (
        _RUSTICL_AMD,
        Expected("gcn", "wavefront_lds", 64, False),
    ),
    "Arc A770": (
        _intel_gpu("Intel(R) Arc(TM) A770 Graphics", 16, fp64=False),
        Expected("intel_gpu", "khr_subgroup", 16, False, fp64=False, cl_std="CL3.0"),
    ),
    "UHD 630": (
        _intel_gpu("Intel(R) UHD Graphics 630", 32, fp64=True),
        Expected("intel_gpu", "khr_subgroup", 32, False, cl_std="CL3.0"),
    ),
    "Arc whose probe failed": (
        _intel_gpu("Intel(R) Arc(TM) A770 Graphics", None, fp64=False),
        Expected("generic", "wavefront_lds", 32, False, fp64=False),
    ),
    "PoCL": (POCL, Expected("cpu", "serial", 1, False)),
    "PoCL on a Zen 4": (POCL_ZEN4, Expected("cpu", "serial", 1, False)),
    "Intel CPU runtime": (INTEL_CPU, Expected("cpu", "serial", 1, False)),
    "rusticl llvmpipe": (
        DeviceFacts(
            platform_name="rusticl",
            name="llvmpipe (LLVM 15.0.6, 256 bits)",
            vendor="Mesa/X.org",
            type="cpu",
            driver_version="22.3.6",
            version="OpenCL 3.0",
            compute_units=8,
            max_work_group_size=1024,
            local_mem_is_dedicated=False,
            host_unified_memory=True,
        ),
        Expected("generic", "wavefront_lds", 32, False, fp64=False),
    ),
    "rusticl llvmpipe of Mesa 25: only the number of sub-groups tells of them": (
        DeviceFacts(
            platform_name="rusticl",
            name="llvmpipe (LLVM 19.1.7, 256 bits)",
            vendor="Mesa/X.org",
            type="cpu",
            driver_version="25.0.7",
            version="OpenCL 3.0",
            opencl_c_version="OpenCL C 1.2",
            extensions=frozenset({"cl_khr_subgroup_shuffle", "cl_khr_subgroup_shuffle_relative"}),
            compute_units=8,
            max_work_group_size=1024,
            local_mem_is_dedicated=False,
            host_unified_memory=True,
            max_num_sub_groups=128,
            sub_group_size_probed=8,
            preferred_multiple_probed=8,
        ),
        Expected("generic", "khr_subgroup", 8, False, fp64=False, cl_std="CL3.0"),
    ),
    "Oclgrind, whose type has the GPU bit": (
        DeviceFacts(
            platform_name="Oclgrind",
            platform_version="OpenCL 1.2 (Oclgrind 21.10)",
            name="Oclgrind Simulator",
            vendor="Oclgrind",
            vendor_id=66,
            driver_version="Oclgrind 21.10",
            version="OpenCL 1.2 (Oclgrind 21.10)",
            opencl_c_version="OpenCL C 1.2 (Oclgrind 21.10)",
            extensions=frozenset({"cl_khr_fp64", "cl_khr_int64_base_atomics"}),
            max_work_group_size=1024,
            preferred_multiple_probed=1,
        ),
        Expected("generic", "wavefront_lds", 8, False),
    ),
    "Apple M1": (
        DeviceFacts(
            platform_name="Apple",
            name="Apple M1",
            vendor="Apple",
            vendor_id=0x1027F00,
            compute_units=8,
            preferred_multiple_probed=32,
        ),
        Expected("generic", "wavefront_lds", 32, False, fp64=False),
    ),
    "Radeon under Apple's driver": (
        DeviceFacts(
            platform_name="Apple",
            name="AMD Radeon Pro 5700 XT Compute Engine",
            vendor="AMD",
            vendor_id=0x1021E00,
            extensions=frozenset({"cl_khr_fp64"}),
            compute_units=40,
            preferred_multiple_probed=32,
        ),
        Expected("generic", "wavefront_lds", 32, False),
    ),
    "Mali-G52": (
        DeviceFacts(
            platform_name="ARM Platform",
            name="Mali-G52",
            vendor="ARM",
            vendor_id=0x72120000,
            version="OpenCL 2.0",
            opencl_c_version="OpenCL C 2.0",
            compute_units=2,
            max_work_group_size=384,
            preferred_multiple_probed=8,
        ),
        Expected("generic", "wavefront_lds", 8, False, fp64=False),
    ),
    "a GPU with Khronos sub-groups": (
        DeviceFacts(
            name="some GPU",
            version="OpenCL 3.0",
            opencl_c_version="OpenCL C 3.0",
            extensions=frozenset({"cl_khr_subgroups", "cl_khr_subgroup_shuffle"}),
            max_num_sub_groups=16,
            sub_group_size_probed=64,
        ),
        Expected("generic", "khr_subgroup", 64, False, fp64=False, cl_std="CL3.0"),
    ),
    "sub-groups as wide as the work-group are not used": (
        DeviceFacts(
            name="some GPU",
            version="OpenCL 3.0",
            opencl_c_version="OpenCL C 3.0",
            extensions=frozenset({"cl_khr_subgroups", "cl_khr_subgroup_shuffle"}),
            max_num_sub_groups=16,
            sub_group_size_probed=256,
            preferred_multiple_probed=32,
        ),
        Expected("generic", "wavefront_lds", 32, False, fp64=False),
    ),
    "a device that answers nothing": (
        DeviceFacts(type="accelerator"),
        Expected("generic", "wavefront_lds", 32, False, fp64=False),
    ),
}
