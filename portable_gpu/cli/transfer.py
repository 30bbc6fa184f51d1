"""``portable-gpu bench transfer``: copies to the device and back, compared with peers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from portable_gpu.bench.noise import Listener
from portable_gpu.bench.report import BenchReport
from portable_gpu.bench.transfer import TRANSFER_PEERS, USUAL, TransferRow, transfers
from portable_gpu.cli.console import TABLE_STYLE, Console
from portable_gpu.cli.files import write_json
from portable_gpu.cli.options import names_of_peers
from portable_gpu.errors import ArgumentError
from portable_gpu.runtime.engine import Engine


def transfer(
    sizes: str | None,
    peers: str | None,
    turns: int,
    device: str | None,
    report: Path | None,
    output: Console,
    status: Console,
) -> None:
    """Time copies of several sizes in both directions.

    Raises:
        ArgumentError: A size or a peer is unknown.
        PortableGPUError: A copy gave other bytes.
    """
    requested = USUAL if sizes is None else tuple(map(_bytes, sizes.split(",")))
    names = names_of_peers(peers, [*TRANSFER_PEERS], "of transfer ")
    listener, engine = Listener(), Engine(device)
    rows: list[TransferRow] = []
    with status.status("copies ..."):
        for result in transfers(engine, requested, names, turns):
            if isinstance(result, TransferRow):
                rows.append(result)
            else:
                status.print(escape(result), soft_wrap=True)
    command = ["bench", "transfer", "--sizes", ",".join(map(str, requested)), "--turns", str(turns)]
    command += ["--peers", ",".join(names) or "none"]
    head = BenchReport(engine, [], turns, command, device)
    head.noise = listener.noise([row.ours for row in rows], True)
    if report is not None:
        write_json(report, head.to_dict() | {"transfers": [asdict(row) for row in rows]})
    output.write(engine.target.facts.name)
    output.print(_table(rows))
    if head.noise.warning:
        output.write(head.noise.warning, indent=0)


def _bytes(text: str) -> int:
    if not text.strip().isdigit() or not int(text):
        raise ArgumentError(f"--sizes has {text!r}; of transfer it is a comma list of bytes")
    return int(text)


def _table(rows: list[TransferRow]) -> Table:
    table = Table(**TABLE_STYLE)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("copy", no_wrap=True)
    for heading in ("ours us", "GB/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("peer", no_wrap=True)
    for heading in ("GB/s", "peer / ours"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        theirs, ratio = row.theirs, row.ratio
        table.add_row(
            f"{row.nbytes:,}",
            row.direction,
            f"{row.ours.median * 1e6:.4g} ±{row.ours.spread:.0%}",
            f"{row.rate(row.ours):.3g}",
            row.peer or "",
            "" if theirs is None else f"{row.rate(theirs):.3g}",
            "" if ratio is None else f"{ratio.median:.3g} ±{ratio.spread:.0%}",
        )
    return table
