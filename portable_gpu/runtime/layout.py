"""The arithmetic of shapes and strides: views of the same memory.  Strides count bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import index
from typing import Any, NamedTuple

from portable_gpu.arguments import shown
from portable_gpu.errors import ArgumentTypeError, ArrayIndexError, AxisError, ShapeError

Shape = tuple[int, ...]

_BASIC = (
    "integers, slices, None and ... select elements; arrays of integers and masks do not: "
    "portable_gpu.asnumpy(x) copies an array from the device"
)


class Layout(NamedTuple):
    """The layout of an array's elements: offset of the first one, shape and strides."""

    offset: int
    shape: Shape
    strides: Shape


def c_strides(shape: Sequence[int], itemsize: int) -> Shape:
    """Strides of a C-ordered array."""
    strides, step = [], itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(strides[::-1])


def is_c_contiguous(shape: Shape, strides: Shape, itemsize: int) -> bool:
    """Whether the elements follow each other in C order, as NumPy defines it."""
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent == 0:
            return True
        if extent != 1:
            if stride != expected:
                return 0 in shape
            expected *= extent
    return True


class Flags:
    """The order of an array's elements in memory: a part of ``numpy.ndarray.flags``.

    Attributes:
        c_contiguous, f_contiguous: Whether in C order, and whether in Fortran's.
        forc: Whether in one of the two.
    """

    __slots__ = ("c_contiguous", "f_contiguous", "forc")

    def __init__(self, shape: Shape, strides: Shape, itemsize: int) -> None:
        self.c_contiguous = is_c_contiguous(shape, strides, itemsize)
        self.f_contiguous = is_c_contiguous(shape[::-1], strides[::-1], itemsize)
        self.forc = self.c_contiguous or self.f_contiguous

    def __repr__(self) -> str:
        return f"Flags(c_contiguous={self.c_contiguous}, f_contiguous={self.f_contiguous})"


def indexed(layout: Layout, key: Any) -> Layout:
    """The layout that a basic index selects: integers, slices, ``None`` and one ellipsis.

    Raises:
        ArrayIndexError: The index is out of range, has too many items, or is not a basic one.
    """
    keys = key if isinstance(key, tuple) else (key,)
    indexed_axes = sum(item is not None and item is not Ellipsis for item in keys)
    ndim = len(layout.shape)
    if indexed_axes > ndim:
        raise ArrayIndexError(
            f"an index of {indexed_axes} axes is too long for shape {layout.shape}"
        )
    if sum(item is Ellipsis for item in keys) > 1:
        raise ArrayIndexError("an index can only have one ellipsis ('...')")
    offset = layout.offset
    shape: list[int] = []
    strides: list[int] = []
    axis = 0
    for item in keys:
        if item is None:
            shape.append(1)
            strides.append(0)
            continue
        if item is Ellipsis:
            rest = axis + ndim - indexed_axes
            shape += layout.shape[axis:rest]
            strides += layout.strides[axis:rest]
            axis = rest
            continue
        extent, stride = layout.shape[axis], layout.strides[axis]
        if isinstance(item, slice):
            start, stop, step = slice_bounds(item, extent)
            count = len(range(start, stop, step))
            if count:  # an empty view may begin nowhere
                offset += start * stride
            shape.append(count)
            strides.append(step * stride)
        else:
            at = position(item)
            if not -extent <= at < extent:
                raise ArrayIndexError(
                    f"index {at} is out of range for axis {axis} with size {extent}"
                )
            offset += (at + extent if at < 0 else at) * stride
        axis += 1
    shape += layout.shape[axis:]
    strides += layout.strides[axis:]
    return Layout(offset, tuple(shape), tuple(strides))


def slice_bounds(part: slice, extent: int) -> tuple[int, int, int]:
    """The first index of a slice of an axis, its end and its step.

    Raises:
        ArrayIndexError: It has something else than integers.
    """
    try:
        return part.indices(extent)
    except (TypeError, ValueError) as error:
        raise ArrayIndexError(f"{shown(part)} is not a slice of an axis: {error}") from None


