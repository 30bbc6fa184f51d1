"""The operands of a convolution's products: windows of an array as rows, columns and steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from math import gcd, prod
from typing import Literal, TypeAlias

import numpy as np

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.dtypes import Element
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.reader import Gather, Table

#: Whether rows or columns of an operand run over axes.
Side: TypeAlias = Literal["row", "col"]
#: The least length of a table that is read repeatedly: at least the steps of any panel.
_PERIOD = 256


@dataclass(frozen=True)
class RowAxes:
    """The axes over which the rows of a product (or its columns) run.

    Attributes:
        extents: The extents of the axes; the last axis is the fastest.
        strides: The strides of the axes in memory.
        pitches, bounds: The pitches and bounds of the last axes, whose places are checked; see
            :class:`~portable_gpu.ops.gemm.reader.Gather`.
    """

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    pitches: tuple[int, ...] = ()
    bounds: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The number of rows."""
        return prod(self.extents)

    def simplified(self) -> RowAxes:
        """Return an equal index over the least number of axes."""
        free = len(self.extents) - len(self.pitches)
        axes = merged(
            Axis(n, (s,)) for n, s in zip(self.extents, self.strides[:free], strict=False)
        )
        extents = (*(axis.size for axis in axes), *self.extents[free:])
        strides = (*(axis.strides[0] for axis in axes), *self.strides[free:])
        return RowAxes(extents or (1,), strides or (0,), self.pitches, self.bounds)


@dataclass(frozen=True)
class WindowMatrix:
    """An operand of a product: rows over axes, and steps over axes.

    Attributes:
        rows: The rows.
        extents, strides: The extents and strides of the axes of the steps.
        places: The place of each step along each checked axis, as the coefficients of the axes of
            the steps.
        start: The offset of the first step.
        first_places: The places of the first step.
        repeats: Whether the first axis of the steps only repeats the others.
        steps_adjacent: Whether elements are nearest to each other along the last axis of the steps,
            so that neighbouring work-items read neighbouring steps.
        elements, piece: See :class:`~portable_gpu.ops.gemm.reader.Gather`.
    """

    rows: RowAxes
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    places: tuple[tuple[int, ...], ...] = ()
    start: int = 0
    first_places: tuple[int, ...] = ()
    repeats: bool = False
    steps_adjacent: bool = False
    elements: int | None = None
    piece: int | None = None

    @property
    def merged_steps(self) -> list[Axis]:
        """The steps, over as few axes as possible."""
        return merged(Axis(n, (s,)) for n, s in zip(self.extents, self.strides, strict=True))

    def operand(
        self,
        elem: Element,
        side: Side,
        group_stride: tuple[int, ...],
        aligned: int,
        by_table: bool = False,
    ) -> Operand:
        """The operand of a product: with two strides if they suffice, else with a reader.

        Args:
            elem: The element of the array.
            side: Whether these rows are those of the operand, or its columns.
            group_stride: The stride from a group to the next; empty for one group.
            aligned: A power of two that divides the byte address of the array's first element.
            by_table: Whether it has a reader in any case.
        """
        rows, steps = self.rows.simplified(), self.merged_steps
        plain = not (rows.pitches or len(rows.extents) > 1 or len(steps) > 1 or self.start)
        if plain and self.piece is None and not by_table:
            s, k = rows.strides[0], steps[0].strides[0] if steps else 0
            far = s if k == 1 else k
            nbytes = gcd(aligned, *(elem.itemsize * step for step in (*group_stride, far)))
            row, col = (s, k) if side == "row" else (k, s)
            return Operand(elem, row, col, group_stride, False, alignment_of(nbytes))
        # All elements of a chunk have the same place, so chunks are along the last axis of the
        # steps, or along the last axis of the rows if that has no pitch.
        rows_adjacent = (
            rows.strides[-1] == 1 and not any(rows.pitches[-1:]) and not self.steps_adjacent
        )
        in_chunks = self.steps_adjacent and self.strides[-1] == 1
        in_chunks &= not any(along[-1] for along in self.places)
        # Each of these moves goes from one chunk to another.
        moves = [self.start, *group_stride]
        moves += rows.strides[:-1] if rows_adjacent else rows.strides
        count = len(self.extents) - in_chunks
        moves += [s for n, s in zip(self.extents[:count], self.strides, strict=False) if n > 1]
        nbytes = alignment_of(gcd(aligned, *(elem.itemsize * move for move in moves)))
        adjacent = self.extents[-1] if in_chunks else 1
        adjacent = rows.extents[-1] if rows_adjacent else adjacent
        period, repeat = prod(self.extents), None
        inner = prod(self.extents[1:])
        repeats = -(-_PERIOD // inner)
        if self.repeats and repeats < self.extents[0]:
            period, repeat = inner * repeats, repeats * self.strides[0]
        reader = Gather(
            side=side,
            extents=rows.extents,
            strides=rows.strides,
            pitches=rows.pitches,
            bounds=rows.bounds,
            table=partial(self.table, period),
            period=period,
            repeat=repeat,
            along="k" if self.steps_adjacent else "s",
            width=gcd(16, adjacent, max(1, nbytes // elem.itemsize)),
            elements=self.elements,
            piece=self.piece,
        )
        return Operand(elem, 0, 0, group_stride, False, max(elem.itemsize, nbytes), reader)

    def table(self, period: int) -> Table:
        """The offset and the places of the first ``period`` steps."""
        inner = prod(self.extents[1:])
        count = -(-period // inner) if self.repeats else self.extents[0]
        indices = np.indices((count, *self.extents[1:])).reshape(len(self.extents), -1)
        offsets = np.array(self.strides) @ indices + self.start
        places = [
            np.array(along) @ indices + first
            for along, first in zip(self.places, self.first_places, strict=True)
        ]
        return np.stack([offsets, *places], axis=1)[:period].astype(np.int32)


@dataclass(frozen=True)
class PackedCopy:
    """A dense copy of an array, with its axes in another order.

    Attributes:
        extents: The extents of the axes, in the order of the copy; the last axis is the fastest.
        strides: The strides of the axes in the array.
    """

    extents: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class WindowProduct:
    """One product of a convolution.

    Attributes:
        problem: The product.
        copied: The weights as the product reads them, if they are not so in memory.
        weights_start: The first element of the weights that the product, or the copy, reads.
        result_start: The first element of the result.
        packed_result: The result as the product stores it, if it is not so in memory.
        extra_starts: The first element of each array of the epilogue.
    """

    problem: GemmProblem
    copied: PackedCopy | None = None
    weights_start: int = 0
    result_start: int = 0
    packed_result: PackedCopy | None = None
    extra_starts: tuple[int, ...] = ()


def offset_of(places: Iterable[int], strides: Iterable[int]) -> int:
    """Return the offset of the element at some places."""
    return sum(multiplied(places, strides))


def multiplied(left: Iterable[int], right: Iterable[int]) -> tuple[int, ...]:
    """Return the products of two lists of integers, element by element."""
    return tuple(a * b for a, b in zip(left, right, strict=True))


def alignment_of(nbytes: int) -> int:
    """The largest power of two that divides ``nbytes``, at most 16."""
    return gcd(16, nbytes)
