"""What a convolution computes, and the transforms that it is made of.

The transform of a convolution is the product of the two transforms.  Neither padding nor cropping
nor the product is a pass of its own: the first pass reads numbers that are not there as zeros, the
last one of the first input multiplies by the other's transform as it writes, and the first pass of
the inverse along each axis writes what is kept of it, so later axes have fewer lines.

A long input may go in blocks along an axis (overlap-save: Oppenheim and Schafer, Discrete-Time
Signal Processing, section 8.7): each is a window of the input, of which the results that
its neighbours do not touch are kept.  Windows that begin before the input, or end behind it, go by
themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log2, prod
from typing import TypeAlias

import numpy as np

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.dtypes import Element
from portable_gpu.ops.fft.problem import End, Form, Line, Product
from portable_gpu.runtime.plan import Part, Temporary
from portable_gpu.runtime.views import Shape, contiguous_strides

#: What a line reads, writes and is multiplied by.
Operand: TypeAlias = int | Temporary | Part
_FIRST, _SECOND, _RESULT = 0, 1, 2


@dataclass(frozen=True)
class Strided:
    """A part of an operand.

    Attributes:
        shape, strides: In elements; the first axis is that of blocks.
        start: Where it begins, in elements.
    """

    shape: Shape
    strides: Shape
    start: int = 0


@dataclass(frozen=True)
class Piece:
    """Blocks that are convolved alike.

    Attributes:
        source, target: What is read of the first input, and written of the result.
        first: The first result that is kept, along each axis that is convolved.
    """

    source: Strided
    target: Strided
    first: Shape


@dataclass(frozen=True)
class ConvolutionProblem:
    """One convolution apart from its arrays' values: the key of its plan.

    Attributes:
        real: Element of the real numbers.
        of_real: Whether each input is real.
        conjugate: Whether it is with the conjugate of the second input.
        axes: Convolved ones, counted with that of blocks; the last is the real transform's.
        lengths: Of the transform along each.
        second: The second input, with one block.
        pieces: Of the first input and the result.
    """

    real: Element
    of_real: tuple[bool, bool]
    conjugate: bool
    axes: tuple[int, ...]
    lengths: tuple[int, ...]
    second: Strided
    pieces: tuple[Piece, ...]

    @property
    def scaled(self) -> bool:
        """Results are multiplied by the scale of the way back."""
        return True

    @property
    def by_halves(self) -> bool:
        """Whether transforms are of real sequences."""
        return all(self.of_real)

    @property
    def flop(self) -> int:
        """Of the transforms, by the field's convention, and of the products."""
        points = prod(self.lengths)
        each = 5 * points * log2(max(2, points)) / (1 + self.by_halves)
        lines = 1.0
        for shape in (self.second.shape, *(piece.source.shape for piece in self.pieces)):
            lines += prod(n for axis, n in enumerate(shape) if axis not in self.axes)
        return round(2 * lines * each)

    @property
    def bytes(self) -> int:
        """Each input read once, each result written once."""
        first = sum(prod(piece.source.shape) for piece in self.pieces)
        results = sum(prod(piece.target.shape) for piece in self.pieces)
        parts = [2 - real for real in self.of_real]
        return self.real.itemsize * (
            parts[0] * first + parts[1] * prod(self.second.shape) + (2 - self.by_halves) * results
        )


def convolution_lines(p: ConvolutionProblem) -> list[tuple[Line, tuple[Operand, ...]]]:
    """The transforms of a convolution, an axis each, with what each reads and writes."""
    itemsize = 2 * p.real.itemsize
    kept = _transformed(p, p.second.shape)
    filter_room = Temporary("the transform of the second input", prod(kept) * itemsize, itemsize)
    own = contiguous_strides(kept)
    found = list(
        _forward(p, p.second, p.of_real[1], _SECOND, filter_room, own, kept, p.conjugate, None)
    )
    for number, piece in enumerate(p.pieces):
        shape = _transformed(p, piece.source.shape)
        whole = tuple(np.broadcast_shapes(shape, kept))
        times = tuple(0 if n == 1 else step for n, step in zip(kept, own, strict=True))
        room = Temporary(f"the product {number}", prod(whole) * itemsize, itemsize)
        strides = contiguous_strides(whole)
        found += _forward(
            p, piece.source, p.of_real[0], _FIRST, room, strides, whole, False,
            (times, filter_room, number),
        )  # fmt: skip
        found += _inverse(p, piece, room, strides, whole)
    return found


