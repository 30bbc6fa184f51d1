"""``portable-gpu bench transfer``: copies to the device and back, compared with peers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from portable_gpu.bench.noise import Listener
from portable_gpu.bench.report import BenchReport
from portable_gpu.bench.transfer import TRANSFER_PEERS, USUAL, TransferRow, transfers
from portable_gpu.cli.console import Console, plain_table
from portable_gpu.cli.files import write_json
from portable_gpu.cli.options import DeviceOption, JSONOption, TurnsOption, names_of_peers, words
from portable_gpu.errors import ArgumentError
from portable_gpu.runtime.engine import Engine


def transfer(
    sizes: Annotated[
        str | None, typer.Option(help="Comma list of bytes (1000 to 1000000000).")
    ] = None,
    peers: Annotated[
        str | None,
        typer.Option(
            help="Comma list: driver (pyopencl's copies of pageable memory), pinned (of pinned "
            "memory: what the bus gives), torch, cupy; 'none' for none."
        ),
    ] = None,
    turns: TurnsOption = 9,
    device: DeviceOption = None,
    report: JSONOption = None,
) -> None:
    """Time copies of NumPy arrays to the device and back, fresh arrays on both sides."""
    output, status = Console(), Console(stderr=True)
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
    named = ",".join(names) or "none"
    options = words(sizes=",".join(map(str, requested)), turns=turns, peers=named)
    head = BenchReport(engine, [], turns, ["bench", "transfer", *options], device)
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
    table = plain_table(">bytes", "copy", ">ours us", ">GB/s", "peer", ">GB/s", ">peer / ours")
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
