"""Where commands print: results on stdout, what is going on on stderr."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import rich.console

#: Tables without frames: their columns are needed for figures.
TABLE_STYLE: Final[dict[str, Any]] = {"box": None, "pad_edge": False, "padding": (0, 2, 0, 0)}


class Console(rich.console.Console):
    """A console that highlights nothing, and leaves a closed pipe to ``main``."""

    def __init__(self, stderr: bool = False) -> None:
        """Of stdout, or of stderr."""
        super().__init__(stderr=stderr, highlight=False)

    def on_broken_pipe(self) -> NoReturn:
        """Raise it; rich would end the process, with what a command still had to write."""
        raise BrokenPipeError
