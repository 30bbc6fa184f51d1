"""Expressions of arrays, element by element, with NumPy's broadcasting."""

from portable_gpu.ops.elementwise.api import elementwise

__all__ = ["elementwise"]
