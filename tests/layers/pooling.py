"""Windows of pooling, drawn at random, as lists of places."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np


class Windows:
    """Random windows of some spatial axes, and which places of a shape each has."""

    def __init__(
        self, random: np.random.Generator, axes: int, dilated: bool, most: int = 9
    ) -> None:
        def numbers(low: int, high: int) -> list[int]:
            return [int(n) for n in random.integers(low, high, axes)]

        self.kernel, self.stride = numbers(1, 5), numbers(1, 4)
        self.dilation = numbers(1, 3) if dilated else [1] * axes
        spans = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        self.pads = [(int(random.integers(0, s // 2 + 1)),) * 2 for s in spans]
        self.paired = bool(random.integers(0, 2))
        if self.paired:
            self.pads = [(int(random.integers(0, s)), int(random.integers(0, s))) for s in spans]
        self.ceil = bool(random.integers(0, 2))
        # The first window may be cut off too.
        min_extents = [
            max(1, span - before - after - step + 1) if self.ceil else span
            for span, step, (before, after) in zip(spans, self.stride, self.pads, strict=True)
        ]
        self.extents = [int(random.integers(min(n, most - 1), most)) for n in min_extents]

    @property
    def options(self) -> dict[str, Any]:
        pads = self.pads if self.paired else [before for before, _ in self.pads]
        return {
            "kernel_size": self.kernel, "stride": self.stride, "padding": pads,
            "dilation": self.dilation, "ceil_mode": self.ceil,
        }  # fmt: skip

    def on_axis(self, a: int) -> list[tuple[list[int], int]]:
        """The places of each window, and how many are within the padded axis."""
        n, k, s, d = self.extents[a], self.kernel[a], self.stride[a], self.dilation[a]
        before, after = self.pads[a]
        windows, start = [], -before
        while True:
            fits = start + (k - 1) * d < n + after
            if not fits and not (
                self.ceil and start < n and start - s + (k - 1) * d < n + after - 1
            ):
                break
            places = [start + j * d for j in range(k)]
            inside = [p for p in places if 0 <= p < n]
            windows.append((inside, sum(p < n + after for p in places)))
            start += s
        return windows

    def all(self) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]], int]]:
        """The index of each window, its places, and how many count with padding."""
        by_axis = [self.on_axis(a) for a in range(len(self.kernel))]
        for index in product(*(range(len(one)) for one in by_axis)):
            parts = [one[i] for one, i in zip(by_axis, index, strict=True)]
            count = int(np.prod([counted for _, counted in parts]))
            yield index, list(product(*(inside for inside, _ in parts))), count

    def shape(self) -> tuple[int, ...]:
        return tuple(len(self.on_axis(a)) for a in range(len(self.kernel)))


def adaptive_windows(n: int, m: int) -> list[range]:
    return [range(o * n // m, -(-(o + 1) * n // m)) for o in range(m)]
