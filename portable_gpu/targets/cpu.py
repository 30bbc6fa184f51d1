"""CPUs: each work-item is a group and a sub-group of its own; kernels use explicit vectors."""

from __future__ import annotations

import re

from portable_gpu.targets.device_class import Derivation, DeviceClass, power_of_two_in
from portable_gpu.targets.target import DeviceFacts

_POCL_X86 = re.compile(r"PoCL HSTR: \S*x86_64(?:-[^-\s]+){3}-(\S+)")
#: CPU runtimes, the fastest in products first (docs/experiments/runtime.md).
RUNTIMES = ("Portable Computing Language", "Intel(R) OpenCL")
#: LLVM's names of the x86 processors that have AVX-512.
_AVX512 = re.compile(
    "skx|skylake-avx512|cascadelake|cooperlake|cannonlake|icelake-(?:client|server)|tigerlake|"
    "rocketlake|sapphirerapids|emeraldrapids|graniterapids(?:-d)?|diamondrapids|"
    "knl|knm|znver[4-9]|x86-64-v4"
)


def _matches(facts: DeviceFacts) -> bool:
    # Mesa's llvmpipe silently ends the loops of a work-item after 65,535 rounds in all.  On this
    # path a few work-items do all the work and soon reach that.
    return facts.type == "cpu" and not facts.name.startswith("llvmpipe")


def _derive(facts: DeviceFacts, out: Derivation) -> None:
    out.exchange("serial", 1, "derived", "a work-item is its own sub-group")
    out.set("lockstep", False, "derived", "nothing to exchange")
    out.set("double_rate", 2, "derived", "vectors hold half as many")
    compiled_for = _POCL_X86.search(facts.version)
    if compiled_for or facts.platform_name == RUNTIMES[1]:
        out.set("volatile_is_shared", True, "derived", "x86 keeps the order of a thread's stores")
    if compiled_for:
        out.set("rows_in_place", 12, "derived", "measured with PoCL (docs/experiments)")
    width = power_of_two_in(4 * facts.native_float_width, 16, 64, 16)
    out.set("vector_bytes", width, "queried", "NATIVE_VECTOR_WIDTH_FLOAT")
    if width == 64 and compiled_for and not _AVX512.fullmatch(compiled_for[1]):
        # PoCL reports the width of the processor, but compiles for the processor that LLVM
        # recognises, which may be an older one without AVX-512.
        out.set("vector_bytes", 32, "derived", f"PoCL compiles for {compiled_for[1]}")


CPU = DeviceClass(
    name="cpu",
    define="CPU_DEVICE",
    summary="CPUs: one work-item a group, explicit vectors",
    matches=_matches,
    derive=_derive,
    example=DeviceFacts(
        platform_name="Portable Computing Language",
        name="pthread-x86-64",
        vendor="GenuineIntel",
        vendor_id=0x8086,
        type="cpu",
        version="OpenCL 3.0 PoCL",
        extensions=frozenset({"cl_khr_fp64", "cl_khr_int64_base_atomics"}),
        compute_units=8,
        max_work_group_size=4096,
        local_mem_size=2 << 20,
        local_mem_is_dedicated=False,
        global_mem_size=16 << 30,
        max_alloc_size=4 << 30,
        cache_size=32 << 20,
        native_float_width=8,
        host_unified_memory=True,
    ),
)
