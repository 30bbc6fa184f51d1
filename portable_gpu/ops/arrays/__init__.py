"""Operators, assignments and conversions of arrays on the device."""

from portable_gpu.ops.arrays import assignment, operators

__all__ = ["assignment", "operators"]
