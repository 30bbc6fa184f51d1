"""``portable-gpu selftest``: every operation against NumPy in higher precision."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from portable_gpu.cli.console import Console, path_of
from portable_gpu.cli.files import write_json
from portable_gpu.cli.options import DeviceOption, JSONOption
from portable_gpu.cli.progress import progress_bar
from portable_gpu.errors import ArgumentError
from portable_gpu.runtime.engine import Engine
from portable_gpu.selftest import Check, CheckResult, all_checks
from portable_gpu.version import __version__


def selftest(
    operations: Annotated[
        list[str] | None, typer.Argument(help="Check these operations only.", metavar="OPERATION")
    ] = None,
    device: DeviceOption = None,
    device_class: Annotated[
        str | None, typer.Option("--class", help="Take the path of another device class.")
    ] = None,
    report: JSONOption = None,
) -> None:
    """Compare every operation with NumPy in higher precision."""
    console = Console()
    engine = Engine(device, device_class=device_class)
    path = path_of(engine.target)
    console.write(f"{engine.target.facts.name}: {path}")
    begin = time.perf_counter()
    results = _run(engine, _choose(all_checks(engine), operations), console)
    seconds = time.perf_counter() - begin
    failures = [result for result in results if not result.passed]
    if failures:
        console.print(_table(failures))
    if report is not None:
        content = {
            "portable_gpu": __version__,
            "device": engine.target.facts.name,
            "driver": engine.target.facts.driver_version,
            "path": path,
            "passed": len(results) - len(failures),
            "failed": len(failures),
            "seconds": round(seconds, 3),
            "results": [asdict(result) for result in results],
        }
        write_json(report, content)
    done = len({result.operation for result in results})
    console.write(
        f"{len(results) - len(failures)} of {len(results)} checks of {done} operations passed "
        f"in {seconds:.0f} s; {path}"
    )
    if failures:
        raise typer.Exit(1)


def _choose(checks: list[Check], operations: list[str] | None) -> list[Check]:
    known = {check.operation for check in checks}
    if unknown := set(operations or ()) - known:
        raise ArgumentError(
            f"no operation {', '.join(map(repr, sorted(unknown)))}; "
            f"there are: {', '.join(sorted(known))}"
        )
    return [check for check in checks if not operations or check.operation in operations]


def _run(engine: Engine, checks: list[Check], console: Console) -> list[CheckResult]:
    results = []
    with progress_bar(console) as progress:
        task = progress.add_task("", total=len(checks))
        for check in checks:
            progress.update(task, description=check.operation)
            results.append(check(engine))
            progress.advance(task)
    return results


def _table(failures: list[CheckResult]) -> Table:
    table = Table(title=f"{len(failures)} failed", title_justify="left")
    for heading in ("operation", "case", "what is wrong"):
        table.add_column(heading, overflow="fold")
    for failure in failures:
        table.add_row(failure.operation, escape(failure.case), escape(failure.message))
    return table
