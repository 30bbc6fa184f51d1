"""A summary of the rows of a run: geometric means over the cases of each operation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from portable_gpu.bench.measure import Row
from portable_gpu.bench.roofs import Roofs
from portable_gpu.ops.registry import BENCHMARKS


@dataclass(frozen=True)
class Means:
    """Several cases of one operation, dtype, section and peer.

    Attributes:
        operation, dtype: The operation, and the dtype as ``--dtype`` takes it.
        section: The words that keep these cases apart from others: a layout, a direction.
        peer: The name of the peer; ``None`` if none has the operation.
        count: The number of cases.
        ratio: The geometric mean of the peer's time over ours; ``None`` without a peer.
        worst: The least of these ratios, and the size of its case.
        roof, copy: The geometric means of the shares of the roof, and of the speed of a copy by
            the least traffic.
    """

    operation: str
    dtype: str
    section: str
    peer: str | None
    count: int
    ratio: float | None
    worst: tuple[float, str] | None
    roof: float
    copy: float


def means(rows: Iterable[Row], roofs: Roofs) -> list[Means]:
    """One for each operation, dtype, section and peer, in the order of the rows."""
    groups: dict[tuple[str, str, str, str | None], list[Row]] = {}
    for row in rows:
        case = row.case
        section = BENCHMARKS[case.operation].section(case)
        groups.setdefault((case.operation, case.type, section, row.peer), []).append(row)
    return [_of(key, group, roofs) for key, group in groups.items()]


def overall(rows: Sequence[Row], roofs: Roofs) -> list[Means]:
    """One for each peer, over all operations."""
    peers = dict.fromkeys(row.peer for row in rows if row.ratio is not None)
    return [
        _of(("all", "", "", peer), [row for row in rows if row.peer == peer], roofs)
        for peer in peers
    ]


def _of(key: tuple[str, str, str, str | None], rows: Sequence[Row], roofs: Roofs) -> Means:
    ratios = [(row.ratio.median, row.case.size) for row in rows if row.ratio is not None]
    shares = [roofs.share(row.case, row.ours.median) for row in rows]
    copies = [row.case.bytes / row.ours.median / roofs.copy.median for row in rows]
    return Means(
        *key, len(rows), geometric_mean(ratio for ratio, _ in ratios) if ratios else None,
        min(ratios) if ratios else None, geometric_mean(shares), geometric_mean(copies),
    )  # fmt: skip
