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
    """A bar with the current item, the count and the elapsed time; only on a terminal."""
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


def with_progress(
    items: Sequence[T],
    status: Console,
    deadline: float = inf,
    name: Callable[[T], Any] = lambda item: item,
) -> Iterator[T]:
    """Yield the items in order with a progress bar, until a deadline of the monotonic clock.

    Args:
        items: The items.
        status: The console that shows the bar.
        deadline: The time after which no further item is yielded.
        name: Gives the text for an item in the bar.
    """
    with progress_bar(status) as progress:
        task = progress.add_task("", total=len(items))
        for item in items:
            if time.monotonic() >= deadline:
                return
            progress.update(task, description=escape(str(name(item))))
            yield item
            progress.advance(task)
