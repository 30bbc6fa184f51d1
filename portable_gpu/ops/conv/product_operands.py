"""Products of a convolution: operands, results, epilogues, and which axes of space are checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

from portable_gpu.codegen.epilogue import Stage
from portable_gpu.ops.conv.copies import computed
from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides, StageArray
from portable_gpu.ops.conv.window_matrix import RowAxes, Side, alignment_of, multiplied
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.reader import Gather

#: The axes of space.
SPACE = range(3)


def product_of_operands(
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
        extras = (Operand(p.elem, 0, p.bias, of_groups(p, n * p.bias)), *extras)
    return GemmProblem(
        m=m, n=n, k=k, batch=of_groups(p, p.groups), a=a, b=b, c=c, compute=computed(p.elem),
        epilogue=stages, extras=extras, precision=p.precision,
    )  # fmt: skip


def _of_stage(p: ConvProblem, array: StageArray, extents: tuple[int, ...], n: int) -> Operand:
    """An array of the epilogue, of a product whose rows run over the images and their places."""
    s = array.strides
    # The results of a product of a gradient by the input are ``p.stride`` apart.
    distances = p.stride if p.direction == "input" else (1, 1, 1)
    axes = RowAxes(extents, (s.outer, *multiplied(distances, s.space))).simplified()
    reader = Gather("row", axes.extents, axes.strides) if len(axes.extents) > 1 else None
    groups = of_groups(p, n * s.channel)
    return Operand(array.elem, axes.strides[-1], s.channel, groups, reader=reader)


def result_operand(
    p: ConvProblem, axes: RowAxes, side: Side, other_stride: int, group_stride: int, aligned: int
) -> Operand:
    """The result.

    Args:
        p: The convolution.
        axes: Those of the rows, or of the columns.
        side: The side of ``axes``: rows or columns.
        other_stride: The stride of the other index.
        group_stride: The stride from a group to the next.
        aligned: A power of two that divides the byte address of the first element.
    """
    axes = axes.simplified()
    stride, groups = axes.strides[-1], of_groups(p, group_stride)
    reader = None
    row, col = (stride, other_stride) if side == "row" else (other_stride, stride)
    if len(axes.extents) > 1:
        reader = Gather(side, axes.extents, axes.strides)
    # Vectors run along an index of stride 1: addresses are as aligned as the other strides allow.
    far = axes.strides[:-1] if stride == 1 != other_stride else axes.strides
    strides = far if other_stride == 1 else (*far, other_stride)
    nbytes = gcd(aligned, *(p.elem.itemsize * step for step in (*strides, *groups)))
    return Operand(p.elem, row, col, groups, False, alignment_of(nbytes), reader)


def of_groups(p: ConvProblem, value: int) -> tuple[int, ...]:
    """The values of a product's batch axes: one axis if there are several groups, else none."""
    return (value,) if p.groups > 1 else ()


def checked_axes(lowest: Sequence[int], highest: Sequence[int], sizes: Sequence[int]) -> range:
    """The axes of space from the first one on that has a place outside of the array.

    A reader checks the last axes only (:class:`Gather`): that axis and all axes after it.
    """
    outside = [lowest[j] < 0 or highest[j] >= sizes[j] for j in SPACE]
    return range(outside.index(True) if any(outside) else 3, 3)


def piece_offset(p: ConvProblem, elements: int) -> int | None:
    """The offset from a piece of a value to the next, given the elements of a piece."""
    return elements if p.pieces else None


def of_axes(axes: Iterable[int], values: Sequence[int]) -> tuple[int, ...]:
    """The values of some axes of space."""
    return tuple(values[j] for j in axes)


def coefficients(steps: Sequence[int], axis: int) -> tuple[int, ...]:
    """The factors whose products with the four indices of a step, summed, are the place on an axis.

    The indices are an image or channel, which has the factor 0, and those along the axes of space.
    """
    return (0, *(steps[j] if j == axis else 0 for j in SPACE))


def order_of_steps(array: ImageStrides, channels: int) -> tuple[int, ...]:
    """The order of the four indices of a step, 0 for the channel and 1, 2, 3 for the axes of space.

    The last index is the one along which elements are nearest to each other in memory.
    """
    in_space = [abs(step) for step in array.space if step]
    channels_last = array.channel == 1 or (in_space and 0 < abs(array.channel) < min(in_space))
    return (1, 2, 3, 0) if channels_last and channels > 1 else (0, 1, 2, 3)


def ordered(values: Iterable[int], order: Sequence[int]) -> tuple[int, ...]:
    """Return values in another order."""
    values = tuple(values)
    return tuple(values[k] for k in order)
