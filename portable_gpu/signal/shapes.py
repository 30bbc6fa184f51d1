"""The region of a convolution that a mode returns."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any

import numpy as np

from portable_gpu.arguments import one_of, shown
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    ShapeError,
    reraise_of_signal,
)
from portable_gpu.ops.fft.convolve import OutputRegion
from portable_gpu.runtime.views import Shape

MODES = ("full", "same", "valid")


def output_region(a: Shape, b: Shape, mode: Any, axes: Any) -> OutputRegion:
    """Return the output region of a mode, for arrays of shapes ``a`` and ``b``.

    Axes of extent 1 are not convolved: they broadcast.

    Raises:
        ArgumentError: Unknown ``mode``, no axes, or an axis that is given twice.
        AxisError: An axis is out of range.
        ShapeError: Other axes do not broadcast, or the region of ``"valid"`` is empty.
    """
    one_of(mode, MODES, "mode")
    if len(a) != len(b):
        raise ShapeError(
            f"in1 and in2 should have the same dimensionality: in1 has shape {a}, in2 {b}"
        )
    convolved = [k for k in _axes(axes, len(a)) if a[k] != 1 and b[k] != 1]
    others = [k for k in range(len(a)) if k not in convolved]
    if any(a[k] != b[k] and 1 not in (a[k], b[k]) for k in others):
        raise ShapeError(
            f"incompatible shapes for in1 and in2: {a} and {b} do not broadcast on axes other than "
            f"{tuple(convolved)}"
        )
    if mode == "valid":
        check_valid(a, b, convolved)
    shape, first = [], []
    for k, (n, m) in enumerate(zip(a, b, strict=True)):
        full = n + m - 1 if k in convolved else max(n, m)
        count = full
        if mode == "same":
            count = n
        elif mode == "valid" and k in convolved:
            count = abs(n - m) + 1
        shape.append(count)
        first.append((full - count) // 2)
    return OutputRegion(tuple(convolved), tuple(shape), tuple(first))


def check_valid(a: Shape, b: Shape, axes: Iterable[int]) -> None:
    """Raise ShapeError unless one array is at least as large as the other along all these axes.

    SciPy's ``convolve`` and ``correlate`` compare every axis, ``fftconvolve`` those that it
    convolves.
    """
    pairs = [(a[k], b[k]) for k in axes]
    if not (all(n >= m for n, m in pairs) or all(m >= n for n, m in pairs)):
        raise ShapeError(
            "for mode 'valid' one input must be at least as large as the other along every axis: "
            f"in1 has shape {a}, in2 {b}"
        )


def _axes(axes: Any, ndim: int) -> list[int]:
    if axes is None:
        return list(range(ndim))
    try:
        listed = [index(axes)] if np.ndim(axes) == 0 else [index(axis) for axis in axes]
    except Exception as error:  # the methods of the argument may raise anything
        reraise_of_signal(error)
        raise ArgumentTypeError(f"axes is {shown(axes)}; expected whole numbers") from None
    if not listed:
        raise ArgumentError("when provided, axes cannot be empty")
    for axis in listed:
        if not -ndim <= axis < ndim:
            raise AxisError(f"axes has {axis}, which is out of range for arrays of {ndim} axes")
    result = sorted(axis % ndim for axis in listed)
    if len(set(result)) < len(result):
        raise ArgumentError(f"axes is {shown(axes)}; all axes must be unique")
    return result
