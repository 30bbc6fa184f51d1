"""NVIDIA GPUs: warps of 32; ``shfl`` from SM 30, ``shfl.sync`` from SM 70."""

from __future__ import annotations

from dataclasses import replace

from portable_gpu.targets.device_class import Derivation, DeviceClass
from portable_gpu.targets.target import DeviceFacts, MatrixUnits, Source

#: Shared memory of a multiprocessor, KiB, by compute capability (CUDA C++ Programming Guide).
_LOCAL_KIB = {50: 64, 53: 64, 60: 64, 62: 64, 75: 64, 80: 164, 86: 100, 87: 164, 89: 100,
              90: 228, 100: 228, 103: 228, 120: 100}  # fmt: skip

#: The L2 cache of GPUs for data centres, MiB, by compute capability (NVIDIA's white papers).
_L2_MIB = {80: 40, 90: 50, 100: 126}

_CUDA_12_7 = 565  # the first driver of CUDA 12.7


def _matches(facts: DeviceFacts) -> bool:
    return facts.type == "gpu" and (
        facts.compute_capability_nv is not None or facts.vendor_id == 0x10DE
    )


#: Compute capabilities of which every GPU has half as many float64 as float32 units.
_FAST_DOUBLES = (60, 70, 80, 90, 100)


def _derive(facts: DeviceFacts, out: Derivation) -> None:
    if facts.compute_capability_nv is not None:
        major, minor = facts.compute_capability_nv
        sm = 10 * major + minor
        source: Source = "forced" if out.forced else "queried"
        out.set("cuda_sm", sm, source, "as asked for" if out.forced else "COMPUTE_CAPABILITY_NV")
    else:
        sm = 20
        out.set("cuda_sm", sm, "assumed", "no COMPUTE_CAPABILITY_NV: the oldest path is taken")
    if sm >= 30:
        why = "PTX shfl.sync" if sm >= 70 else "PTX shfl"
        out.exchange("warp_shuffle", 32, "derived", why)
    else:
        out.exchange("warp_volatile", 32, "derived", "no shuffle before SM 30")
    l2_bytes = _L2_MIB.get(sm, 0) << 20
    out.set("shared_cache", l2_bytes, "derived", "the second cache, where it is large")
    rate = 2 if sm in _FAST_DOUBLES else 64 if sm >= 80 else 32
    out.set("double_rate", rate, "derived", "float64 units of a multiprocessor (CUDA's guide)")
    registers = 255 if sm >= 35 else 63
    local_kib = _LOCAL_KIB.get(sm, 96 if sm >= 50 else 48)
    out.set("registers", registers, "derived", "registers of a thread at this compute capability")
    out.set("resident_registers", registers, "derived", "any kernel leaves room for two warps")
    # 65536 registers, at most 255 a work-item; before SM 35 32768, at most 63.  A compiler that
    # knows the group's size uses fewer registers, and spills, if that makes one more group
    # resident (docs/experiments/reduce.md).
    out.set("unbound_group", 256, "derived", "there is room for all registers of 256 work-items")
    out.set("sector_bytes", 32, "derived", "caches move sectors of 32 bytes (CUDA's guide)")
    out.set("local_banks", 32, "derived", "banks of shared memory (CUDA's guide)")
    out.set("simds", 4, "derived", "partitions of a multiprocessor")
    out.set("local_mem_per_unit", local_kib << 10, "derived", "shared memory of a multiprocessor")
    if sm >= 80:
        # Larger static arrays than the reported 48 KiB build and run.
        max_bytes = (local_kib << 10) * 7 // 8
        out.set("static_local_mem", max_bytes, "derived", "7/8 of a multiprocessor's shared memory")
    out.set("tensor_maps", *_tensor_maps(sm, facts.driver_version))
    out.set("forward_progress", True, "derived", "groups that run share the multiprocessors' time")
    out.set("launch_events", False, "derived", "an event delays the kernel behind it by 2 us")
    matrix_units, why = _matrix_units(sm)
    out.set("matrix_units", matrix_units, "derived", why)
    if not out.native:
        out.set("subgroup_size", 32, "forced", "the width of the forced class")
        out.set("lockstep", False, "forced", "not a device of this class: barriers")
        return
    if facts.warp_size_nv is not None:
        out.set("subgroup_size", facts.warp_size_nv, "queried", "WARP_SIZE_NV")
    known = facts.compute_capability_nv is not None
    out.set("lockstep", known and sm < 70, "derived", "warps run in lock-step before SM 70")


def _matrix_units(sm: int) -> tuple[MatrixUnits, str]:
    """The tensor cores' instructions (PTX ISA); wgmma belongs to sm_90a alone."""
    if sm == 90:
        return "wgmma", "PTX wgmma (sm_90a) and mma.sync"
    return ("mma", "PTX mma.sync") if sm >= 80 else ("", "no mma.sync of float64 or bfloat16")


def _tensor_maps(sm: int, driver: str) -> tuple[bool, Source, str]:
    """Whether kernels use PTX's tensormap.replace; its source, and a reason.

    Before CUDA 12.7 the strides of that instruction were in units of 16 bytes.
    """
    major = driver.partition(".")[0]
    if sm != 90 or (major.isdigit() and int(major) < _CUDA_12_7):
        return False, "derived", f"tensormap.replace of sm_90a, by drivers from {_CUDA_12_7} on"
    return True, "derived" if major.isdigit() else "assumed", "PTX tensormap.replace (sm_90a)"


_EXAMPLE = DeviceFacts(
    platform_name="NVIDIA CUDA",
    name="NVIDIA H200",
    vendor="NVIDIA Corporation",
    vendor_id=0x10DE,
    type="gpu",
    version="OpenCL 3.0 CUDA",
    extensions=frozenset({"cl_khr_fp64", "cl_khr_int64_base_atomics"}),
    compute_units=132,
    max_work_group_size=1024,
    local_mem_size=49152,
    global_mem_size=150_000_000_000,
    max_alloc_size=37_500_000_000,
    cache_size=4_325_376,
    cacheline_size=128,
    warp_size_nv=32,
    compute_capability_nv=(9, 0),
    preferred_multiple_probed=32,
)


def with_sm(facts: DeviceFacts, sm: int) -> DeviceFacts:
    """Return the facts with another compute capability (``sm=86`` is 8.6)."""
    return replace(facts, compute_capability_nv=divmod(sm, 10), warp_size_nv=32)


NVIDIA = DeviceClass(
    name="nvidia",
    define="CUDA_DEVICE",
    summary="NVIDIA GPUs: warps of 32, shuffles by inline PTX",
    matches=_matches,
    derive=_derive,
    example=_EXAMPLE,
)
