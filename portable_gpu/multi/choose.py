"""The devices of a group."""

from __future__ import annotations

from typing import Any

import pyopencl as cl

from portable_gpu.arguments import of_kind, shown, whole
from portable_gpu.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from portable_gpu.runtime.devices import all_devices, choose_device, devices_of_variable


def chosen_devices(devices: Any) -> list[cl.Device]:
    """Return the devices that the argument ``devices`` of a group asks for.

    Raises:
        DeviceNotFoundError: There is no such device.
        ArgumentError: There is no device, or one is given twice.
        ArgumentTypeError: The argument is of another type.
        UnsupportedError: The default device has no such sub-devices.
    """
    if devices is None:
        devices = devices_of_variable() or "all"
    if isinstance(devices, str):
        if devices != "all":
            raise ArgumentError(f"devices is {shown(devices)}; expected 'all' or a list")
        return _all()
    if isinstance(devices, (tuple, list)):
        chosen = [_chosen_device(device) for device in devices]
    elif isinstance(devices, (float, complex)) or not hasattr(devices, "__index__"):
        raise ArgumentTypeError(
            f"devices is {shown(devices)}; expected a list of devices, 'all' or a number"
        )
    else:
        return _sub_devices(whole(devices, "devices"))
    if not chosen:
        raise ArgumentError("devices is empty; expected one device or more")
    for number, device in enumerate(chosen):
        if device in chosen[:number]:
            raise ArgumentError(
                f"devices has {device.name.strip()} twice; each device can be given once "
                "(a number gives sub-devices of one CPU)"
            )
    return chosen


def _all() -> list[cl.Device]:
    """Return all GPUs, or without any the devices of the default device's platform."""
    listed = all_devices()
    gpus = [device for device in listed if device.type & cl.device_type.GPU]
    if gpus:
        return gpus
    default, _ = choose_device()
    return [device for device in listed if device.platform == default.platform]


def _chosen_device(device: Any) -> cl.Device:
    if isinstance(device, cl.Device):
        return device
    return choose_device(of_kind(device, str, "an element of devices", "a device or its name"))[0]


def _sub_devices(count: int) -> list[cl.Device]:
    """Return equal sub-devices of the default device."""
    if count < 1:
        raise ArgumentError(f"devices is {count}; expected a number of sub-devices of at least 1")
    device, _ = choose_device()
    units = device.max_compute_units // count
    if not device.type & cl.device_type.CPU or not units:
        raise UnsupportedError(
            f"devices is {count}, and {device.name.strip()} has {device.max_compute_units} compute "
            "units; a number of sub-devices takes a CPU with as many"
        )
    try:
        properties: list[Any] = [cl.device_partition_property.EQUALLY, units]
        parts = device.create_sub_devices(properties)
    except cl.Error as error:
        raise UnsupportedError(f"{device.name.strip()} has no sub-devices: {error}") from error
    return list(parts[:count])
