"""``portable-gpu --version``."""

from __future__ import annotations

from typing import Annotated

import typer

from portable_gpu.version import __version__


def _show(wanted: bool) -> None:
    if wanted:
        print(f"portable-gpu {__version__}")
        raise typer.Exit


def version(
    _: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show, is_eager=True),
    ] = False,
) -> None:
    """Performance-portable kernels on OpenCL."""
