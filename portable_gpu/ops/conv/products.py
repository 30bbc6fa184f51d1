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

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import gcd, prod

import numpy as np

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.dtypes import Element
from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides, Triple
from portable_gpu.ops.conv.product_operands import (
    SPACE,
    checked_axes,
    coefficients,
    of_axes,
    of_groups,
    order_of_steps,
    ordered,
    piece_offset,
    product_of_operands,
    result_operand,
)
from portable_gpu.ops.conv.taps import Taps, residue_counts, taps_of
from portable_gpu.ops.conv.window_matrix import (
    PackedCopy,
    RowAxes,
    Side,
    WindowMatrix,
    WindowProduct,
    alignment_of,
    multiplied,
    offset_of,
)
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.gemm.reader import Table
from portable_gpu.runtime.views import contiguous_strides


def products_of(p: ConvProblem) -> Iterator[WindowProduct]:
    """Yield the products of a convolution: one, or one for each residue that has taps."""
    if p.direction == "forward":
        yield _forward(p)
    elif p.direction == "weight":
        yield _weights(p)
    else:
        for residue in product(*map(range, residue_counts(p))):
            taps = Taps.of(p, residue)
            if taps is not None:
                yield _inputs(p, taps)


def has_empty_products(p: ConvProblem) -> bool:
    """Whether nothing contributes to some places of the gradient of x."""
    return p.direction == "input" and not all(
        taps_of(p, j, residue)
        for j, count in enumerate(residue_counts(p))
        for residue in range(count)
    )


def residues(p: ConvProblem) -> int:
    """The number of products, if none is empty."""
    return prod(residue_counts(p)) if p.direction == "input" else 1


def _forward(p: ConvProblem) -> WindowProduct:
    """Return the product of the convolution itself."""
    checked = _checked_of_windows(p)
    order = order_of_steps(p.x, p.channels_of_group)
    a = WindowMatrix(
        rows=RowAxes(
            (p.batch, *p.y_size), (p.x.outer, *multiplied(p.stride, p.x.space)),
            of_axes(checked, p.stride), of_axes(checked, p.x_size),
        ),
        extents=ordered((p.channels_of_group, *p.w_size), order),
        strides=ordered((p.x.channel, *multiplied(p.dilation, p.x.space)), order),
        places=tuple(ordered(coefficients(p.dilation, j), order) for j in checked),
        start=-offset_of(p.before, p.x.space),
        first_places=tuple(-p.before[j] for j in checked),
        steps_adjacent=order[-1] == 0 and p.x.channel == 1,
        elements=p.x_elements // p.groups,
        piece=piece_offset(p, p.channels),
    )  # fmt: skip
    w = ordered((p.w.channel, *p.w.space), order)
    steps = merged(Axis(n, (s,)) for n, s in zip(a.extents, w, strict=True))
    filters, depth, copied = p.filters_of_group, prod(a.extents), None
    if p.pieces:
        weights = WindowMatrix(
            RowAxes((filters,), (p.w.outer,)), a.extents, w, steps_adjacent=True,
            piece=piece_offset(p, p.channels_of_group),
        )  # fmt: skip
        b = weights.operand(p.read_elem, "col", of_groups(p, filters * p.w.outer), p.w.aligned)
    elif len(steps) <= 1:
        step = steps[0].strides[0] if steps else 1
        far = p.w.outer if step == 1 else step
        group_stride = of_groups(p, filters * p.w.outer)
        nbytes = gcd(p.w.aligned, *(p.elem.itemsize * s for s in (far, *group_stride)))
        b = Operand(p.elem, step, p.w.outer, group_stride, False, alignment_of(nbytes))
    else:
        copied = PackedCopy((p.groups, filters, *a.extents), (filters * p.w.outer, p.w.outer, *w))
        nbytes = alignment_of(depth * p.elem.itemsize)
        b = Operand(p.elem, 1, depth, of_groups(p, filters * depth), False, nbytes)
    rows = RowAxes((p.batch, *p.y_size), (p.y.outer, *p.y.space))
    c = result_operand(p, rows, "row", p.y.channel, filters * p.y.channel, p.y.aligned)
    windows = a.operand(
        p.read_elem, "row", of_groups(p, p.channels_of_group * p.x.channel), p.x.aligned
    )
    problem = product_of_operands(p, rows.size, filters, depth, windows, b, c, rows.extents)
    return WindowProduct(problem, copied, extra_starts=(0,) * len(p.extras))


