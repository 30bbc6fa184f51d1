"""The median and the quartiles, which represent each figure of a benchmark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Statistic:
    """The median and the quartiles of repeated measurements.

    Attributes:
        median: The median.
        low, high: The quartiles.
        count: The number of measurements.
    """

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Statistic:
        """The statistic of one value or more."""
        result = np.fromiter(values, np.float64)
        low, median, high = (float(q) for q in np.quantile(result, (0.25, 0.5, 0.75)))
        return cls(median, low, high, result.size)

    def rate(self, work: float) -> Statistic:
        """The statistic of ``work`` per second, if this one is of seconds."""
        return Statistic(work / self.median, work / self.high, work / self.low, self.count)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a part of the median."""
        return (self.high - self.low) / (2 * self.median) if self.median else 0.0
