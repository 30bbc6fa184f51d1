"""The bar that long commands show on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, TypeVar

from rich.markup import escape
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


T = TypeVar("T")


def each(
    items: Sequence[T],
    status: Console,
    deadline: float = inf,
    name: Callable[[T], Any] = lambda item: item,
) -> Iterator[T]:
    """The items one after the other under a bar, until a deadline of the monotonic clock.

    Args:
        items: What is done.
        status: Where the bar is shown.
        deadline: When no further one is begun.
        name: How the bar calls an item.
    """
    with progress_bar(status) as progress:
        task = progress.add_task("", total=len(items))
        for item in items:
            if time.monotonic() >= deadline:
                return
            progress.update(task, description=escape(str(name(item))))
            yield item
            progress.advance(task)
