"""Two passes in one launch on a GPU, so that what lies between them stays in a cache.

Both passes are cut into parts: planes of two axes, or lines.  If a group holds a part, it makes
both passes of it.  Else the second pass takes a part soon after groups of the first one made it,
so memory is read once and written once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from portable_gpu.ops.fft.columns import Plane, columns_in_two, joined
from portable_gpu.ops.fft.grouping import group_plans, has_own_parts, packed
from portable_gpu.ops.fft.passes import Pass
from portable_gpu.ops.fft.policy import GroupFftPolicy
from portable_gpu.ops.fft.problem import Line
from portable_gpu.ops.fft.ways import Leg, Way
from portable_gpu.targets import Target

#: Bytes that the first pass makes, for each compute unit, before the second one begins: as many as
#: its groups hold that run at once, so that nobody waits.  H100, 512 x 512 x 512 complex64: by
#: 16 KiB 2195 us, 32 2049, 64 2043; 256 x 256 x 256, by kernels of before: 32 236, 64 231, 128 264.
_AHEAD = 64 << 10
#: The largest part, and the most parts: each has a counter.
_LARGEST, _MOST = 4 << 20, 1 << 14


def lag(first: Pass, target: Target) -> int:
    """How many parts of the first pass come before the first one of the second pass."""
    return min(first.parts, -(-_AHEAD * target.compute_units // part_bytes(first)))


def part_bytes(first: Pass) -> int:
    """What lies between two passes, of a part."""
    return first.count // first.parts * first.target.rows * 2 * first.real.itemsize


def of_one_line(
    found: Sequence[Way], line: Line, policy: GroupFftPolicy, target: Target
) -> list[Way]:
    """Ways, real lines packed where that is faster, and those whose two passes share a launch.

    Passes beyond local memory are left out, if there are others.
    """
    more = []
    within = [way for way in found if all(leg.run.n <= policy.most for leg in way.legs)]
    for way in within or found:
        if way.name == "one pass":
            way = replace(way, legs=tuple(_packed(leg, policy, target) for leg in way.legs))
        more.append(way)
        straight = all(policy.reach.has_butterflies(leg.run.n) for leg in way.legs)
        if way.name == "two passes" and line.lines > 1 and not line.times and straight:
            one, two = (replace(leg, run=replace(leg.run, parts=line.lines)) for leg in way.legs)
            if _share(one.run, two.run, policy, target):
                more.append(Way(way.name, (one, replace(two, joined=True))))
    return more


def of_two_axes(
    first: Line, second: Line, policy: GroupFftPolicy, target: Target, names: Iterator[str]
) -> list[Way]:
    """Ways along two axes of an array in fewer launches, where a device is good at it.

    Args:
        first: Along one axis; its target is where the second one reads, and writes.
        second: Along the other one.
        policy, target: How, and on what device.
        names: Of temporaries.
    """
    plane = Plane.of(first, second)
    if plane is None or first.times or second.times:
        return []
    if not all(policy.reach.takes(line.n) for line in (first, second)):
        return []
    one, two = (packed(run, policy, target) for run in plane.passes())
    found = []
    plans = group_plans((one, two), policy, target)
    if has_own_parts((one, two), plans) or _share(one, two, policy, target):
        found.append(Way("two axes", (Leg(one, "source", "target"), joined(two, "target"))))
    legs = [_packed(leg, policy, target) for leg in columns_in_two(plane, policy.reach, names)]
    for leg, after in pairwise(legs):
        if after.joined and _share(leg.run, after.run, policy, target):
            found.append(Way("two axes", tuple(legs)))
    return found


def _packed(leg: Leg, policy: GroupFftPolicy, target: Target) -> Leg:
    return replace(leg, run=packed(leg.run, policy, target))


def _share(one: Pass, two: Pass, policy: GroupFftPolicy, target: Target) -> bool:
    """Whether groups of both may run at once, and a cache holds the parts between them."""
    if not (target.forward_progress and target.shared_cache):
        return False
    alike = len({plan.group for plan in group_plans((one, two), policy, target)}) == 1
    return alike and 1 < one.parts <= _MOST and part_bytes(one) <= _LARGEST
