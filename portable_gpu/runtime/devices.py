"""List OpenCL devices, read their facts, and pick one."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import Any

import pyopencl as cl

from portable_gpu.errors import DeviceNotFoundError, UnsupportedError, how_to_install
from portable_gpu.runtime import fork, loader, pocl
from portable_gpu.runtime.compiler import CompilerError, compiled
from portable_gpu.runtime.pocl_processor import version
from portable_gpu.targets import DeviceFacts, Target, detect
from portable_gpu.targets.cpu import RUNTIMES
from portable_gpu.targets.device_class import has_subgroup_shuffle

DEVICE_VARIABLE = "PORTABLE_GPU_DEVICE"
CLASS_VARIABLE = "PORTABLE_GPU_DEVICE_CLASS"

_FINE_GRAIN_SYSTEM = 1 << 2
_PROBE = """
__kernel void probe(__global int *out) { out[get_global_id(0)] = 1; }
"""


@dataclass(frozen=True)
class DeviceInfo:
    """One device as :func:`devices` lists it.

    Attributes:
        index: ``platform:device``, as ``PORTABLE_GPU_DEVICE`` takes it.
        platform: Name of the platform.
        device: The pyopencl device.
        target: Its target.
    """

    index: str
    platform: str
    device: cl.Device
    target: Target

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            f"a DeviceInfo belongs to one process and cannot be pickled; its index, {self.index}, "
            "and its target can"
        )

    def __repr__(self) -> str:
        name, kind = self.device.name.strip(), self.target.device_class
        return f"<DeviceInfo {self.index} {name!r} of {self.platform!r} as {kind}>"


def devices() -> list[DeviceInfo]:
    """Every device of every platform, in the order of the OpenCL loader.

    Raises:
        ForkError: The process was forked from one that had used OpenCL.
    """
    return [
        DeviceInfo(index, device.platform.name.strip(), device, detect(query_facts(device)))
        for index, device in _enumerate()
    ]


def all_devices() -> list[cl.Device]:
    """Every device of every platform, in the order of :func:`devices`, without their facts."""
    return [device for _, device in _enumerate()]


def devices_of_variable() -> list[str]:
    """The requests that ``PORTABLE_GPU_DEVICE`` lists; empty if it is not set."""
    return requests_of(os.environ.get(DEVICE_VARIABLE) or "")


def requests_of(text: str) -> list[str]:
    """The requests of a text that separates them by commas.

    A text that is part of the name of a device is one request.
    """
    if "," not in text or any(_matches(text, *listed) for listed in _enumerate()):
        return [text] if text else []
    return [request.strip() for request in text.split(",") if request.strip()]


def choose_device(request: str | None = None, name: str = "device") -> tuple[cl.Device, str]:
    """The device to use, and the reason in a sentence.

    Args:
        request: ``platform:device`` (indices or parts of names), or part of a name.  Without it
            ``PORTABLE_GPU_DEVICE`` is used (the first, if it lists several), then the first GPU,
            then the first CPU (if several runtimes offer it, by the fastest one).
        name: The name of the request in messages.

    Raises:
        DeviceNotFoundError: Nothing matches; the message lists the devices that exist.
    """
    listed = _enumerate()
    source = f"{name}="
    if request is None:
        request, source = next(iter(devices_of_variable()), None), f"{DEVICE_VARIABLE}="
    if request is not None:
        for index, device in listed:
            if _matches(request, index, device):
                return device, f"{source}{request} asks for it"
        raise DeviceNotFoundError(f"{source}{request} matches no OpenCL device. {_listing(listed)}")
    if not listed:
        raise DeviceNotFoundError(f"no OpenCL device. {_listing(listed)}")
    for _, device in listed:
        if device.type & cl.device_type.GPU:
            return device, "the first GPU (a GPU is preferred, then a CPU)"
    processors = [device for _, device in listed if device.type & cl.device_type.CPU]
    if not processors:
        return listed[0][1], "the only kind of device there is"
    names = {device.platform.name for device in processors}
    fastest = next((name for name in RUNTIMES if name in names), None)
    if fastest is None or len(names) == 1:
        return processors[0], "the first CPU (there is no GPU)"
    device = next(device for device in processors if device.platform.name == fastest)
    return device, f"there is no GPU, and of the CPU's runtimes {fastest} measured fastest"


def devices_like(chosen: cl.Device, request: str | None) -> list[tuple[str, cl.Device]]:
    """The devices of the kind and the platform of a chosen one, with their indices.

    Args:
        chosen: The device that :func:`choose_device` returned.
        request: Its request: only devices that match it, too, are returned.
    """
    request = request or os.environ.get(DEVICE_VARIABLE) or None
    return [
        (index, device)
        for index, device in _enumerate()
        if device.type == chosen.type
        and device.platform == chosen.platform
        and (request is None or _matches(request, index, device))
    ]


def query_facts(device: cl.Device) -> DeviceFacts:
    """All facts that ``device`` reports; ``None`` for queries that it does not answer."""
    extensions = frozenset(device.extensions.split())
    facts: dict[str, Any] = {
        "platform_name": device.platform.name.strip(),
        "platform_version": device.platform.version.strip(),
        "name": device.name.strip(),
        "vendor": device.vendor.strip(),
        "vendor_id": device.vendor_id,
        "type": _type(device),
        "driver_version": device.driver_version,
        "version": version(device).strip(),
        "opencl_c_version": device.opencl_c_version.strip(),
        "extensions": extensions,
        "compute_units": device.max_compute_units,
        "max_work_group_size": device.max_work_group_size,
        "local_mem_size": device.local_mem_size,
        "local_mem_is_dedicated": device.local_mem_type == cl.device_local_mem_type.LOCAL,
        "global_mem_size": device.global_mem_size,
        "max_alloc_size": device.max_mem_alloc_size,
        "cache_size": device.global_mem_cache_size,
        "cacheline_size": device.global_mem_cacheline_size or 64,
        "native_float_width": device.native_vector_width_float,
        "host_unified_memory": bool(_ask(device, "host_unified_memory")),
        "svm": bool(_ask(device, "svm_capabilities")),
        "system_svm": bool((_ask(device, "svm_capabilities") or 0) & _FINE_GRAIN_SYSTEM),
        "warp_size_nv": _ask(device, "warp_size_nv"),
        "compute_capability_nv": _pair(device, "compute_capability_%s_nv"),
        "wavefront_width_amd": _ask(device, "wavefront_width_amd"),
        "gfxip_amd": _pair(device, "gfxip_%s_amd"),
        "board_name_amd": _ask(device, "board_name_amd"),
        "max_num_sub_groups": _ask(device, "max_num_sub_groups") or 0,
    }
    known = DeviceFacts(**facts)
    needs_probe = known.type != "cpu" or has_subgroup_shuffle(known)
    if needs_probe and known.warp_size_nv is None and known.wavefront_width_amd is None:
        facts["preferred_multiple_probed"], facts["sub_group_size_probed"] = _probe(device, known)
    return DeviceFacts(**facts)


def _enumerate() -> list[tuple[str, cl.Device]]:
    fork.check()
    result: list[tuple[str, cl.Device]] = []
    with pocl.opening() as requested:
        for p, platform in enumerate(loader.platforms()):
            with contextlib.suppress(cl.Error):
                for d, device in enumerate(pocl.devices_of(platform, requested)):
                    result.append((f"{p}:{d}", device))
    return result


def _matches(request: str, index: str, device: cl.Device) -> bool:
    text, name = request.strip().lower(), device.name.lower()
    platform = device.platform.name.lower()
    if text == index or text in name or text in platform:
        return True
    head, colon, tail = text.partition(":")
    if not colon:
        return False
    p, d = index.split(":")
    return (head == p or (not head.isdigit() and head in platform)) and (
        tail == d or (not tail.isdigit() and tail in name)
    )


def _listing(listed: list[tuple[str, cl.Device]]) -> str:
    if not listed:
        platforms = loader.platforms()
        if platforms:
            names = ", ".join(platform.name.strip() for platform in platforms)
            return f"There is {names}, which gives none; a warning may say why"
        return (
            f"No OpenCL implementation is installed; {how_to_install('pocl')} gives one for the CPU"
        )
    names = ", ".join(f"{i} {d.name.strip()} ({d.platform.name.strip()})" for i, d in listed)
    return f"There are: {names}"


def _type(device: cl.Device) -> str:
    if device.type & cl.device_type.GPU:
        return "gpu"
    return "cpu" if device.type & cl.device_type.CPU else "accelerator"


def _ask(device: cl.Device, name: str) -> Any:
    try:
        return getattr(device, name)
    except (cl.Error, AttributeError):  # the device lacks the extension of this query
        return None


def _pair(device: cl.Device, pattern: str) -> tuple[int, int] | None:
    major, minor = _ask(device, pattern % "major"), _ask(device, pattern % "minor")
    return None if major is None or minor is None else (major, minor)


def _probe(device: cl.Device, facts: DeviceFacts) -> tuple[int | None, int | None]:
    """Build a kernel of one line, for facts that only a kernel can answer."""
    try:
        kernel = cl.Kernel(compiled(cl.Context([device]), device, _PROBE), "probe")
        multiple = kernel.get_work_group_info(
            cl.kernel_work_group_info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE, device
        )
    except (cl.Error, CompilerError):
        return None, None
    if not has_subgroup_shuffle(facts):
        return multiple, None
    try:
        size = kernel.get_sub_group_info(
            device,
            cl.kernel_sub_group_info.MAX_SUB_GROUP_SIZE_FOR_NDRANGE,
            [min(256, facts.max_work_group_size)],
        )
    except (cl.Error, AttributeError):
        return multiple, None
    return multiple, size if isinstance(size, int) else None
