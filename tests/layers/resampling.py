"""Matrices of interpolation along an axis, whose weights are computed one by one in float64."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np

Values = np.ndarray[Any, Any]


def keys(t: float, a: float) -> float:
    """The cubic kernel of Keys at a distance."""
    t = abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def place(o: int, n: int, m: int, scale: Any, name: str, roi: tuple[float, float]) -> Any:
    """ONNX's coordinates of an output; a fraction, without rounding, where the scale is one."""
    if name == "align_corners":
        return Fraction(o * (n - 1), m - 1) if m > 1 else 0
    if name == "asymmetric":
        return o / scale
    if name == "pytorch_half_pixel":
        return (2 * o + 1) / (2 * scale) - Fraction(1, 2) if m > 1 else 0
    if name == "tf_crop_and_resize":
        start, end = (Fraction(one) for one in roi)
        if m == 1:
            return (start + end) * (n - 1) / 2
        return start * (n - 1) + o * (end - start) * (n - 1) / (m - 1)
    if name == "half_pixel_symmetric":
        return (n - m / scale) / 2 + (2 * o + 1) / (2 * scale) - Fraction(1, 2)
    return (2 * o + 1) / (2 * scale) - Fraction(1, 2)


ROUND = {
    "floor": floor, "ceil": ceil, "round_prefer_floor": lambda x: ceil(x - Fraction(1, 2)),
    "round_prefer_ceil": lambda x: floor(x + Fraction(1, 2)),
}  # fmt: skip


def matrix(
    n: int, m: int, kind: str, name: str, scale: Any, *, rounding: str = "floor",
    a: float = -0.75, roi: tuple[float, float] = (0, 1), exclude: bool = False,
) -> Values:  # fmt: skip
    """The weights of n places for m outputs."""
    result = np.zeros((m, n))
    for o in range(m):
        x = place(o, n, m, scale, name, roi)
        if name == "tf_crop_and_resize" and not 0 <= x <= n - 1:
            continue
        if kind == "nearest":
            result[o, min(max(ROUND[rounding](x), 0), n - 1)] = 1
            continue
        width = 2 if kind == "cubic" else 1
        for p in range(floor(x) - width + 1, floor(x) + width + 1):
            weight = keys(x - p, a) if kind == "cubic" else max(0, 1 - abs(x - p))
            if not exclude or 0 <= p < n:
                result[o, min(max(p, 0), n - 1)] += weight
        if exclude:
            result[o] /= result[o].sum()
    return result


def antialiased(
    n: int, m: int, kind: str, step: float, a: float = -0.5, exclude: bool = True
) -> Values:
    """The weights that reach as many times further as the result is smaller.

    Places outside are left out, or (ONNX) are the first and the last one.
    """
    result, wider = np.zeros((m, n)), max(step, 1.0)
    support = (2 if kind == "cubic" else 1) * wider
    for o in range(m):
        center = step * (o + 0.5)
        for p in range(floor(center - support) - 1, ceil(center + support) + 2):
            if not exclude or 0 <= p < n:
                t = (p - center + 0.5) / wider
                weight = keys(t, a) if kind == "cubic" else max(0, 1 - abs(t))
                result[o, min(max(p, 0), n - 1)] += weight
        result[o] /= result[o].sum()
    return result


def areas(n: int, m: int) -> Values:
    result = np.zeros((m, n))
    for o in range(m):
        window = slice(o * n // m, -(-(o + 1) * n // m))
        result[o, window] = 1 / (window.stop - window.start)
    return result


def along(x: Values, matrices: list[Values]) -> Values:
    """The matrices applied to the spatial axes."""
    for axis, a in enumerate(matrices, 2):
        x = np.moveaxis(np.tensordot(a, x, (1, axis)), 0, axis)
    return x
