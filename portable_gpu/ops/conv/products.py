"""The products of a convolution: which rows, columns and steps, and the readers of the operands.

With q a place of y, r a tap and c, f a channel and a filter::

                    rows      columns   steps     A                       B
    y  = x * w      (n, q)    f         (c, r)    windows of x            w
    dx              (n, p)    c         (f, r)    windows of dy           w
    dw              f         (c, r)    (n, q)    dy                      windows of x

Of the gradient of x, places that are a stride apart have the same taps: each residue of the
stride is a product of its own.  Groups are the batch axis of the products.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import gcd, prod
from typing import Literal, TypeAlias

import numpy as np

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.codegen.epilogue import Stage
from portable_gpu.dtypes import Element
from portable_gpu.ops.conv.copies import computed
from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides, StageArray, Triple
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.reader import Gather, Table
from portable_gpu.runtime.views import contiguous_strides

#: Whether rows or columns of an operand run over axes.
Side: TypeAlias = Literal["row", "col"]
#: The least length of a table that is read repeatedly: at least the steps of any panel.
_PERIOD = 256
_SPACE = range(3)


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
            group_stride: From a group to the next: see :func:`_of_groups`.
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
            return Operand(elem, row, col, group_stride, False, _power(nbytes))
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
        nbytes = _power(gcd(aligned, *(elem.itemsize * move for move in moves)))
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


def products_of(p: ConvProblem) -> Iterator[WindowProduct]:
    """Yield the products of a convolution: one, or one for each residue that has taps."""
    if p.direction == "forward":
        yield _forward(p)
    elif p.direction == "weight":
        yield _weights(p)
    else:
        for residue in product(*map(range, _residue_counts(p))):
            taps = _Taps.of(p, residue)
            if taps is not None:
                yield _inputs(p, taps)


def has_empty_products(p: ConvProblem) -> bool:
    """Whether nothing contributes to some places of the gradient of x."""
    return p.direction == "input" and not all(
        _taps_of(p, j, residue)
        for j, count in enumerate(_residue_counts(p))
        for residue in range(count)
    )


def residues(p: ConvProblem) -> int:
    """The number of products, if none is empty."""
    return prod(_residue_counts(p)) if p.direction == "input" else 1


def _residue_counts(p: ConvProblem) -> list[int]:
    """The number of residues along each axis of space."""
    return [min(s, n) for s, n in zip(p.stride, p.x_size, strict=True)]


def _forward(p: ConvProblem) -> WindowProduct:
    checked = _checked_of_windows(p)
    order = _order(p.x, p.channels_of_group)
    a = WindowMatrix(
        rows=RowAxes(
            (p.batch, *p.y_size), (p.x.outer, *_times(p.stride, p.x.space)),
            _of_axes(checked, p.stride), _of_axes(checked, p.x_size),
        ),
        extents=_ordered((p.channels_of_group, *p.w_size), order),
        strides=_ordered((p.x.channel, *_times(p.dilation, p.x.space)), order),
        places=tuple(_ordered(_coefficients(p.dilation, j), order) for j in checked),
        start=-_offset(p.before, p.x.space),
        first_places=tuple(-p.before[j] for j in checked),
        steps_adjacent=order[-1] == 0 and p.x.channel == 1,
        elements=p.x_elements // p.groups,
        piece=_piece(p, p.channels),
    )  # fmt: skip
    w = _ordered((p.w.channel, *p.w.space), order)
    steps = merged(Axis(n, (s,)) for n, s in zip(a.extents, w, strict=True))
    filters, depth, copied = p.filters_of_group, prod(a.extents), None
    if p.pieces:
        weights = WindowMatrix(
            RowAxes((filters,), (p.w.outer,)), a.extents, w, steps_adjacent=True,
            piece=_piece(p, p.channels_of_group),
        )  # fmt: skip
        b = weights.operand(p.read_elem, "col", _of_groups(p, filters * p.w.outer), p.w.aligned)
    elif len(steps) <= 1:
        step = steps[0].strides[0] if steps else 1
        far = p.w.outer if step == 1 else step
        group_stride = _of_groups(p, filters * p.w.outer)
        nbytes = gcd(p.w.aligned, *(p.elem.itemsize * s for s in (far, *group_stride)))
        b = Operand(p.elem, step, p.w.outer, group_stride, False, _power(nbytes))
    else:
        copied = PackedCopy((p.groups, filters, *a.extents), (filters * p.w.outer, p.w.outer, *w))
        nbytes = _power(depth * p.elem.itemsize)
        b = Operand(p.elem, 1, depth, _of_groups(p, filters * depth), False, nbytes)
    rows = RowAxes((p.batch, *p.y_size), (p.y.outer, *p.y.space))
    c = _result(p, rows, "row", p.y.channel, filters * p.y.channel, p.y.aligned)
    windows = a.operand(
        p.read_elem, "row", _of_groups(p, p.channels_of_group * p.x.channel), p.x.aligned
    )
    problem = _product(p, rows.size, filters, depth, windows, b, c, rows.extents)
    return WindowProduct(problem, copied, extra_starts=(0,) * len(p.extras))


def _taps_of(p: ConvProblem, j: int, residue: int) -> list[int]:
    """The taps along axis j of the places that are ``residue`` after a multiple of the stride."""
    rest = residue + p.before[j]
    return [r for r in range(p.w_size[j]) if (rest - r * p.dilation[j]) % p.stride[j] == 0]


@dataclass(frozen=True)
class _Taps:
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
    def of(cls, p: ConvProblem, residue: Sequence[int]) -> _Taps | None:
        """Return the taps; ``None`` if there are none: nothing contributes to these places."""
        by_axis = []
        for j in _SPACE:
            fits = _taps_of(p, j, residue[j])
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
        return _checked(
            [first[j] + self.places_per_tap[j] * (counts[j] - 1) for j in _SPACE],
            [first[j] + self.extents[j] - 1 for j in _SPACE],
            p.y_size,
        )

    def windows(self, p: ConvProblem, checked: range) -> WindowMatrix:
        """The windows of y whose places along the axes ``checked`` are checked."""
        order = _order(p.y, p.filters_of_group)
        back = self.places_per_tap
        return WindowMatrix(
            rows=RowAxes(
                (p.batch, *self.extents), (p.y.outer, *p.y.space),
                _of_axes(checked, (1, 1, 1)), _of_axes(checked, p.y_size),
            ),
            extents=_ordered((p.filters_of_group, *self.counts), order),
            strides=_ordered((p.y.channel, *_times(back, p.y.space)), order),
            places=tuple(_ordered(_coefficients(back, j), order) for j in checked),
            start=_offset(self.first_places, p.y.space),
            first_places=_of_axes(checked, self.first_places),
            steps_adjacent=order[-1] == 0 and p.y.channel == 1,
            elements=p.y_elements // p.groups,
            piece=_piece(p, p.filters),
        )  # fmt: skip

    def weights(self, p: ConvProblem, w: ImageStrides) -> WindowMatrix:
        """The weights at the taps of steps, by channels; ``w`` are the strides of the weights."""
        order = _order(p.y, p.filters_of_group)
        return WindowMatrix(
            RowAxes((p.channels_of_group,), (w.channel,)),
            _ordered((p.filters_of_group, *self.counts), order),
            _ordered((w.outer, *_times(self.steps, w.space)), order),
            steps_adjacent=p.pieces > 0,
            piece=_piece(p, p.filters),
        )


def _inputs(p: ConvProblem, taps: _Taps) -> WindowProduct:
    """The product of the places of x that have these taps."""
    a = taps.windows(p, taps.checked(p))
    channels, depth, copied = p.channels_of_group, prod(a.extents), None
    weights = taps.weights(p, p.w)
    weights_start = _offset(taps.first, p.w.space)
    group_stride = p.filters_of_group * p.w.outer
    if p.pieces or p.w.channel == 1 or len(weights.merged_steps) <= 1:
        aligned = gcd(p.w.aligned, weights_start * p.read_elem.itemsize)
        b = weights.operand(p.read_elem, "col", _of_groups(p, group_stride), aligned)
    else:
        steps = weights.strides
        copied = PackedCopy((p.groups, *a.extents, channels), (group_stride, *steps, p.w.channel))
        nbytes = _power(channels * p.elem.itemsize)
        b = Operand(p.elem, channels, 1, _of_groups(p, depth * channels), False, nbytes)
    rows = RowAxes((p.batch, *taps.extents), (p.x.outer, *_times(p.stride, p.x.space)))
    result_start = _offset(taps.residue, p.x.space)
    aligned = gcd(p.x.aligned, result_start * p.elem.itemsize)
    c = _result(p, rows, "row", p.x.channel, channels * p.x.channel, aligned)
    windows = a.operand(
        p.read_elem, "row", _of_groups(p, p.filters_of_group * p.y.channel), p.y.aligned
    )
    problem = _product(p, rows.size, channels, depth, windows, b, c, rows.extents)
    starts = tuple(_offset(taps.residue, extra.strides.space) for extra in p.extras)
    return WindowProduct(problem, copied, weights_start, result_start, extra_starts=starts)


def inputs_at_once(p: ConvProblem) -> WindowProduct | None:
    """Return the products of all residues as one, with a part of k for each.

    Both operands are read by tables, which have the steps of one residue after the other.  The
    residues with the most taps are first.

    ``None`` if there is one residue only, if residues have different numbers of places, if none has
    taps, or if there are groups.
    """
    counts = _residue_counts(p) if p.direction == "input" else [1]
    if (
        prod(counts) == 1
        or p.groups > 1
        or any(n % s for n, s in zip(p.x_size, counts, strict=True))
    ):
        return None
    ranges = []
    for j, count in enumerate(counts):
        backwards = len(_taps_of(p, j, 0)) < len(_taps_of(p, j, count - 1))
        ranges.append(range(count)[:: -1 if backwards else 1])
    every = [_Taps.of(p, residue) for residue in product(*ranges)]
    residues = [taps for taps in every if taps is not None]
    if not residues:
        return None
    checked = min((taps.checked(p) for taps in residues), key=lambda axes: axes.start)
    channels, copied, w = p.channels, None, p.w
    if not p.pieces and w.channel != 1:
        size = (*p.w_size, p.filters)
        copied = PackedCopy((1, *size, channels), (0, *w.space, w.outer, w.channel))
        *space, outer, _ = contiguous_strides((*size, channels))
        w = ImageStrides(outer, 1, (space[0], space[1], space[2]), 16)
    axes = [j for j in _SPACE if counts[j] > 1]
    windows = [taps.windows(p, checked) for taps in residues]
    weights = [replace(taps.weights(p, w), start=_offset(taps.first, w.space)) for taps in residues]
    first = tuple(axis[0] for axis in ranges)
    rows = RowAxes((p.batch, *residues[0].extents), (p.x.outer, *_times(p.stride, p.x.space)))
    k_parts = tuple(0 if taps is None else p.filters * prod(taps.counts) for taps in every)

    def batch(space: Triple) -> tuple[int, ...]:
        """The strides from a residue to the next."""
        return tuple(ranges[j].step * space[j] for j in axes)

    aligned = gcd(p.x.aligned, *(p.elem.itemsize * step for step in p.x.space))
    c = replace(_result(p, rows, "row", p.x.channel, 0, aligned), batch=batch(p.x.space))
    a = _joined(windows, p.read_elem, "row", p.y.aligned, len(axes))
    b = _joined(weights, p.read_elem, "col", w.aligned, len(axes))
    problem = _product(p, rows.size, channels, sum(k_parts), a, b, c, rows.extents)
    bias = [(0,) * len(axes)] * (p.bias is not None)
    strides = [*bias, *(batch(extra.strides.space) for extra in p.extras)]
    extras = tuple(replace(e, batch=s) for e, s in zip(problem.extras, strides, strict=True))
    return WindowProduct(
        replace(
            problem, batch=tuple(counts[j] for j in axes), k_parts=k_parts, extras=extras
        ),
        copied,
        result_start=_offset(first, p.x.space),
        extra_starts=tuple(_offset(first, extra.strides.space) for extra in p.extras),
    )  # fmt: skip


def _joined(
    matrices: Sequence[WindowMatrix], elem: Element, side: Side, aligned: int, rank: int
) -> Operand:
    """Return the operand whose steps are those of one matrix after the other.

    Args:
        matrices: The matrices, which have the same rows.
        elem, side, aligned: See :meth:`WindowMatrix.operand`.
        rank: The number of batch axes, along which only the steps differ.
    """
    operands = [item.operand(elem, side, (), aligned, by_table=True) for item in matrices]
    readers = [operand.reader for operand in operands if operand.reader is not None]

    def table() -> Table:
        return np.concatenate([reader.entries[:, : 1 + reader.places] for reader in readers])

    reader = replace(
        readers[0],
        table=table,
        period=sum(reader.period for reader in readers),
        width=gcd(*(reader.width for reader in readers)),
    )
    nbytes = min(operand.aligned_bytes for operand in operands)
    return Operand(elem, 0, 0, (0,) * rank, False, nbytes, reader)


def _weights(p: ConvProblem) -> WindowProduct:
    # The columns run over channels and taps, and the fastest is what is adjacent in x.
    checked, order = _checked_of_windows(p), _order(p.x, p.channels_of_group)
    if order[-1] == 0 and len(checked) == 3:  # a reader checks three axes at most
        order = (0, 1, 2, 3)
    places = [_coefficients(p.stride, j) for j in checked]
    first_places = [-p.before[j] for j in checked]
    if checked and order[-1] == 0:
        # Channels come after the checked axes, and a reader checks its last axes.  So channels get
        # a place, too: it is 0 in all steps, the pitch is 0 and the bound 1.
        places.append((0, 0, 0, 0))
        first_places.append(0)
    free = len(order) - len(places)
    columns = RowAxes(
        _ordered((p.channels_of_group, *p.w_size), order),
        _ordered((p.x.channel, *_times(p.dilation, p.x.space)), order),
        _ordered((0, *p.dilation), order)[free:],
        _ordered((1, *p.x_size), order)[free:],
    )
    steps: tuple[int, ...] = (p.batch, *p.y_size)
    x_steps: tuple[int, ...] = (p.x.outer, *_times(p.stride, p.x.space))
    y_axes: tuple[int, ...] = steps
    y_steps: tuple[int, ...] = (p.y.outer, *p.y.space)
    in_chunks = _has_adjacent_places(p)
    # Work-items that copy single elements read neighbours along a row together.
    by_rows = p.elem.itemsize > 2 and not p.pieces
    dense_y = merged(Axis(n, (s,)) for n, s in zip(p.y_size, p.y.space, strict=True))
    if in_chunks or (by_rows and len(dense_y) == 1):
        y_axes, y_steps = (p.batch, prod(p.y_size)), (p.y.outer, dense_y[0].strides[0])
    if in_chunks:
        steps, x_steps = y_axes, (p.x.outer, 1)
    b = WindowMatrix(
        rows=columns,
        extents=steps,
        strides=x_steps,
        places=tuple(places),
        start=-_offset(p.before, p.x.space),
        first_places=tuple(first_places),
        repeats=True,
        steps_adjacent=in_chunks or (by_rows and p.x.space[-1] == 1 < p.y_size[-1]),
        elements=p.x_elements // p.groups,
        piece=_piece(p, p.channels),
    )
    a = WindowMatrix(
        rows=RowAxes((p.filters_of_group,), (p.y.channel,)),
        extents=y_axes,
        strides=y_steps,
        repeats=True,
        steps_adjacent=in_chunks or (by_rows and y_steps[-1] == 1 < y_axes[-1]),
        piece=_piece(p, p.filters),
    )
    dw = _ordered((p.w.channel, *p.w.space), order)
    filters, packed = p.filters_of_group, None
    group_stride = filters * p.w.outer
    result = _result(p, RowAxes(columns.extents, dw), "col", p.w.outer, group_stride, p.w.aligned)
    if result.reader is not None and p.elem.itemsize == 2:  # matrix units store rows
        packed = PackedCopy((p.groups, filters, *columns.extents), (group_stride, p.w.outer, *dw))
        dense = RowAxes((columns.size,), (1,))
        result = _result(p, dense, "col", columns.size, filters * columns.size, 16)
    gradients = a.operand(p.read_elem, "row", _of_groups(p, filters * p.y.channel), p.y.aligned)
    windows = b.operand(
        p.read_elem, "col", _of_groups(p, p.channels_of_group * p.x.channel), p.x.aligned
    )
    problem = _product(p, filters, columns.size, prod(steps), gradients, windows, result)
    return WindowProduct(problem, packed_result=packed)


def _has_adjacent_places(p: ConvProblem) -> bool:
    """Whether matrix units can read 16-bit images of adjacent places for the gradient of one tap.

    Each chunk of 16 bytes has places of one image, and x and y have the same places.
    """
    same = p.taps == 1 and p.x_size == p.y_size and p.stride == (1, 1, 1) and not any(p.before)
    if not same or p.elem.itemsize != 2 or prod(p.y_size) % 8:
        return False
    each = (
        merged(Axis(n, (s,)) for n, s in zip(p.y_size, x.space, strict=True)) for x in (p.x, p.y)
    )
    return all(len(axes) == 1 and axes[0].strides == (1,) for axes in each)


def _product(
    p: ConvProblem, m: int, n: int, k: int, a: Operand, b: Operand, c: Operand,
    extents: tuple[int, ...] = (),
) -> GemmProblem:  # fmt: skip
    """The product of operands, with a bias for each column, and the epilogue.

    Args:
        p, m, n, k, a, b, c: The convolution; see :class:`GemmProblem`.
        extents: The images, and places along the axes of space, over which the rows run; without an
            epilogue, these are not needed.
    """
    stages = p.epilogue
    extras = tuple(_of_stage(p, extra, extents, n) for extra in p.extras)
    if p.bias is not None:
        stages = (Stage("bias", "v + e", "column"), *stages)
        extras = (Operand(p.elem, 0, p.bias, _of_groups(p, n * p.bias)), *extras)
    return GemmProblem(
        m, n, k, _of_groups(p, p.groups), a, b, c, computed(p.elem), epilogue=stages, extras=extras,
        precision=p.precision,
    )  # fmt: skip


def _of_stage(p: ConvProblem, array: StageArray, extents: tuple[int, ...], n: int) -> Operand:
    """An array of the epilogue, of a product whose rows run over the images and their places."""
    s = array.strides
    places = p.stride if p.direction == "input" else (1, 1, 1)
    axes = RowAxes(extents, (s.outer, *_times(places, s.space))).simplified()
    reader = Gather("row", axes.extents, axes.strides) if len(axes.extents) > 1 else None
    groups = _of_groups(p, n * s.channel)
    return Operand(array.elem, axes.strides[-1], s.channel, groups, reader=reader)


def _result(
    p: ConvProblem, axes: RowAxes, side: Side, other: int, group_stride: int, aligned: int
) -> Operand:
    """The result.

    Args:
        p: The convolution.
        axes: Those of the rows, or of the columns.
        side: The side of ``axes``: rows or columns.
        other: The stride of the other index.
        group_stride: The stride from a group to the next.
        aligned: A power of two that divides the byte address of the first element.
    """
    axes = axes.simplified()
    stride, groups = axes.strides[-1], _of_groups(p, group_stride)
    reader = None
    row, col = (stride, other) if side == "row" else (other, stride)
    far: tuple[int, ...] = (row,) if col == 1 else (col,)
    if len(axes.extents) > 1:
        reader = Gather(side, axes.extents, axes.strides)
        far = (*axes.strides, other) if other != 1 else axes.strides
    nbytes = gcd(aligned, *(p.elem.itemsize * step for step in (*far, *groups)))
    return Operand(p.elem, row, col, groups, False, _power(nbytes), reader)


def _of_groups(p: ConvProblem, value: int) -> tuple[int, ...]:
    """A value of the batch axis of a product, which it has if there are several groups."""
    return (value,) if p.groups > 1 else ()


def _checked_of_windows(p: ConvProblem) -> range:
    """The axes of x along which places of windows are checked."""
    last_taps = _times([n - 1 for n in p.w_size], p.dilation)
    last_windows = _times([n - 1 for n in p.y_size], p.stride)
    return _checked(
        [-before for before in p.before],
        [q + r - b for q, r, b in zip(last_windows, last_taps, p.before, strict=True)],
        p.x_size,
    )


def _checked(lowest: Sequence[int], highest: Sequence[int], sizes: Sequence[int]) -> range:
    """The axes of space from the first one on that has a place outside of the array.

    A reader has places of its last axes only, so the axes after that one are checked, too.
    """
    outside = [lowest[j] < 0 or highest[j] >= sizes[j] for j in _SPACE]
    return range(outside.index(True) if any(outside) else 3, 3)


def _piece(p: ConvProblem, elements: int) -> int | None:
    """The offset from a piece of a value to the next, given the elements of a piece."""
    return elements if p.pieces else None


def _of_axes(axes: Iterable[int], values: Sequence[int]) -> tuple[int, ...]:
    """The values of some axes of space."""
    return tuple(values[j] for j in axes)


def _coefficients(steps: Sequence[int], axis: int) -> tuple[int, ...]:
    """The place along an axis of space, by the images or channels and the axes of space."""
    return (0, *(steps[j] if j == axis else 0 for j in _SPACE))


def _offset(places: Iterable[int], strides: Iterable[int]) -> int:
    return sum(_times(places, strides))


def _order(array: ImageStrides, channels: int) -> tuple[int, ...]:
    """The order of steps, by (channels, taps): the last are adjacent in memory."""
    near = [abs(step) for step in array.space if step]
    last = array.channel == 1 or (near and 0 < abs(array.channel) < min(near))
    return (1, 2, 3, 0) if last and channels > 1 else (0, 1, 2, 3)


def _ordered(values: Iterable[int], order: Sequence[int]) -> tuple[int, ...]:
    values = tuple(values)
    return tuple(values[k] for k in order)


def _times(left: Iterable[int], right: Iterable[int]) -> tuple[int, ...]:
    return tuple(a * b for a, b in zip(left, right, strict=True))


def _power(nbytes: int) -> int:
    """The largest power of two that divides ``nbytes``, at most 16."""
    return gcd(16, nbytes)
