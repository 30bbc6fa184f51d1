"""Two passes in one launch on a GPU: what lies between them stays in the cache of all units.

Both passes are cut into parts by their leading batch axes.  The second one takes a part soon after
the first one made it, and room for a few parts is written over and over: it goes to memory seldom.

* **two passes of a line**: a part is a line.
* **the last two of three passes**: columns of n1, then a part is some neighbouring rows of n2 n3.
* **columns**: lanes that lie side by side; a part is some of them.
* **two axes**: a part is a plane, which lies in the target between the passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.ops.fft.grouping import group_plans
from portable_gpu.ops.fft.passes import Pass, Rows
from portable_gpu.ops.fft.policy import GroupFftPolicy
from portable_gpu.ops.fft.problem import Line
from portable_gpu.ops.fft.shape import GroupPlan
from portable_gpu.ops.fft.ways import Leg, Way, three_passes, two_passes
from portable_gpu.runtime.plan import Temporary
from portable_gpu.targets import Target

#: Bytes of what the first pass makes, for each compute unit, before the second one begins: as many
#: as its groups hold that run at once, so that nobody waits.
import os
_AHEAD = int(os.environ.get("PG_AHEAD", "64")) << 10
#: The largest part, and the most parts: each has two counters.
_LARGEST, _MOST = 8 << 20, 1 << 14
#: Lanes of a part of columns.
_LEAST_LINES = 2
_BESIDE = 64
#: What nothing lies between.
_NOWHERE = Temporary("what a launch keeps to itself", 0, 1)


@dataclass(frozen=True)
class Meeting:
    """How two passes of a launch follow each other.

    Attributes:
        lag: Parts of the first pass before the first of the second one.
        ring: Parts that there is room for between the two.
        part_size: Numbers of each; 0 where they lie in the target.
    """

    lag: int
    ring: int
    part_size: int


def meeting_of(runs: Sequence[Pass], target: Target) -> Meeting:
    """Enough parts that groups of neither pass wait for long."""
    first = runs[0]
    part = first.count // first.parts * first.target.rows * 2 * first.real.itemsize
    lag = min(first.parts, -(-_AHEAD * target.compute_units // part))
    if not first.part_size:
        return Meeting(lag, first.parts, 0)
    return Meeting(lag, min(first.parts, 2 * lag + 1), first.part_size)


def joined_ways(
    found: Sequence[Way], line: Line, policy: GroupFftPolicy, target: Target
) -> list[Way]:
    """Ways, and those of which one launch makes two passes."""
    if not (target.groups_wait and target.shared_cache):
        return [*found]
    more = [*_lines(line, policy), *_columns(line, policy), *_rows_of_three(line, policy)]
    return [*found, *(way for way in more if _meet(way, policy, target))]


def _meet(way: Way, policy: GroupFftPolicy, target: Target) -> bool:
    """Whether both passes have groups of one size."""
    plans = group_plans([leg.run for leg in way.launches[-1]], policy, target)
    return len({plan.group for plan in plans}) == 1


def _halves(n: int, policy: GroupFftPolicy) -> tuple[int, int] | None:
    """Two factors of a power of two, as equal as can be, that passes are good at."""
    bits = n.bit_length() - 1
    if n != 1 << bits or bits < 10:
        return None
    pair = 1 << bits // 2, 1 << (bits + 1) // 2
    return pair if pair[1] <= policy.reach.broad else None


def _lines(line: Line, policy: GroupFftPolicy) -> list[Way]:
    pair = _halves(line.n, policy)
    if pair is None or not _LEAST_LINES <= line.lines <= _MOST:
        return []
    legs = two_passes(line, *pair, _NOWHERE.name)
    batch = len(line.others)
    first = replace(
        legs[0].run, target=replace(legs[0].run.target, batch=(0,) * batch),
        parts=line.lines, part_size=legs[0].run.target.rows * legs[0].run.lanes,
    )  # fmt: skip
    second = replace(
        legs[1].run, source=replace(legs[1].run.source, batch=(0,) * batch), parts=line.lines
    )
    return [_way("two passes", first, second)] if _small(first) else []


def _small(run: Pass) -> bool:
    return run.part_size * 2 * run.real.itemsize <= _LARGEST and run.parts <= _MOST


def _way(name: str, first: Pass, second: Pass, *before: Leg) -> Way:
    source = before[-1].target if before else "source"
    legs = Leg(first, source, _NOWHERE), Leg(second, _NOWHERE, "target", joined=True)
    return Way(name, (*before, *legs))


def _rows_of_three(line: Line, policy: GroupFftPolicy) -> list[Way]:
    """The last two of three passes; the first one's results are ``beside`` lines to a part."""
    more = []
    for bits in range(14, 17):
        m = 1 << bits
        n1 = line.n // m
        pair = _halves(m, policy)
        if n1 * m != line.n or not 32 <= n1 <= 1024 or pair is None:
            continue
        if {line.source.form, line.target.form} != {"complex"} or line.times:
            continue
        if line.target.count < line.n or line.target.first:
            continue
        legs = three_passes(line, n1, *pair, iter(("columns of a line",)))
        begin, middle, end = (leg.run for leg in legs)
        lanes = min(policy.beside, n1)
        batch, there = middle.batch[:-1], middle.source.batch[:-1]
        zeros = (0,) * (len(batch) + 1)
        blocks = n1 // lanes
        parts = prod(batch) * blocks
        first = replace(
            middle, batch=(*batch, blocks, lanes),
            source=replace(middle.source, batch=(*there, lanes * m, m)),
            target=replace(middle.target, batch=(*zeros, m)), parts=parts, part_size=lanes * m,
        )  # fmt: skip
        *steps, each = end.target.batch
        second = replace(
            end, lanes=lanes, batch=(*batch, blocks, middle.n),
            source=replace(end.source, batch=(*zeros, end.n)),
            target=replace(end.target, batch=(*steps, lanes * end.target.lane, each)), parts=parts,
        )  # fmt: skip
        if _small(first):
            more.append(_way("three passes", first, second, legs[0]))
    return more