def _inputs(p: ConvProblem, taps: Taps) -> WindowProduct:
    """Return the product for the gradient at the places of x that have these taps."""
    a = taps.windows(p, taps.checked(p))
    channels, depth, copied = p.channels_of_group, prod(a.extents), None
    weights = taps.weights(p, p.w)
    weights_start = offset_of(taps.first, p.w.space)
    group_stride = p.filters_of_group * p.w.outer
    if p.pieces or p.w.channel == 1 or len(weights.merged_steps) <= 1:
        aligned = gcd(p.w.aligned, weights_start * p.read_elem.itemsize)
        b = weights.operand(p.read_elem, "col", of_groups(p, group_stride), aligned)
    else:
        steps = weights.strides
        copied = PackedCopy((p.groups, *a.extents, channels), (group_stride, *steps, p.w.channel))
        nbytes = alignment_of(channels * p.elem.itemsize)
        b = Operand(p.elem, channels, 1, of_groups(p, depth * channels), False, nbytes)
    rows = RowAxes((p.batch, *taps.extents), (p.x.outer, *multiplied(p.stride, p.x.space)))
    result_start = offset_of(taps.residue, p.x.space)
    aligned = gcd(p.x.aligned, result_start * p.elem.itemsize)
    c = result_operand(p, rows, "row", p.x.channel, channels * p.x.channel, aligned)
    windows = a.operand(
        p.read_elem, "row", of_groups(p, p.filters_of_group * p.y.channel), p.y.aligned
    )
    problem = product_of_operands(p, rows.size, channels, depth, windows, b, c, rows.extents)
    starts = tuple(offset_of(taps.residue, extra.strides.space) for extra in p.extras)
    return WindowProduct(problem, copied, weights_start, result_start, extra_starts=starts)


