"""Calls that are ready to be timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from portable_gpu.checking.operands import Array

Call = Callable[[], Any]


class Prepared:
    """A peer's calls on one case, one for each copy of the inputs."""

    def __init__(
        self,
        calls: Sequence[Call],
        finish: Callable[[], Any] = lambda: None,
        fetch: Callable[[Any], Array] = np.asarray,
    ) -> None:
        """``finish`` waits for what calls enqueued; ``fetch`` brings a result to NumPy."""
        self.calls = calls
        self.finish = finish
        self.fetch = fetch

    def result(self) -> Array:
        """What the first call gives."""
        return self.fetch(self.calls[0]())

    def in_turn(self, first: int, count: int) -> list[Call]:
        """``count`` calls from call ``first`` on, each on the next copy."""
        return [self.calls[i % len(self.calls)] for i in range(first, first + count)]

    def seconds(self, first: int, count: int) -> float:
        """The time of ``count`` calls, from call ``first`` on, each on the next copy."""
        calls = self.in_turn(first, count)
        begin = time.perf_counter()
        for call in calls:
            call()
        self.finish()
        return time.perf_counter() - begin

    def eager(self) -> Prepared:
        """The same calls, timed as they are made: the host's time counts."""
        return Prepared(self.calls, self.finish, self.fetch)
