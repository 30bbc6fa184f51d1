"""Calls of convolutions, and their plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log2, prod
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.dtypes import element
from portable_gpu.ops.fft.convolution import ConvolutionPiece, ConvolutionProblem, Strided
from portable_gpu.ops.fft.direct import DirectProblem, direct_plan
from portable_gpu.ops.fft.tables import fast_length
from portable_gpu.ops.fft.variants import make_plan
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import Planning
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import Shape, View

#: The maximum length of the windows of blocks, in elements: caches hold two of these.
_LONGEST_WINDOW = 1 << 15


@dataclass(frozen=True)
class OutputRegion:
    """The region of a full convolution that is returned.

    Attributes:
        axes: The convolved axes, sorted.
        shape: Its shape, which is that of the result.
        first: Along each axis, the index of the region's first element in the full convolution.
            Along axes that are not convolved, it is the index in the inputs, too.
    """

    axes: tuple[int, ...]
    shape: Shape
    first: Shape


def convolved(
    x: Any,
    y: Any,
    region: OutputRegion,
    *,
    direct: bool = False,
    correlated: bool = False,
    block_axis: int | None = None,
    engine: Engine | Planning | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the convolution of two arrays with the same number of axes, in their common dtype.

    Args:
        x, y: The arrays, in dtypes that kernels compute in; neither is empty.
        region: The convolved axes and the region that is returned.
        direct: Whether it is computed by sums; else by FFTs, in floating dtypes.
        correlated: Whether ``y`` is reversed and conjugated.
        block_axis: The axis along which ``x`` is cut into blocks.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.
    """
    options = region, direct, correlated, block_axis
    return _CONVOLUTION.call((x, y), options, None, (), engine, queue, wait_for)


def _normalise(arguments: CallArguments) -> Invocation:
    x, y = arguments.inputs
    region, direct, correlated, block_axis = arguments.options
    lengths = () if direct else _lengths(x, y, region, block_axis)

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        return _plan(engine, views, region, lengths, correlated, block_axis)

    return Invocation(
        inputs=(x, y),
        names=("in1", "in2"),
        shape=region.shape,
        dtype=np.result_type(x.dtype, y.dtype),
        plan=plan,
        flop=5 * prod(region.shape) * 20,  # 5 n log2(n) of a transform, of about 2^20
        scalars=() if direct else (1 / prod(lengths),),
    )


_CONVOLUTION = Operation("convolution", _normalise)


def _lengths(x: Any, y: Any, region: OutputRegion, block_axis: int | None) -> tuple[int, ...]:
    """Return the lengths of the transforms along the convolved axes."""
    lengths = [
        fast_length(
            _min_length(x.shape[axis], y.shape[axis], region.first[axis], region.shape[axis])
        )
        for axis in region.axes
    ]
    if block_axis is not None:
        position = region.axes.index(block_axis)
        lengths[position] = window(x.shape[block_axis], y.shape[block_axis])
    return tuple(lengths)


def _plan(
    engine: Engine,
    views: Sequence[View],
    region: OutputRegion,
    lengths: tuple[int, ...],
    correlated: bool,
    block_axis: int | None,
) -> Plan:
    """Return the plan of a convolution by transforms of ``lengths``, or by sums without them."""
    source, second, target = (Strided(view.shape, view.strides) for view in views)
    dtype = views[2].dtype
    conjugate = correlated and views[1].dtype.kind == "c"
    if correlated:
        second = _reversed(second)
    source, second = _narrowed(source, region), _narrowed(second, region)
    first = tuple(region.first[axis] for axis in region.axes)
    if not lengths:
        if not region.axes:  # an axis of extent 1 is appended, and convolved
            source, second, target = (
                replace(operand, shape=(*operand.shape, 1), strides=(*operand.strides, 1))
                for operand in (source, second, target)
            )
        axes = region.axes or (len(region.shape),)
        direct_problem = DirectProblem(
            element(dtype), conjugate, axes, first or (0,), source, second, target
        )
        return engine.plan(direct_problem, lambda: direct_plan(engine, direct_problem))
    source, second, target = (
        replace(operand, shape=(1, *operand.shape), strides=(0, *operand.strides))
        for operand in (source, second, target)
    )
    pieces = [ConvolutionPiece(source, target, first)]
    if block_axis is not None:
        position = region.axes.index(block_axis)
        pieces = _pieces(
            pieces[0], block_axis + 1, position, lengths[position], second.shape[block_axis + 1]
        )
    real = np.dtype(np.float64 if element(dtype).needs_fp64 else np.float32)
    # The order of the axes is free.  In this one the real transform is along the contiguous axis.
    problem = ConvolutionProblem(
        element(real), (views[0].dtype.kind != "c", views[1].dtype.kind != "c"), conjugate,
        tuple(axis + 1 for axis in region.axes), lengths, second, tuple(pieces),
    )  # fmt: skip
    return engine.plan(problem, lambda: make_plan(engine, problem))