def inputs_at_once(p: ConvProblem) -> WindowProduct | None:
    """Return the products of all residues as one, with a part of k for each.

    Both operands are read by tables, which have the steps of one residue after the other.  The
    residues with the most taps are first.

    ``None`` if there is one residue only, if residues have different numbers of places, if none has
    taps, or if there are groups.
    """
    counts = residue_counts(p) if p.direction == "input" else [1]
    if (
        prod(counts) == 1
        or p.groups > 1
        or any(n % s for n, s in zip(p.x_size, counts, strict=True))
    ):
        return None
    ranges = []
    for j, count in enumerate(counts):
        backwards = len(taps_of(p, j, 0)) < len(taps_of(p, j, count - 1))
        ranges.append(range(count)[:: -1 if backwards else 1])
    every = [Taps.of(p, residue) for residue in product(*ranges)]
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
    axes = [j for j in SPACE if counts[j] > 1]
    windows = [taps.windows(p, checked) for taps in residues]
    weights = [
        replace(taps.weights(p, w), start=offset_of(taps.first, w.space)) for taps in residues
    ]
    first = tuple(axis[0] for axis in ranges)
    rows = RowAxes((p.batch, *residues[0].extents), (p.x.outer, *multiplied(p.stride, p.x.space)))
    k_parts = tuple(0 if taps is None else p.filters * prod(taps.counts) for taps in every)

    def batch(space: Triple) -> tuple[int, ...]:
        """The strides from a residue to the next."""
        return tuple(ranges[j].step * space[j] for j in axes)

    aligned = gcd(p.x.aligned, *(p.elem.itemsize * step for step in p.x.space))
    c = replace(result_operand(p, rows, "row", p.x.channel, 0, aligned), batch=batch(p.x.space))
    a = _joined(windows, p.read_elem, "row", p.y.aligned, len(axes))
    b = _joined(weights, p.read_elem, "col", w.aligned, len(axes))
    problem = product_of_operands(p, rows.size, channels, sum(k_parts), a, b, c, rows.extents)
    bias = [(0,) * len(axes)] * (p.bias is not None)
    strides = [*bias, *(batch(extra.strides.space) for extra in p.extras)]
    extras = tuple(replace(e, batch=s) for e, s in zip(problem.extras, strides, strict=True))
    return WindowProduct(
        replace(
            problem, batch=tuple(counts[j] for j in axes), k_parts=k_parts, extras=extras
        ),
        copied,
        result_start=offset_of(first, p.x.space),
        extra_starts=tuple(offset_of(first, extra.strides.space) for extra in p.extras),
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
    """Return the product for the gradient of the weights."""
    # The columns run over channels and taps, and the fastest is what is adjacent in x.
    checked, order = _checked_of_windows(p), order_of_steps(p.x, p.channels_of_group)
    if order[-1] == 0 and len(checked) == 3:  # a reader checks three axes at most
        order = (0, 1, 2, 3)
    places = [coefficients(p.stride, j) for j in checked]
    first_places = [-p.before[j] for j in checked]
    if checked and order[-1] == 0:
        # Channels come after the checked axes, and a reader checks its last axes.  So channels get
        # a place, too: it is 0 in all steps, the pitch is 0 and the bound 1.
        places.append((0, 0, 0, 0))
        first_places.append(0)
    free = len(order) - len(places)
    columns = RowAxes(
        ordered((p.channels_of_group, *p.w_size), order),
        ordered((p.x.channel, *multiplied(p.dilation, p.x.space)), order),
        ordered((0, *p.dilation), order)[free:],
        ordered((1, *p.x_size), order)[free:],
    )
    steps: tuple[int, ...] = (p.batch, *p.y_size)
    x_steps: tuple[int, ...] = (p.x.outer, *multiplied(p.stride, p.x.space))
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
        start=-offset_of(p.before, p.x.space),
        first_places=tuple(first_places),
        repeats=True,
        steps_adjacent=in_chunks or (by_rows and p.x.space[-1] == 1 < p.y_size[-1]),
        elements=p.x_elements // p.groups,
        piece=piece_offset(p, p.channels),
    )
    a = WindowMatrix(
        rows=RowAxes((p.filters_of_group,), (p.y.channel,)),
        extents=y_axes,
        strides=y_steps,
        repeats=True,
        steps_adjacent=in_chunks or (by_rows and y_steps[-1] == 1 < y_axes[-1]),
        piece=piece_offset(p, p.filters),
    )
    dw = ordered((p.w.channel, *p.w.space), order)
    filters, packed = p.filters_of_group, None
    group_stride = filters * p.w.outer
    result = result_operand(
        p, RowAxes(columns.extents, dw), "col", p.w.outer, group_stride, p.w.aligned
    )
    if result.reader is not None and p.elem.itemsize == 2:  # matrix units store rows
        packed = PackedCopy((p.groups, filters, *columns.extents), (group_stride, p.w.outer, *dw))
        dense = RowAxes((columns.size,), (1,))
        result = result_operand(p, dense, "col", columns.size, filters * columns.size, 16)
    gradients = a.operand(p.read_elem, "row", of_groups(p, filters * p.y.channel), p.y.aligned)
    windows = b.operand(
        p.read_elem, "col", of_groups(p, p.channels_of_group * p.x.channel), p.x.aligned
    )
    problem = product_of_operands(p, filters, columns.size, prod(steps), gradients, windows, result)
    return WindowProduct(problem, packed_result=packed)


def _has_adjacent_places(p: ConvProblem) -> bool:
    """Whether matrix units can read 16-bit images of adjacent places for the gradient of one tap.

    Each chunk of 16 bytes has places of one image, and x and y have the same places.
    """
    same = p.taps == 1 and p.x_size == p.y_size and p.stride == (1, 1, 1) and not any(p.before)
    if not same or p.elem.itemsize != 2 or prod(p.y_size) % 8:
        return False
    merged_axes = (
        merged(Axis(n, (s,)) for n, s in zip(p.y_size, x.space, strict=True)) for x in (p.x, p.y)
    )
    return all(len(axes) == 1 and axes[0].strides == (1,) for axes in merged_axes)


def _checked_of_windows(p: ConvProblem) -> range:
    """The axes of x along which places of windows are checked."""
    last_taps = multiplied([n - 1 for n in p.w_size], p.dilation)
    last_windows = multiplied([n - 1 for n in p.y_size], p.stride)
    return checked_axes(
        [-before for before in p.before],
        [q + r - b for q, r, b in zip(last_windows, last_taps, p.before, strict=True)],
        p.x_size,
    )
