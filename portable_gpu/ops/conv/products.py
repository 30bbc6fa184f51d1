"""The products of a convolution: which rows, columns and steps, and the readers of the operands.

With q a place of y, r a tap and c, f a channel and a filter::

                    rows      columns   steps     A                       B
    y  = x * w      (n, q)    f         (c, r)    windows of x            w
    dx              (n, p)    c         (f, r)    windows of dy           w
    dw              f         (c, r)    (n, q)    dy                      windows of x

Of the gradient by x, places that are a stride apart have the same taps: each residue of the
stride is a product of its own.  Groups are the batch axis of the products.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import gcd, prod

import numpy as np

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.codegen.epilogue import Stage
from portable_gpu.dtypes import Element, element
from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.reader import Gather, Table

#: The least length of a table that is read repeatedly: at least the steps of any panel.
_PERIOD = 256
_SPACE = range(3)


@dataclass(frozen=True)
class PlaceIndex:
    """The rows of a product (or the columns): an index over axes.

    Attributes:
        extents: Of the axes; the last one is the fastest.
        strides: Of the axes in memory.
        pitches, bounds: Of the last axes: those whose places are checked.
    """

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    pitches: tuple[int, ...] = ()
    bounds: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The number of rows."""
        return prod(self.extents)

    def simplified(self) -> PlaceIndex:
        """Return an equal index over the least number of axes."""
        free = len(self.extents) - len(self.pitches)
        axes = merged(
            Axis(n, (s,)) for n, s in zip(self.extents, self.strides[:free], strict=False)
        )
        extents = (*(axis.size for axis in axes), *self.extents[free:])
        strides = (*(axis.strides[0] for axis in axes), *self.strides[free:])
        return PlaceIndex(extents or (1,), strides or (0,), self.pitches, self.bounds)


