"""Bands of rows of an image, whose windows take less workspace than those of the whole image.

::

    forward, weight        input

    ┌───────────┐ y        ┌───────────┐ x: each band is written once
    ├───────────┤ bands    ├───────────┤
    └───────────┘          └───────────┘ y: bands overlap by the rows that taps share
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides, Triple

#: Bands of an image, at most: each takes launches of its own.
_MOST_BANDS = 256
#: Rows of a band for each row that it shares with the next one, unless the workspace is too small.
_ROWS_OF_SHARED = 16


@dataclass(frozen=True)
class Band:
    """A part of each image of a convolution.

    Attributes:
        problem: The convolution of the band.  Its ``before`` may be negative: zeros in front of x
            are places in front of the band.
        axis: The axis of space that is cut.
        x_first, y_first: The first places of the band along it.
    """

    problem: ConvProblem
    axis: int
    x_first: int
    y_first: int

    def x_start(self, strides: ImageStrides, image: int) -> int:
        """Return the offset of the band of an image of x."""
        return image * strides.outer + self.x_first * strides.space[self.axis]

    def y_start(self, strides: ImageStrides, image: int) -> int:
        """Return the offset of the band of an image of y."""
        return image * strides.outer + self.y_first * strides.space[self.axis]


def rows_axis(p: ConvProblem) -> int:
    """Return the axis that is cut: the first one along which y has several places."""
    return next((axis for axis in range(3) if p.y_size[axis] > 1), 2)


def whole_image(p: ConvProblem) -> Band:
    """Return the band that has the whole image."""
    return Band(p, rows_axis(p), 0, 0)


def least_rows(p: ConvProblem) -> int:
    """Return the rows of y of a band compared with which the rows that it shares are few."""
    axis = rows_axis(p)
    span = (p.w_size[axis] - 1) * p.dilation[axis] if p.direction == "input" else 0
    return _ROWS_OF_SHARED * -(-span // p.stride[axis])


def bands(p: ConvProblem, max_rows: int) -> list[Band]:
    """Return the bands of an image, of almost equal extents.

    Args:
        p: The convolution.
        max_rows: The most places of y along the axis that is cut.  Bands of the gradient of x read
            at least those that one place of x needs.
    """
    axis = rows_axis(p)
    stride, before = p.stride[axis], p.before[axis]
    if p.y_size[axis] <= max_rows:
        return [whole_image(p)]
    if p.direction != "input":
        return [
            _band(p, axis, p.x_size[axis], last - first, before - first * stride, 0, first)
            for first, last in _ranges(p.y_size[axis], max_rows)
        ]
    span = (p.w_size[axis] - 1) * p.dilation[axis]
    result = []
    for first, last in _ranges(p.x_size[axis], max_rows * stride - span):
        # Tap r of place i of y reads x at i * stride + r * dilation - before.
        low = min(max(0, -((span - before - first) // stride)), p.y_size[axis] - 1)
        high = min(max(low + 1, (last - 1 + before) // stride + 1), p.y_size[axis])
        shift = before + first - low * stride
        result.append(_band(p, axis, last - first, high - low, shift, first, low))
    return result


def _ranges(extent: int, max_length: int) -> list[tuple[int, int]]:
    """Return ranges of almost equal lengths, at most :data:`_MOST_BANDS`.

    A range has at most ``max_length`` places, unless that would take more ranges.
    """
    count = min(-(-extent // max(1, max_length)), _MOST_BANDS)
    edges = [extent * k // count for k in range(count + 1)]
    return list(pairwise(edges))


def _band(
    p: ConvProblem, axis: int, of_x: int, of_y: int, before: int, x_first: int, y_first: int
) -> Band:
    """Return a band of ``of_x`` places of x and ``of_y`` of y along an axis."""

    def cut(extents: Triple, extent: int) -> Triple:
        first, second, third = (extent if c == axis else n for c, n in enumerate(extents))
        return first, second, third

    part = replace(
        p, x_size=cut(p.x_size, of_x), y_size=cut(p.y_size, of_y), before=cut(p.before, before)
    )
    return Band(part, axis, x_first, y_first)
