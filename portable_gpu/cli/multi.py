"""``portable-gpu bench multi``: calls on groups of devices, and on one."""

from __future__ import annotations

from dataclasses import asdict
from importlib.util import find_spec
from typing import Annotated

import typer
from rich.table import Table

from portable_gpu.bench.multi import MultiBench, MultiRow
from portable_gpu.bench.multi_calls import CALLS
from portable_gpu.bench.noise import Listener
from portable_gpu.bench.report import BenchReport
from portable_gpu.cli.console import Console, plain_table
from portable_gpu.cli.files import replacing, write_json
from portable_gpu.cli.options import (
    DevicesOption,
    JSONOption,
    PlotOption,
    TurnsOption,
    words,
)
from portable_gpu.dtypes import dtype_of
from portable_gpu.errors import ArgumentError, UnsupportedError
from portable_gpu.multi import DeviceGroup
from portable_gpu.runtime.devices import requests_of

#: Seconds of a preparation whose stages are shown.
_LONG_PREPARATION = 3.0


def multi(
    rows: Annotated[
        str | None, typer.Option(help=f"Comma list of calls: {', '.join(CALLS)} (all).")
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Comma list of the extents of matrices and cubes, or numbers of images (by the "
            "call and the device)."
        ),
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="NumPy's name; of fftn that of the real part.")
    ] = "float32",
    threads: Annotated[
        str, typer.Option(help="As threads= of DeviceGroup: auto, one or each.")
    ] = "auto",
    turns: TurnsOption = 9,
    device: DevicesOption = None,
    report: JSONOption = None,
    plot: PlotOption = None,
) -> None:
    """Time calls on one device of a group, on two and on all, and the same calls on one engine.

    --plot draws the kernels and copies of the last call over time.
    """
    output, status = Console(), Console(stderr=True)
    possible = [name for name, call in CALLS.items() if all(map(find_spec, call.packages))]
    chosen = possible if rows is None else [name.strip() for name in rows.split(",")]
    if unknown := [name for name in chosen if name not in CALLS]:
        raise ArgumentError(
            f"--rows has {', '.join(map(repr, unknown))}; there are: {', '.join(CALLS)}"
        )
    for name in chosen:
        if str(dtype_of(dtype)) not in (accepted := CALLS[name].dtypes):
            raise ArgumentError(f"--dtype is {dtype}; {name} takes {', '.join(accepted)}")
    requested = None if sizes is None else tuple(map(_size, sizes.split(",")))
    with _group(device, threads) as group:
        engine = group.engines[0]
        on_cpu = engine.target.facts.type == "cpu"
        listener, timed = Listener(), list[MultiRow]()
        with status.status("rates of copies ..."):
            bench = MultiBench(group, turns)
        for name in chosen:
            for size in requested or CALLS[name].usual[0 if on_cpu else 1]:
                with status.status(f"{name} of {size} ..."):
                    timed.extend(bench.rows(name, size, dtype))
        policy = None if threads == "auto" else threads
        options = words(
            rows=",".join(chosen), dtype=dtype, sizes=sizes, threads=policy, turns=turns
        )
        head = BenchReport(engine, [], turns, ["bench", "multi", *options], device)
        head.noise = listener.noise([row.seconds for row in timed], True)
        if report is not None:
            rates = {"up": bench.up, "down": bench.down, "host": bench.host}
            rates["products"] = {f"{n} {t}": rate for (n, t), rate in bench.products.items()}
            stages = {f"{name} {size}": stage for (name, size), stage in bench.stages.items()}
            rows_of_report = [asdict(row) for row in timed]
            report_of_all = {"rates": rates, "stages": stages, "multi": rows_of_report}
            write_json(report, head.to_dict() | report_of_all)
        if plot is not None and bench.timeline is not None:
            with replacing(plot) as file:
                bench.timeline.plot(file)
        members = [member.name for member in group.members]
    for index, name in enumerate(members):
        output.write(f"device {index}: {name}")
    for line in _rates(bench):
        output.write(line)
    for line in _stages(bench):
        output.write(line)
    output.print(_table(timed))
    if head.noise.warning:
        output.write(head.noise.warning, indent=0)


def _group(device: str | None, threads: str) -> DeviceGroup:
    group = DeviceGroup(None if device is None else requests_of(device), threads=threads)
    if group.size == 1:
        try:
            parts = DeviceGroup(2, threads=threads)
        except UnsupportedError:
            return group
        group.close()
        return parts
    return group


def _size(text: str) -> int:
    if not text.strip().isdigit() or not int(text):
        raise ArgumentError(
            f"--sizes has {text!r}; of multi it is a comma list of positive numbers of rows"
        )
    return int(text)


def _rates(bench: MultiBench) -> list[str]:
    """Return the rates by which calls are bounded."""
    lines = [f"host copies: {bench.host / 1e9:.3g} GB/s"]
    for count, up in bench.up.items():
        if up < float("inf"):
            lines.append(
                f"pinned copies of {count} at once, each: {up / 1e9:.3g} GB/s to the device, "
                f"{bench.down[count] / 1e9:.3g} to the host"
            )
    for (size, dtype), rate in bench.products.items():
        lines.append(f"product of {size}, {dtype}: {rate / 1e12:.3g} TFLOP/s on one device")
    return lines


def _stages(bench: MultiBench) -> list[str]:
    """Return the seconds before calls are timed, of those calls that take several."""
    return [
        f"before {name} {size:,}, in s: "
        + ", ".join(f"{stage} {seconds:.2g}" for stage, seconds in stages.items())
        for (name, size), stages in bench.stages.items()
        if sum(stages.values()) > _LONG_PREPARATION
    ]


def _table(rows: list[MultiRow]) -> Table:
    caption = "Efficiency: time of one device / (devices x time).  Of bound: least time / time."
    title = ", ".join(dict.fromkeys(row.dtype for row in rows))
    figures = ">devices", ">ms", ">efficiency", ">of bound", ">overlap"
    table = plain_table("call", *figures, title=title, caption=caption)
    for row in rows:
        share = row.bound / row.seconds.median
        table.add_row(
            f"{row.operation} {row.size:,}",
            str(row.devices),
            f"{row.seconds.median * 1e3:.4g} ±{row.seconds.spread:.0%}",
            f"{row.efficiency.median:.3g}",
            f"{share:.0%} {row.bound_by}",
            f"{row.overlap:.0%}",
        )
    return table