@dataclass(frozen=True)
class WindowMatrix:
    """An operand of a product: rows over axes, and steps over axes.

    Attributes:
        rows: The rows.
        extents, strides: Of the axes of the steps.
        places: The place of each step along each checked axis: the coefficients of the steps' axes.
        start: The offset of the first step; ``firsts`` its places.
        repeats: Whether the first axis of the steps only repeats the others.
        channel: Whether elements are adjacent along the last axis of the steps.
        aligned: A power of two that divides the address of each chunk of adjacent elements.
    """

    rows: PlaceIndex
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    places: tuple[tuple[int, ...], ...] = ()
    start: int = 0
    firsts: tuple[int, ...] = ()
    repeats: bool = False
    channel: bool = False

    @property
    def steps(self) -> list[Axis]:
        """The steps, over as few axes as possible."""
        return merged(Axis(n, (s,)) for n, s in zip(self.extents, self.strides, strict=True))

    def operand(self, elem: Element, side: str, batch: tuple[int, ...], aligned: int) -> Operand:
        """The operand of a product."""
        rows = self.rows.simplified()
        steps = self.steps
        plain = not rows.pitches and len(rows.extents) == 1 and len(steps) <= 1 and not self.start
        if plain:
            s, k = rows.strides[0], steps[0].strides[0] if steps else 0
            other = s if k == 1 else k
            nbytes = gcd(aligned, *(elem.itemsize * step for step in (*batch, other)))
            row, col = (s, k) if side == "row" else (k, s)
            return Operand(elem, row, col, batch, False, _power(nbytes))
        # Elements are adjacent along channels: of the steps, or of rows whose place is no matter.
        adjacent = rows.strides[-1] == 1 and not any(rows.pitches[-1:]) and not self.channel
        fixed = (*(rows.strides[:-1] if adjacent else rows.strides), self.start, *batch)
        moved = self.strides[:-1] if self.channel else self.strides
        nbytes = _power(gcd(aligned, *(elem.itemsize * step for step in (*fixed, *moved))))
        channels = self.extents[-1] if self.channel else rows.extents[-1] if adjacent else 1
        width = gcd(16, channels, max(1, nbytes // elem.itemsize))
        period, repeat = prod(self.extents), None
        inner = prod(self.extents[1:])
        images = -(-_PERIOD // inner)
        if self.repeats and images < self.extents[0]:
            period, repeat = inner * images, images * self.strides[0]
        reader = Gather(
            side="row" if side == "row" else "col",
            extents=rows.extents,
            strides=rows.strides,
            pitches=rows.pitches,
            bounds=rows.bounds,
            table=partial(self.table, period),
            period=period,
            repeat=repeat,
            along="k" if self.channel else "s",
            width=width,
        )
        return Operand(elem, 0, 0, batch, False, max(elem.itemsize, nbytes), reader)

    def table(self, period: int) -> Table:
        """The offset and the places of the first ``period`` steps."""
        inner = prod(self.extents[1:])
        first = -(-period // inner) if self.repeats else self.extents[0]
        indices = np.indices((first, *self.extents[1:])).reshape(len(self.extents), -1)
        offsets = np.array(self.strides) @ indices + self.start
        places = [
            np.array(along) @ indices + begin
            for along, begin in zip(self.places, self.firsts, strict=True)
        ]
        return np.stack([offsets, *places], axis=1)[:period].astype(np.int32)


@dataclass(frozen=True)
class WindowProduct:
    """One product of a convolution.

    Attributes:
        problem: The product.
        copied: The weights as the product reads them, if they are not so in memory: extents and
            strides, and their first element.
        start: The first element of the result.
        layout: Extents and strides of the result as it is in memory, if the product has it in
            another order.
    """

    problem: GemmProblem
    copied: tuple[tuple[int, ...], tuple[int, ...], int] | None
    start: int
    layout: tuple[tuple[int, ...], tuple[int, ...]] | None = None


def products_of(p: ConvProblem) -> Iterator[WindowProduct]:
    """Yield the products of a convolution: one, or one for each residue that has taps."""
    if p.direction == "forward":
        yield _forward(p)
    elif p.direction == "weight":
        yield _weights(p)
    else:
        for residue in product(
            *(range(min(s, n)) for s, n in zip(p.stride, p.x_size, strict=True))
        ):
            item = _inputs(p, residue)
            if item is not None:
                yield item


def residues(p: ConvProblem) -> int:
    """The number of products, if none is empty."""
    return prod(_residue_counts(p)) if p.direction == "input" else 1


def _residue_counts(p: ConvProblem) -> list[int]:
    return [min(s, n) for s, n in zip(p.stride, p.x_size, strict=True)]


def _forward(p: ConvProblem) -> WindowProduct:
    checked = [
        p.before[j] > 0
        or (p.y_size[j] - 1) * p.stride[j] + (p.w_size[j] - 1) * p.dilation[j] - p.before[j]
        >= p.x_size[j]
        for j in _SPACE
    ]
    rows = _places(
        p.batch, p.x.outer, p.y_size, _times(p.stride, p.x.space), p.stride, p.x_size, checked
    )
    order = _order(p.x, p.channels_of_group)
    taps = (p.channels_of_group, *p.w_size)
    moves = (p.x.channel, *_times(p.dilation, p.x.space))
    a = WindowMatrix(
        rows=rows,
        extents=_ordered(taps, order),
        strides=_ordered(moves, order),
        places=tuple(
            _ordered((0, *(p.dilation[j] if i == j else 0 for i in _SPACE)), order)
            for j in _checked(checked)
        ),
        start=-sum(b * step for b, step in zip(p.before, p.x.space, strict=True)),
        firsts=tuple(-p.before[j] for j in _checked(checked)),
        channel=order[-1] == 0 and p.x.channel == 1,
    )
    w = _ordered((p.w.channel, *p.w.space), order)
    steps = merged(Axis(n, (s,)) for n, s in zip(a.extents, w, strict=True))
    copied = None
    groups = (p.groups,) if p.groups > 1 else ()
    depth = prod(taps)
    if len(steps) <= 1:
        step = steps[0].strides[0] if steps else 1
        other = p.w.outer if step == 1 else step
        batch = (p.filters_of_group * p.w.outer,) if groups else ()
        nbytes = gcd(p.w.aligned, *(p.elem.itemsize * s for s in (other, *batch)))
        b = Operand(p.elem, step, p.w.outer, batch, False, _power(nbytes))
    else:
        extents = (p.groups, p.filters_of_group, *a.extents)
        copied = extents, (p.filters_of_group * p.w.outer, p.w.outer, *w), 0
        batch = (p.filters_of_group * depth,) if groups else ()
        b = Operand(p.elem, 1, depth, batch, False, _power(gcd(16, depth * p.elem.itemsize)))
    images = (p.channels_of_group * p.x.channel,) if groups else ()
    c = _result(
        p.elem, PlaceIndex((p.batch, *p.y_size), (p.y.outer, *p.y.space)), p.y.channel,
        (p.filters_of_group * p.y.channel,) if groups else (), p.y.aligned, "row",
    )  # fmt: skip
    return WindowProduct(
        _product(
            p, rows.size, p.filters_of_group, depth, groups,
            a.operand(p.elem, "row", images, p.x.aligned), b, c, p.filters_of_group,
        ),
        copied, 0,
    )  # fmt: skip


def _inputs(p: ConvProblem, residue: Sequence[int]) -> WindowProduct | None:
    """The product of the places of x that are ``residue`` after a multiple of the stride.

    ``None`` if it has no taps: nothing contributes to these places.
    """
    extents, taps, firsts, steps = [], [], [], []
    for j in _SPACE:
        stride, dilation = p.stride[j], p.dilation[j]
        fits = [
            r for r in range(p.w_size[j])
            if (residue[j] + p.before[j] - r * dilation) % stride == 0
        ]  # fmt: skip
        if not fits:
            return None
        taps.append((fits[0], len(fits)))
        step = fits[1] - fits[0] if len(fits) > 1 else 1
        steps.append(step)
        firsts.append((residue[j] + p.before[j] - fits[0] * dilation) // stride)
        extents.append(-(-(p.x_size[j] - residue[j]) // stride))
    # A step to the next tap is a step of this many places back.
    back = [-steps[j] * p.dilation[j] // p.stride[j] for j in _SPACE]
    checked = [
        firsts[j] + extents[j] - 1 >= p.y_size[j] or firsts[j] + back[j] * (taps[j][1] - 1) < 0
        for j in _SPACE
    ]
    places = _places(p.batch, p.y.outer, tuple(extents), p.y.space, (1, 1, 1), p.y_size, checked)
    order = _order(p.y, p.filters_of_group)
    counts = (p.filters_of_group, *(count for _, count in taps))
    moves = (p.y.channel, *_times(back, p.y.space))
    a = WindowMatrix(
        rows=places,
        extents=_ordered(counts, order),
        strides=_ordered(moves, order),
        places=tuple(
            _ordered((0, *(back[j] if i == j else 0 for i in _SPACE)), order)
            for j in _checked(checked)
        ),
        start=sum(f * step for f, step in zip(firsts, p.y.space, strict=True)),
        firsts=tuple(firsts[j] for j in _checked(checked)),
        channel=order[-1] == 0 and p.y.channel == 1,
    )
    depth = prod(counts)
    groups = (p.groups,) if p.groups > 1 else ()
    w = _ordered((p.w.outer, *_times(steps, p.w.space)), order)
    start = sum(first * step for (first, _), step in zip(taps, p.w.space, strict=True))
    channels, copied = p.channels_of_group, None
    weights = WindowMatrix(PlaceIndex((channels,), (p.w.channel,)), a.extents, w, start=start)
    if p.w.channel == 1 or len(weights.steps) <= 1:
        outer = (p.filters_of_group * p.w.outer,) if groups else ()
        b = weights.operand(p.elem, "col", outer, p.w.aligned)
    else:
        copied = (
            (p.groups, *a.extents, channels),
            (p.filters_of_group * p.w.outer, *w, p.w.channel),
            start,
        )
        aligned = _power(gcd(16, channels * p.elem.itemsize))
        b = Operand(p.elem, channels, 1, (depth * channels,) if groups else (), False, aligned)
    result = PlaceIndex((p.batch, *extents), (p.x.outer, *_times(p.stride, p.x.space)))
    first = sum(r * step for r, step in zip(residue, p.x.space, strict=True))
    aligned = gcd(p.x.aligned, first * p.elem.itemsize) if first else p.x.aligned
    c = _result(
        p.elem, result, p.x.channel, (channels * p.x.channel,) if groups else (), aligned, "row"
    )
    images = (p.filters_of_group * p.y.channel,) if groups else ()
    return WindowProduct(
        _product(
            p, places.size, channels, depth, groups,
            a.operand(p.elem, "row", images, p.y.aligned), b, c, channels,
        ),
        copied, first,
    )  # fmt: skip


def _weights(p: ConvProblem) -> WindowProduct:
    checked = [
        p.before[j] > 0
        or (p.y_size[j] - 1) * p.stride[j] + (p.w_size[j] - 1) * p.dilation[j] - p.before[j]
        >= p.x_size[j]
        for j in _SPACE
    ]
    # The index of a weight: channels and taps, and the fastest is what is adjacent in x.  A reader
    # has three places, of its last axes; channels have one as well there, which is always inside.
    order = _order(p.x, p.channels_of_group)
    axes = _checked(checked)
    if order[-1] == 0 and len(axes) == 3:
        order = (0, 1, 2, 3)
    extents = _ordered((p.channels_of_group, *p.w_size), order)
    moves = _ordered((p.x.channel, *_times(p.dilation, p.x.space)), order)
    pitches, bounds = _ordered((0, *p.dilation), order), _ordered((1, *p.x_size), order)
    channels = [None] if axes and order[-1] == 0 else []
    first = len(order) - len(axes) - len(channels) if axes else len(order)
    rows = PlaceIndex(extents, moves, pitches[first:], bounds[first:])
    placed = [*axes, *channels]
    groups = (p.groups,) if p.groups > 1 else ()
    steps = (p.batch, *p.y_size)
    b = WindowMatrix(
        rows=rows,
        extents=steps,
        strides=(p.x.outer, *_times(p.stride, p.x.space)),
        places=tuple((0, *(p.stride[j] if i == j else 0 for i in _SPACE)) for j in placed),
        start=-sum(z * step for z, step in zip(p.before, p.x.space, strict=True)),
        firsts=tuple(0 if j is None else -p.before[j] for j in placed),
        repeats=True,
    )
    a = WindowMatrix(
        rows=PlaceIndex((p.filters_of_group,), (p.y.channel,)),
        extents=steps,
        strides=(p.y.outer, *p.y.space),
        repeats=True,
    )
    dw = _ordered((p.w.channel, *p.w.space), order)
    of_group, layout = p.filters_of_group, None
    result = _result(
        p.elem, PlaceIndex(extents, dw), p.w.outer,
        (of_group * p.w.outer,) if groups else (), p.w.aligned, "col",
    )  # fmt: skip
    if result.reader is not None and p.elem.itemsize == 2:  # matrix units store rows
        layout = (p.groups, of_group, *extents), (of_group * p.w.outer, p.w.outer, *dw)
        columns = rows.size
        result = _result(
            p.elem, PlaceIndex((columns,), (1,)), columns,
            (of_group * columns,) if groups else (), 16, "col",
        )  # fmt: skip
    return WindowProduct(
        _product(
            p, p.filters_of_group, rows.size, prod(steps), groups,
            a.operand(
                p.elem, "row", (p.filters_of_group * p.y.channel,) if groups else (), p.y.aligned
            ),
            b.operand(
                p.elem, "col", (p.channels_of_group * p.x.channel,) if groups else (), p.x.aligned
            ),
            result, 0,
        ),
        None, 0, layout,
    )  # fmt: skip


def _product(
    p: ConvProblem,
    m: int,
    n: int,
    k: int,
    groups: tuple[int, ...],
    a: Operand,
    b: Operand,
    c: Operand,
    biased: int,
) -> GemmProblem:
    compute = element(np.float32) if p.elem.itemsize == 2 else p.elem
    stages: tuple[Stage, ...] = ()
    extras: tuple[Operand, ...] = ()
    if p.bias is not None:
        stages = (Stage("bias", "v + e", "column"),)
        batch = (biased * p.bias,) if groups else ()
        extras = (Operand(p.elem, 0, p.bias, batch),)
    return GemmProblem(
        m, n, k, groups, a, b, c, compute, epilogue=stages, extras=extras, precision=p.precision
    )


def _result(
    elem: Element, rows: PlaceIndex, other: int, batch: tuple[int, ...], aligned: int, side: str
) -> Operand:
    """The result, whose rows (columns) run over axes, with the stride ``other`` between columns."""
    rows = rows.simplified()
    stride = rows.strides[-1]
    reader = None
    if len(rows.extents) > 1:
        reader = Gather("row" if side == "row" else "col", rows.extents, rows.strides)
    row, col = (stride, other) if side == "row" else (other, stride)
    far: tuple[int, ...] = (row,) if col == 1 else (col,)
    if reader is not None:
        far = (*rows.strides, other) if other != 1 else rows.strides
    nbytes = gcd(aligned, *(elem.itemsize * step for step in (*far, *batch)))
    return Operand(elem, row, col, batch, False, _power(nbytes), reader)


def _places(
    batch: int,
    outer: int,
    extents: tuple[int, ...],
    strides: tuple[int, ...],
    pitches: tuple[int, ...],
    bounds: tuple[int, ...],
    checked: Sequence[bool],
) -> PlaceIndex:
    """Images and places; places are checked from the first axis on that has to be."""
    axes = _checked(checked)
    return PlaceIndex(
        (batch, *extents), (outer, *strides),
        tuple(pitches[j] for j in axes), tuple(bounds[j] for j in axes),
    )  # fmt: skip


def _checked(checked: Sequence[bool]) -> range:
    """The axes of space from the first one on whose places have to be checked."""
    return range(next((j for j in _SPACE if checked[j]), 3), 3)


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
