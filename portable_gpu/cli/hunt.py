"""``portable-gpu bench hunt``: random work of every kind, compared with a peer."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from portable_gpu.bench.hunt import (
    TURNS,
    Hunt,
    HuntRow,
    Trial,
    kinds,
    random_cases,
    revision_rows,
    summaries,
)
from portable_gpu.bench.known_peers import open_peers
from portable_gpu.bench.measure import Remark
from portable_gpu.bench.noise import Listener
from portable_gpu.bench.report import BenchReport
from portable_gpu.bench.worker_pool import WorkerPool
from portable_gpu.cli.bench_tables import verdicts
from portable_gpu.cli.console import Console, plain_table
from portable_gpu.cli.files import replacing, write_json
from portable_gpu.cli.options import (
    BudgetOption,
    DeviceOption,
    JSONOption,
    PlotOption,
    SeedOption,
    ShapesOption,
    peers_of,
    seconds_of,
    words,
)
from portable_gpu.cli.progress import with_progress
from portable_gpu.errors import ArgumentError, PortableGPUError
from portable_gpu.ops.case import Case
from portable_gpu.runtime.engine import Engine

_SHOWN = 25
_SAVED = 60.0  # seconds between two times that the file is written


def hunt(
    rows: Annotated[
        str | None, typer.Option(help="Comma list of words in the rows' names: 'gemm batch,std'.")
    ] = None,
    peers: Annotated[
        str | None,
        typer.Option(
            help="Comma list: torch, numpy, scipy, or portable_gpu@REVISION, another one of git's "
            "revisions (torch; on a CPU numpy)."
        ),
    ] = None,
    shapes: ShapesOption = 100,
    seed: SeedOption = 1,
    budget: BudgetOption = "5m",
    jobs: Annotated[
        int,
        typer.Option(
            help="On a GPU: processes that build and check; one at a time uses it.", min=1
        ),
    ] = 1,
    device: DeviceOption = None,
    report: JSONOption = None,
    plot: PlotOption = None,
) -> None:
    """Time random work of every kind compared with a peer, in line and eager.

    With --json FILE the same command goes on where it ended; with --jobs it does in minutes what
    takes an hour.

    A row is lost against another revision if the geometric mean of the ratios is below 0.98 and
    outside twice the spread that the revision shows against itself; the command then exits with 1.
    """
    output, status = Console(), Console(stderr=True)
    asked_peers = peers_of(peers)
    deadline = time.monotonic() + seconds_of(budget)
    listener, engine = Listener(), Engine(device)
    if jobs > 1 and engine.maps_host_memory:
        raise ArgumentError(f"--jobs is {jobs}; on a CPU one process times alone")
    chosen = _chosen(rows, kinds(engine))
    default = ["numpy"] if engine.maps_host_memory else ["torch"]
    with open_peers(default if asked_peers is None else asked_peers, engine) as (opened, skipped):
        for line in skipped:
            status.print(escape(line), soft_wrap=True)
        if not opened:
            raise PortableGPUError("there is no peer to hunt beside; see the lines above")
        peer_names = [peer.name for peer in opened]
        options = words(
            shapes=shapes, seed=seed, rows=rows, peers=",".join(peer_names), device=device,
            jobs=jobs if jobs > 1 else None,
        )  # fmt: skip
        result = BenchReport(engine, opened, TURNS, ["bench", "hunt", *options], device)
        result.trials = _resumed(report, result)
        every = random_cases(chosen, shapes, seed, engine.maps_host_memory)
        known = {(trial.kind, trial.size) for trial in result.trials}
        left = [(row, case) for row, case in every if (str(row), case.size) not in known]
        if len(left) < len(every):
            status.print(f"{len(every) - len(left)} cases were timed before")
        hunters = Hunt(engine, opened) if jobs == 1 else WorkerPool(jobs, device, peer_names)
        complete = _run(hunters, left, deadline, result, report, status)
    result.noise = listener.noise([], engine.maps_host_memory)
    if report is not None:
        write_json(report, result.to_dict())
    for remark in result.remarks:
        status.print(escape(f"{remark.case}: {remark.who}: {remark.text}"), soft_wrap=True)
    if not result.trials:
        status.print("nothing was timed")
        raise typer.Exit(1)
    if plot is not None:
        from portable_gpu.bench.plot import plot_ratios

        with replacing(plot) as file:
            plot_ratios(result, file)
    output.write(f"{engine.target.facts.name}: the peer's time over ours")
    output.print(_summary(result.trials))
    output.print(_worst(result.trials))
    by_revision = revision_rows(result.trials)
    if by_revision:
        output.print(verdicts([(item.kind, item.peer, item.verdict) for item in by_revision]))
        if not engine.maps_host_memory:
            eager = [(f"{item.kind}, eager", item.peer, item.eager) for item in by_revision]
            output.print(verdicts(eager))
    if result.noise.warning:
        output.write(result.noise.warning, indent=0)
    if not complete:
        raise KeyboardInterrupt
    if result.wrong or any(item.lost for item in by_revision):
        raise typer.Exit(1)


def _chosen(rows: str | None, every: Sequence[HuntRow]) -> list[HuntRow]:
    """The rows that have one of some words in their names.

    Raises:
        ArgumentError: A word is in none.
    """
    if rows is None:
        return list(every)
    words = [word.strip() for word in rows.split(",")]
    names = [str(row) for row in every]
    for word in words:
        if not word or not any(_matches(word, name) for name in names):
            raise ArgumentError(f"--rows has {word!r}; there are: {'; '.join(names)}")
    return [row for row in every if any(_matches(word, str(row)) for word in words)]


def _matches(words: str, name: str) -> bool:
    """Whether all of some words are in a row's name."""
    parts = name.replace(",", "").split()
    return all(word in parts for word in words.split())


