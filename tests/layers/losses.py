"""Losses of classes by NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np


class Classes:
    """A cross entropy in double precision, with classes along the last axis of 2-D arrays."""

    def __init__(self, x: Any, w: Any, smoothing: float, ignore: int) -> None:
        self.x, self.smoothing, self.ignore = x.astype(np.float64), smoothing, ignore
        self.w = np.ones(x.shape[1]) if w is None else w.astype(np.float64)
        moved = self.x - self.x.max(axis=1, keepdims=True)
        self.log = moved - np.log(np.exp(moved).sum(axis=1, keepdims=True))

    def fractions(self, target: Any) -> tuple[Any, Any]:
        """The weighted probabilities of classes, and each row's weight in a mean."""
        rows, classes = self.x.shape
        if target.ndim == 2:
            p = target.astype(np.float64) * (1 - self.smoothing) + self.smoothing / classes
            return p * self.w, np.ones(rows)
        counts = target != self.ignore
        at = np.where(counts, target, 0)
        p = np.full((rows, classes), self.smoothing / classes) * self.w
        p[np.arange(rows), at] += (1 - self.smoothing) * self.w[at]
        return p * counts[:, None], self.w[at] * counts

    def loss(self, target: Any, reduction: str) -> Any:
        p, weights = self.fractions(target)
        losses = -(p * self.log).sum(axis=1)
        return {
            "none": losses, "sum": losses.sum(), "mean": losses.sum() / weights.sum()
        }[reduction]  # fmt: skip

    def gradient(self, target: Any, g: Any, reduction: str) -> Any:
        p, weights = self.fractions(target)
        scale = np.asarray(g, np.float64).reshape(-1, 1)
        scale = scale / weights.sum() if reduction == "mean" else scale
        return scale * (np.exp(self.log) * p.sum(axis=1, keepdims=True) - p)
