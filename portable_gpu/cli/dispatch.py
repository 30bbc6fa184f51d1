"""``portable-gpu bench dispatch``: the choice of a path against every path forced by hand."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from portable_gpu.bench.builders import Builders
from portable_gpu.bench.dispatch import (
    FAULT,
    ROWS,
    TURNS,
    Contest,
    Distribution,
    Standing,
    random_cases,
)
from portable_gpu.bench.noise import Listener
from portable_gpu.bench.report import BenchReport
from portable_gpu.cli.console import Console, plain_table
from portable_gpu.cli.files import write_json
from portable_gpu.cli.options import (
    BudgetOption,
    DeviceOption,
    JSONOption,
    SeedOption,
    ShapesOption,
    seconds_of,
    words,
)
from portable_gpu.cli.progress import with_progress
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.errors import ArgumentError, UnsupportedError
from portable_gpu.ops.case import Case
from portable_gpu.runtime.engine import Engine

_SHOWN = 20


def dispatch(
    rows: Annotated[
        str, typer.Option(help="gemm, fft, conv, or one of conv's directions: conv2d_input.")
    ] = "gemm",
    dtype: Annotated[
        str, typer.Option(help="A name of NumPy, of a floating-point type.")
    ] = "float32",
    shapes: ShapesOption = 500,
    seed: SeedOption = 1,
    budget: BudgetOption = "5m",
    jobs: Annotated[
        int, typer.Option(help="Processes that build the programs of all cases first.", min=1)
    ] = 1,
    device: DeviceOption = None,
    report: JSONOption = None,
) -> None:
    """Time random products of gemm, transforms or convolutions against every path forced by hand.

    The command exits with 1 if the library's own choice takes twice the time of the best.
    Processes of --jobs build for up to half of the budget.
    """
    output, status = Console(), Console(stderr=True)
    if rows not in ROWS:
        known = " or ".join(ROWS)
        raise ArgumentError(f"--rows of dispatch is {rows!r}; it takes {known}")
    begin = time.monotonic()
    deadline = begin + seconds_of(budget)
    elem = element(dtype_of(dtype))
    if not elem.floating:
        raise ArgumentError(f"--dtype has {dtype}; floating-point types are timed")
    listener, engine = Listener(), Engine(device)
    if elem.needs_fp64 and not engine.target.fp64:
        raise UnsupportedError(f"{engine.target.facts.name} has no double precision for {dtype}")
    share = -(-shapes // len(ROWS[rows]))
    drawn = [
        random_cases(operation, share, dtype, seed, engine.maps_host_memory)
        for operation in ROWS[rows]
    ]
    options = words(rows=rows, dtype=dtype, shapes=shapes, seed=seed, device=device)
    result = BenchReport(engine, [], TURNS, ["bench", "dispatch", *options], device)
    contests = {cases[0].operation: Contest(engine, cases) for cases in drawn}
    every = [case for turn in zip(*drawn, strict=True) for case in turn]
    if jobs > 1:
        with Builders(engine, device, jobs) as builders, status.status("building programs"):
            texts = {case: contests[case.operation].texts(case) for case in every}
            builders.build(texts, (begin + deadline) / 2)
    complete = _run(contests, every, deadline, result.standings, status)
    if not complete and not result.standings:
        raise KeyboardInterrupt
    if not result.standings:
        status.print("nothing was timed")
        raise typer.Exit(1)
    result.noise = listener.noise([], engine.maps_host_memory)
    if report is not None:
        write_json(report, result.to_dict())
    summary = Distribution.of(result.standings)
    total = sum(map(len, drawn))
    output.print(f"{escape(engine.target.facts.name)}: {summary.count} of {total} cases timed")
    output.print(_summary(summary))
    output.print(_table(result.standings))
    if result.noise.warning:
        output.write(result.noise.warning, indent=0)
    if not complete:
        raise KeyboardInterrupt
    if summary.faults:
        raise typer.Exit(1)


def _run(
    contests: Mapping[str, Contest],
    every: Sequence[Case],
    deadline: float,
    standings: list[Standing],
    status: Console,
) -> bool:
    """Time the cases of each operation by turns until the time is up.

    Interrupted, it leaves what was timed until then.
    """
    try:
        for case in with_progress(every, status, deadline):
            standings.append(contests[case.operation].run(case))
    except KeyboardInterrupt:
        status.print(f"{len(standings)} cases were timed")
        return False
    return True


def _summary(summary: Distribution) -> str:
    s = summary
    return (
        f"Time of the choice over that of the best by hand: median {s.median:.2f}, "
        f"90 % {s.ninety:.2f}, 99 % {s.ninety_nine:.2f}, worst {s.worst:.2f}; "
        f"{s.doubtful} above 1.25, {s.faults} of {FAULT:g} or more"
    )


def _table(standings: list[Standing]) -> Table:
    caption = "Microseconds of a call in the fastest turn; ratio: choice / best."
    headings = "case", ">ratio", ">choice us", ">best us", "choice", "best by hand"
    table = plain_table(*headings, caption=caption)
    several = len({item.case.operation for item in standings}) > 1
    for item in sorted(standings, key=lambda standing: standing.ratio, reverse=True)[:_SHOWN]:
        times = (f"{seconds * 1e6:.4g}" for seconds in (item.chosen_seconds, item.ways[item.best]))
        case = f"{item.case.operation} " * several + item.case.size
        table.add_row(case, f"{item.ratio:.2f}", *times, item.chosen, item.best)
    return table
