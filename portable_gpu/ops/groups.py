"""Sizes of work-groups that several families share."""

from __future__ import annotations

from portable_gpu.powers_of_two import ceil_power_of_two
from portable_gpu.targets import Target


def group_size(target: Target, most: int = 256) -> int:
    """The work-items of a group whose items are independent: one on a CPU."""
    return 1 if target.is_cpu else min(most, target.max_work_group_size)


def lanes_of_rows(vectors: int, rows: int, size: int, subgroup: int) -> int:
    """The number of work-items of a group of ``size`` along a row of ``vectors`` vectors.

    It is the one that leaves the fewest work-items idle, and at least a sub-group.
    """

    def padded(extent: int, step: int) -> int:
        return -(-extent // step) * step

    max_lanes = min(size, ceil_power_of_two(vectors))
    lanes = [1 << k for k in range(max_lanes.bit_length())]
    lanes = [w for w in lanes if w >= min(max_lanes, subgroup)]
    return min(lanes, key=lambda w: (padded(vectors, w) * padded(rows, size // w), -w))
