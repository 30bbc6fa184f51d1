"""``portable-gpu calibrate``: the costs of this device, measured for the choice of variants."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import date
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from portable_gpu.bench.builders import Builders
from portable_gpu.bench.calibration import Calibrated
from portable_gpu.bench.calibration import calibrate as measure
from portable_gpu.bench.noise import Listener
from portable_gpu.cli.console import Console, plain_table
from portable_gpu.cli.files import write_json
from portable_gpu.cli.options import DeviceOption, JSONOption, seconds_of
from portable_gpu.errors import PortableGPUError
from portable_gpu.runtime.calibrated import versions
from portable_gpu.runtime.engine import Engine
from portable_gpu.tuning.calibration import Calibration, exclusive, store
from portable_gpu.tuning.calibration import clear as remove
from portable_gpu.tuning.costs import DeviceCosts

#: The part of the budget for builds and measurements; the last of them ends somewhat later.
_USED_PART = 0.95


def calibrate(
    budget: Annotated[
        str, typer.Option(help="Time of the run, compilation included.", metavar="TIME")
    ] = "3m",
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove the calibration of the device.")
    ] = False,
    device: DeviceOption = None,
    report: JSONOption = None,
) -> None:
    """Measure the costs of this device, by which calls choose between variants.

    They are stored for this user if choices by them are not slower than by those in use, for cases
    that were held back.  A busy machine stores nothing.  Another driver, version of the library or
    text of a kernel makes them invalid.
    """
    until = time.monotonic() + _USED_PART * seconds_of(budget)
    output, status = Console(), Console(stderr=True)
    with exclusive():
        engine = Engine(device, caller=False)
        target = engine.target
        if clear:
            removed = remove(target.facts.name, target.device_class)
            output.write("Removed." if removed else "There was no calibration of this device.")
            return
        listener = Listener()
        with Builders(engine, device) as builders, status.status("") as shown:
            result = measure(engine, until, builders, lambda step: shown.update(escape(step)))
        if report is not None:
            write_json(report, _rows(target.facts.name, result))
        output.print(_table(DeviceCosts.of("device", target), result.costs))
        output.write(f"{result.evidence}.", indent=0)
        noise = listener.noise([result.reference], engine.maps_host_memory)
        if noise.reasons:
            raise PortableGPUError(f"nothing is stored: {'; '.join(noise.reasons)}")
        if result.refusal:
            output.write(f"Nothing is stored: {result.refusal}.", indent=0)
            return
        calibration = Calibration(
            device=target.facts.name,
            device_class=target.device_class,
            **versions(target),
            date=date.today().isoformat(),
            figures={"device": asdict(result.costs)},
            evidence=result.evidence,
        )
        output.write(f"Stored in {store(calibration)}", indent=0)


def _rows(device: str, result: Calibrated) -> dict[str, Any]:
    """The figures as the shipped files have them."""
    row = {
        "figures": "device",
        "device": device,
        "values": asdict(result.costs),
        "evidence": f"portable-gpu calibrate, {date.today().isoformat()}: {result.evidence}",
    }
    return {"rows": [row], "accepted": result.accepted, "relative": result.relative}


def _table(before: DeviceCosts, after: DeviceCosts) -> Table:
    """The costs before and after, and the corrections of estimates."""
    caption = "Corrections: the factor of an estimate, and microseconds added."
    table = plain_table("figure", ">in use", ">measured", caption=caption)
    for name, text in (
        ("launch", "launch, us"), ("enqueue", "enqueue, us"),
        ("multiply_adds", "multiply-adds of a unit, 1e9/s"), ("bandwidth", "read by a unit, GB/s"),
    ):  # fmt: skip
        scale = 1e6 if name in ("launch", "enqueue") else 1e-9
        table.add_row(text, *(f"{scale * getattr(costs, name):.3g}" for costs in (before, after)))
    for kind in sorted({*before.factors, *after.factors}):
        table.add_row(escape(kind), *(_correction(costs, kind) for costs in (before, after)))
    return table


def _correction(costs: DeviceCosts, kind: str) -> str:
    return f"{costs.factors.get(kind, 1.0):.2f} + {1e6 * costs.starts.get(kind, 0.0):.1f}"
