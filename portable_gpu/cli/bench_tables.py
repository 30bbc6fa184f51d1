"""The tables that ``portable-gpu bench`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.markup import escape
from rich.table import Table

from portable_gpu.bench.ladder import LadderTimes
from portable_gpu.bench.measure import Row
from portable_gpu.bench.revisions import PREFIX
from portable_gpu.bench.roofs import Roofs
from portable_gpu.bench.statistics import Statistic
from portable_gpu.bench.summary import means, overall
from portable_gpu.bench.verdict import LEAST, Verdict
from portable_gpu.cli.console import plain_table
from portable_gpu.ops.registry import BENCHMARKS


def roofs_text(roofs: Roofs) -> str:
    """Return a line with the measured roofs."""
    parts = [f"copy {_with_spread(roofs.copy, 1e-9)} GB/s"]
    parts += [f"{real} {_with_spread(item, 1e-9)} GFLOP/s" for real, item in roofs.fma.items()]
    parts += [
        f"{kind} on matrix units, as the fastest product had it, {_with_spread(r, 1e-12)} TFLOP/s"
        for kind, r in roofs.matrix.items()
    ]
    return f"Measured roofs: {', '.join(parts)}"


def sections(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows by operation and dtype."""
    result: dict[str, list[Row]] = {}
    for row in rows:
        result.setdefault(f"{row.case.operation}, {row.case.type}", []).append(row)
    return result


def table_of_rows(title: str, rows: Sequence[Row], roofs: Roofs, names: Mapping[str, str]) -> Table:
    """Return a table of 80 columns, in GFLOP/s or GB/s as the family's record says.

    ``names`` are short names of peers.
    """
    by_flop = BENCHMARKS[rows[0].case.operation].by_flop
    rate = ">GFLOP/s" if by_flop else ">GB/s"
    headings = "size", ">ours ms", rate, ">of roof", "peer", ">peer ms", ">peer / ours"
    table = plain_table(*headings, title=title)
    for row in rows:
        case, seconds = row.case, row.ours.median
        table.add_row(
            case.size,
            _with_spread(row.ours, 1e3),
            _figure((case.flop if by_flop else case.bytes) / seconds / 1e9),
            f"{roofs.share(case, seconds):.0%} {roofs.limit(case)}",
            names.get(row.peer or "", row.peer or ""),
            "" if row.theirs is None else _figure(row.theirs.median * 1e3),
            "" if row.ratio is None else _with_spread(row.ratio),
        )
    return table


def table_of_means(rows: Sequence[Row], roofs: Roofs, names: Mapping[str, str]) -> Table:
    """Return a table of the geometric means of the cases of each operation, and of all."""
    caption = "Geometric means; of copy: the least traffic over the speed of a copy."
    headings = "operation", "peer", ">cases", ">peer / ours", ">worst", ">of roof", ">of copy"
    table = plain_table(*headings, title="Summary", caption=caption)
    for item in (*means(rows, roofs), *overall(rows, roofs)):
        name = ", ".join(filter(None, (item.operation, item.dtype, item.section)))
        table.add_row(
            name,
            names.get(item.peer or "", item.peer or ""),
            str(item.count),
            "" if item.ratio is None else _figure(item.ratio),
            "" if item.worst is None else f"{_figure(item.worst[0])} {item.worst[1]}",
            f"{item.roof:.0%}",
            f"{item.copy:.0%}",
        )
    return table


def table_of_ladder(ladder: LadderTimes) -> Table:
    """Return a table with a row for each rung and each peer."""
    rival = next((name for name in ladder.peers[1:] if name in ladder.rows[0].seconds), None)
    caption = (
        ladder.note if rival is None else f"{ladder.note} In brackets: {rival}'s time over it."
    )
    table = plain_table("rung", title=f"{ladder.title}, microseconds", caption=caption)
    table.columns[0].no_wrap = True
    for row in ladder.rows:
        table.add_column(row.size.replace("x", " x "), justify="right")
    for name in (*ladder.rungs, *ladder.peers):
        table.add_row(name, *(_cell(row.seconds, name, rival) for row in ladder.rows))
    return table


def _cell(seconds: dict[str, Statistic], name: str, rival: str | None) -> str:
    """A time, and how it compares with the first peer's."""
    if name not in seconds:
        return ""
    local = seconds[name].median
    if rival is None or rival not in seconds:
        return f"{local * 1e6:.4g}"
    return f"{local * 1e6:.4g} ({seconds[rival].median / local:.2f})"


def _with_spread(statistic: Statistic, factor: float = 1.0) -> str:
    return f"{_figure(statistic.median * factor)} ±{statistic.spread:.0%}"


def _figure(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


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
