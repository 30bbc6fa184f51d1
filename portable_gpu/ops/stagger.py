"""Staggered starts of work-groups, against conflicts of memory channels.

Addresses are interleaved over the memory channels in blocks of a few hundred bytes.  If the pitch
of rows is a multiple of the whole interleave, all rows start at the same channel, and groups that
read their rows in step all use one channel at a time.  So each group starts some steps later in its
row than the group before, and wraps around (Tensile's StaggerU).  The order of a sum depends only
on the group's number.
"""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.targets import Target


@dataclass(frozen=True)
class Stagger:
    """Group number ``g`` starts at step ``g % starts * stride``.

    Attributes:
        starts: The number of different starts.
        stride: The number of steps from one start to the next.
    """

    starts: int
    stride: int


def stagger(target: Target, pitch: int, moved: int, steps: int) -> Stagger | None:
    """The starts of the groups in their rows; ``None`` if there are no conflicts of channels.

    Args:
        target: The device.
        pitch: The bytes from the start of a row to that of the next.
        moved: The bytes of a row that a group reads in a step.
        steps: The number of whole steps of a row.
    """
    interleave = target.memory_channels * target.channel_bytes
    if not interleave or not pitch or pitch % interleave:
        return None
    stride = -(-target.channel_bytes // moved)
    starts = min(interleave // (stride * moved), steps // stride)
    return Stagger(starts, stride) if starts > 1 else None
