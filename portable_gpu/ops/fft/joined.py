"""Two axes in one launch on a GPU: planes stay in the cache of all units between their two passes.

Both passes are cut into parts, a plane each, which lie in the target in between.  The second pass
takes a plane soon after the first one made it, so memory is read once and written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from portable_gpu.codegen.axes import Axis
from portable_gpu.ops.fft.grouping import group_plans
from portable_gpu.ops.fft.passes import Pass, Rows
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


def joined_axes(first: Line, second: Line, policy: GroupFftPolicy, target: Target) -> Way | None:
    """The transforms along two axes of an array, each by a pass, where a device is good at it.

    Args:
        first: Along one axis; its target is where the second one reads, and writes.
        second: Along the other one.
        policy, target: How, and on what device.
    """
    if not (target.groups_wait and target.shared_cache) or first.times or second.times:
        return None
    if not all(policy.reach.takes(line.n) for line in (first, second)):
        return None
    rows = _split(second, 0, first.target.step, first.target.count)
    lanes = _split(first, 1, second.source.step, second.source.count)
    if rows is None or lanes is None:
        return None
    batch = [axis.size for axis in lanes[1]]
    between = [axis.strides[1] for axis in lanes[1]]
    if batch != [axis.size for axis in rows[1]] or between != [a.strides[0] for a in rows[1]]:
        return None
    runs = []
    for line, (beside, others) in ((first, lanes), (second, rows)):
        source, result = (_rows(line, side, beside, others) for side in (0, 1))
        runs.append(
            Pass(
                line.n, line.inverse, line.real, beside.size, tuple(batch), source, result,
                parts=prod(batch),
            )
        )  # fmt: skip
    alike = len({plan.group for plan in group_plans(runs, policy, target)}) == 1
    if not alike or not 1 < runs[0].parts <= _MOST or part_bytes(runs[0]) > _LARGEST:
        return None
    legs = Leg(runs[0], "source", "target"), Leg(runs[1], "target", "target", joined=True)
    return Way("two axes", legs)


def _rows(line: Line, side: int, lanes: Axis, batch: Sequence[Axis]) -> Rows:
    end = (line.source, line.target)[side]
    strides = tuple(axis.strides[side] for axis in batch)
    return Rows(end.form, end.end, end.step, lanes.strides[side], strides, first=end.first)


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
