"""Sizes of work-groups that several families share."""

from __future__ import annotations

from portable_gpu.powers_of_two import ceil_power_of_two
from portable_gpu.targets import Target


def group_size(target: Target, maximum: int = 256) -> int:
    """Return the size of a group whose work-items are independent: one on a CPU."""
    return 1 if target.is_cpu else min(maximum, target.max_work_group_size)


def lanes_of_rows(vectors: int, rows: int, size: int, subgroup: int) -> int:
    """Return the number of adjacent work-items that share a row, which has ``vectors`` vectors.

    A group has ``size`` work-items.  The number leaves the fewest of them idle, and is at least a
    sub-group, unless a row or a group is smaller.
    """

    def padded(extent: int, step: int) -> int:
        return -(-extent // step) * step

    max_lanes = min(size, ceil_power_of_two(vectors))
    lanes = [1 << k for k in range(max_lanes.bit_length())]
    lanes = [w for w in lanes if w >= min(max_lanes, subgroup)]
    return min(lanes, key=lambda w: (padded(vectors, w) * padded(rows, size // w), -w))