def position(value: Any) -> int:
    """An index of an axis that is not a slice.

    Raises:
        ArrayIndexError: It is not an integer.
    """
    if isinstance(value, (bool, list, tuple)) or getattr(value, "shape", ()) != ():
        raise ArrayIndexError(f"an index is {shown(value)}; {_BASIC}")
    try:
        return index(value)
    except TypeError:
        raise ArrayIndexError(f"an index is {shown(value)}; {_BASIC}") from None


def as_shape(shape: Sequence[Any], size: int) -> Shape:
    """A new shape for ``size`` elements; one extent may be -1.

    Raises:
        ArgumentTypeError: An extent is not an integer.
        ShapeError: It has another number of elements.
    """
    try:
        extents = list(map(index, shape))
    except TypeError:
        raise ArgumentTypeError(
            f"the new shape is {shown(tuple(shape))}; it takes integers"
        ) from None
    if extents.count(-1) == 1:
        rest = -prod(extents)
        if rest > 0 and size % rest == 0:
            extents[extents.index(-1)] = size // rest
    if min(extents, default=0) < 0 or prod(extents) != size:
        raise ShapeError(f"{size} elements do not fit the shape {tuple(extents)}")
    return tuple(extents)


@lru_cache(maxsize=1024)
def reshaped(shape: Shape, strides: Shape, new: Shape, itemsize: int) -> Shape | None:
    """The strides of the same elements in another shape, in C order; ``None`` if it takes a copy.

    Axes that are contiguous with each other are merged.  Each new axis has to divide the remaining
    extent of a merged one.
    """
    if 0 in new:
        return c_strides(new, itemsize)
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][1] == extent * stride:
            runs[-1] = (runs[-1][0] * extent, stride)
        else:
            runs.append((extent, stride))
    new_strides: list[int] = []
    rest, step = 1, itemsize
    for extent in reversed(new):
        if rest == 1 and extent != 1:
            rest, step = runs.pop()
        if rest % extent:
            return None
        new_strides.append(step)
        step *= extent
        rest //= extent
    return tuple(new_strides[::-1])


def transposed(layout: Layout, axes: Sequence[Any] | None) -> Layout:
    """The layout with permuted axes; reversed ones for ``None``.

    Raises:
        ShapeError: ``axes`` is not a permutation of the axes.
    """
    offset, shape, strides = layout
    if axes is None:
        return Layout(offset, shape[::-1], strides[::-1])
    ndim = len(shape)
    order = [_axis(axis, ndim) for axis in axes]
    if sorted(order) != list(range(ndim)):
        raise ShapeError(f"axes is {shown(tuple(axes))}; it takes each of {ndim} axes once")
    return Layout(
        offset, tuple([shape[axis] for axis in order]), tuple([strides[axis] for axis in order])
    )


def squeezed(layout: Layout, axis: Any) -> Layout:
    """The layout without axes of extent 1: all of them, or those that are named.

    Raises:
        ShapeError: A named axis has another extent.
    """
    offset, shape, strides = layout
    ndim = len(shape)
    if axis is None:
        gone = {k for k in range(ndim) if shape[k] == 1}
    else:
        gone = {_axis(item, ndim) for item in (axis if isinstance(axis, tuple) else (axis,))}
        wrong = [k for k in sorted(gone) if shape[k] != 1]
        if wrong:
            raise ShapeError(f"axis {wrong[0]} of shape {shape} cannot be left out: it is not 1")
    remaining = [k for k in range(ndim) if k not in gone]
    extents = tuple([shape[k] for k in remaining])
    return Layout(offset, extents, tuple([strides[k] for k in remaining]))


def _axis(axis: Any, ndim: int) -> int:
    try:
        result = index(axis)
    except TypeError:
        raise ArgumentTypeError(f"an axis is {shown(axis)}; expected an integer") from None
    if not -ndim <= result < ndim:
        raise AxisError(f"axis {result} is out of range for {ndim} axes")
    return result % ndim


def spread(layout: Layout, shape: Shape) -> Layout:
    """The layout broadcast to a shape that it broadcasts to."""
    missing = len(shape) - len(layout.shape)
    strides = [0 if n == 1 else step for n, step in zip(layout.shape, layout.strides, strict=True)]
    return Layout(layout.offset, shape, (0,) * missing + tuple(strides))
