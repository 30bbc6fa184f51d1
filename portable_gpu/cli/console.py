"""The output of commands: results on stdout, progress on stderr."""

from __future__ import annotations

import textwrap
from typing import Any, NoReturn

import rich.console
from rich.table import Table

from portable_gpu.targets import Target


def plain_table(*headings: str, **options: Any) -> Table:
    """A table without frames: their columns are needed for figures.

    Args:
        headings: The columns; those of figures have ">" before the heading.
        options: Further options of :class:`rich.table.Table`, such as the caption.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left", **options)
    for heading in headings:
        is_figure = heading.startswith(">")
        table.add_column(
            heading.removeprefix(">"), justify="right" if is_figure else "left", no_wrap=is_figure
        )
    return table


class Console(rich.console.Console):
    """A console that highlights nothing, and leaves a closed pipe to ``main``."""

    def __init__(self, stderr: bool = False) -> None:
        """Open the console on stdout, or on stderr."""
        super().__init__(stderr=stderr, highlight=False)

    def write(self, text: str, indent: int = 5) -> None:
        """Print plain text, broken between words; further lines of a line are indented."""
        for line in text.splitlines():
            more = " " * indent
            wrapped = textwrap.fill(
                line, self.width, subsequent_indent=more, break_long_words=False,
                break_on_hyphens=False,
            )  # fmt: skip
            self.print(wrapped, markup=False, soft_wrap=True)

    def on_broken_pipe(self) -> NoReturn:
        """Raise it; rich would end the process, with what a command still had to write."""
        raise BrokenPipeError


def path_of(target: Target) -> str:
    """``class nvidia, lanes exchange by warp_shuffle, sub-group of 32``."""
    forced = " (forced)" if target.forced else ""
    size = target.subgroup_size
    group = "a work-item is its own sub-group" if size == 1 else f"sub-groups of {size}"
    step = ", in lock-step" if target.lockstep else ""
    return f"class {target.device_class}{forced}, exchange {target.exchange}, {group}{step}"
