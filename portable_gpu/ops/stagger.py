"""Where pitches are multiples of large powers of two: work-groups that begin at different channels.

Memory is dealt out to channels in turn, a few hundred bytes each.  Rows whose pitch is a multiple
of a whole turn begin at the same channel, and groups that walk along them in step all meet there.
So each group begins a few steps further along than its neighbour, and ends where it began
(Tensile's StaggerU).  The order of a sum depends on the group's number alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.targets import Target


@dataclass(frozen=True)
class Stagger:
    """Group number ``g`` begins at step ``g % starts * stride``.

    Attributes:
        starts: How many places to begin at.
        stride: Steps from one to the next.
    """

    starts: int
    stride: int


def stagger(target: Target, pitch: int, moved: int, steps: int) -> Stagger | None:
    """Where groups begin to walk along rows; ``None`` where that does not matter.

    Args:
        target: Whose memory.
        pitch: Bytes from a row to the next.
        moved: Bytes of a row that a group reads in a step.
        steps: Whole steps of a row.
    """
    turn = target.memory_channels * target.channel_bytes
    if not turn or not pitch or pitch % turn:
        return None
    stride = -(-target.channel_bytes // moved)
    starts = min(turn // (stride * moved), steps // stride)
    return Stagger(starts, stride) if starts > 1 else None
