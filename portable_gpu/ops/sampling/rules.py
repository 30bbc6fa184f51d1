"""The places of the source that each element of a result reads along an axis, and their weights.

A rule of an axis is a sparse matrix with few entries in a row: one row for each place of the
result.  The operation on several axes is the tensor product of their matrices, and its gradient
that of the transposed ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Numbers: TypeAlias = np.ndarray[Any, Any]


class Entries(NamedTuple):
    """The entries of a matrix, row by row.

    Attributes:
        counts: The number of entries of each row.
        places: The columns of the entries.
        weights: Their values.
    """

    counts: Numbers
    places: Numbers
    weights: Numbers


@dataclass(frozen=True)
class AxisRule(ABC):
    """A rule of an axis.

    Attributes:
        size: The extent of the source.
        outputs: The extent of the result.
    """

    size: int
    outputs: int

    @abstractmethod
    def entries(self) -> Entries:
        """The places that each output reads, in order."""


@dataclass(frozen=True)
class TransposedRule(AxisRule):
    """The transposed matrix of a rule: what each place of the source adds up in a gradient.

    Attributes:
        rule: The rule.
    """

    rule: AxisRule

    @classmethod
    def of(cls, rule: AxisRule) -> TransposedRule:
        """The transpose of a rule."""
        return cls(rule.outputs, rule.size, rule)

    def entries(self) -> Entries:
        """See :meth:`AxisRule.entries`."""
        counts, places, weights = self.rule.entries()
        rows = np.repeat(np.arange(len(counts)), counts)
        order = np.argsort(places, kind="stable")
        return Entries(np.bincount(places, minlength=self.outputs), rows[order], weights[order])


def transposed(rules: Sequence[AxisRule | None]) -> list[AxisRule | None]:
    """The transposed rules of all axes; ``None`` stays."""
    return [None if rule is None else TransposedRule.of(rule) for rule in rules]


@dataclass(frozen=True)
class PlaneRule(AxisRule):
    """The tensor product of the rules of several axes, as a rule of one axis of their places.

    Attributes:
        rules: The rules, whose places are in C order.
    """

    rules: tuple[AxisRule, ...]

    @classmethod
    def of(cls, rules: Sequence[AxisRule]) -> PlaneRule:
        """The product of some rules."""
        return cls(
            prod(rule.size for rule in rules), prod(rule.outputs for rule in rules), tuple(rules)
        )

    def entries(self) -> Entries:
        """See :meth:`AxisRule.entries`."""
        places, weights, taken = _padded(self.rules[0])
        for rule in self.rules[1:]:
            inner = _padded(rule)
            places = _combined(np.add, places * rule.size, inner[0])
            weights = _combined(np.multiply, weights, inner[1])
            taken = _combined(np.logical_and, taken, inner[2])
        return rows_of(places, weights, taken)


def _padded(rule: AxisRule) -> tuple[Numbers, Numbers, Numbers]:
    """The places and weights of a rule as rows of equal length, and which of these exist."""
    counts, places, weights = rule.entries()
    taken = np.arange(int(counts.max(initial=0))) < counts[:, None]
    table = np.zeros(taken.shape, np.int64), np.zeros(taken.shape)
    table[0][taken], table[1][taken] = places, weights
    return *table, taken


def _combined(function: np.ufunc, outer: Numbers, inner: Numbers) -> Numbers:
    """A table of all pairs of rows, and in each of all pairs of their elements."""
    pairs = function(outer[:, None, :, None], inner[None, :, None, :])
    rows = len(outer) * len(inner)
    return np.asarray(pairs.reshape(rows, outer.shape[1] * inner.shape[1]))


def rows_of(places: Numbers, weights: Numbers, taken: Numbers) -> Entries:
    """The entries of a table with a row for each output, without those that are not taken."""
    return Entries(taken.sum(1), places[taken], weights[taken])


@dataclass(frozen=True)
class Padding(AxisRule):
    """Elements before and after an axis; negative numbers remove elements.

    Attributes:
        before: The number of elements before the axis.
        mode: ``constant`` (such outputs read nothing), ``reflect``, ``replicate`` or ``circular``.
    """

    before: int
    mode: str

    def entries(self) -> Entries:
        """See :meth:`AxisRule.entries`."""
        places = np.arange(self.outputs) - self.before
        last = self.size - 1
        is_read = np.ones((self.outputs, 1), bool)
        if self.mode == "constant":
            is_read[:, 0] = (places >= 0) & (places <= last)
        elif self.mode == "reflect":
            places = np.abs(places)
            places = np.where(places > last, 2 * last - places, places)
        elif self.mode == "replicate":
            places = np.clip(places, 0, last)
        else:  # what negative numbers remove does not come back
            after = self.outputs - self.size - self.before
            first = max(-self.before, 0)
            remaining = self.size - first - max(-after, 0)
            places = first + (places - first) % max(remaining, 1)
        return rows_of(places[:, None], np.ones((self.outputs, 1)), is_read)


@dataclass(frozen=True)
class PoolingWindow(AxisRule):
    """Windows of a kernel at equal distances.

    Attributes:
        kernel, stride, dilation: Those of the public functions.
        before, after: The padding on each side.
        mean: The weights whose sum is 1: ``padded``, those of the places within the padded axis;
            ``valid``, those within the axis; empty: all weights are equal.
        divisor: The number by which weights are divided.
    """

    kernel: int
    stride: int
    before: int
    after: int
    dilation: int = 1
    mean: str = ""
    divisor: int = 1

    def entries(self) -> Entries:
        """See :meth:`AxisRule.entries`."""
        starts = np.arange(self.outputs)[:, None] * self.stride - self.before
        places = starts + np.arange(self.kernel) * self.dilation
        is_read = (places >= 0) & (places < self.size)
        weights = np.full(places.shape, 1 / self.divisor)
        if self.mean:
            counted = places < self.size + self.after if self.mean == "padded" else is_read
            weights /= np.maximum(counted.sum(1, keepdims=True), 1)
        return rows_of(places, weights, is_read)


@dataclass(frozen=True)
class AdaptiveWindow(AxisRule):
    """Windows that cover an axis: output o reads from ``o n / m`` to ``(o + 1) n / m``.

    Attributes:
        mean: Whether the weights of a window add up to 1; they are 1 otherwise.
    """

    mean: bool

    def entries(self) -> Entries:
        """See :meth:`AxisRule.entries`."""
        n, m, o = self.size, self.outputs, np.arange(self.outputs)
        starts, ends = o * n // m, -(-(o + 1) * n // m)
        counts = ends - starts
        steps = np.arange(int(counts.max(initial=0)))
        places, taken = starts[:, None] + steps, steps < counts[:, None]
        weights = np.ones(places.shape)
        return rows_of(places, weights / counts[:, None] if self.mean else weights, taken)


#: The coordinates whose places are those of ``half_pixel`` if the scale is a quotient of extents.
_HALF_PIXELS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")


@dataclass(frozen=True)
class Resize(AxisRule):
    """Interpolation of the source at the places to which the places of the result correspond.

    Attributes:
        mode: ``nearest``, ``linear`` or ``cubic``.
        coordinates: How places of the result become places of the source; ONNX's names.
        scale: The extent of the result divided by that of the source, as coordinates use it.
        rounding: ``floor``, ``ceil``, ``round_prefer_floor`` or ``round_prefer_ceil``: how
            ``nearest`` rounds a place.
        antialias: Whether the kernel is wider if the result is smaller than the source, in
            proportion.
        start, end: The part of the source, for ``tf_crop_and_resize``; outputs beyond it read
            nothing.
        cubic: The coefficient a of cubic weights (Keys, IEEE Trans. ASSP 29(6), 1981).
        inside: Whether weights of places outside of the source are left out; else they are those of
            its first and last element.
    """

    mode: str
    coordinates: str
    scale: float
    rounding: str = "floor"
    antialias: bool = False
    start: float = 0.0
    end: float = 1.0
    cubic: float = -0.75
    inside: bool = False

    def entries(self) -> Entries:
        """See :meth:`AxisRule.entries`."""
        if self.antialias:
            return self._antialiased()
        x, last = self._coordinates(), self.size - 1
        if self.mode == "nearest":
            places = self._rounded(x)[:, None]
            weights = np.ones(places.shape)
        else:
            first = np.floor(x)
            rest = (x - first)[:, None]
            support = 2 if self.mode == "cubic" else 1
            steps = np.arange(1 - support, support + 1)
            places = first.astype(np.int64)[:, None] + steps
            weights = self._weights(np.abs(rest - steps))
            if self.inside:
                weights = np.where((places >= 0) & (places <= last), weights, 0)
                weights = weights / weights.sum(1, keepdims=True)
        selected = weights != 0
        if self.coordinates == "tf_crop_and_resize":
            selected &= ((x >= 0) & (x <= last))[:, None]
        return rows_of(np.clip(places, 0, last), weights, selected)

    def _weights(self, distance: Numbers) -> Numbers:
        """The weights of places at some distances."""
        if self.mode == "linear":
            return np.asarray(np.maximum(0, 1 - distance))
        a, d = self.cubic, distance
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((d - 5) * d + 8) * d * a - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0))

    def _coordinates(self) -> Numbers:
        """The places of the source, which are between elements.

        Quotients are divided last, so that places that are elements, and corners, are exact.
        """
        n, m, o = self.size, self.outputs, np.arange(self.outputs, dtype=np.float64)
        if self.coordinates == "asymmetric":
            return o / self.scale
        if self.coordinates == "align_corners":
            return o * (n - 1) / (m - 1) if m > 1 else np.zeros(m)
        if self.coordinates == "tf_crop_and_resize":
            if m == 1:
                return np.full(m, 0.5 * (self.start + self.end) * (n - 1))
            return ((m - 1 - o) * self.start + o * self.end) * (n - 1) / (m - 1)
        if self.coordinates == "pytorch_half_pixel" and m == 1:
            return np.zeros(m)
        x = (o + 0.5) / self.scale - 0.5
        if self.coordinates == "half_pixel_symmetric":
            x = x + (n - m / self.scale) / 2
        return x

    def _rounded(self, x: Numbers) -> Numbers:
        """Places as integers; without rounding errors if the scale is a quotient of extents."""
        n, m, o = self.size, self.outputs, np.arange(self.outputs, dtype=np.int64)
        if self.scale == m / n and self.coordinates in ("asymmetric", *_HALF_PIXELS):
            twice = 2 * n * o if self.coordinates == "asymmetric" else n * (2 * o + 1) - m
            if self.coordinates == "pytorch_half_pixel" and m == 1:
                twice = np.zeros_like(o)
            return {
                "floor": twice // (2 * m),
                "ceil": -(-twice // (2 * m)),
                "round_prefer_floor": -((m - twice) // (2 * m)),
                "round_prefer_ceil": (twice + m) // (2 * m),
            }[self.rounding]
        rounded = {
            "floor": np.floor(x),
            "ceil": np.ceil(x),
            "round_prefer_floor": np.ceil(x - 0.5),
            "round_prefer_ceil": np.floor(x + 0.5),
        }[self.rounding]
        return rounded.astype(np.int64)

    def _antialiased(self) -> Entries:
        """Weights of a kernel that is wider in proportion if the result is smaller."""
        n, m, o = self.size, self.outputs, np.arange(self.outputs)
        step = 1 / self.scale
        if self.coordinates == "align_corners":
            step = (n - 1) / (m - 1) if m > 1 else 0.0
        wider = max(step, 1.0)
        support = (2 if self.mode == "cubic" else 1) * wider
        center = step * (o + 0.5)
        starts = np.floor(center - support + 0.5).astype(np.int64)
        ends = np.floor(center + support + 0.5).astype(np.int64)
        if self.inside:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, n)
        steps = np.arange(max(1, int((ends - starts).max(initial=0))))
        places = starts[:, None] + steps
        weights = self._weights(np.abs((places - center[:, None] + 0.5) / wider))
        weights = np.where(places < ends[:, None], weights, 0)
        weights = weights / weights.sum(1, keepdims=True)
        return rows_of(np.clip(places, 0, n - 1), weights, weights != 0)


class AxisTable(NamedTuple):
    """The entries of a rule as a kernel reads them.

    Attributes:
        places: Shape (taps, outputs): the place of each tap; -1 where there is none.
        weights: The weights of the taps, of the same shape.
        taps: The number of taps that the kernel's text has; 0 if it loops until a place is -1.
        has_gaps: Whether some output reads nothing.
    """

    places: Numbers
    weights: Numbers
    taps: int
    has_gaps: bool


#: More taps than this on an axis are a loop, not unrolled.
MAX_UNROLLED = 4


@lru_cache(maxsize=256)
def table_of(rule: AxisRule, repeats_taps: bool) -> AxisTable:
    """The table of a rule.

    Args:
        rule: The rule.
        repeats_taps: Whether a tap may be read more than once, its weight being divided, so that
            all outputs of an unrolled kernel have the same number of taps.  Weights of 0 cannot be
            used instead, because infinity times 0 is NaN.
    """
    counts, places, weights = rule.entries()
    max_count = max(1, int(counts.max(initial=0)))
    steps = np.arange(max_count)[:, None]
    starts = np.cumsum(counts) - counts
    unrolled = max_count <= MAX_UNROLLED
    if unrolled and repeats_taps:
        # The last tap takes the place of those that are missing.
        missing = np.maximum(max_count - counts, 0)
        index = starts + np.minimum(steps, np.maximum(counts - 1, 0))
        parts = np.where(steps >= counts - 1, missing + 1, 1)
        is_read = np.broadcast_to(counts > 0, index.shape)
    else:
        index, is_read = starts + steps, steps < counts
        parts = np.ones(index.shape)
    index = np.where(is_read, index, 0)
    some = len(places) > 0
    table = np.where(is_read, places[index], -1) if some else np.full(index.shape, -1)
    scaled = np.where(is_read, weights[index] / parts, 0.0) if some else np.zeros(index.shape)
    return AxisTable(
        table.astype(np.int32), scaled, max_count if unrolled else 0, bool((counts == 0).any())
    )
