"""``portable-gpu warm-up``: compile ahead what calls will need."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console

from portable_gpu.cli.progress import progress_bar
from portable_gpu.errors import DTypeError, UnsupportedError
from portable_gpu.ops.warm_up import COMMON
from portable_gpu.runtime.disk_cache import DiskCache
from portable_gpu.runtime.engine import Engine


def warm_up(
    operation: Annotated[
        str | None, typer.Argument(help=f"gemm, gemv, sum ...; without it {', '.join(COMMON)}.")
    ] = None,
    sizes: Annotated[
        list[int] | None,
        typer.Argument(help="gemm: M N K; gemv: M N; reductions: the shape. Else typical ones."),
    ] = None,
    dtype: Annotated[str, typer.Option(help="Element types, comma list.")] = "float32",
    device: Annotated[
        str | None, typer.Option(help="Device, as PORTABLE_GPU_DEVICE takes it.")
    ] = None,
) -> None:
    """Compile ahead what calls will need, and keep it on disk."""
    engine = Engine(device)
    jobs = [(name, one) for name in ([operation] if operation else COMMON)
            for one in dtype.split(",")]  # fmt: skip
    begin, programs = time.monotonic(), 0
    with progress_bar(Console(stderr=True, highlight=False)) as bar:
        task = bar.add_task("", total=len(jobs))
        for name, one in jobs:
            bar.update(task, description=f"{name} {one}")
            try:
                programs += engine.warm_up(name, sizes=sizes or None, dtypes=[one]).programs
            except (DTypeError, UnsupportedError):
                if operation:
                    raise
            bar.advance(task)
    folder = DiskCache.default().folder
    kept = f"kept in {folder}" if folder else "which are not kept: see PORTABLE_GPU_CACHE"
    seconds = time.monotonic() - begin
    print(f"{engine.target.facts.name}: {programs} programs in {seconds:.1f} s, {kept}")
