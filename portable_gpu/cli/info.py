"""``portable-gpu info``: every device, what the library makes of it, and why."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from portable_gpu.cli.console import Console
from portable_gpu.errors import PortableGPUError
from portable_gpu.multi.choose import chosen_devices
from portable_gpu.runtime.calibrated import calibrated, calibration_of
from portable_gpu.runtime.devices import (
    CLASS_VARIABLE,
    DEVICE_VARIABLE,
    DeviceInfo,
    choose_device,
    devices,
)
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import DEVICE_CLASSES, Target
from portable_gpu.tuning.figures import by_origin, origins
from portable_gpu.version import __version__

#: The facts that a listing begins with; the rest follow.
_FIRST = (
    "subgroup_size",
    "exchange",
    "lockstep",
    "compute_units",
    "max_work_group_size",
    "local_mem_size",
    "fp64",
    "fp16",
)


@dataclass(frozen=True)
class _DefaultDevice:
    """The device that a call without ``engine=`` runs on, or the reason why there is none."""

    index: str | None
    reason: str
    target: Target | None


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List every platform and device, the path its kernels take, and why."""
    result = devices()
    choice = _choose(result)
    if as_json:
        print(json.dumps(_describe(result, choice), indent=2))
    else:
        _show(result, choice)
    if choice.target is None:
        raise typer.Exit(1)


def _choose(devices: list[DeviceInfo]) -> _DefaultDevice:
    try:
        device, reason = choose_device()
    except PortableGPUError as error:
        return _DefaultDevice(None, str(error), None)
    chosen = next(entry for entry in devices if entry.device == device)
    forced = os.environ.get(CLASS_VARIABLE) or None
    try:
        target = Engine(device, caller=False).target  # it tries out how lanes exchange values
    except PortableGPUError as error:
        return _DefaultDevice(chosen.index, str(error), None)
    if forced is not None:
        reason = f"{reason}; {CLASS_VARIABLE}={forced} forces its class"
    return _DefaultDevice(chosen.index, reason, target)


def _describe(devices: list[DeviceInfo], choice: _DefaultDevice) -> dict[str, Any]:
    return {
        "portable_gpu": __version__,
        "environment": {name: os.environ.get(name) for name in (DEVICE_VARIABLE, CLASS_VARIABLE)},
        "chosen": {
            "index": choice.index,
            "reason": choice.reason,
            "target": None if choice.target is None else _describe_target(choice.target),
        },
        "group": _group(devices)[0],
        "devices": [_describe_device(entry) for entry in devices],
    }


def _group(devices: list[DeviceInfo]) -> tuple[list[str], str]:
    """Return the indices of the devices that ``multi.DeviceGroup()`` opens, or its error."""
    try:
        chosen = chosen_devices(None)
    except PortableGPUError as error:
        return [], str(error)
    return [entry.index for entry in devices if entry.device in chosen], ""


#: The facts of a device that ``--json`` prints, apart from those of its target.
_DESCRIBED = (
    "platform_version", "name", "vendor", "type", "version", "driver_version", "global_mem_size",
    "max_alloc_size",
)  # fmt: skip


def _describe_device(entry: DeviceInfo) -> dict[str, Any]:
    facts = entry.target.facts
    return {
        "index": entry.index,
        "platform": entry.platform,
        **{name: getattr(facts, name) for name in _DESCRIBED},
        "extensions": sorted(facts.extensions),
        "target": _describe_target(calibrated(entry.target)),
    }


def _describe_target(target: Target) -> dict[str, Any]:
    return {
        "device_class": target.device_class,
        "facts": {
            name: {"value": fact.value, "source": fact.source, "why": fact.why}
            for name, fact in target.provenance.items()
        },
        "options": list(target.options),
        "figures": origins(target),
        "ignored_calibration": _ignored(target),
    }


def _ignored(target: Target) -> str:
    """Say why a stored calibration is ignored; nothing if there is none, or it is used."""
    stored = calibration_of(target)
    if stored is None or not stored[1]:
        return ""
    return f"the calibration of {stored[0].date} is ignored, changed: {', '.join(stored[1])}"


def _show(devices: list[DeviceInfo], choice: _DefaultDevice) -> None:
    console = Console()
    for entry in devices:
        facts = entry.target.facts
        console.print(
            f"[bold]{entry.index}  {escape(facts.name)}[/bold]  {facts.type}", soft_wrap=True
        )
        console.write(
            f"     {entry.platform}, {facts.version}\n"
            f"     driver {facts.driver_version}, {_memory(facts.global_mem_size)}"
        )
        target = choice.target if entry.index == choice.index else None
        console.print(_table(target or calibrated(entry.target)))
        console.print()
    if choice.index is None:
        console.write(f"Chosen: none. {choice.reason}", indent=0)
        return
    path = "" if choice.target is None else f" as {choice.target.device_class}"
    console.write(f"Chosen: {choice.index}{path}. {choice.reason}", indent=0)
    group, error = _group(devices)
    console.write(f"Group: DeviceGroup() opens {', '.join(group) or f'none: {error}'}", indent=0)


def _table(target: Target) -> Table:
    summary = next(row.summary for row in DEVICE_CLASSES if row.name == target.device_class)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, min_width=27)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(style="dim")
    table.add_row("     class", f"[bold]{target.device_class}[/bold]", "", escape(summary))
    for name in dict.fromkeys((*_FIRST, *target.provenance)):
        fact = target.provenance[name]
        if type(fact.value) in (int, tuple) and not fact.value:  # of other classes only
            continue
        heading, value = name.replace("_", " "), _value(name, fact.value)
        table.add_row(f"     {heading}", escape(value), fact.source, escape(fact.why))
    for origin, rows in by_origin(origins(target)).items():
        table.add_row("     figures", "", "", escape(f"{origin}: {', '.join(rows)}"))
    if ignored := _ignored(target):
        table.add_row("     figures", "", "", f"[bold]{escape(ignored)}[/bold]")
    return table


def _value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "local_mem_size" and isinstance(value, int):
        return _memory(value)
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _memory(size: int) -> str:
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):.4g} {unit}"
    return f"{size} bytes"
