"""``portable-gpu bench``: this library, its peers, and what the device can do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from portable_gpu.bench.altered import Altered, check_changes
from portable_gpu.bench.cases import EVERY, GROUPS, ROOFLINE, cases
from portable_gpu.bench.known_peers import open_peers, usual_peers
from portable_gpu.bench.ladder import CLIMBED, climb, ladders
from portable_gpu.bench.measure import BUDGET, Bench, Remark
from portable_gpu.bench.noise import Listener
from portable_gpu.bench.report import BenchReport
from portable_gpu.bench.revisions import PREFIX, Revision
from portable_gpu.bench.roofs import measure_roofs
from portable_gpu.cli.bench_tables import (
    roofs_text,
    sections,
    table_of_ladder,
    table_of_means,
    table_of_rows,
    verdicts,
)
from portable_gpu.cli.console import Console, path_of
from portable_gpu.cli.dispatch import dispatch
from portable_gpu.cli.files import replacing, write_json
from portable_gpu.cli.first_calls import first_calls_of
from portable_gpu.cli.hunt import hunt
from portable_gpu.cli.multi import multi
from portable_gpu.cli.options import (
    DeviceOption,
    JSONOption,
    PlotOption,
    TurnsOption,
    peers_of,
    words,
)
from portable_gpu.cli.progress import with_progress
from portable_gpu.cli.sparse import sparse
from portable_gpu.cli.transfer import transfer
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.case import Case
from portable_gpu.ops.sizes import SYNTAX, parse_sizes
from portable_gpu.runtime.engine import Engine

_CLIMBED = ", ".join(CLIMBED)
#: The commands of benchmarks that take other options; the command without a name times operations.
KINDS: dict[str, Callable[..., None]] = {
    "dispatch": dispatch,
    "hunt": hunt,
    "sparse": sparse,
    "transfer": transfer,
    "multi": multi,
    "first-calls": first_calls_of,
}


def bench(
    operation: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(GROUPS)}.  Or {', '.join(KINDS)}, which have a --help of their own.",
            metavar="OPERATION",
        ),
    ] = EVERY,
    dtype: Annotated[
        str,
        typer.Option(
            help="Comma list of NumPy names; of gemm also a precision (float32:bf16x6) or the "
            "result's (float16:float32).",
        ),
    ] = "float32",
    sizes: Annotated[str | None, typer.Option(help=SYNTAX)] = None,
    peers: Annotated[
        str | None,
        typer.Option(
            help="Comma list: numpy, pyopencl, clblast, torch, cupy, scipy, pyfftw, pyvkfft; "
            "portable_gpu@REVISION, another one of git's revisions, or portable_gpu@/FOLDER; "
            "'none' for none."
        ),
    ] = None,
    device: DeviceOption = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="One more peer: this library with fields of its policies changed, as "
            "unroll=1,group_size=512.  May be given several times.",
            metavar="FIELD=VALUE,...",
        ),
    ] = None,
    turns: TurnsOption = 9,
    ladder: Annotated[
        bool, typer.Option("--ladder", help="The texts' ladders, rung by rung: " + _CLIMBED + ".")
    ] = False,
    eager: Annotated[
        bool,
        typer.Option(
            "--eager",
            help="On a GPU: time calls as Python makes them, and not the device by itself.",
        ),
    ] = False,
    report: JSONOption = None,
    plot: PlotOption = None,
) -> None:
    """Time the library and its peers by turns, and compare with the device's measured roofs.

    Every result is checked before it is timed.  The ratio is the peer's time over ours.  On a GPU
    the time is the device's: our calls, and PyTorch's, stand in line before the first one begins.
    --eager times both as Python calls them.

    For a comparison with another revision of the library, each revision runs in its own process.
    A row is lost if the geometric mean of the ratios is below 0.98 and outside twice the spread
    that the revision shows against itself; the command then exits with 1.
    """
    output, status = Console(), Console(stderr=True)
    if operation not in GROUPS:
        raise ArgumentError(
            f"no benchmark {operation!r}; there are: {', '.join((*GROUPS, *KINDS))}"
        )
    if ladder and (operation not in (*CLIMBED, EVERY) or sizes is not None or plot):
        raise ArgumentError(f"--ladder takes {_CLIMBED} or {EVERY}, and neither --sizes nor --plot")
    wanted_peers, policy = peers_of(peers), policy or []
    if ladder and any(name.startswith(PREFIX) for name in wanted_peers or []):
        raise ArgumentError(f"--peers has {peers!r}; --ladder takes no other revision")
    requested = None if sizes is None else parse_sizes(sizes)
    listener, engine = Listener(), Engine(device)
    every = cases(operation, dtype.split(","), requested, engine.maps_host_memory)
    for text in policy:
        check_changes(text, every, engine)
    if wanted_peers is None:
        wanted_peers = usual_peers(GROUPS[operation], engine.maps_host_memory)
    altered = [Altered(engine, text) for text in policy]
    with open_peers(wanted_peers, engine) as (opened, skipped):
        opened += altered
        for line in skipped:
            status.print(escape(line), soft_wrap=True)
        timing = Bench(engine, opened, turns, BUDGET if sizes is None else None, eager)
        options = words(dtype=dtype, turns=turns, sizes=sizes, peers=peers, device=device)
        options += [word for text in policy for word in ("--policy", text)]
        options += [*["--ladder"] * ladder, *["--eager"] * eager]
        command = ["bench", operation, *options]
        result = BenchReport(engine, opened, turns, command, device, eager)
        output.write(f"{engine.target.facts.name}: {path_of(engine.target)}")
        complete = True
        if ladder:
            _climb(timing, operation, result, output, status)
        else:
            before = measure_roofs(engine, turns, every)
            complete = _run(timing, every, result, status)
            after = measure_roofs(engine, turns, every)
            result.roofs = before.raised(after).reached(result.rows)
    result.noise = listener.noise(result.times, eager or engine.maps_host_memory)
    result.judge()
    if report is not None:
        write_json(report, result.to_dict())
    if plot is not None and result.rows:
        _draw(operation, result, plot)
    if result.roofs is not None:
        output.write(roofs_text(result.roofs))
        names = {peer.name: f"policy {i}" for i, peer in enumerate(altered, 1)}
        revisions = [peer.name for peer in opened if isinstance(peer, Revision)]
        names |= {name: f"revision {i}" for i, name in enumerate(revisions, 1)}
        for name, short in names.items():
            output.print(escape(f"{short}: {name}"), soft_wrap=True)
        for title, section in sections(result.rows).items():
            output.print(table_of_rows(title, section, result.roofs, names))
        if len(result.rows) > 1:
            output.print(table_of_means(result.rows, result.roofs, names))
    judged = [(str(row.case), row.peer or "", row.verdict) for row in result.rows if row.verdict]
    if judged:
        output.print(verdicts(judged))
    for remark in result.remarks:
        status.print(escape(f"{remark.case}: {remark.who}: {remark.text}"), soft_wrap=True)
    if result.noise.warning:
        output.write(result.noise.warning, indent=0)
    if not complete:
        raise KeyboardInterrupt
    if result.wrong or any(verdict.lost for _, _, verdict in judged):
        raise typer.Exit(1)


class BenchGroup(TyperGroup):
    """The commands of benchmarks; words that name none are those of the one for operations."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the command first: that for operations, if no other one is named."""
        name = next((word for word in args if word in KINDS), _NAME)
        return super().parse_args(ctx, [name, *(word for word in args if word != name)])


