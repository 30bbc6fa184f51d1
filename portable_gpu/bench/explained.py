"""What the library says of a case: the call behind it, explained and not made."""

from __future__ import annotations

from typing import Any

from portable_gpu.bench.cases import Case
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.errors import UnsupportedError
from portable_gpu.ops.explain import Explanation, explainers
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable


def explained(case: Case, target: Target, table: TuningTable) -> Explanation:
    """The path and policy that a case takes on a target by a table.

    Raises:
        UnsupportedError: The device lacks the dtype.
        PolicyError: The table gives a policy that the target does not take.
    """
    operation = case.operation
    options: dict[str, Any] = {}
    if operation == "gemm":
        options = {"trans_a": case.trans[0], "trans_b": case.trans[1], "precision": case.precision}
        if case.batch is not None:
            operation, options = "matmul", {"batch": (case.batch,), "precision": case.precision}
    elif operation == "gemv":
        options = {"trans": case.trans}
    elif case.axis is not None:
        options = {"axis": case.axis}
    dtype = dtype_of(case.dtype)
    if element(dtype).needs_fp64 and not target.fp64:
        raise UnsupportedError(
            f"{target.facts.name} has no double precision, which {case.dtype} needs"
        )
    return explainers()[operation](operation, case.extents, dtype, target, table, **options)
