"""Two axes of an array whose columns are too long for a group to hold enough adjacent ones.

Such columns are transformed in two passes, n = n1 n2, with input indices j = j2 + n2 j1 and output
indices k = k1 + n1 k2.  The rows j2 + n2 j1 of one j2 are a part of the first pass, and the rows
k1 + n1 k2 of one k1 are a part of the second.  So the rows of a part can be transformed in the same
launch: before the first pass over the columns, or after the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from portable_gpu.codegen.axes import Axis
from portable_gpu.ops.fft.decompositions import PassStep, Place, two_factors
from portable_gpu.ops.fft.passes import Pass, PassLimits, PassOperand
from portable_gpu.ops.fft.problem import Line
from portable_gpu.runtime.plan import Temporary

#: The shortest columns that are split: groups hold enough adjacent columns of shorter ones.
#: Measured: docs/experiments/fft.md, "Constants".
_MIN_LENGTH = 2049
#: Rows of the temporary start at multiples of this number of elements.
_PITCH = 16


@dataclass(frozen=True)
class Plane:
    """Two axes of an array, one transformed after the other.

    Attributes:
        first, second: The transforms along the two axes, in this order.
        second_axis: The axis of the second transform, as lanes of the first.
        first_axis: The axis of the first transform, as lanes of the second.
        batch, others: The other axes, of the first and of the second transform.
    """

    first: Line
    second: Line
    second_axis: Axis
    first_axis: Axis
    batch: tuple[Axis, ...]
    others: tuple[Axis, ...]

    @classmethod
    def of(cls, first: Line, second: Line) -> Plane | None:
        """Return the plane of two transforms, if the second reads all that the first writes."""
        second_axis = _cut(first, 1, second.source.step, second.source.count)
        first_axis = _cut(second, 0, first.target.step, first.target.count)
        if second_axis is None or first_axis is None:
            return None
        written = [(axis.size, axis.strides[1]) for axis in second_axis[1]]
        if written != [(axis.size, axis.strides[0]) for axis in first_axis[1]]:
            return None
        return cls(first, second, second_axis[0], first_axis[0], second_axis[1], first_axis[1])

    def passes(self) -> tuple[Pass, Pass]:
        """Return both passes; each part of these is a plane."""
        return (
            _pass(self.first, self.second_axis, self.batch),
            _pass(self.second, self.first_axis, self.others),
        )


def split_columns(plane: Plane, limits: PassLimits, names: Iterator[str]) -> tuple[PassStep, ...]:
    """Return three passes, of which two share a launch; none for short or incomplete columns."""
    rows_first = plane.first.target.step == 1
    line = plane.second if rows_first else plane.first
    lanes, batch = (
        (plane.first_axis, plane.others) if rows_first else (plane.second_axis, plane.batch)
    )
    forms = line.source.form, line.target.form
    whole = min(line.source.count, line.target.count) == line.n and not line.target.first
    pairs = two_factors(line.n, limits)
    if forms != ("complex", "complex") or not whole or line.n < _MIN_LENGTH or not pairs:
        return ()
    if lanes.strides[1] != 1:
        return ()
    ((n1, n2),) = pairs
    pitch = -(-lanes.size // _PITCH) * _PITCH
    temporary, steps = _temporary(line, pitch, batch, next(names))
    sizes = tuple(axis.size for axis in batch)
    half = Pass(
        n1, line.inverse, line.real, lanes.size, (*sizes, n2),
        PassOperand("complex", n1, n2 * line.source.step, lanes.strides[0],
             (*_strides(batch, 0), line.source.step)),
        PassOperand("complex", n1, n2 * pitch, 1, (*steps, pitch)),
        twiddle_length=line.n, by_batch=True, parts=prod(sizes) * n2,
    )  # fmt: skip
    rest = Pass(
        n2, line.inverse, line.real, lanes.size, (*sizes, n1),
        PassOperand("complex", n2, pitch, 1, (*steps, n2 * pitch)),
        PassOperand("complex", n2, n1 * line.target.step, 1,
                    (*_strides(batch, 1), line.target.step)),
        parts=prod(sizes) * n1,
    )  # fmt: skip
    if not rows_first:
        first_axis = plane.first_axis
        rows = _pass(
            plane.second, _every(first_axis, n1, n2), (*plane.others, _first(first_axis, n1))
        )
        return (
            PassStep(half, "source", temporary),
            PassStep(rest, temporary, "target"),
            joined(rows, "target"),
        )
    second_axis, end = plane.second_axis, plane.first.target
    rows = _pass(plane.first, _every(second_axis, n2, n1), (*plane.batch, _first(second_axis, n2)))
    target = PassOperand(end.form, end.end, 1, n2 * pitch, (*steps, pitch), first=end.first)
    return (
        PassStep(replace(rows, target=target), "source", temporary),
        joined(replace(half, source=half.target), temporary),
        PassStep(rest, temporary, "target"),
    )


def joined(pass_: Pass, place: Place) -> PassStep:
    """Return a step in place, by the launch of the step before."""
    return PassStep(pass_, place, place, joined=True)


def _first(axis: Axis, count: int) -> Axis:
    """Return the first ``count`` indices of an axis."""
    return Axis(count, axis.strides)


def _every(axis: Axis, step: int, count: int) -> Axis:
    """Return every ``step``-th index of an axis, ``count`` in all."""
    return Axis(count, tuple(step * stride for stride in axis.strides))


def _temporary(
    line: Line, pitch: int, batch: Sequence[Axis], name: str
) -> tuple[Temporary, tuple[int, ...]]:
    """Return a temporary for planes whose rows are ``pitch`` apart, and the planes' strides."""
    steps, size = [], line.n * pitch
    for axis in reversed(batch):
        steps.append(size)
        size *= axis.size
    itemsize = 2 * line.real.itemsize
    return Temporary(name, size * itemsize, itemsize), tuple(reversed(steps))


def _strides(axes: Sequence[Axis], side: int) -> tuple[int, ...]:
    return tuple(axis.strides[side] for axis in axes)


def _pass(line: Line, lanes: Axis, batch: Sequence[Axis]) -> Pass:
    """Return the pass of a line; each index of the batch axes is a part."""
    sizes = tuple(axis.size for axis in batch)
    source, target = (
        PassOperand(
            end.form, end.end, end.step, lanes.strides[side], _strides(batch, side), first=end.first
        )
        for side, end in enumerate((line.source, line.target))
    )
    return Pass(
        line.n, line.inverse, line.real, lanes.size, sizes, source, target, parts=prod(sizes)
    )


def _cut(line: Line, side: int, step: int, count: int) -> tuple[Axis, tuple[Axis, ...]] | None:
    """Find the axis of a line's others with this step and extent; return it and the others."""
    for k, axis in enumerate(line.others):
        if axis.strides[side] != step or axis.size % count:
            continue
        rest = [*line.others]
        far = _every(axis, count, axis.size // count)
        rest[k : k + 1] = [far] if far.size > 1 else []
        return _first(axis, count), tuple(rest)
    return None
