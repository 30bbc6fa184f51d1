"""The bar that long commands show on a terminal."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from portable_gpu.cli.console import Console


def progress_bar(status: Console) -> Progress:
    """What is being done, how many of how many, and since when; nothing where no one looks."""
    return Progress(
        TextColumn("{task.description:<36}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=status,
        transient=True,
        disable=not status.is_terminal,
    )
