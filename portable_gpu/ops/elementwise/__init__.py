"""Expressions of arrays, element by element, with NumPy's broadcasting."""

from portable_gpu.ops.elementwise.api import elementwise, evaluate

__all__ = ["elementwise", "evaluate"]
