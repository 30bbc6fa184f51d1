"""Checks of every public operation against NumPy in higher precision, on the device at hand."""

from portable_gpu.checking.check import Check, Result
from portable_gpu.selftest.grid import all_checks

__all__ = ["Check", "Result", "all_checks"]
