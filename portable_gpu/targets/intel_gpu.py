"""Intel GPUs: sub-group functions at a width that the kernel asks for."""

from __future__ import annotations

from portable_gpu.errors import UnsupportedError
from portable_gpu.targets.device_class import Derivation, DeviceClass, usable_subgroup_size
from portable_gpu.targets.target import DeviceFacts


def _matches(facts: DeviceFacts) -> bool:
    # A GPU whose driver has no sub-group shuffle is a generic device.
    intel = facts.type == "gpu" and facts.vendor_id == 0x8086
    return intel and usable_subgroup_size(facts) is not None


def _derive(facts: DeviceFacts, out: Derivation) -> None:
    if not out.use_subgroup_functions(facts):
        raise UnsupportedError(
            f"device class 'intel_gpu' needs sub-group shuffles, which {facts.name!r} does not "
            "have; 'generic' runs anywhere"
        )


INTEL_GPU = DeviceClass(
    name="intel_gpu",
    define="INTEL_GPU_DEVICE",
    summary="Intel GPUs: sub-group functions",
    matches=_matches,
    derive=_derive,
    example=DeviceFacts(
        platform_name="Intel(R) OpenCL Graphics",
        name="Intel(R) Arc(TM) A770 Graphics",
        vendor="Intel(R) Corporation",
        vendor_id=0x8086,
        type="gpu",
        version="OpenCL 3.0 NEO",
        opencl_c_version="OpenCL C 3.0",
        extensions=frozenset(
            {
                "cl_khr_fp16",
                "cl_khr_subgroups",
                "cl_khr_subgroup_shuffle",
                "cl_intel_subgroups",
                "cl_intel_required_subgroup_size",
            }
        ),
        compute_units=512,
        max_work_group_size=1024,
        local_mem_size=65536,
        max_num_sub_groups=128,
        sub_group_size_probed=16,
        preferred_multiple_probed=16,
    ),
)
