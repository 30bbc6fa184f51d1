"""The rules of optimisers by NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np


class Rules:
    """One parameter and its state in float64, updated as torch's documentation says."""

    def __init__(self, values: Any) -> None:
        self.p = values.astype(np.float64)
        self.buffer: Any = None
        self.m = self.v = self.largest = np.zeros_like(self.p)
        self.step = 0

    def sgd(
        self, g: Any, lr: float, momentum: float = 0, dampening: float = 0,
        weight_decay: float = 0, nesterov: bool = False, maximize: bool = False,
    ) -> None:  # fmt: skip
        g = (-g if maximize else g) + weight_decay * self.p
        if momentum:
            first = self.buffer is None
            self.buffer = g if first else momentum * self.buffer + (1 - dampening) * g
            g = g + momentum * self.buffer if nesterov else self.buffer
        self.p = self.p - lr * g

    def adam(
        self, g: Any, lr: float, betas: Any = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, maximize: bool = False,
        decoupled: bool = False,
    ) -> None:  # fmt: skip
        self.step += 1
        g = -g if maximize else g
        if decoupled:
            self.p = self.p * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * self.p
        self.m = betas[0] * self.m + (1 - betas[0]) * g
        self.v = betas[1] * self.v + (1 - betas[1]) * g * g
        self.largest = np.maximum(self.largest, self.v)
        v = self.largest if amsgrad else self.v
        corrected = np.sqrt(v / (1 - betas[1] ** self.step)) + eps
        self.p = self.p - lr * self.m / (1 - betas[0] ** self.step) / corrected