_NAME = "operations"


def bench_commands(help_of: Callable[[str | None], str]) -> typer.Typer:
    """The commands of all benchmarks; ``help_of`` makes a help of a docstring."""
    group = typer.Typer(cls=BenchGroup, help=help_of(bench.__doc__))
    commands: dict[str, Callable[..., None]] = {_NAME: bench, **KINDS}
    for name, command in commands.items():
        group.command(name, help=help_of(command.__doc__))(command)
    return group


def _run(timing: Bench, every: list[Case], found: BenchReport, status: Console) -> bool:
    """Time every case.  Interrupted, it says so and leaves what was timed until then."""
    try:
        for case in with_progress(every, status):
            for item in timing.run(case):
                found.add(item)
    except KeyboardInterrupt:
        status.print(f"{len(found.rows)} rows were timed")
        return False
    return True


def _climb(
    timing: Bench, operation: str, found: BenchReport, output: Console, status: Console
) -> None:
    for ladder in ladders(operation, timing.engine):
        with status.status(f"{ladder.title} ..."):
            for item in climb(timing, ladder):
                if isinstance(item, Remark):
                    found.add(item)
                else:
                    found.ladders.append(item)
        output.print(table_of_ladder(found.ladders[-1]))


def _draw(operation: str, found: BenchReport, path: Path) -> None:
    from portable_gpu.bench.plot import plot_roofline, plot_throughput

    with replacing(path) as file:
        (plot_roofline if operation == ROOFLINE else plot_throughput)(found, file)
