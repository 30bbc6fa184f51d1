"""Two axes of an array whose columns are too long for a group to have whole runs of them.

Such columns go in two passes, n = n1 n2, with numbers j = j2 + n2 j1 and results k = k1 + n1 k2.
Rows j2 of all j1 are a part of the first one, and so are rows k1 of all k2 of the second one.  So
the rows of a part are transformed in the same launch: before the first half of columns, or after
the second one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from portable_gpu.codegen.axes import Axis
from portable_gpu.ops.fft.passes import Pass, Reach, Rows
from portable_gpu.ops.fft.problem import Line
from portable_gpu.ops.fft.ways import Leg, Place, splits
from portable_gpu.runtime.plan import Temporary

#: Shorter columns are in groups with longer runs of them.  H200, us, in one pass and in two: 4096 x
#: 4096 float32 125 and 112, complex64 190 and 183; but 2048 x 2048 complex64 38 and 56, complex128
#: 84 and 102, 1024 x 1024 float32 12.5 and 16.3.
_LEAST = 2049
#: Rows between two passes begin at multiples of so many numbers.  The same: 117 us without.
_PITCH = 16


@dataclass(frozen=True)
class Plane:
    """Two axes of an array, one transformed after the other.

    Attributes:
        first, second: Along which.
        along: The second line's axis, as lanes of the first one.
        beside: The first line's axis, as lanes of the second one.
        batch, others: The other axes, of the first and of the second line.
    """

    first: Line
    second: Line
    along: Axis
    beside: Axis
    batch: tuple[Axis, ...]
    others: tuple[Axis, ...]

    @classmethod
    def of(cls, first: Line, second: Line) -> Plane | None:
        """That of two lines, if the second one reads all that the first one writes."""
        along = _cut(first, 1, second.source.step, second.source.count)
        beside = _cut(second, 0, first.target.step, first.target.count)
        if along is None or beside is None:
            return None
        written = [(axis.size, axis.strides[1]) for axis in along[1]]
        if written != [(axis.size, axis.strides[0]) for axis in beside[1]]:
            return None
        return cls(first, second, along[0], beside[0], along[1], beside[1])

    def passes(self) -> tuple[Pass, Pass]:
        """Both transforms, of which a part is a plane."""
        return (
            _pass(self.first, self.along, self.batch),
            _pass(self.second, self.beside, self.others),
        )


def columns_in_two(plane: Plane, reach: Reach, names: Iterator[str]) -> tuple[Leg, ...]:
    """Three passes, of which two share a launch; none where columns are short, or not whole."""
    rows_first = plane.first.target.step == 1
    line = plane.second if rows_first else plane.first
    lanes, batch = (plane.beside, plane.others) if rows_first else (plane.along, plane.batch)
    forms = line.source.form, line.target.form
    whole = min(line.source.count, line.target.count) == line.n and not line.target.first
    pairs = splits(line.n, reach)
    if forms != ("complex", "complex") or not whole or line.n < _LEAST or not pairs:
        return ()
    if lanes.strides[1] != 1:
        return ()
    ((n1, n2),) = pairs
    pitch = -(-lanes.size // _PITCH) * _PITCH
    room, steps = _room(line, pitch, batch, next(names))
    sizes = tuple(axis.size for axis in batch)
    half = Pass(
        n1, line.inverse, line.real, lanes.size, (*sizes, n2),
        Rows("complex", n1, n2 * line.source.step, lanes.strides[0],
             (*_strides(batch, 0), line.source.step)),
        Rows("complex", n1, n2 * pitch, 1, (*steps, pitch)),
        whole=line.n, by_batch=True, parts=prod(sizes) * n2,
    )  # fmt: skip
    rest = Pass(
        n2, line.inverse, line.real, lanes.size, (*sizes, n1),
        Rows("complex", n2, pitch, 1, (*steps, n2 * pitch)),
        Rows("complex", n2, n1 * line.target.step, 1, (*_strides(batch, 1), line.target.step)),
        parts=prod(sizes) * n1,
    )  # fmt: skip
    if not rows_first:
        beside = plane.beside
        rows = _pass(plane.second, _every(beside, n1, n2), (*plane.others, _first(beside, n1)))
        return Leg(half, "source", room), Leg(rest, room, "target"), joined(rows, "target")
    along, end = plane.along, plane.first.target
    rows = _pass(plane.first, _every(along, n2, n1), (*plane.batch, _first(along, n2)))
    target = Rows(end.form, end.end, 1, n2 * pitch, (*steps, pitch), first=end.first)
    return (
        Leg(replace(rows, target=target), "source", room),
        joined(replace(half, source=half.target), room),
        Leg(rest, room, "target"),
    )


def joined(run: Pass, place: Place) -> Leg:
    """A leg in place, by the launch of the leg before."""
    return Leg(run, place, place, joined=True)


def _first(axis: Axis, count: int) -> Axis:
    """The first numbers of an axis."""
    return Axis(count, axis.strides)


def _every(axis: Axis, step: int, count: int) -> Axis:
    """Numbers of an axis that lie so far apart."""
    return Axis(count, tuple(step * stride for stride in axis.strides))


def _room(
    line: Line, pitch: int, batch: Sequence[Axis], name: str
) -> tuple[Temporary, tuple[int, ...]]:
    """Room for planes whose rows lie so far apart, and the strides of the planes."""
    steps, size = [], line.n * pitch
    for axis in reversed(batch):
        steps.append(size)
        size *= axis.size
    itemsize = 2 * line.real.itemsize
    return Temporary(name, size * itemsize, itemsize), tuple(reversed(steps))


def _strides(axes: Sequence[Axis], side: int) -> tuple[int, ...]:
    return tuple(axis.strides[side] for axis in axes)


def _pass(line: Line, lanes: Axis, batch: Sequence[Axis]) -> Pass:
    """A line's pass, of which each number of the batch is a part."""
    sizes = tuple(axis.size for axis in batch)
    source, target = (
        Rows(
            end.form, end.end, end.step, lanes.strides[side], _strides(batch, side), first=end.first
        )
        for side, end in enumerate((line.source, line.target))
    )
    return Pass(
        line.n, line.inverse, line.real, lanes.size, sizes, source, target, parts=prod(sizes)
    )


def _cut(line: Line, side: int, step: int, count: int) -> tuple[Axis, tuple[Axis, ...]] | None:
    """The axis of a line's others that has this step and extent, and what is left of them."""
    for k, axis in enumerate(line.others):
        if axis.strides[side] != step or axis.size % count:
            continue
        rest = [*line.others]
        far = _every(axis, count, axis.size // count)
        rest[k : k + 1] = [far] if far.size > 1 else []
        return _first(axis, count), tuple(rest)
    return None