def _reversed(operand: Strided) -> Strided:
    """Return the operand in reverse order along all axes."""
    end = sum(step * (n - 1) for n, step in zip(operand.shape, operand.strides, strict=True))
    return Strided(operand.shape, tuple(-step for step in operand.strides), operand.start + end)


def _narrowed(operand: Strided, region: OutputRegion) -> Strided:
    """Return the part of an operand within the region, along the axes that broadcast."""
    shape, start = list(operand.shape), operand.start
    for axis, n in enumerate(region.shape):
        if axis not in region.axes and shape[axis] > 1:
            start += region.first[axis] * operand.strides[axis]
            shape[axis] = n
    return Strided(tuple(shape), operand.strides, start)


def _min_length(n: int, m: int, first: int, count: int) -> int:
    """Return the least length of a cyclic convolution whose results in the region are right.

    Results with indices from the length on are added to those at the start (wrap-around).  The
    region is right if this changes only results before ``first``; those from ``first + count`` on
    are not needed.
    """
    return max(n, m, first + count, n + m - 1 - first)


def window(n: int, m: int) -> int:
    """Return the length of windows with which a convolution of n and m numbers takes least work.

    The n numbers are cut into windows; neighbouring windows have m - 1 numbers in common.
    """
    best, cost = 0, float("inf")
    length = fast_length(2 * m)
    while length <= max(_LONGEST_WINDOW, 8 * m) and length < 2 * (n + m):
        work = length * log2(2 * length) * -(-(n + m - 1) // (length - m + 1))
        if work < cost:
            best, cost = length, work
        length = fast_length(2 * length)
    return best or fast_length(n + m - 1)


def _pieces(
    whole: ConvolutionPiece, axis: int, position: int, length: int, m: int
) -> list[ConvolutionPiece]:
    """Cut a piece into blocks along an axis; all blocks with full windows are one piece.

    The block of results that starts at o is computed from the window that starts at o - m + 1.
    """
    n, count = whole.source.shape[axis], whole.target.shape[axis]
    step, first = length - m + 1, whole.first[position]
    result, inside = [], 0
    starts = range(first, first + count, step)
    # `inside` is the number of the first block after the piece of the blocks with full windows.
    for k, start in enumerate(starts):
        is_inside = start >= m - 1 and start + step <= min(n, first + count)
        if is_inside and inside and k < inside:
            continue
        blocks = 1
        if is_inside:
            blocks = 1 + (min(n, first + count) - step - start) // step
            inside = k + blocks
        window_start = max(0, start - m + 1)
        result.append(
            ConvolutionPiece(
                _part(
                    whole.source,
                    axis,
                    window_start,
                    min(n, start + step) - window_start,
                    blocks,
                    step,
                ),
                _part(
                    whole.target,
                    axis,
                    start - first,
                    min(step, first + count - start),
                    blocks,
                    step,
                ),
                (*whole.first[:position], start - window_start, *whole.first[position + 1 :]),
            )
        )
    return result


def _part(whole: Strided, axis: int, begin: int, n: int, blocks: int, step: int) -> Strided:
    """Return ``blocks`` parts of n numbers along the axis, the first from ``begin`` on.

    ``step`` is the distance between the first numbers of two blocks.
    """
    stride = whole.strides[axis]
    shape = (blocks, *whole.shape[1:axis], n, *whole.shape[axis + 1 :])
    return Strided(shape, (step * stride, *whole.strides[1:]), whole.start + begin * stride)
