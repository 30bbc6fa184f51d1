"""The result of a run as JSON: all figures, and the settings that reproduce them."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.bench import hunt
from portable_gpu.bench.altered import Altered
from portable_gpu.bench.dispatch import FIRST_TURN, FIRST_TURNS, Distribution, Standing
from portable_gpu.bench.hunt import Trial
from portable_gpu.bench.ladder import LadderTimes
from portable_gpu.bench.measure import Remark, Row
from portable_gpu.bench.noise import Noise
from portable_gpu.bench.peers import Ours, Peer
from portable_gpu.bench.roofs import Roofs
from portable_gpu.bench.statistics import Statistic
from portable_gpu.bench.summary import means, overall
from portable_gpu.bench.timing import TURN
from portable_gpu.bench.verdict import pooled
from portable_gpu.runtime.engine import Engine
from portable_gpu.version import __version__

FORMAT = 1


@dataclass
class BenchReport:
    """The results of a run, in the order of the measurements.

    Attributes:
        engine: The engine that it ran on.
        peers: The peers.
        turns: The number of turns of each side.
        command: The arguments of the command line.
        device: The device argument of the command line.
        eager: Whether calls were timed as Python makes them.
        roofs: The measured roofs of the device.
        noise: The disturbance by other work.
        rows, remarks, ladders: The figures, and the reasons for missing ones.
        standings: The results of ``bench dispatch``.
        trials: The results of ``bench hunt``.
    """

    engine: Engine
    peers: Sequence[Peer]
    turns: int
    command: Sequence[str]
    device: str | None = None
    eager: bool = False
    roofs: Roofs | None = None
    noise: Noise | None = None
    rows: list[Row] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    ladders: list[LadderTimes] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)

    def add(self, found: Row | Remark) -> None:
        """Keep a row or a remark."""
        if isinstance(found, Row):
            self.rows.append(found)
        else:
            self.remarks.append(found)

    def judge(self) -> None:
        """Compute the verdicts on revisions, after the last row: they use all rows' spread."""
        result = iter(pooled([row.verdict for row in self.rows if row.verdict is not None]))
        self.rows = [
            row if row.verdict is None else replace(row, verdict=next(result)) for row in self.rows
        ]

    @property
    def times(self) -> list[Statistic]:
        """Seconds of our calls, of rows and of ladders."""
        of_ladders = [row.seconds for ladder in self.ladders for row in ladder.rows]
        ours = [seconds[Ours.name] for seconds in of_ladders if Ours.name in seconds]
        return [*(row.ours for row in self.rows), *ours]

    @property
    def wrong(self) -> list[Remark]:
        """Remarks on wrong results."""
        return [remark for remark in self.remarks if remark.wrong]

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        target = self.engine.target
        return {
            "format": FORMAT,
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "command": shlex.join(("portable-gpu", *self.command)),
            "device": {
                "name": target.facts.name,
                "platform": target.facts.platform_name,
                "version": target.facts.version,
                "driver": target.facts.driver_version,
                "class": target.device_class,
                "compute_units": target.compute_units,
            },
            "host": {"cpu": host_cpu(), "system": platform.platform()},
            "versions": {
                "portable_gpu": __version__,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "pyopencl": cl.VERSION_TEXT,
                **{peer.name: peer.version for peer in self.peers},
            },
            "protocol": {
                "turns": self.turns,
                "turn_seconds": TURN,
                "arrays": "host" if self.engine.maps_host_memory else "device",
                "eager": self.eager or self.engine.maps_host_memory,
            },
            "roofs": None if self.roofs is None else _roofs(self.roofs),
            "noise": None if self.noise is None else self.noise.to_dict(),
            "rows": [self._row(row) for row in self.rows],
            "summary": [] if self.roofs is None else self._summary(self.roofs),
            "remarks": [
                {"case": str(r.case), "who": r.who, "text": r.text, "wrong": r.wrong}
                for r in self.remarks
            ],
            "ladders": [asdict(ladder) for ladder in self.ladders],
            "dispatch": None if not self.standings else _dispatch(self.standings),
            "hunt": None if not self.trials else _hunt(self.trials, self.engine),
        }

    def _row(self, row: Row) -> dict[str, Any]:
        case, seconds = row.case, row.ours.median
        return {
            "operation": case.operation,
            "size": case.size,
            "dtype": case.type,
            "flop": case.flop,
            "bytes": case.bytes,
            "peer": row.peer,
            "seconds": asdict(row.ours),
            "peer_seconds": None if row.theirs is None else asdict(row.theirs),
            "ratio": None if row.ratio is None else asdict(row.ratio),
            "gflops": case.flop / seconds / 1e9,
            "gbytes_per_second": case.bytes / seconds / 1e9,
            "roof": None if self.roofs is None else self.roofs.limit(case),
            "share_of_roof": None if self.roofs is None else self.roofs.share(case, seconds),
            "calls_a_turn": list(row.calls),
            "copies": row.copies,
            "error_in_bounds": list(row.error),
            "verdict": None if row.verdict is None else row.verdict.to_dict(),
            "command": self._command(row),
        }

    def _summary(self, roofs: Roofs) -> list[dict[str, Any]]:
        return [asdict(item) for item in (*means(self.rows, roofs), *overall(self.rows, roofs))]

    def _command(self, row: Row) -> str:
        """The command that repeats one row."""
        parts = ["--peers", row.peer or "none"]
        if any(isinstance(peer, Altered) and peer.name == row.peer for peer in self.peers):
            parts = ["--peers", "none", "--policy", str(row.peer)]
        parts += ["--turns", str(self.turns), *["--eager"] * self.eager]
        parts += [] if self.device is None else ["--device", self.device]
        return f"{row.case.command} {shlex.join(parts)}"


def _roofs(roofs: Roofs) -> dict[str, Any]:
    return {
        "copy_bytes_per_second": asdict(roofs.copy),
        "flops": {real: asdict(result) for real, result in roofs.fma.items()},
        "matrix_flops": {kind: asdict(result) for kind, result in roofs.matrix.items()},
    }


def _dispatch(standings: Sequence[Standing]) -> dict[str, Any]:
    return {
        "first_look": {"turns": FIRST_TURNS, "turn_seconds": FIRST_TURN},
        "distribution": asdict(Distribution.of(standings)),
        "products": [standing.to_dict() for standing in standings],
    }


def _hunt(trials: Sequence[Trial], engine: Engine) -> dict[str, Any]:
    turn = TURN if engine.maps_host_memory else hunt.LINE_TURN
    return {
        "turns": {"turns": hunt.TURNS, "turn_seconds": turn},
        "rows": [asdict(summary) for summary in hunt.summaries(trials)],
        "revisions": [row.to_dict() for row in hunt.revision_rows(trials)],
        "trials": [asdict(trial) for trial in trials],
    }


def host_cpu() -> str:
    """The host's processor, as its system names it."""
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
