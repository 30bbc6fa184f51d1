"""``portable-gpu warm-up``: compile ahead what calls will need."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from portable_gpu.cli.console import Console
from portable_gpu.cli.options import DeviceOption
from portable_gpu.cli.progress import progress_bar
from portable_gpu.dtypes import dtype_of
from portable_gpu.errors import DTypeError, UnsupportedError
from portable_gpu.ops.sizes import parse_size
from portable_gpu.ops.warm_up import COMMON
from portable_gpu.runtime.disk_cache import DiskCache
from portable_gpu.runtime.engine import Engine


def warm_up(
    operation: Annotated[
        str | None, typer.Argument(help=f"gemm, gemv, sum ...; without it {', '.join(COMMON)}.")
    ] = None,
    size: Annotated[
        str | None,
        typer.Argument(help="As explain takes it: 8x3200x3200; typical ones without it."),
    ] = None,
    dtype: Annotated[str, typer.Option(help="Element types, comma list.")] = "float32",
    device: DeviceOption = None,
) -> None:
    """Compile ahead what calls will need, and keep it on disk."""
    sizes = None if size is None else parse_size(size, "SIZE").extents
    names, dtypes = [operation] if operation else COMMON, dtype.split(",")
    for item in dtypes:
        dtype_of(item)
    jobs = [(name, item) for name in names for item in dtypes]
    engine = Engine(device)
    begin, programs = time.monotonic(), 0
    with progress_bar(Console(stderr=True)) as bar:
        task = bar.add_task("", total=len(jobs))
        for name, item in jobs:
            bar.update(task, description=f"{name} {item}")
            try:
                programs += engine.warm_up(name, sizes=sizes, dtypes=[item]).programs
            except (DTypeError, UnsupportedError):
                if operation:
                    raise
            bar.advance(task)
    folder = DiskCache.default().folder
    location = f"kept in {folder}" if folder else "which are not kept: see PORTABLE_GPU_CACHE"
    seconds = time.monotonic() - begin
    Console().write(
        f"{engine.target.facts.name}: {programs} programs in {seconds:.1f} s, {location}"
    )
