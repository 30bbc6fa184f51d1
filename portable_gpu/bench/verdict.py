"""Whether a row of the benchmark's table got slower since another revision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import exp, log, sqrt
from typing import Any

LEAST = 0.98  #: a row has lost only if its geometric mean is below


@dataclass(frozen=True)
class Verdict:
    """The verdict on the times of a row.

    The revision has two processes, which take turns with ours, and its time is the geometric mean
    of the two: a process may be some per cent faster than another of the same code.  The spread is
    computed from the logarithms of the ratios of these two processes.  It is the larger one of two
    numbers: the magnitude of their mean, and the standard error of that mean.  :func:`pooled`
    increases it to that of all rows.

    Attributes:
        ratio: Geometric mean of the revision's time over ours: above 1 ours is faster.
        itself: That ratio of the revision's second process over its first.
        spread: The uncertainty of ``itself``, as a logarithm, which is about its relative error.
        count: The number of ratios behind ``ratio``.
    """

    ratio: float
    itself: float
    spread: float
    count: int

    @classmethod
    def of(cls, ratios: Sequence[float], itself: Sequence[float]) -> Verdict:
        """The verdict on the ratios of one turn or case or more, and on the revision's own."""
        logs = [log(item) for item in itself]
        mean = sum(logs) / len(logs)
        error = sqrt(sum((item - mean) ** 2 for item in logs) / max(1, len(logs) - 1) / len(logs))
        ratio = exp(sum(map(log, ratios)) / len(ratios))
        return cls(ratio, exp(mean), max(abs(mean), error), len(ratios))

    @property
    def lost(self) -> bool:
        """Whether we are slower by more than 2 % and by more than twice the spread."""
        return self.ratio < LEAST and log(self.ratio) < -2 * self.spread

    def to_dict(self) -> dict[str, Any]:
        """The fields and the verdict, for JSON."""
        return {**asdict(self), "lost": self.lost}


def pooled(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts on the rows of one run, with a spread of all rows.

    Two processes of one code differ by some per cent, and in a single row that difference may be
    small by chance.  So no spread is below the root mean square of ``log(itself)`` over the rows.
    """
    if not verdicts:
        return []
    spread = sqrt(sum(log(item.itself) ** 2 for item in verdicts) / len(verdicts))
    return [replace(item, spread=max(item.spread, spread)) for item in verdicts]
