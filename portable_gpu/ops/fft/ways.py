"""The ways to transform the lines along one axis: which passes over memory, with what between them.

* **one pass**: scratch holds a line.
* **two passes**: n = n1 n2; columns of n1 numbers, times roots of one, then rows of n2 (Cooley and
  Tukey).  With numbers j = j2 + n2 j1 and results k = k1 + n1 k2 the first pass has the lanes j2
  and the rows j1, the second one the lanes k1 and the rows j2.
* **three passes**: n = n1 n2 n3; columns of n1, then each of the lines of n2 n3 by two, of which
  the first is in place.  A real line has n1 / 2 + 1 of n1 rows between them, too.
* **chirp**: lengths with other primes, as a convolution with exp(-pi i j^2 / n) by transforms of a
  length of at least 2 n - 1 that has none (Bluestein).

Real sequences go two by two in the first of these passes, or the last one of the other direction;
between two passes there are then n1 / 2 + 1 of n1 rows, and of the results those behind the middle
are conjugates of some before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import isqrt
from typing import Any, Literal, TypeAlias

import numpy as np

from portable_gpu.codegen.axes import Axis
from portable_gpu.ops.fft.passes import Pass, Reach, Rows, Times
from portable_gpu.ops.fft.problem import End, Line
from portable_gpu.ops.fft.tables import (
    Table,
    bluestein_length,
    chirp,
    chirp_filter,
    divisors,
    is_smooth,
)
from portable_gpu.runtime.plan import Part, Temporary
from portable_gpu.runtime.views import Shape

#: Where a pass reads or writes: the line's source or target, or what lies between two passes.
Place: TypeAlias = Literal["source", "target"] | Temporary | Part

#: The least factor of two passes that may take the place of a convolution in one pass.  H200, us,
#: in one and in two: 573 of 2709 = 43 x 63 complex128 74 and 35, 26 columns of 2360 = 40 x 59 16.0
#: and 8.0, 4096 of 3233 = 53 x 61 complex64 212 and 175; but 2000 of 745 = 5 x 149 20 and 44, 10000
#: of 371 = 7 x 53 45 and 44.
_LEAST_FACTOR = 32


@dataclass(frozen=True)
class Leg:
    """A pass of a way.

    Attributes:
        run: The pass.
        source, target: Where it reads and writes.
        source_factors, target_factors: Make the tables that its sides are multiplied by.
        joined: Whether the launch of the leg before makes it too.
    """

    run: Pass
    source: Place
    target: Place
    source_factors: Callable[[], Table] | None = None
    target_factors: Callable[[], Table] | None = None
    joined: bool = False


@dataclass(frozen=True)
class Way:
    """Legs, one after the other, that transform a line.

    Attributes:
        name: What tells it apart.
        legs: The passes.
    """

    name: str
    legs: tuple[Leg, ...]

    @property
    def path(self) -> str:
        """Its name, and whether passes are joined."""
        joined = any(leg.joined for leg in self.legs)
        return f"{self.name} at once" if joined else self.name

    @property
    def launches(self) -> list[tuple[Leg, ...]]:
        """The legs of each launch."""
        found: list[tuple[Leg, ...]] = []
        for leg in self.legs:
            if leg.joined:
                found[-1] += (leg,)
            else:
                found.append((leg,))
        return found


def ways(line: Line, reach: Reach, names: Iterator[str]) -> list[Way]:
    """Every way that the line may go.

    Args:
        line: What is transformed.
        reach: Of a pass.
        names: Of temporaries.
    """
    found = []
    whole = reach.takes(line.n)
    if whole:
        found.append(Way("one pass", (_one(line),)))
    few = line.n >= reach.cut and line.lines < 2 * reach.lanes
    pairs = splits(line.n, reach)
    if whole and not few:
        pairs = [pair for pair in pairs if _may_be_faster(line.n, pair, reach)]
    found += [Way("two passes", _two(line, *pair, next(names))) for pair in pairs]
    if not whole and not (pairs and max(pairs[0]) <= reach.broad):
        found += [
            Way("three passes", _three(line, *factors, names, reach.by_batch))
            for factors in _three_factors(line.n, reach)
        ]
    return found or _by_chirp(line, reach, names)


def _may_be_faster(n: int, pair: tuple[int, int], reach: Reach) -> bool:
    """Whether two passes of many lines may be faster than a convolution in one."""
    if reach.has_butterflies(n):
        return False
    return all(map(reach.has_butterflies, pair)) or min(pair) >= _LEAST_FACTOR


def _one(line: Line) -> Leg:
    lanes, batch = _lanes(line)
    run = Pass(
        line.n, line.inverse, line.real, lanes.size, tuple(axis.size for axis in batch),
        _rows(line.source, lanes, batch, 0), _rows(line.target, lanes, batch, 1),
    )  # fmt: skip
    if line.times is not None:
        batch_strides = tuple(axis.strides[2] for axis in batch)
        times = Times(line.times.step, lanes.strides[2], batch_strides, line.times.conjugate)
        run = replace(run, target=replace(run.target, times=times))
    return Leg(run, "source", "target")


def _rows(end: End, lanes: Axis, batch: tuple[Axis, ...], side: int) -> Rows:
    return Rows(
        end.form, end.end, end.step, lanes.strides[side],
        tuple(axis.strides[side] for axis in batch), first=end.first,
    )  # fmt: skip


def _lanes(line: Line) -> tuple[Axis, tuple[Axis, ...]]:
    """The axis of the lanes, and the others: lanes that lie side by side if there are enough."""
    if not line.others:
        return Axis(1, (0, 0, 0)), ()

    def worth(axis: Axis) -> tuple[float, ...]:
        beside = sum(abs(stride) == 1 for stride in axis.strides)
        return min(axis.size, 8) * (1 + beside), -abs(axis.strides[0])

    lanes = max(line.others, key=worth)
    return lanes, tuple(axis for axis in line.others if axis is not lanes)


def splits(n: int, reach: Reach) -> list[tuple[int, int]]:
    """Factors of n, both in reach: the most equal ones, and of those multiples of lanes.

    Where n is smooth and beyond reach and has none so small, the most equal ones are as small as
    any.
    """
    root, most = isqrt(n), reach.most
    pairs = [(d, n // d) for d in divisors(n) if reach.takes(d) and reach.takes(n // d)]
    if not pairs and n > most and is_smooth(n):
        near = next(d for d in range(root, 0, -1) if n % d == 0)
        return [(near, n // near)]

    def worth(pair: tuple[int, int]) -> tuple[int, int]:
        whole = sum(one % reach.lanes == 0 for one in pair)
        even = max(pair) <= 8 * max(min(pair), 1)
        return (-(whole if even else -1), abs(pair[0] - root))

    return sorted(pairs, key=worth)[:1]


def _three_factors(n: int, reach: Reach) -> list[tuple[int, int, int]]:
    """Factors of n, each in reach: those of which the largest is the least."""
    first = [d for d in divisors(n) if d <= n // 4 and reach.takes(d)]
    found = [(d, *pair) for d in first for pair in splits(n // d, reach)]
    return sorted(found, key=lambda factors: (max(factors), sum(factors)))[:1]


def _others(line: Line) -> tuple[Shape, Shape, Shape]:
    """Sizes of the other axes, and their strides in the source and in the target."""
    return (
        tuple(axis.size for axis in line.others),
        tuple(axis.strides[0] for axis in line.others),
        tuple(axis.strides[1] for axis in line.others),
    )


def _between(name: str, line: Line, rows: int, lanes: int) -> tuple[Temporary, tuple[int, ...]]:
    """Room for rows x lanes complex numbers of each line, and the strides of the lines."""
    strides, size = [], rows * lanes
    for axis in reversed(line.others):
        strides.append(size)
        size *= axis.size
    itemsize = 2 * line.real.itemsize
    return Temporary(name, size * itemsize, itemsize), tuple(reversed(strides))


def _two(line: Line, n1: int, n2: int, name: str) -> tuple[Leg, ...]:
    """Two passes."""
    paired = line.source.form, line.target.form
    if paired == ("half", "real"):
        if line.source.count == line.n // 2 + 1:
            return _two_to_real(line, n1, n2, name)
        return _two_of_some(line, n1, n2, name)
    batch, sources, targets = _others(line)
    half = paired == ("real", "half")
    rows = n1 // 2 + 1 if half else n1
    place, between = _between(name, line, rows, n2)
    source, target = line.source, line.target
    first = Pass(
        n1, line.inverse, line.real, n2, batch,
        Rows(source.form, -(-min(source.count, line.n) // n2), n2 * source.step, source.step,
             sources, min(source.count, line.n), n2),
        Rows("half" if half else "complex", rows, n2, 1, between),
        whole=line.n,
    )  # fmt: skip
    second = Pass(
        n2, line.inverse, line.real, rows, batch,
        Rows("complex", n2, 1, n2, between),
        Rows("folded" if half else target.form, n2 if half else -(-target.end // n1),
             n1 * target.step, target.step, targets, line.n if half else target.end, n1,
             first=target.first, times=_times_of_rows(line, n1)),
    )  # fmt: skip
    return Leg(first, "source", place), Leg(second, place, "target")


def _times_of_rows(line: Line, n1: int) -> Times | None:
    """What the second of two passes multiplies by: lanes are neighbouring results."""
    if line.times is None:
        return None
    step, batch = line.times.step, tuple(axis.strides[2] for axis in line.others)
    return Times(n1 * step, step, batch, line.times.conjugate)


def _three(
    line: Line, n1: int, n2: int, n3: int, names: Iterator[str], by_batch: bool
) -> tuple[Leg, ...]:
    """Three passes; ``by_batch`` as of :class:`Reach`."""
    if line.source.form == "half":
        count = line.source.count
        if by_batch and count == line.n // 2 + 1:
            return _three_to_real(line, n1, n2, n3, next(names))
        return _weighted(line, count, _three(_as_complex(line), n1, n2, n3, names, by_batch))
    batch, sources, targets = _others(line)
    half, m = line.target.form == "half", n2 * n3
    rows = n1 // 2 + 1 if half else n1
    place, between = _between(next(names), line, rows, m)
    source, target = line.source, line.target
    count = min(source.count, line.n)
    first = Pass(
        n1, line.inverse, line.real, m, batch,
        Rows(source.form, -(-count // m), m * source.step, source.step, sources, count, m),
        Rows("half" if half else "complex", rows, m, 1, between),
        whole=line.n,
    )  # fmt: skip
    middle = Rows("complex", n2, n3, 1, (*between, m))
    second = Pass(n2, line.inverse, line.real, n3, (*batch, rows), middle, middle, whole=m)
    results = Rows(
        target.form, n3, n1 * n2 * target.step, target.step, (*targets, n1 * target.step),
        times=_times_of_three(line, n1, n2),
    )  # fmt: skip
    numbered = replace(results, limit=line.n, limit_row=n1 * n2, limit_batch=n1)
    if half:
        results = replace(numbered, form="folded")
    elif target.count < line.n or target.first:
        there = -(-target.end // (n1 * n2))
        results = replace(numbered, rows=there, limit=target.end, first=target.first)
    third = Pass(
        n3, line.inverse, line.real, rows, (*batch, n2),
        Rows("complex", n3, 1, m, (*between, n3)), results,
    )  # fmt: skip
    return Leg(first, "source", place), Leg(second, place, place), Leg(third, place, "target")


def _three_to_real(line: Line, n1: int, n2: int, n3: int, name: str) -> tuple[Leg, ...]:
    """Three passes from the half of a transform to a real sequence: of k3 first, then k2 and k1.

    With numbers k = k1 + n1 k2 + n1 n2 k3 and results j = j3 + n3 j2 + n2 n3 j1.
    """
    batch, sources, _ = _others(line)
    rows, m = n1 // 2 + 1, n2 * n3
    place, between = _between(name, line, rows, m)
    source = line.source
    first = Pass(
        n3, line.inverse, line.real, rows, (*batch, n2),
        Rows("folded", n3, n1 * n2 * source.step, source.step, (*sources, n1 * source.step),
             line.n, n1 * n2, n1),
        Rows("complex", n3, 1, m, (*between, n3)),
        whole=line.n,
    )  # fmt: skip
    middle = Rows("complex", n2, n3, 1, (*between, m))
    second = Pass(
        n2, line.inverse, line.real, n3, (*batch, rows), middle, middle,
        whole=n1 * n2, by_batch=True,
    )  # fmt: skip
    third = _columns_to_real(line, n1, m, between)
    return Leg(first, "source", place), Leg(second, place, place), Leg(third, place, "target")


def _times_of_three(line: Line, n1: int, n2: int) -> Times | None:
    if line.times is None:
        return None
    step, batch = line.times.step, tuple(axis.strides[2] for axis in line.others)
    return Times(n1 * n2 * step, step, (*batch, n1 * step), line.times.conjugate)


def _two_to_real(line: Line, n1: int, n2: int, name: str) -> tuple[Leg, ...]:
    """Two passes from the half of a transform to a real sequence: of k2 first, then of k1."""
    batch, sources, _ = _others(line)
    rows = n1 // 2 + 1
    place, between = _between(name, line, rows, n2)
    source = line.source
    first = Pass(
        n2, line.inverse, line.real, rows, batch,
        Rows("folded", n2, n1 * source.step, source.step, sources, line.n, n1),
        Rows("complex", n2, 1, n2, between),
        whole=line.n,
    )  # fmt: skip
    second = _columns_to_real(line, n1, n2, between)
    return Leg(first, "source", place), Leg(second, place, "target")


def _columns_to_real(line: Line, n1: int, m: int, between: tuple[int, ...]) -> Pass:
    """The last pass to a real sequence: m columns, of whose n1 rows half lie between."""
    batch, _, targets = _others(line)
    target = line.target
    return Pass(
        n1, line.inverse, line.real, m, batch,
        Rows("half", n1 // 2 + 1, m, 1, between),
        Rows("real", -(-target.end // m), m * target.step, target.step, targets,
             target.end, m, first=target.first),
    )  # fmt: skip


def _two_of_some(line: Line, n1: int, n2: int, name: str) -> tuple[Leg, ...]:
    """The same where the half ends early: the real part of its transform, doubled."""
    return _weighted(line, line.source.count, _two(_as_complex(line), n1, n2, name))


def _as_complex(line: Line) -> Line:
    """The half of a transform as complex numbers, of whose transform the real part is wanted."""
    source = replace(line.source, form="complex")
    return replace(line, source=source, target=replace(line.target, form="real"))


def _weighted(line: Line, count: int, legs: tuple[Leg, ...]) -> tuple[Leg, ...]:
    """Legs whose source is half a transform."""
    run = replace(legs[0].run, source=replace(legs[0].run.source, factor="lanes"))
    first = replace(legs[0], run=run, source_factors=lambda: _weights(line.n, count))
    return first, *legs[1:]


def _weights(n: int, count: int) -> Table:
    """How often each number of half a transform is in the whole, as it is or conjugated."""
    k = np.arange(count)
    found: Table = np.where((k == 0) | (2 * k == n), 1.0 + 0j, 2.0 + 0j)
    return found


def _by_chirp(line: Line, reach: Reach, names: Iterator[str]) -> list[Way]:
    """A convolution: the line times a chirp, its transform times the chirp's, and back."""
    n, m = line.n, bluestein_length(line.n)
    lines = replace(line, n=m)
    count = min(line.source.count, n)
    source = replace(line.source, form="real" if line.source.form == "real" else "complex")
    source = replace(source, count=count)
    target = replace(line.target, form="real" if line.target.form == "real" else "complex")
    lanes, others = _lanes(line)
    # What lies between has the lines' order: side by side if lanes do so.
    across = lanes.strides[0] == 1 and lanes.size >= reach.lanes
    room = Temporary(next(names), m * line.lines * 2 * line.real.itemsize, 2 * line.real.itemsize)
    step, strides = (lanes.size, [1]) if across else (1, [m])
    size = m * lanes.size
    for axis in others:
        strides.append(size)
        size *= axis.size
    order = (lanes, *others) if line.others else ()
    middle = End("complex", m, step)
    into = replace(
        lines, inverse=False, source=source, target=middle,
        others=tuple(Axis(a.size, (a.strides[0], s)) for a, s in zip(order, strides, strict=False)),
    )  # fmt: skip
    back = replace(
        lines, inverse=True, source=middle, target=target,
        others=tuple(Axis(a.size, (s, a.strides[1])) for a, s in zip(order, strides, strict=False)),
    )  # fmt: skip
    weights = line.source.form == "half"

    def before() -> Table:
        found = chirp(n, line.inverse, count)
        return found * _weights(n, count) if weights else found

    found = []
    for one, two in zip(ways(into, reach, names), ways(back, reach, names), strict=True):
        beside = [partial(chirp_filter, n, line.inverse, m), None]
        if len(one.legs) > 2:  # whose last pass has no number for each lane of all lines
            beside.reverse()
        legs = [
            *_multiplied(one.legs, before, beside[0], "target", room),
            *_multiplied(
                two.legs, beside[1], lambda: chirp(n, line.inverse, target.count), "source", room
            ),
        ]
        found.append(Way("chirp", tuple(legs)))
    return found


def _multiplied(
    legs: tuple[Leg, ...],
    before: Callable[[], Table] | None,
    after: Callable[[], Table] | None,
    end: str,
    room: Temporary,
) -> list[Leg]:
    """Legs with factors at their ends, and room for what lies at one of them."""
    kind: Any = "rows" if len(legs) == 1 else "lanes"
    found = list(legs)
    if before is not None:
        run = found[0].run
        run = replace(run, source=replace(run.source, factor=kind))
        found[0] = replace(found[0], run=run, source_factors=before)
    if after is not None:
        run = found[-1].run
        run = replace(run, target=replace(run.target, factor=kind))
        found[-1] = replace(found[-1], run=run, target_factors=after)
    if end == "target":
        found[-1] = replace(found[-1], target=room)
    else:
        found[0] = replace(found[0], source=room)
    return found
