"""Decompositions of the transforms along one axis into passes over memory.

* **one pass**: a work-item's scratch memory, or a work-group, holds a line.
* **two passes**: n = n1 n2: transforms of n1 numbers along columns, twiddle factors, and transforms
  of n2 numbers along rows (Cooley and Tukey).  With input indices j = j2 + n2 j1 and output indices
  k = k1 + n1 k2, lane j2 of the first pass has the rows j1, and lane k1 of the second has the rows
  j2.
* **three passes**: n = n1 n2 n3: columns of n1, then two passes for each line of n2 n3, of which
  the first is in place.
* **chirp**: lengths with other primes are a convolution with exp(-pi i j^2 / n), by transforms of
  a length of at least 2 n - 1 without such primes (Bluestein).

The first pass of real sequences (for the inverse, the last pass) computes two transforms of real
numbers as one complex transform.  Between passes, n1 / 2 + 1 of the n1 rows are then stored; the
other results are conjugates of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isqrt
from typing import Any, Literal, TypeAlias

import numpy as np

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.ops.fft.passes import Pass, PassLimits, PassMultiplier, PassOperand
from portable_gpu.ops.fft.problem import Line, LineOperand
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

#: The array that a pass reads or writes: the line's source or target, or one between two passes.
Place: TypeAlias = Literal["source", "target"] | Temporary | Part

#: The smaller factor that two passes need to be considered in place of a convolution in one pass.
#: Measured: docs/experiments/fft.md, "Constants".
_MIN_FACTOR = 32


@dataclass(frozen=True)
class PassStep:
    """A pass of a decomposition.

    Attributes:
        pass_: The pass.
        source, target: The arrays that it reads and writes.
        source_factors, target_factors: Make the tables by which source and target are multiplied.
        joined: Whether the launch of the pass before computes it too.
    """

    pass_: Pass
    source: Place
    target: Place
    source_factors: Callable[[], Table] | None = None
    target_factors: Callable[[], Table] | None = None
    joined: bool = False


@dataclass(frozen=True)
class Decomposition:
    """Passes that in turn transform the lines along one axis.

    Attributes:
        name: Its name.
        pass_steps: The passes.
    """

    name: str
    pass_steps: tuple[PassStep, ...]

    @property
    def path(self) -> str:
        """Its name, and whether passes share a launch."""
        joined = any(pass_step.joined for pass_step in self.pass_steps)
        return f"{self.name} at once" if joined else self.name

    @property
    def launches(self) -> list[tuple[PassStep, ...]]:
        """The passes of each launch."""
        result: list[tuple[PassStep, ...]] = []
        for step in self.pass_steps:
            if step.joined:
                result[-1] += (step,)
            else:
                result.append((step,))
        return result


def passes_of(steps: Sequence[PassStep]) -> list[Pass]:
    """The passes of steps of a decomposition."""
    return [step.pass_ for step in steps]


def decompositions(line: Line, limits: PassLimits, names: Iterator[str]) -> list[Decomposition]:
    """List the decompositions of the transforms of a line.

    Args:
        line: The transforms.
        limits: The limits of one pass.
        names: Names for temporaries.
    """
    result = []
    whole = limits.allows(line.n)
    if whole:
        result.append(Decomposition("one pass", (_one_pass(line),)))
        if line.apart and line.paired:
            result.append(Decomposition("one pass without pairs", (_without_pairs(line),)))
    few = line.n >= limits.min_split_length and line.lines < 2 * limits.lanes
    pairs = two_factors(line.n, limits)
    if whole and not few:
        pairs = [pair for pair in pairs if _may_be_faster(line.n, pair, limits)]
    result += [Decomposition("two passes", _two_passes(line, *pair, next(names))) for pair in pairs]
    if not whole and not (pairs and max(pairs[0]) <= limits.max_batched_length):
        result += [
            Decomposition(
                "three passes", _three_passes(line, *factors, names, limits.twiddles_by_batch)
            )
            for factors in _three_factors(line.n, limits)
        ]
    return result or _by_chirp(line, limits, names)


def _may_be_faster(n: int, pair: tuple[int, int], limits: PassLimits) -> bool:
    """Whether two passes of many lines may be faster than a convolution in one pass."""
    if limits.has_butterflies(n):
        return False
    return all(map(limits.has_butterflies, pair)) or min(pair) >= _MIN_FACTOR


def _one_pass(line: Line) -> PassStep:
    lanes, batch = _lanes(line)
    pass_ = Pass(
        line.n, line.inverse, line.real, lanes.size, tuple(axis.size for axis in batch),
        _rows(line.source, lanes, batch, 0), _rows(line.target, lanes, batch, 1),
    )  # fmt: skip
    if line.times is not None:
        batch_strides = tuple(axis.strides[2] for axis in batch)
        times = PassMultiplier(
            line.times.step, lanes.strides[2], batch_strides, line.times.conjugate
        )
        pass_ = replace(pass_, target=replace(pass_.target, times=times))
    return PassStep(pass_, "source", "target")


def _without_pairs(line: Line) -> PassStep:
    """Return one pass whose lanes have one real line each, as a complex line."""
    step = _one_pass(replace(_as_complex(line), others=tuple(merged(line.others)), apart=0))
    if line.source.form == "half":
        (step,) = _weighted(line, line.source.count, (step,))
    return step


def _rows(end: LineOperand, lanes: Axis, batch: tuple[Axis, ...], side: int) -> PassOperand:
    return PassOperand(
        end.form, end.end, end.step, lanes.strides[side],
        tuple(axis.strides[side] for axis in batch), first=end.first,
    )  # fmt: skip


def _lanes(line: Line) -> tuple[Axis, tuple[Axis, ...]]:
    """Return the axis of lanes and the other axes; adjacent lanes are preferred.

    Neighbouring lanes may be a pair of real lines, so axes that keep these apart are not lanes.
    """
    possible = line.others[line.apart :] if line.paired else line.others
    if not possible:
        return Axis(1, (0, 0, 0)), line.others

    def worth(axis: Axis) -> tuple[float, ...]:
        contiguous = sum(abs(stride) == 1 for stride in axis.strides)
        return min(axis.size, 8) * (1 + contiguous), -abs(axis.strides[0])

    lanes = max(possible, key=worth)
    return lanes, tuple(axis for axis in line.others if axis is not lanes)


def two_factors(n: int, limits: PassLimits) -> list[tuple[int, int]]:
    """Return the factors of n for two passes, in a list of at most one pair.

    Both are within the limits; multiples of the number of lanes are preferred, then the most equal
    ones.  If n is smooth and has no such factors, the most equal ones are the smallest.
    """
    root, max_length = isqrt(n), limits.max_length
    pairs = [(d, n // d) for d in divisors(n) if limits.allows(d) and limits.allows(n // d)]
    if not pairs and n > max_length and is_smooth(n):
        near = next(d for d in range(root, 0, -1) if n % d == 0)
        return [(near, n // near)]

    def worth(pair: tuple[int, int]) -> tuple[int, int]:
        whole = sum(factor % limits.lanes == 0 for factor in pair)
        even = max(pair) <= 8 * max(min(pair), 1)
        return (-(whole if even else -1), abs(pair[0] - root))

    return sorted(pairs, key=worth)[:1]


def _three_factors(n: int, limits: PassLimits) -> list[tuple[int, int, int]]:
    """Return three factors of n within the limits, in a list: those with the smallest maximum."""
    first = [d for d in divisors(n) if d <= n // 4 and limits.allows(d)]
    result = [(d, *pair) for d in first for pair in two_factors(n // d, limits)]
    return sorted(result, key=lambda factors: (max(factors), sum(factors)))[:1]


def _others(line: Line) -> tuple[Shape, Shape, Shape]:
    """Return the extents of the other axes, and their strides in the source and the target."""
    return (
        tuple(axis.size for axis in line.others),
        tuple(axis.strides[0] for axis in line.others),
        tuple(axis.strides[1] for axis in line.others),
    )


def _between(name: str, line: Line, rows: int, lanes: int) -> tuple[Temporary, tuple[int, ...]]:
    """Return a temporary of rows x lanes complex numbers per line, and the strides of lines."""
    strides, size = [], rows * lanes
    for axis in reversed(line.others):
        strides.append(size)
        size *= axis.size
    itemsize = 2 * line.real.itemsize
    return Temporary(name, size * itemsize, itemsize), tuple(reversed(strides))


def _two_passes(line: Line, n1: int, n2: int, name: str) -> tuple[PassStep, ...]:
    """Return the two passes of n = n1 n2."""
    paired = line.source.form, line.target.form
    if paired == ("half", "real"):
        if line.source.count == line.n // 2 + 1:
            return _two_to_real(line, n1, n2, name)
        return _two_from_partial_half(line, n1, n2, name)
    batch, sources, targets = _others(line)
    half = paired == ("real", "half")
    rows = n1 // 2 + 1 if half else n1
    place, between = _between(name, line, rows, n2)
    source, target = line.source, line.target
    first = Pass(
        n1, line.inverse, line.real, n2, batch,
        PassOperand(source.form, -(-min(source.count, line.n) // n2), n2 * source.step, source.step,
             sources, min(source.count, line.n), n2),
        PassOperand("half" if half else "complex", rows, n2, 1, between),
        twiddle_length=line.n,
    )  # fmt: skip
    second = Pass(
        n2, line.inverse, line.real, rows, batch,
        PassOperand("complex", n2, 1, n2, between),
        PassOperand("folded" if half else target.form, n2 if half else -(-target.end // n1),
             n1 * target.step, target.step, targets, line.n if half else target.end, n1,
             first=target.first, times=_times_of_rows(line, n1)),
    )  # fmt: skip
    return PassStep(first, "source", place), PassStep(second, place, "target")


def _times_of_rows(line: Line, n1: int) -> PassMultiplier | None:
    """Return the multiplier of the second of two passes, whose lanes are adjacent results."""
    if line.times is None:
        return None
    step, batch = line.times.step, tuple(axis.strides[2] for axis in line.others)
    return PassMultiplier(n1 * step, step, batch, line.times.conjugate)


def _three_passes(
    line: Line, n1: int, n2: int, n3: int, names: Iterator[str], by_batch: bool
) -> tuple[PassStep, ...]:
    """Return the three passes of n = n1 n2 n3; ``by_batch``: see :class:`PassLimits`."""
    if line.source.form == "half":
        count = line.source.count
        if by_batch and count == line.n // 2 + 1:
            return _three_to_real(line, n1, n2, n3, next(names))
        return _weighted(line, count, _three_passes(_as_complex(line), n1, n2, n3, names, by_batch))
    batch, sources, targets = _others(line)
    half, m = line.target.form == "half", n2 * n3
    rows = n1 // 2 + 1 if half else n1
    place, between = _between(next(names), line, rows, m)
    source, target = line.source, line.target
    count = min(source.count, line.n)
    first = Pass(
        n1, line.inverse, line.real, m, batch,
        PassOperand(source.form, -(-count // m), m * source.step, source.step, sources, count, m),
        PassOperand("half" if half else "complex", rows, m, 1, between),
        twiddle_length=line.n,
    )  # fmt: skip
    middle = PassOperand("complex", n2, n3, 1, (*between, m))
    second = Pass(n2, line.inverse, line.real, n3, (*batch, rows), middle, middle, twiddle_length=m)
    results = PassOperand(
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
        PassOperand("complex", n3, 1, m, (*between, n3)), results,
    )  # fmt: skip
    return (
        PassStep(first, "source", place),
        PassStep(second, place, place),
        PassStep(third, place, "target"),
    )


def _three_to_real(line: Line, n1: int, n2: int, n3: int, name: str) -> tuple[PassStep, ...]:
    """Return three passes from half of a spectrum to a real sequence: over k3, then k2, then k1.

    Input indices are k = k1 + n1 k2 + n1 n2 k3, and output indices j = j3 + n3 j2 + n2 n3 j1.
    """
    batch, sources, _ = _others(line)
    rows, m = n1 // 2 + 1, n2 * n3
    place, between = _between(name, line, rows, m)
    source = line.source
    first = Pass(
        n3, line.inverse, line.real, rows, (*batch, n2),
        PassOperand(
            form="folded", rows=n3, row=n1 * n2 * source.step, lane=source.step,
            batch=(*sources, n1 * source.step), limit=line.n, limit_row=n1 * n2, limit_batch=n1,
        ),
        PassOperand("complex", n3, 1, m, (*between, n3)),
        twiddle_length=line.n,
    )  # fmt: skip
    middle = PassOperand("complex", n2, n3, 1, (*between, m))
    second = Pass(
        n2, line.inverse, line.real, n3, (*batch, rows), middle, middle,
        twiddle_length=n1 * n2, by_batch=True,
    )  # fmt: skip
    third = _columns_to_real(line, n1, m, between)
    return (
        PassStep(first, "source", place),
        PassStep(second, place, place),
        PassStep(third, place, "target"),
    )


def _times_of_three(line: Line, n1: int, n2: int) -> PassMultiplier | None:
    if line.times is None:
        return None
    step, batch = line.times.step, tuple(axis.strides[2] for axis in line.others)
    return PassMultiplier(n1 * n2 * step, step, (*batch, n1 * step), line.times.conjugate)


def _two_to_real(line: Line, n1: int, n2: int, name: str) -> tuple[PassStep, ...]:
    """Return two passes from half of a spectrum to a real sequence: over k2, then over k1."""
    batch, sources, _ = _others(line)
    rows = n1 // 2 + 1
    place, between = _between(name, line, rows, n2)
    source = line.source
    first = Pass(
        n2, line.inverse, line.real, rows, batch,
        PassOperand("folded", n2, n1 * source.step, source.step, sources, line.n, n1),
        PassOperand("complex", n2, 1, n2, between),
        twiddle_length=line.n,
    )  # fmt: skip
    second = _columns_to_real(line, n1, n2, between)
    return PassStep(first, "source", place), PassStep(second, place, "target")


def _columns_to_real(line: Line, n1: int, m: int, between: tuple[int, ...]) -> Pass:
    """Return the last pass to a real sequence: m columns of n1 rows, of which half are stored."""
    batch, _, targets = _others(line)
    target = line.target
    return Pass(
        n1, line.inverse, line.real, m, batch,
        PassOperand("half", n1 // 2 + 1, m, 1, between),
        PassOperand("real", -(-target.end // m), m * target.step, target.step, targets,
             target.end, m, first=target.first),
    )  # fmt: skip


def _two_from_partial_half(line: Line, n1: int, n2: int, name: str) -> tuple[PassStep, ...]:
    """Return two passes from less than half of a spectrum: twice the real part of its transform."""
    return _weighted(line, line.source.count, _two_passes(_as_complex(line), n1, n2, name))


def _as_complex(line: Line) -> Line:
    """Return the line with half spectra as complex numbers."""
    source, target = (
        replace(end, form="complex") if end.form == "half" else end
        for end in (line.source, line.target)
    )
    return replace(line, source=source, target=target)


def _weighted(line: Line, count: int, pass_steps: tuple[PassStep, ...]) -> tuple[PassStep, ...]:
    """Return passes whose source is multiplied by the weights of half a spectrum."""
    table: Any = "rows" if len(pass_steps) == 1 else "lanes"
    pass_ = replace(pass_steps[0].pass_, source=replace(pass_steps[0].pass_.source, factor=table))
    first = replace(pass_steps[0], pass_=pass_, source_factors=lambda: _weights(line.n, count))
    return first, *pass_steps[1:]


def _weights(n: int, count: int) -> Table:
    """Count how often each number of half a spectrum is in the whole, with its conjugate."""
    k = np.arange(count)
    weights: Table = np.where((k == 0) | (2 * k == n), 1.0 + 0j, 2.0 + 0j)
    return weights


def _by_chirp(line: Line, limits: PassLimits, names: Iterator[str]) -> list[Decomposition]:
    """Return convolutions: the line times a chirp, transformed, times the filter, and back."""
    n, m = line.n, bluestein_length(line.n)
    lines = replace(line, n=m)
    count = min(line.source.count, n)
    source = replace(line.source, form="real" if line.source.form == "real" else "complex")
    source = replace(source, count=count)
    target = replace(line.target, form="real" if line.target.form == "real" else "complex")
    lanes, others = _lanes(line)
    # The temporary has the order of the lines: its lanes are adjacent if those of the line are.
    across = lanes.strides[0] == 1 and lanes.size >= limits.lanes
    temporary = Temporary(
        next(names), m * line.lines * 2 * line.real.itemsize, 2 * line.real.itemsize
    )
    step, strides = (lanes.size, [1]) if across else (1, [m])
    size = m * lanes.size
    for axis in others:
        strides.append(size)
        size *= axis.size
    order = (lanes, *others) if line.others else ()
    middle = LineOperand("complex", m, step)
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
        result = chirp(n, line.inverse, count)
        return result * _weights(n, count) if weights else result

    result = []
    for forward, inverse in zip(
        decompositions(into, limits, names), decompositions(back, limits, names), strict=True
    ):
        filters = [partial(chirp_filter, n, line.inverse, m), None]
        if len(forward.pass_steps) > 2:  # the last pass has no index that is unique for each lane
            filters.reverse()
        pass_steps = [
            *_multiplied(forward.pass_steps, before, filters[0], "target", temporary),
            *_multiplied(
                inverse.pass_steps,
                filters[1],
                lambda: chirp(n, line.inverse, target.count),
                "source",
                temporary,
            ),
        ]
        result.append(Decomposition("chirp", tuple(pass_steps)))
    return result


def _multiplied(
    pass_steps: tuple[PassStep, ...],
    before: Callable[[], Table] | None,
    after: Callable[[], Table] | None,
    temporary_at: str,
    temporary: Temporary,
) -> list[PassStep]:
    """Return passes with tables at both ends, and the temporary at one of these."""
    table_kind: Any = "rows" if len(pass_steps) == 1 else "lanes"
    result = list(pass_steps)
    if before is not None:
        pass_ = result[0].pass_
        pass_ = replace(pass_, source=replace(pass_.source, factor=table_kind))
        result[0] = replace(result[0], pass_=pass_, source_factors=before)
    if after is not None:
        pass_ = result[-1].pass_
        pass_ = replace(pass_, target=replace(pass_.target, factor=table_kind))
        result[-1] = replace(result[-1], pass_=pass_, target_factors=after)
    if temporary_at == "target":
        result[-1] = replace(result[-1], target=temporary)
    else:
        result[0] = replace(result[0], source=temporary)
    return result