def _transformed(p: ConvolutionProblem, shape: Shape) -> Shape:
    """The shape of a transform."""
    found = list(shape)
    for axis, n in zip(p.axes, p.lengths, strict=True):
        found[axis] = n
    if p.by_halves:
        found[p.axes[-1]] = p.lengths[-1] // 2 + 1
    return tuple(found)


def _forward(
    p: ConvolutionProblem,
    given: Strided,
    is_real: bool,
    operand: int,
    room: Temporary,
    strides: Shape,
    whole: Shape,
    inverse: bool,
    times: tuple[Shape, Temporary, int] | None,
) -> Iterator[tuple[Line, tuple[Operand, ...]]]:
    """The transform of an input to ``room``, which has shape ``whole``, times another one.

    Where the input has one number along an axis and ``whole`` more, the last axis' lines are read
    again for each of these.
    """
    shape = list(given.shape)
    batch = [axis for axis in range(len(whole)) if axis not in p.axes]
    spread = any(shape[axis] != whole[axis] for axis in batch)
    order = [p.axes[-1], *p.axes[:-1]]
    source: Operand = Part(operand, given.start)
    read = given.strides
    narrow = room
    narrow_strides = strides
    if spread and len(order) > 1:
        assert times is not None
        small = _transformed(p, given.shape)
        narrow = Temporary(f"a transform {times[2]}", prod(small) * room.itemsize, room.itemsize)
        narrow_strides = contiguous_strides(small)
    lengths = dict(zip(p.axes, p.lengths, strict=True))
    for k, axis in enumerate(order):
        last = k == len(order) - 1
        goal, written = (room, strides) if last else (narrow, narrow_strides)
        half = p.by_halves and k == 0
        forms: tuple[Form, Form] = ("real" if k == 0 and is_real else "complex"), "complex"
        if half:
            forms = "real", "half"
        after = lengths[axis] // 2 + 1 if half else lengths[axis]
        count = shape[axis]
        if last:
            read = tuple(0 if a in batch and shape[a] == 1 else step for a, step in enumerate(read))
            shape = [whole[a] if a in batch else n for a, n in enumerate(shape)]
        multiplied = times if last else None
        steps = [read, written, *([multiplied[0]] if multiplied else [])]
        line = Line(
            lengths[axis], inverse, p.real,
            End(forms[0], count, read[axis]), End(forms[1], after, written[axis]),
            _others(shape, axis, steps),
        )  # fmt: skip
        operands: tuple[Operand, ...] = (source, goal)
        if multiplied is not None:
            line = replace(line, times=Product(multiplied[0][axis], p.conjugate))
            operands = (source, goal, multiplied[1])
        yield line, operands
        shape[axis] = after
        source, read = goal, written


def _inverse(
    p: ConvolutionProblem, piece: Piece, room: Temporary, strides: Shape, whole: Shape
) -> Iterator[tuple[Line, tuple[Operand, ...]]]:
    """What is kept of the inverse transform of ``room``."""
    shape = list(whole)
    for k, (axis, n, first) in enumerate(zip(p.axes, p.lengths, piece.first, strict=True)):
        last = k == len(p.axes) - 1
        goal: Operand = Part(_RESULT, piece.target.start) if last else room
        written = piece.target.strides if last else strides
        forms: tuple[Form, Form] = ("complex", "complex")
        if last and p.by_halves:
            forms = "half", "real"
        count = piece.target.shape[axis]
        line = Line(
            n, True, p.real,
            End(forms[0], shape[axis], strides[axis]), End(forms[1], count, written[axis], first),
            _others(shape, axis, [strides, written]),
        )  # fmt: skip
        yield line, (room, goal)
        shape[axis] = count


def _others(shape: list[int], axis: int, strides: list[Shape]) -> tuple[Axis, ...]:
    return tuple(
        merged(
            Axis(shape[a], tuple(own[a] for own in strides)) for a in range(len(shape)) if a != axis
        )
    )
