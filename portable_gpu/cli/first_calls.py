"""``portable-gpu bench first-calls``: what the first call of each function costs."""

from __future__ import annotations

from dataclasses import asdict
from importlib.util import find_spec
from typing import Annotated

import typer
from rich.table import Table

from portable_gpu.bench.first_calls import FirstCall, first_calls, part_of, totals
from portable_gpu.bench.first_calls_layers import CALLS
from portable_gpu.bench.first_calls_process import DENSE, LAYER, SPARSE
from portable_gpu.cli.console import Console, plain_table
from portable_gpu.cli.files import write_json
from portable_gpu.cli.options import DeviceOption, JSONOption
from portable_gpu.errors import ArgumentError


def first_calls_of(
    rows: Annotated[
        str | None,
        typer.Option(
            help="Comma list of words in the calls' names; 'nn.' for all layers, each of which has "
            "processes and caches of its own (all calls but layers)."
        ),
    ] = None,
    device: DeviceOption = None,
    report: JSONOption = None,
) -> None:
    """Time the first call of each function in a process with empty caches, and in a second one.

    The figures are CPU and wall seconds, and what was compiled.
    """
    has_sparse = all(find_spec(package) is not None for package in ("llvmlite", "scipy"))
    known = [*DENSE, *SPARSE] if has_sparse else [*DENSE]
    words = [""] if rows is None else [word.strip() for word in rows.split(",")]
    if rows is not None:
        known += [LAYER + name for name in CALLS]
    if rows is not None and (unknown := [w for w in words if not w or not _with(w, known)]):
        raise ArgumentError(
            f"--rows has {', '.join(map(repr, unknown))}; of first-calls there are: "
            f"{', '.join(known)}"
        )
    names = [name for name in known if any(word in name for word in words)]
    with Console(stderr=True).status("first calls from empty caches, and again ..."):
        result = first_calls(names, device)
    sums = totals(result)
    if report is not None:
        write_json(report, {"calls": [asdict(call) for call in result], "totals": _plain(sums)})
    Console().print(_table(result, sums))


def _with(word: str, names: list[str]) -> list[str]:
    return [name for name in names if word in name]


def _plain(sums: dict[str, FirstCall]) -> dict[str, object]:
    return {name: asdict(call) for name, call in sums.items()}


def _table(found: list[FirstCall], sums: dict[str, FirstCall]) -> Table:
    caption = (
        "Seconds of the processor (all threads and the linker) and of the wall, from empty caches; "
        "then those of a second process."
    )
    figures = ">CPU s", ">wall s", ">programs", ">kernels", ">kB", ">again CPU s", ">wall s"
    table = plain_table("first call", *figures, caption=caption, caption_justify="left")
    rows = [*found]
    for part, total in sums.items():
        last = max(i for i, call in enumerate(rows) if part_of(call.name) == part)
        rows.insert(last + 1, FirstCall(f"all {part}", total.cold, total.warm))
    for call in rows:
        cold, warm = call.cold, call.warm
        table.add_row(
            call.name, f"{cold.cpu:.2f}", f"{cold.wall:.2f}", str(cold.programs),
            str(cold.kernels), f"{cold.text / 1e3:.0f}", f"{warm.cpu:.2f}", f"{warm.wall:.2f}",
        )  # fmt: skip
    return table
