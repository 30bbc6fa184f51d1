"""Expressions of arrays, element by element, with NumPy's broadcasting."""

from portable_gpu.ops.elementwise.api import elementwise
from portable_gpu.ops.elementwise.catalogue import CATALOGUE, EXPLAINERS

__all__ = ["CATALOGUE", "EXPLAINERS", "elementwise"]
