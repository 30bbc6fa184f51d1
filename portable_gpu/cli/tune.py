"""``portable-gpu tune``: measured policies for this device, verified before they are stored."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from portable_gpu.cli.console import Console, path_of, plain_table
from portable_gpu.cli.files import replacing
from portable_gpu.cli.options import BudgetOption, DeviceOption, PlotOption, seconds_of
from portable_gpu.errors import ArgumentError, PortableGPUError, how_to_install
from portable_gpu.runtime.engine import Engine
from portable_gpu.tuner.jobs import TUNED, TuningJob, jobs
from portable_gpu.tuner.progress import Progress
from portable_gpu.tuner.worker import Worker
from portable_gpu.tuning.table import VARIABLE, user_file

if TYPE_CHECKING:
    from portable_gpu.tuner.search import Tuner

_NAMES = 28  # columns of the table for a row's name
#: Seconds of the budget that are left for the last lines, and for a picture.
_CLOSING, _DRAWING = 2.0, 6.0


def tune(
    operation: Annotated[
        str, typer.Argument(help=f"{', '.join(TUNED)} or all.", metavar="OPERATION")
    ] = "all",
    dtype: Annotated[str, typer.Option(help="Comma list of NumPy names.")] = "float32",
    shapes: Annotated[
        str | None,
        typer.Option(help="Problems to be good at, as --sizes of bench; all kinds without it."),
    ] = None,
    budget: BudgetOption = "10m",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the searches of earlier runs.")
    ] = False,
    device: DeviceOption = None,
    plot: PlotOption = None,
) -> None:
    """Search policies that beat the formulas here, and store those that are right.

    A winner is faster by more than the spread and passes checks at the edges of its tiles; it is
    in use from then on, for this user.  Ctrl-C loses nothing: --resume goes on.
    """
    begin = time.monotonic()
    seconds = seconds_of(budget)
    if find_spec("optuna") is None:
        raise PortableGPUError(f"tune needs the package optuna: {how_to_install('tune')}")
    path = user_file()
    if path is None:
        raise PortableGPUError(f"this user has no home folder; {VARIABLE}=FILE names a table")
    from portable_gpu.tuner.search import Studies, Tuner

    deadline = begin + seconds - min(seconds / 4, _CLOSING + (0 if plot is None else _DRAWING))
    output, status = Console(), Console(stderr=True)
    engine = Engine(device)
    every = jobs(
        operation, dtype.split(","), shapes, engine.target, engine.table, engine.maps_host_memory
    )
    if not every:
        raise ArgumentError(f"no kernel of {operation} with these shapes takes a policy")
    output.write(f"{engine.target.facts.name}: {path_of(engine.target)}")
    with Worker(device) as worker:
        studies = Studies(path.with_suffix(".sqlite3"))
        tuner = Tuner(engine.target, worker, studies, path, resume)
        complete = _run(tuner, every, deadline, status)
    done = [progress for progress, _ in tuner.done]
    output.print(_table(every, done))
    for progress in done:
        for refused in progress.refused:
            status.print(escape(f"{progress.job.name}: refused {refused}"), soft_wrap=True)
    if any(progress.policy != progress.job.current for progress in done):
        output.print(f"Stored in {escape(str(path))}", soft_wrap=True)
    if plot is not None and done:
        from portable_gpu.tuner.plot import plot_searches

        with replacing(plot) as file:
            plot_searches(tuner.done, engine.target.facts.name, file)
    if not complete:
        raise KeyboardInterrupt


def _run(tuner: Tuner, every: list[TuningJob], deadline: float, status: Console) -> bool:
    """Search.  Interrupted, it says so and leaves what was found until then."""
    begin = time.monotonic()
    with Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=status,
        transient=True,
        disable=not status.is_terminal,
    ) as bar:
        task = bar.add_task("", total=deadline - begin)

        def watch(progress: Progress) -> None:
            text = f"{progress.job.name}: {progress.trials} trials, best {_gain(progress)}"
            bar.update(task, description=text, completed=time.monotonic() - begin)

        try:
            tuner.run(every, deadline, watch)
        except KeyboardInterrupt:
            status.print("What was found is stored; --resume goes on from here.")
            return False
    return True


def _gain(progress: Progress) -> str:
    return f"{1 / progress.relative:.3f} x"


def _table(every: list[TuningJob], done: list[Progress]) -> Table:
    caption = "Gain: the time by formula over that of the policy in use."
    headings = "row, and its problems", ">trials", ">failed", ">gain", "outcome"
    table = plain_table(*headings, caption=caption)
    table.columns[0].width = _NAMES
    for job in every:
        progress = next(
            (item for item in done if item.job == job), Progress(job, job.current, remark="no time")
        )
        problems = ", ".join(case.size for case in job.cases)
        table.add_row(
            f"{escape(job.name)}\n[dim]{escape(problems)}[/dim]",
            str(progress.trials),
            str(progress.failed),
            _gain(progress),
            escape(progress.remark or _outcome(progress)),
        )
    return table


def _outcome(progress: Progress) -> str:
    if progress.policy == progress.job.current:
        return "nothing better beyond the spread"
    formula = progress.job.default.to_dict()
    result = progress.policy.to_dict()
    changed = [
        f"{name} {result[name]}, not {formula[name]}"
        for name in result
        if result[name] != formula[name]
    ]
    return f"stored: {'; '.join(changed)}"
