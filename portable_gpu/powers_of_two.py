"""Powers of two, which sizes of groups, tiles and vectors are."""

from __future__ import annotations


def is_power_of_two(*values: int) -> bool:
    """Whether each value is one."""
    return all(value >= 1 and value & (value - 1) == 0 for value in values)


def floor_power_of_two(value: int) -> int:
    """The largest that is at most ``value``; 1 below that."""
    return 1 << (max(1, value).bit_length() - 1)


def ceil_power_of_two(value: int) -> int:
    """The smallest that is at least ``value``; 1 below that."""
    return 1 << (max(1, value) - 1).bit_length()