def _columns(line: Line, policy: GroupFftPolicy) -> list[Way]:
    """Two passes of lines that lie side by side."""
    pair = _halves(line.n, policy)
    ends = line.source, line.target
    if pair is None or any(
        end.form != "complex" or end.count < line.n or (end is line.target and end.first)
        for end in ends
    ):
        return []
    beside = [axis for axis in line.others if axis.strides[:2] == (1, 1)]
    if line.times is not None or not beside or beside[0].size < _BESIDE:
        return []
    lanes = beside[0]
    others = [axis for axis in line.others if axis is not lanes]
    (n1, n2), n, blocks = pair, line.n, -(-lanes.size // _BESIDE)
    batch = (*(axis.size for axis in others), blocks)
    zeros = (0,) * len(batch)
    steps = [(*(axis.strides[side] for axis in others), _BESIDE) for side in (0, 1)]
    x, y = (end.step for end in ends)
    parts = prod(batch)
    first = Pass(
        n1, line.inverse, line.real, _BESIDE, (*batch, n2),
        Rows("complex", n1, n2 * x, 1, (*steps[0], x)),
        Rows("complex", n1, n2 * _BESIDE, 1, (*zeros, _BESIDE)),
        whole=n, by_batch=True, cut=lanes.size, parts=parts, part_size=n * _BESIDE,
    )  # fmt: skip
    second = Pass(
        n2, line.inverse, line.real, _BESIDE, (*batch, n1),
        Rows("complex", n2, _BESIDE, 1, (*zeros, n2 * _BESIDE)),
        Rows("complex", n2, n1 * y, 1, (*steps[1], y)), cut=lanes.size, parts=parts,
    )  # fmt: skip
    return [_way("two passes", first, second)] if _small(first) else []


def joined_axes(
    first: Line, second: Line, policy: GroupFftPolicy, target: Target
) -> Way | None:
    """The transforms along two axes of planes of a target, one pass each; None if it has none."""
    if not (target.groups_wait and target.shared_cache):
        return None
    if not all(policy.reach.takes(line.n) for line in (first, second)):
        return None
    own = _split(second, 0, first.target.step, first.target.count)
    other = _split(first, 1, second.source.step, second.source.count)
    if own is None or other is None or first.times or second.times:
        return None
    (row, rows_apart), (lane, lanes_apart) = own, other
    apart = merged(
        Axis(axis.size, (*axis.strides[:2], far.strides[1]))
        for axis, far in zip(lanes_apart, rows_apart, strict=True)
    )
    if [a.size for a in lanes_apart] != [a.size for a in rows_apart] or not apart:
        return None
    if any(a.strides[1] != b.strides[0] for a, b in zip(lanes_apart, rows_apart, strict=True)):
        return None
    batch, parts = tuple(axis.size for axis in apart), prod(axis.size for axis in apart)
    steps = [tuple(axis.strides[side] for axis in apart) for side in range(3)]

    def rows(line: Line, side: int, beside: Axis, batch: tuple[int, ...]) -> Rows:
        end = (line.source, line.target)[side]
        return Rows(end.form, end.end, end.step, beside.strides[side], batch, first=end.first)

    runs = [
        Pass(
            line.n, line.inverse, line.real, beside.size, batch,
            rows(line, 0, beside, steps[at]), rows(line, 1, beside, steps[at + 1]), parts=parts,
        )
        for line, beside, at in ((first, lane, 0), (second, row, 1))
    ]  # fmt: skip
    size = runs[0].target.rows * runs[0].lanes * 2 * first.real.itemsize
    if size > _LARGEST or not 1 < parts <= _MOST:
        return None
    legs = Leg(runs[0], "source", "target"), Leg(runs[1], "target", "target", joined=True)
    way = Way("two axes", legs)
    return way if _meet(way, policy, target) else None


def _split(line: Line, side: int, step: int, count: int) -> tuple[Axis, list[Axis]] | None:
    """The axis of a line's others that has this step and extent, and what is left of them."""
    for k, axis in enumerate(line.others):
        if axis.strides[side] != step or axis.size % count:
            continue
        rest = [*line.others]
        far = Axis(axis.size // count, tuple(count * one for one in axis.strides))
        rest[k : k + 1] = [far] if far.size > 1 else []
        return Axis(count, axis.strides), rest
    return None
