"""Tables of rows that were compared with another revision."""

from __future__ import annotations

from collections.abc import Iterable

from rich.markup import escape
from rich.table import Table

from portable_gpu.bench.revisions import PREFIX
from portable_gpu.bench.verdict import LEAST, Verdict
from portable_gpu.cli.console import plain_table

_CAPTION = (
    "Ratio: geometric mean of the revision's time over ours.  Itself: the same of two processes of "
    "the revision.  A row is lost if its ratio is below {least} and outside twice the spread, "
    "which is at least what the revision shows against itself over all rows."
)


def verdicts(rows: Iterable[tuple[str, str, Verdict]]) -> Table:
    """Make a table of rows, the peers of each, and the verdicts."""
    headings = "row", "revision", ">count", ">ratio", ">itself", ">spread", ">verdict"
    table = plain_table(*headings, caption=_CAPTION.format(least=LEAST))
    for row, peer, item in rows:
        table.add_row(
            escape(row), escape(peer.removeprefix(PREFIX)), str(item.count), f"{item.ratio:.3f}",
            f"{item.itself:.3f}", f"{item.spread:.3f}", "lost" if item.lost else "",
        )  # fmt: skip
    return table
