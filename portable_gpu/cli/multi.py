"""``portable-gpu bench multi``: calls on groups of devices, beside one device."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from portable_gpu.bench.multi import MultiRow, multi_rows
from portable_gpu.bench.noise import Listener
from portable_gpu.bench.report import BenchReport
from portable_gpu.cli.console import TABLE_STYLE, Console
from portable_gpu.cli.files import write_json
from portable_gpu.errors import ArgumentError, UnsupportedError
from portable_gpu.multi import DeviceGroup
from portable_gpu.runtime.devices import requests_of

#: Rows and columns of the matrices by default: on CPUs, and on other devices.
_ON_CPU, _ON_GPU = (1024,), (4096, 16384)


def multi(
    sizes: str | None,
    turns: int,
    device: str | None,
    report: Path | None,
    output: Console,
    status: Console,
) -> None:
    """Time calls on the devices of a group; of a single CPU, on two sub-devices.

    Raises:
        ArgumentError: A size is unknown.
        PortableGPUError: Results of several devices have other bits than those of one.
    """
    with _group(device) as group:
        engine = group.engines[0]
        usual = _ON_CPU if engine.target.facts.type == "cpu" else _ON_GPU
        requested = usual if sizes is None else tuple(map(_size, sizes.split(",")))
        listener, rows = Listener(), list[MultiRow]()
        with status.status("calls on groups ..."):
            rows.extend(multi_rows(group, requested, turns))
        command = ["bench", "multi", "--sizes", ",".join(map(str, requested))]
        head = BenchReport(engine, [], turns, [*command, "--turns", str(turns)], device)
        head.noise = listener.noise([row.seconds for row in rows], True)
        if report is not None:
            write_json(report, head.to_dict() | {"multi": [asdict(row) for row in rows]})
        names = [member.name for member in group.members]
    for index, name in enumerate(names):
        output.write(f"device {index}: {name}")
    output.print(_table(rows))
    if head.noise.warning:
        output.write(head.noise.warning, indent=0)


def _group(device: str | None) -> DeviceGroup:
    group = DeviceGroup(None if device is None else requests_of(device))
    if group.size == 1:
        try:
            parts = DeviceGroup(2)
        except UnsupportedError:
            return group
        group.close()
        return parts
    return group


def _size(text: str) -> int:
    if not text.strip().isdigit() or not int(text):
        raise ArgumentError(f"--sizes has {text!r}; of multi it is a comma list of rows")
    return int(text)


def _table(rows: list[MultiRow]) -> Table:
    table = Table(**TABLE_STYLE)
    table.add_column("call", no_wrap=True)
    for heading in ("rows", "devices", "ms", "one ms", "efficiency", "us/block"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("overlap", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.operation + (" (NumPy)" if row.numpy else ""),
            f"{row.size:,}",
            str(row.devices),
            f"{row.seconds.median * 1e3:.4g} ±{row.seconds.spread:.0%}",
            f"{row.alone.median * 1e3:.4g}",
            f"{row.efficiency.median:.3g} ±{row.efficiency.spread:.0%}",
            f"{row.host_seconds * 1e6:.3g}",
            f"{row.overlap:.0%}",
        )
    return table
