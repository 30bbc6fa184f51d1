"""Padding and pixel shuffles by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Values = np.ndarray[Any, Any]

NUMPYS = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def padded(x: Values, numbers: tuple[int, ...], mode: str, value: Any = 0) -> Values:
    """By NumPy's pad; it removes elements before or after, as torch does in each mode."""
    few = list(zip(numbers[::2], numbers[1::2], strict=True))[::-1]
    pairs = [(0, 0)] * (x.ndim - len(few)) + few
    more = [(max(a, 0), max(b, 0)) for a, b in pairs]
    less = [(max(-a, 0), max(-b, 0)) for a, b in pairs]

    def cut(y: Values) -> Values:
        ends = zip(less, y.shape, strict=True)
        return y[tuple(slice(a, n - b) for (a, b), n in ends)]

    if mode in ("constant", "circular"):
        x = cut(x)
    options: dict[str, Any] = {"constant_values": value} if mode == "constant" else {}
    x = np.pad(x, more, NUMPYS[mode], **options)  # type: ignore[call-overload]
    return x if mode in ("constant", "circular") else cut(x)


def shuffled(x: Values, r: int) -> Values:
    *batch, c, h, w = x.shape
    n = len(batch)
    split = x.reshape(*batch, c // r**2, r, r, h, w)
    moved = split.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return moved.reshape(*batch, c // r**2, h * r, w * r)
