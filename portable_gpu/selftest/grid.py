"""The checks for a device."""

from __future__ import annotations

from portable_gpu.runtime.engine import Engine
from portable_gpu.selftest import products, reductions
from portable_gpu.selftest.check import Check
from portable_gpu.selftest.inputs import dtypes


def all_checks(engine: Engine) -> list[Check]:
    """Every public operation in the dtypes that the engine's device supports."""
    supported = dtypes(engine.target.fp64)
    return [*reductions.checks(supported), *products.checks(supported)]
