"""Two passes in one launch on a GPU, so that the data between them stays in a cache.

Both passes are divided into parts: planes of two axes, or lines.  If a group holds a part, it
computes both passes of it.  Else the second pass reads a part soon after groups of the first pass
wrote it.  In both cases memory is read once and written once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from portable_gpu.ops.fft.columns import Plane, joined, split_columns
from portable_gpu.ops.fft.decompositions import Decomposition, PassStep, passes_of
from portable_gpu.ops.fft.grouping import group_shapes, is_fused_by_group, real_as_complex
from portable_gpu.ops.fft.passes import Pass
from portable_gpu.ops.fft.policy import GroupFftPolicy
from portable_gpu.ops.fft.problem import Line
from portable_gpu.targets import Target

#: Bytes that the first pass writes, for each compute unit, before the second one starts: those that
#: its resident groups hold, so that no group has to wait.  Measured: docs/experiments/fft.md,
#: "Constants".
_BYTES_AHEAD = 64 << 10
#: The largest part in bytes, and the maximum of parts, each of which has a counter.
_MAX_PART_BYTES, _MAX_PARTS = 4 << 20, 1 << 14


def pipeline_depth(first: Pass, target: Target) -> int:
    """The number of parts of the first pass that precede the first part of the second pass."""
    return min(first.parts, -(-_BYTES_AHEAD * target.compute_units // part_bytes(first)))


def part_bytes(first: Pass) -> int:
    """Bytes of a part between two passes."""
    return first.count // first.parts * first.target.rows * 2 * first.real.itemsize


def fused_passes(
    listed: Sequence[Decomposition], line: Line, policy: GroupFftPolicy, target: Target
) -> list[Decomposition]:
    """Add decompositions whose two passes share a launch; real lines may become complex lines.

    Passes that local memory does not hold are left out if there are others.
    """
    result = []
    fitting = [
        d for d in listed if all(pass_.n <= policy.max_length for pass_ in passes_of(d.pass_steps))
    ]
    for decomposition in fitting or listed:
        steps = decomposition.pass_steps
        if decomposition.name == "one pass":
            steps = tuple(_as_complex(step, policy, target) for step in steps)
            decomposition = replace(decomposition, pass_steps=steps)
        result.append(decomposition)
        straight = all(policy.pass_limits.has_butterflies(pass_.n) for pass_ in passes_of(steps))
        is_two = decomposition.name == "two passes"
        if is_two and line.lines > 1 and not line.times and straight:
            first, second = (
                replace(step, pass_=replace(step.pass_, parts=line.lines)) for step in steps
            )
            if _can_share(first.pass_, second.pass_, policy, target):
                fused = first, replace(second, joined=True)
                result.append(Decomposition(decomposition.name, fused))
    return result


def fused_axes(
    first: Line, second: Line, policy: GroupFftPolicy, target: Target, names: Iterator[str]
) -> list[Decomposition]:
    """List decompositions of the transforms along two axes that take fewer launches.

    Args:
        first: The transforms along one axis; the second reads and writes their target.
        second: The transforms along the other axis.
        policy, target: The policy of passes, and the device.
        names: Names for temporaries.
    """
    plane = Plane.of(first, second)
    if plane is None or first.times or second.times:
        return []
    if not all(policy.pass_limits.allows(line.n) for line in (first, second)):
        return []
    first_pass, second_pass = (real_as_complex(pass_, policy, target) for pass_ in plane.passes())
    result = []
    shapes = group_shapes((first_pass, second_pass), policy, target)
    if is_fused_by_group((first_pass, second_pass), shapes) or _can_share(
        first_pass, second_pass, policy, target
    ):
        steps = PassStep(first_pass, "source", "target"), joined(second_pass, "target")
        result.append(Decomposition("two axes", steps))
    split = [
        _as_complex(step, policy, target)
        for step in split_columns(plane, policy.pass_limits, names)
    ]
    for step, after in pairwise(split):
        if after.joined and _can_share(step.pass_, after.pass_, policy, target):
            result.append(Decomposition("two axes", tuple(split)))
    return result


def _as_complex(step: PassStep, policy: GroupFftPolicy, target: Target) -> PassStep:
    return replace(step, pass_=real_as_complex(step.pass_, policy, target))


def _can_share(first: Pass, second: Pass, policy: GroupFftPolicy, target: Target) -> bool:
    """Whether groups of both passes may run at once, and a cache holds the parts between them."""
    if not (target.forward_progress and target.shared_cache):
        return False
    alike = len({shape.group for shape in group_shapes((first, second), policy, target)}) == 1
    return alike and 1 < first.parts <= _MAX_PARTS and part_bytes(first) <= _MAX_PART_BYTES
