"""Calls of convolutions, and their plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log2, prod
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.dtypes import element
from portable_gpu.ops.fft.candidates import make_plan
from portable_gpu.ops.fft.convolution import ConvolutionProblem, Piece, Strided
from portable_gpu.ops.fft.direct import DirectPlan, DirectProblem
from portable_gpu.ops.fft.tables import fast_length
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.runtime.call import Planning
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import Shape, View

#: The longest window of blocks that is worth it: two of them fit the caches.
_LONGEST_WINDOW = 1 << 15


@dataclass(frozen=True)
class Kept:
    """Which results of a convolution are wanted.

    Attributes:
        axes: Convolved ones, sorted.
        shape: Of the result.
        first: The first one that is kept, along all axes; of those that broadcast, of both inputs.
    """

    axes: tuple[int, ...]
    shape: Shape
    first: Shape


def convolved(
    x: Any,
    y: Any,
    kept: Kept,
    *,
    direct: bool = False,
    correlated: bool = False,
    block_axis: int | None = None,
    engine: Engine | Planning | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The convolution of two arrays of as many axes, in their common dtype.

    Args:
        x, y: The arrays, in a dtype that is computed in; neither is empty.
        kept: Which axes, and which results.
        direct: Whether by sums; by transforms otherwise, of floating dtypes.
        correlated: Whether ``y`` is taken from its end, and conjugated.
        block_axis: The axis along which ``x`` goes in blocks.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.
    """
    options = kept, direct, correlated, block_axis
    return _CONVOLUTION.call((x, y), options, None, (), engine, queue, wait_for)


def _normalise(arguments: CallArguments) -> Invocation:
    x, y = arguments.inputs
    kept, direct, correlated, block_axis = arguments.options
    lengths = () if direct else _lengths(x, y, kept, block_axis)

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        return _plan(engine, views, kept, lengths, correlated, block_axis)

    return Invocation(
        inputs=(x, y),
        names=("in1", "in2"),
        shape=kept.shape,
        dtype=np.result_type(x.dtype, y.dtype),
        plan=plan,
        flop=5 * prod(kept.shape) * 20,
        scalars=() if direct else (1 / prod(lengths),),
    )


_CONVOLUTION = Operation("convolution", _normalise)


def _lengths(x: Any, y: Any, kept: Kept, block_axis: int | None) -> tuple[int, ...]:
    """Return the lengths of the transforms along the convolved axes."""
    lengths = [
        fast_length(_least(x.shape[axis], y.shape[axis], kept.first[axis], kept.shape[axis]))
        for axis in kept.axes
    ]
    if block_axis is not None:
        place = kept.axes.index(block_axis)
        lengths[place] = window(x.shape[block_axis], y.shape[block_axis])
    return tuple(lengths)


def _plan(
    engine: Engine,
    views: Sequence[View],
    kept: Kept,
    lengths: tuple[int, ...],
    correlated: bool,
    block_axis: int | None,
) -> Plan:
    """Return the plan of a convolution by transforms of ``lengths``, or by sums without them."""
    source, second, target = (Strided(view.shape, view.strides) for view in views)
    dtype = views[2].dtype
    conjugate = correlated and views[1].dtype.kind == "c"
    if correlated:
        second = _turned(second)
    source, second = _narrowed(source, kept), _narrowed(second, kept)
    first = tuple(kept.first[axis] for axis in kept.axes)
    if not lengths:
        if not kept.axes:  # a last axis of one number each is convolved
            source, second, target = (
                replace(one, shape=(*one.shape, 1), strides=(*one.strides, 1))
                for one in (source, second, target)
            )
        axes = kept.axes or (len(kept.shape),)
        own = DirectProblem(element(dtype), conjugate, axes, first or (0,), source, second, target)
        return engine.plan(own, lambda: DirectPlan(engine, own))
    source, second, target = (
        replace(one, shape=(1, *one.shape), strides=(0, *one.strides))
        for one in (source, second, target)
    )
    pieces = [Piece(source, target, first)]
    if block_axis is not None:
        place = kept.axes.index(block_axis)
        pieces = _pieces(
            pieces[0], block_axis + 1, place, lengths[place], second.shape[block_axis + 1]
        )
    real = np.dtype(np.float64 if element(dtype).needs_fp64 else np.float32)
    # Swapped axes cost nothing here: the real transform goes along numbers that lie side by side.
    problem = ConvolutionProblem(
        element(real), (views[0].dtype.kind != "c", views[1].dtype.kind != "c"), conjugate,
        tuple(axis + 1 for axis in kept.axes), lengths, second, tuple(pieces),
    )  # fmt: skip
    return engine.plan(problem, lambda: make_plan(engine, problem))


def _turned(one: Strided) -> Strided:
    """From the end to the beginning, along all axes."""
    end = sum(step * (n - 1) for n, step in zip(one.shape, one.strides, strict=True))
    return Strided(one.shape, tuple(-step for step in one.strides), one.start + end)


def _narrowed(one: Strided, kept: Kept) -> Strided:
    """What is wanted along the axes that broadcast."""
    shape, start = list(one.shape), one.start
    for axis, n in enumerate(kept.shape):
        if axis not in kept.axes and shape[axis] > 1:
            start += kept.first[axis] * one.strides[axis]
            shape[axis] = n
    return Strided(tuple(shape), one.strides, start)


def _least(n: int, m: int, first: int, count: int) -> int:
    """The least length of a transform: results that are not kept may overlap.

    Those behind the length come out again in front; so the first ``first`` may be anything, and
    those from ``first + count`` on.
    """
    return max(n, m, first + count, n + m - 1 - first)


def window(n: int, m: int) -> int:
    """The length of a window for blocks of n numbers, of which m - 1 overlap: the least work."""
    best, cost = 0, float("inf")
    length = fast_length(2 * m)
    while length <= max(_LONGEST_WINDOW, 8 * m) and length < 2 * (n + m):
        own = length * log2(2 * length) * -(-(n + m - 1) // (length - m + 1))
        if own < cost:
            best, cost = length, own
        length = fast_length(2 * length)
    return best or fast_length(n + m - 1)


def _pieces(whole: Piece, axis: int, place: int, length: int, m: int) -> list[Piece]:
    """A piece cut into blocks along an axis: those of whole windows together, others by themselves.

    A block of results from o on comes from the window that begins m - 1 numbers before.
    """
    n, count = whole.source.shape[axis], whole.target.shape[axis]
    step, first = length - m + 1, whole.first[place]
    found, inside = [], 0
    begins = range(first, first + count, step)
    for k, at in enumerate(begins):
        is_inside = at >= m - 1 and at + step <= min(n, first + count)
        if is_inside and inside and k < inside:
            continue
        blocks = 1
        if is_inside:
            blocks = 1 + (min(n, first + count) - step - at) // step
            inside = k + blocks
        begin = max(0, at - m + 1)
        found.append(
            Piece(
                _part(whole.source, axis, begin, min(n, at + step) - begin, blocks, step),
                _part(whole.target, axis, at - first, min(step, first + count - at), blocks, step),
                (*whole.first[:place], at - begin, *whole.first[place + 1 :]),
            )
        )
    return found


def _part(whole: Strided, axis: int, begin: int, n: int, blocks: int, step: int) -> Strided:
    """Some numbers from ``begin`` on, and as many from each ``step`` numbers further on."""
    stride = whole.strides[axis]
    shape = (blocks, *whole.shape[1:axis], n, *whole.shape[axis + 1 :])
    return Strided(shape, (step * stride, *whole.strides[1:]), whole.start + begin * stride)
