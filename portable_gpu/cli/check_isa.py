"""``portable-gpu check-isa``: the kernels by offline compilers, for GPUs that are not installed."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from portable_gpu.cli.console import Console
from portable_gpu.cli.files import write_json
from portable_gpu.cli.options import JSONOption
from portable_gpu.cli.progress import progress_bar
from portable_gpu.errors import PortableGPUError
from portable_gpu.isa import (
    CompileJob,
    CompileResult,
    Compilers,
    check,
    find_compilers,
    jobs,
    select,
)
from portable_gpu.isa.report import (
    KERNEL_HEADS,
    SUMMARY_HEADS,
    kernel_row,
    markdown,
    summary,
    to_dict,
)
from portable_gpu.version import __version__


def check_isa(
    operations: Annotated[
        list[str] | None,
        typer.Argument(help="gemm, sum ...; all without any.", metavar="OPERATION"),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(help="Compile for this one (gfx900, gfx900-lds, sm_90 ...); may be repeated."),
    ] = None,
    full: Annotated[bool, typer.Option(help="Every operation with every dtype.")] = False,
    verbose: Annotated[bool, typer.Option(help="A row for every kernel.")] = False,
    table: Annotated[
        bool, typer.Option("--table", help="Print the tables of docs/devices.md instead.")
    ] = False,
    report: JSONOption = None,
    workers: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Compilers at a time.")
    ] = None,
) -> None:
    """Compile every kernel for AMD's and NVIDIA's GPUs, and check registers, memory and loops.

    Fails on scratch memory, spills, another wave size than assumed, too much local memory, too few
    resident waves, and on an inner loop without the instructions it was written for.
    """
    console = Console(stderr=table)
    requested, compilers = select(target or ()), find_compilers()
    skipped = [
        m for m in compilers.missing.values() if any(w.family == m.family for w in requested)
    ]
    if skipped and target:
        lacking = "; ".join(f"a compiler for {item.family}: {item.install}" for item in skipped)
        raise PortableGPUError(f"--target needs {lacking}")
    for item in skipped:
        console.print(escape(str(item)), soft_wrap=True)
    requested = tuple(machine for machine in requested if machine.family not in compilers.missing)
    results = _run(jobs(requested, operations or (), full), compilers, workers, console)
    if verbose:
        for result in results:
            console.print(escape(_line(kernel_row(result))))
    if table:
        print(markdown(results))
    else:
        console.print(_table(list(summary(results))))
    failures = [result for result in results if result.problems]
    for result in failures:
        reasons = "; ".join(result.problems)
        console.print(f"{escape(result.name)}: {escape(reasons)}", soft_wrap=True)
    if report is not None:
        content = {
            "portable_gpu": __version__,
            "skipped": [str(item) for item in skipped],
            "results": [to_dict(result) for result in results],
        }
        write_json(report, content)
    console.print(f"{len(results) - len(failures)} passed, {len(failures)} failed")
    if failures:
        raise typer.Exit(1)


def _run(
    every: list[CompileJob], compilers: Compilers, workers: int | None, console: Console
) -> list[CompileResult]:
    results: list[CompileResult] = []
    with (
        tempfile.TemporaryDirectory(prefix="portable_gpu-isa-") as folder,
        ThreadPoolExecutor(workers or os.cpu_count()) as pool,
        progress_bar(console) as progress,
    ):
        task = progress.add_task("", total=len(every))
        checked = pool.map(lambda job: check(job, compilers, Path(folder)), every)
        try:
            for job, result in zip(every, checked, strict=True):
                progress.update(task, advance=1, description=f"{job.machine.name} {job.operation}")
                results += result
        finally:
            pool.shutdown(cancel_futures=True)  # interrupted, it does not compile all the rest
    return results


def _line(row: tuple[str, ...]) -> str:
    """One kernel: which, and what is known of it."""
    target, kernel, dtype, *figures = row
    known = zip(KERNEL_HEADS[3:], figures, strict=True)
    return (
        f"{target} {kernel} {dtype}: {', '.join(f'{head} {item}' for head, item in known if item)}"
    )


def _table(rows: list[tuple[str, ...]]) -> Table:
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for place, head in enumerate(SUMMARY_HEADS):
        shown.add_column(head, justify="right" if place else "left", no_wrap=place == 0)
    for row in rows:
        shown.add_row(*(escape(cell) for cell in row))
    return shown
