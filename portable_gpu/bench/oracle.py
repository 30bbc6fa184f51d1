"""The check of a result before it is timed."""

from __future__ import annotations

from portable_gpu.checking.operands import Operands
from portable_gpu.checking.oracle import Oracle
from portable_gpu.ops.case import Case
from portable_gpu.ops.registry import BENCHMARKS


def oracle(case: Case, inputs: Operands) -> Oracle:
    """The oracle of a case: NumPy in higher precision, exact where values are compared."""
    return BENCHMARKS[case.operation].oracle(case, inputs)
