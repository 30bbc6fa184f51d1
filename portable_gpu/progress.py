"""A progress bar on a terminal, or calls of the user's function, for long calls."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from portable_gpu.arguments import shown
from portable_gpu.errors import ArgumentTypeError, UnsupportedError, how_to_install

#: A function that receives the numbers of completed and of all operations.
ProgressCallback = Callable[[float, float], Any]

#: Seconds between two refreshes of the bar.
_REFRESH = 0.1


@contextmanager
def progress_callback(
    progress: Any, name: str, unit: str = "flop"
) -> Iterator[ProgressCallback | None]:
    """Provide the callback that ``progress=`` specifies.

    Args:
        progress: None or False for no progress; True for a bar on a terminal; or a function.
        name: The name of the work, which is shown before the bar.
        unit: The unit of the operations.

    Raises:
        ArgumentTypeError: `progress` is something else.
        UnsupportedError: There is a terminal, and the package rich is not installed.
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with _progress_bar(name, unit) as callback:
            yield callback
    elif callable(progress):
        yield progress
    else:
        raise ArgumentTypeError(
            f"progress is {shown(progress)}; "
            "expected True, or a function of the operations done and of all"
        )


@contextmanager
def _progress_bar(name: str, unit: str) -> Iterator[ProgressCallback | None]:
    """Show a bar on stderr, if that is a terminal."""
    if not (sys.stderr is not None and sys.stderr.isatty()):
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        raise UnsupportedError(
            f"progress is True, which needs the package rich: {how_to_install('cli')}"
        ) from None
    columns = (
        TextColumn(name), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
        TextColumn(f"{{task.fields[done]:.3g}} of {{task.total:.3g}} {unit}"), TimeElapsedColumn(),
    )  # fmt: skip
    console = Console(file=sys.stderr)
    # auto_refresh=False: rich would start a thread and join it, and the exception of a signal
    # handler may interrupt the join.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=0.0, done=0.0)
        refreshed = 0.0

        def callback(done: float, total: float) -> None:
            nonlocal refreshed
            bar.update(task, completed=done, total=total, done=done)
            if done == total or time.monotonic() > refreshed + _REFRESH:
                refreshed = time.monotonic()
                bar.refresh()

        yield callback
