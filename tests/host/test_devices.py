"""Which device is chosen, on devices that are not there."""

from __future__ import annotations

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pyopencl as cl
import pytest

from portable_gpu.errors import DeviceNotFoundError
from portable_gpu.runtime import devices, pocl


def device(platform: str, name: str, kind: int) -> Any:
    return SimpleNamespace(platform=SimpleNamespace(name=platform), name=name, type=kind)


CPU, GPU = cl.device_type.CPU, cl.device_type.GPU
POCL = device("Portable Computing Language", "pthread-EPYC", CPU)
INTEL = device("Intel(R) OpenCL", "EPYC", CPU)
OTHER = device("Oclgrind", "Simulator", CPU)
RADEON = device("AMD", "gfx1030", GPU)


@pytest.mark.parametrize(
    ("there", "chosen", "why"),
    [
        ([POCL, RADEON], RADEON, "first GPU"),
        ([INTEL, POCL], POCL, "Portable Computing Language measured fastest"),
        ([OTHER, INTEL], INTEL, "Intel.* measured fastest"),
        ([INTEL], INTEL, "first CPU"),
        ([OTHER], OTHER, "first CPU"),
    ],
)
def test_choice_without_a_request(
    monkeypatch: pytest.MonkeyPatch, there: list[Any], chosen: Any, why: str
) -> None:
    monkeypatch.delenv(devices.DEVICE_VARIABLE, raising=False)
    monkeypatch.setattr(devices, "_enumerate", lambda: [(f"{i}:0", d) for i, d in enumerate(there)])
    result, reason = devices.choose_device()
    assert result is chosen
    assert re.search(why, reason)


def test_none_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(devices.DEVICE_VARIABLE, raising=False)
    monkeypatch.setattr(devices.loader, "platforms", list)
    with pytest.raises(DeviceNotFoundError, match="pip install"):
        devices.choose_device()


@pytest.mark.parametrize(
    ("version", "drivers"),
    [
        ("OpenCL 3.0 PoCL 3.0-rc2  Linux, Release", ("pthread", "basic")),
        ("OpenCL 3.0 PoCL 6.0  Linux", ("cpu", "cpu-minimal")),
        ("OpenCL 3.0 something else", None),
    ],
)
def test_pocls_drivers_by_version(version: str, drivers: tuple[str, str] | None) -> None:
    platform = SimpleNamespace(name="Portable Computing Language", version=version)
    assert pocl.drivers(platform) == drivers


def test_threads_list_devices_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """None takes for the user's own what another has set for the moment."""
    monkeypatch.delenv("POCL_DEVICES", raising=False)
    before = dict(os.environ)

    def asked(_: int) -> bool:
        with pocl.opening() as result:
            time.sleep(0.01)
        return result

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(asked, range(8)))
    assert dict(os.environ) == before


def test_a_list_of_devices_that_was_left_by_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of a signal handler, before the variables had been restored."""
    monkeypatch.delenv("POCL_DEVICES", raising=False)
    before = dict(os.environ)
    left = pocl.opening()
    assert left.__enter__()
    with pocl.opening() as asked:
        assert asked
    assert dict(os.environ) == before
