"""Detect whether other work on the machine disturbed a run."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from portable_gpu.bench.statistics import Statistic

#: Limits for figures that can be believed: the share of the processors that other processes keep
#: busy, and the median of the rows' spreads.
_MOST_BUSY, _MOST_SPREAD = 0.1, 0.1
_STAT = Path("/proc/stat")


@dataclass(frozen=True)
class Noise:
    """The disturbance of a run by other work.

    Attributes:
        cores: The number of the machine's processors.
        busy: The average number of processors that other processes kept busy.
        spread: The median of the rows' spreads: half the distance between a row's quartiles, as a
            part of its median; ``None`` without rows.
        host_counts: Whether the host's processors do some of the timed work.
    """

    cores: int
    busy: float
    spread: float | None
    host_counts: bool

    @property
    def reasons(self) -> list[str]:
        """Why the figures cannot be believed; empty where they can."""
        result = []
        if self.host_counts and self.busy > _MOST_BUSY * self.cores:
            result.append(f"other processes kept {self.busy:.1f} of {self.cores} cores busy")
        if self.spread is not None and self.spread > _MOST_SPREAD:
            result.append(f"half of the rows spread by {self.spread:.0%} or more")
        return result

    @property
    def warning(self) -> str:
        """A line for people; empty where the figures can be believed."""
        reasons = "; ".join(self.reasons)
        return reasons and f"Do not believe these figures, the machine was too busy: {reasons}."

    def to_dict(self) -> dict[str, Any]:
        """The fields and what follows from them, for JSON."""
        return {**asdict(self), "too_busy": bool(self.reasons), "reasons": self.reasons}


class Listener:
    """Measures the disturbance from its creation on."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._busy, self._own = _busy_seconds(), _own_seconds()
        self._load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0

    def noise(self, rows: Sequence[Statistic], host_counts: bool) -> Noise:
        """The disturbance since the creation; ``rows`` are the times of our calls.

        If the system does not report the busy time of its processors, the load average of the
        minute before the run is used.
        """
        cores, load = os.cpu_count() or 1, self._load
        busy = _busy_seconds()
        if busy is not None and self._busy is not None:
            others = busy - self._busy - (_own_seconds() - self._own)
            load = max(0.0, others) / max(time.monotonic() - self._begin, 1e-9)
        spread = median(row.spread for row in rows) if rows else None
        return Noise(cores, load, spread, host_counts)


def _busy_seconds() -> float | None:
    """Seconds that all processors have worked since the system began, a hypervisor's theft too."""
    try:
        first_line = _STAT.read_text(encoding="ascii").partition("\n")[0]
        user, nice, system, idle, _, *others = (int(word) for word in first_line.split()[1:])
    except (OSError, ValueError):
        return None
    # Time of guests, the last two, is counted in user and nice already.
    return (user + nice + system + sum(others[:3])) / os.sysconf("SC_CLK_TCK") if idle else None


def _own_seconds() -> float:
    """Seconds of processors that this process and its children have had."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
