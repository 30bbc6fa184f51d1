"""The taps of the gradient of x: places that are a stride apart have the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides, Triple
from portable_gpu.ops.conv.product_operands import (
    SPACE,
    checked_axes,
    coefficients,
    of_axes,
    order_of_steps,
    ordered,
    piece_offset,
)
from portable_gpu.ops.conv.window_matrix import RowAxes, WindowMatrix, multiplied, offset_of


def residue_counts(p: ConvProblem) -> list[int]:
    """The number of residues along each axis of space."""
    return [min(s, n) for s, n in zip(p.stride, p.x_size, strict=True)]


def taps_of(p: ConvProblem, j: int, residue: int) -> list[int]:
    """The taps along axis j of the places that are ``residue`` after a multiple of the stride."""
    rest = residue + p.before[j]
    return [r for r in range(p.w_size[j]) if (rest - r * p.dilation[j]) % p.stride[j] == 0]


@dataclass(frozen=True)
class Taps:
    """The taps of the places of x that are ``residue`` after a multiple of the stride, by axis.

    Attributes:
        residue: The residues.
        extents: The number of these places.
        first, counts, steps: The first tap, the number of taps, and the step to the next tap.
        first_places: The place of y that the first tap of the first place reads.
        places_per_tap: The step from there to the place of y that the next tap reads.
    """

    residue: Triple
    extents: Triple
    first: Triple
    counts: Triple
    steps: Triple
    first_places: Triple
    places_per_tap: Triple

    @classmethod
    def of(cls, p: ConvProblem, residue: Sequence[int]) -> Taps | None:
        """Return the taps; ``None`` if there are none: nothing contributes to these places."""
        by_axis = []
        for j in SPACE:
            fits = taps_of(p, j, residue[j])
            if not fits:
                return None
            step = fits[1] - fits[0] if len(fits) > 1 else 1
            first_place = (residue[j] + p.before[j] - fits[0] * p.dilation[j]) // p.stride[j]
            extent = -(-(p.x_size[j] - residue[j]) // p.stride[j])
            back = -step * p.dilation[j] // p.stride[j]
            by_axis.append((residue[j], extent, fits[0], len(fits), step, first_place, back))
        return cls(*((x, y, z) for x, y, z in zip(*by_axis, strict=True)))

    def checked(self, p: ConvProblem) -> range:
        """The axes of y along which places are checked."""
        first, counts = self.first_places, self.counts
        return checked_axes(
            [first[j] + self.places_per_tap[j] * (counts[j] - 1) for j in SPACE],
            [first[j] + self.extents[j] - 1 for j in SPACE],
            p.y_size,
        )

    def windows(self, p: ConvProblem, checked: range) -> WindowMatrix:
        """The windows of y whose places along the axes ``checked`` are checked."""
        order = order_of_steps(p.y, p.filters_of_group)
        back = self.places_per_tap
        return WindowMatrix(
            rows=RowAxes(
                (p.batch, *self.extents), (p.y.outer, *p.y.space),
                of_axes(checked, (1, 1, 1)), of_axes(checked, p.y_size),
            ),
            extents=ordered((p.filters_of_group, *self.counts), order),
            strides=ordered((p.y.channel, *multiplied(back, p.y.space)), order),
            places=tuple(ordered(coefficients(back, j), order) for j in checked),
            start=offset_of(self.first_places, p.y.space),
            first_places=of_axes(checked, self.first_places),
            steps_adjacent=order[-1] == 0 and p.y.channel == 1,
            elements=p.y_elements // p.groups,
            piece=piece_offset(p, p.filters),
        )  # fmt: skip

    def weights(self, p: ConvProblem, w: ImageStrides) -> WindowMatrix:
        """The weights at the taps of steps, by channels; ``w`` are the strides of the weights."""
        order = order_of_steps(p.y, p.filters_of_group)
        return WindowMatrix(
            RowAxes((p.channels_of_group,), (w.channel,)),
            ordered((p.filters_of_group, *self.counts), order),
            ordered((w.outer, *multiplied(self.steps, w.space)), order),
            steps_adjacent=p.pieces > 0,
            piece=piece_offset(p, p.filters),
        )
