"""Operators, assignments and conversions of arrays on the device."""

from portable_gpu.ops.arrays import assignment, operators, reductions

__all__ = ["assignment", "operators", "reductions"]
