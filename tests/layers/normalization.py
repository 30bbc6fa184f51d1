"""A normalisation by NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np

EPS = 1e-5


class Reference:
    """A normalisation in double precision: x and parameters as arrays of the index space."""

    def __init__(
        self, x: Any, axes: tuple[int, ...], w: Any, b: Any, centred: bool = True, eps: float = EPS
    ) -> None:
        self.x, self.axes, self.w, self.b = x.astype(np.float64), axes, w, b
        self.count = int(np.prod([x.shape[axis] for axis in axes]))
        self.mean = self.x.mean(axis=axes, keepdims=True) if centred else 0 * self.x[:1]
        if not centred:
            self.mean = np.zeros([1 if k in axes else n for k, n in enumerate(x.shape)])
        self.var = ((self.x - self.mean) ** 2).mean(axis=axes, keepdims=True)
        self.rstd, self.centred = 1 / np.sqrt(self.var + eps), centred
        self.hat = (self.x - self.mean) * self.rstd
        self.y = self.hat * w + b

    def gradients(self, dy: Any, parameter_axes: tuple[int, ...]) -> tuple[Any, Any, Any, Any]:
        """The gradients of x, weight and bias, and the size of the terms of the first one."""
        dy = dy.astype(np.float64)
        g, mean = dy * self.w, {"axis": self.axes, "keepdims": True}
        dx = g - self.hat * (g * self.hat).mean(**mean) - (g.mean(**mean) if self.centred else 0)
        size = np.abs(g) + np.abs(self.hat) * np.abs(g * self.hat).mean(**mean)
        size = (size + np.abs(g).mean(**mean)) * self.rstd
        rest = tuple(k for k in range(dy.ndim) if k not in parameter_axes)
        return self.rstd * dx, (dy * self.hat).sum(axis=rest), dy.sum(axis=rest), size
