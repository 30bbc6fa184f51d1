"""Problems of convolutions, and their transforms.

The transform of a convolution is the product of the two transforms.  Padding, cropping and the
product are parts of passes: the first pass reads numbers outside the input as zeros, the last pass
of the first input multiplies its results by the other transform, and along each axis the inverse
writes only the returned region, so later axes have fewer lines.

A long input may be cut into blocks along an axis (overlap-save: Oppenheim and Schafer,
Discrete-Time Signal Processing, section 8.7): each block is computed from a window of the input, of
which the results that wrap around are discarded.  Windows that extend beyond the input are pieces
of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log2, prod
from typing import NamedTuple, TypeAlias

import numpy as np

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.dtypes import Element
from portable_gpu.ops.fft.problem import Form, Line, LineMultiplier, LineOperand
from portable_gpu.runtime.plan import Part, Temporary
from portable_gpu.runtime.views import Shape, contiguous_strides

#: The arrays that a line reads, writes and is multiplied by.
Operand: TypeAlias = int | Temporary | Part
_FIRST, _SECOND, _RESULT = 0, 1, 2


@dataclass(frozen=True)
class Strided:
    """A part of an operand.

    Attributes:
        shape, strides: In elements; the first axis is that of blocks.
        start: The offset of its first element, in elements.
    """

    shape: Shape
    strides: Shape
    start: int = 0


@dataclass(frozen=True)
class ConvolutionPiece:
    """Blocks of one extent, which the same transforms convolve.

    Attributes:
        source, target: The parts of the first input and of the result.
        first: The index of the first returned result, along each convolved axis.
    """

    source: Strided
    target: Strided
    first: Shape


@dataclass(frozen=True)
class ConvolutionProblem:
    """One convolution without the values of its arrays: the key of its plan.

    Attributes:
        real: Element of the real numbers.
        of_real: Whether each input is real.
        conjugate: Whether the second input is conjugated.
        axes: The convolved axes, where axis 0 is that of blocks; the last is transformed first.
        lengths: The length of the transform along each.
        second: The second input, with one block.
        pieces: The pieces of the first input and of the result.
    """

    real: Element
    of_real: tuple[bool, bool]
    conjugate: bool
    axes: tuple[int, ...]
    lengths: tuple[int, ...]
    second: Strided
    pieces: tuple[ConvolutionPiece, ...]

    @property
    def scaled(self) -> bool:
        """Results are multiplied by the scale of the inverse transform."""
        return True

    @property
    def by_halves(self) -> bool:
        """Whether half spectra of real sequences are computed."""
        return all(self.of_real)

    @property
    def flop(self) -> int:
        """Flop of the transforms, by the usual convention."""
        points = prod(self.lengths)
        flop_of_line = 5 * points * log2(max(2, points)) / (1 + self.by_halves)
        lines = 1.0
        for shape in (self.second.shape, *(piece.source.shape for piece in self.pieces)):
            lines += prod(n for axis, n in enumerate(shape) if axis not in self.axes)
        return round(2 * lines * flop_of_line)

    @property
    def bytes(self) -> int:
        """Bytes of the inputs and the result, each moved once."""
        first = sum(prod(piece.source.shape) for piece in self.pieces)
        results = sum(prod(piece.target.shape) for piece in self.pieces)
        parts = [2 - real for real in self.of_real]
        return self.real.itemsize * (
            parts[0] * first + parts[1] * prod(self.second.shape) + (2 - self.by_halves) * results
        )


def convolution_lines(p: ConvolutionProblem) -> list[tuple[Line, tuple[Operand, ...]]]:
    """Return the transforms of a convolution, one for each axis, with their operands."""
    itemsize = 2 * p.real.itemsize
    filter_shape = _transformed(p, p.second.shape)
    spectrum = Temporary(
        "the transform of the second input", prod(filter_shape) * itemsize, itemsize
    )
    filter_strides = contiguous_strides(filter_shape)
    result = list(
        _forward(
            p, p.second, p.of_real[1], _SECOND, spectrum, filter_strides, filter_shape,
            inverse=p.conjugate, multiplier=None,
        )
    )  # fmt: skip
    for number, piece in enumerate(p.pieces):
        shape = _transformed(p, piece.source.shape)
        whole = tuple(np.broadcast_shapes(shape, filter_shape))
        multiplier_strides = tuple(
            0 if n == 1 else step for n, step in zip(filter_shape, filter_strides, strict=True)
        )
        product_temporary = Temporary(f"the product {number}", prod(whole) * itemsize, itemsize)
        strides = contiguous_strides(whole)
        result += _forward(
            p, piece.source, p.of_real[0], _FIRST, product_temporary, strides, whole,
            inverse=False, multiplier=_Multiplier(multiplier_strides, spectrum, number),
        )  # fmt: skip
        result += _inverse(p, piece, product_temporary, strides, whole)
    return result


def _transformed(p: ConvolutionProblem, shape: Shape) -> Shape:
    """Return the shape of the transform of an input."""
    result = list(shape)
    for axis, n in zip(p.axes, p.lengths, strict=True):
        result[axis] = n
    if p.by_halves:
        result[p.axes[-1]] = p.lengths[-1] // 2 + 1
    return tuple(result)


class _Multiplier(NamedTuple):
    """The transform of the second input, by which that of a piece of the first is multiplied.

    Attributes:
        strides: Its strides along the axes of the product; 0 where it broadcasts.
        spectrum: The temporary that has it.
        piece: The number of the piece.
    """

    strides: Shape
    spectrum: Temporary
    piece: int


def _forward(
    p: ConvolutionProblem,
    operand_part: Strided,
    is_real: bool,
    operand: int,
    temporary: Temporary,
    strides: Shape,
    whole: Shape,
    *,
    inverse: bool,
    multiplier: _Multiplier | None,
) -> Iterator[tuple[Line, tuple[Operand, ...]]]:
    """Yield the transforms of an input, one for each axis, with their operands.

    If the input broadcasts along an axis, its lines along the last transformed axis are read again
    for each index.

    Args:
        p: The problem.
        operand_part, is_real, operand: The input, whether it is real, and its operand of the plan.
        temporary, strides, whole: The temporary for the transform, its strides and its shape.
        inverse: Whether exponents are positive.
        multiplier: The transform by which the last of these multiplies its results, if any.
    """
    shape = list(operand_part.shape)
    batch = [axis for axis in range(len(whole)) if axis not in p.axes]
    spread = any(shape[axis] != whole[axis] for axis in batch)
    order = [p.axes[-1], *p.axes[:-1]]
    source: Operand = Part(operand, operand_part.start)
    read = operand_part.strides
    narrow = temporary
    narrow_strides = strides
    if spread and len(order) > 1:
        assert multiplier is not None
        small = _transformed(p, operand_part.shape)
        narrow = Temporary(
            f"a transform {multiplier.piece}", prod(small) * temporary.itemsize, temporary.itemsize
        )
        narrow_strides = contiguous_strides(small)
    lengths = dict(zip(p.axes, p.lengths, strict=True))
    for k, axis in enumerate(order):
        last = k == len(order) - 1
        goal, written = (temporary, strides) if last else (narrow, narrow_strides)
        half = p.by_halves and k == 0
        forms: tuple[Form, Form] = ("real" if k == 0 and is_real else "complex"), "complex"
        if half:
            forms = "real", "half"
        after = lengths[axis] // 2 + 1 if half else lengths[axis]
        count = shape[axis]
        if last:
            read = tuple(0 if a in batch and shape[a] == 1 else step for a, step in enumerate(read))
            shape = [whole[a] if a in batch else n for a, n in enumerate(shape)]
        multiplied = multiplier if last else None
        steps = [read, written, *([multiplied.strides] if multiplied else [])]
        line = Line(
            lengths[axis], inverse, p.real,
            LineOperand(forms[0], count, read[axis]), LineOperand(forms[1], after, written[axis]),
            _others(shape, axis, steps),
        )  # fmt: skip
        operands: tuple[Operand, ...] = (source, goal)
        if multiplied is not None:
            line = replace(line, times=LineMultiplier(multiplied.strides[axis], p.conjugate))
            operands = (source, goal, multiplied[1])
        yield line, operands
        shape[axis] = after
        source, read = goal, written


def _inverse(
    p: ConvolutionProblem,
    piece: ConvolutionPiece,
    temporary: Temporary,
    strides: Shape,
    whole: Shape,
) -> Iterator[tuple[Line, tuple[Operand, ...]]]:
    """Yield the inverse transforms of ``temporary``, of which the returned region is stored."""
    shape = list(whole)
    for k, (axis, n, first) in enumerate(zip(p.axes, p.lengths, piece.first, strict=True)):
        last = k == len(p.axes) - 1
        goal: Operand = Part(_RESULT, piece.target.start) if last else temporary
        written = piece.target.strides if last else strides
        forms: tuple[Form, Form] = ("complex", "complex")
        if last and p.by_halves:
            forms = "half", "real"
        count = piece.target.shape[axis]
        line = Line(
            n, True, p.real,
            LineOperand(forms[0], shape[axis], strides[axis]),
            LineOperand(forms[1], count, written[axis], first),
            _others(shape, axis, [strides, written]),
        )  # fmt: skip
        yield line, (temporary, goal)
        shape[axis] = count


def _others(shape: list[int], axis: int, strides: list[Shape]) -> tuple[Axis, ...]:
    return tuple(
        merged(
            Axis(shape[a], tuple(own[a] for own in strides)) for a in range(len(shape)) if a != axis
        )
    )
