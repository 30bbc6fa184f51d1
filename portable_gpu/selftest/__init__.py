"""Checks of every public operation against NumPy in higher precision, on a device."""

from portable_gpu.checking.check import Check, CheckResult
from portable_gpu.selftest.grid import all_checks

__all__ = ["Check", "CheckResult", "all_checks"]
