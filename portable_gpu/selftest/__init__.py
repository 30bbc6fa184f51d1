"""Checks of every public operation against NumPy in higher precision, on a device."""

from __future__ import annotations

from portable_gpu.checking.check import Check, CheckResult
from portable_gpu.checking.inputs import dtypes
from portable_gpu.ops.registry import FAMILIES
from portable_gpu.runtime.engine import Engine

__all__ = ["Check", "CheckResult", "all_checks"]


def all_checks(engine: Engine) -> list[Check]:
    """Every public operation in the dtypes that the engine's device supports."""
    supported = dtypes(engine.target.fp64)
    return [check for family in FAMILIES for check in family.checks(supported)]