def _resumed(path: Path | None, present: BenchReport) -> list[Trial]:
    """The trials of a file that the same hunt began.

    Raises:
        ArgumentError: The file is of something else.
    """
    if path is None or not path.is_file() or not path.stat().st_size:
        return []
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        now = present.to_dict()
        same = all(content[key] == now[key] for key in ("command", "device", "versions"))
        stored = (content["hunt"] or {"trials": []})["trials"]
        trials = [Trial(**fields) for fields in stored] if same else None
    except (ValueError, KeyError, TypeError):
        trials = None
    if trials is None:
        raise ArgumentError(
            f"{path} is not of this hunt (command, device and versions); name another file"
        )
    return trials


def _run(
    hunters: Hunt | WorkerPool,
    cases: Sequence[tuple[HuntRow, Case]],
    deadline: float,
    results: BenchReport,
    report: Path | None,
    status: Console,
) -> bool:
    """Time cases until the time is up.  Interrupted, it leaves what was timed until then."""
    saved = time.monotonic()
    try:
        for reported in hunters.over(with_progress(cases, status, deadline, itemgetter(1))):
            for item in reported:
                if isinstance(item, Remark):
                    results.remarks.append(item)
                else:
                    results.trials.append(item)
            if report is not None and time.monotonic() > saved + _SAVED:
                write_json(report, results.to_dict())
                saved = time.monotonic()
    except KeyboardInterrupt:
        status.print(f"{len(results.trials)} cases were timed")
        return False
    return True


def _summary(trials: Sequence[Trial]) -> Table:
    caption = "Geometric means, and in brackets what a tenth of the ratios is below."
    figures = ">peer", ">cases", ">in line", ">eager", ">first ms", ">programs"
    table = plain_table("row", *figures, caption=caption)
    for item in summaries(trials):
        table.add_row(
            item.kind, item.peer, str(item.count), f"{item.ratio:.2f} ({item.tenth:.2f})",
            f"{item.eager:.2f} ({item.eager_tenth:.2f})", f"{item.first * 1e3:.3g}",
            str(item.programs),
        )  # fmt: skip
    return table


def _worst(trials: Sequence[Trial]) -> Table:
    headings = "case", "dtype", "peer", ">ratio", ">ours", ">theirs", ">eager"
    table = plain_table(*headings, caption=f"The worst {_SHOWN} in line, microseconds.")
    for item in sorted(trials, key=lambda trial: trial.ratio)[:_SHOWN]:
        times = (f"{seconds * 1e6:.4g}" for seconds in (item.seconds, item.peer_seconds))
        table.add_row(
            f"{item.operation} {item.size}", item.dtype, item.peer, f"{item.ratio:.2f}", *times,
            f"{item.eager_ratio:.2f}",
        )  # fmt: skip
    return table
