"""Functions of powers of two: the sizes of groups, tiles and vectors are powers of two."""

from __future__ import annotations


def is_power_of_two(*values: int) -> bool:
    """Whether each value is a power of two."""
    return all(value >= 1 and value & (value - 1) == 0 for value in values)


def floor_power_of_two(value: int) -> int:
    """The largest power of two that is at most ``value``; 1 for values below 1."""
    return 1 << (max(1, value).bit_length() - 1)


def ceil_power_of_two(value: int) -> int:
    """The smallest power of two that is at least ``value``."""
    return 1 << (max(1, value) - 1).bit_length()
