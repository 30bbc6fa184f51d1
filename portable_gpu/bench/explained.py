"""The explanation of a benchmark case: the variant that its call takes."""

from __future__ import annotations

from portable_gpu.dtypes import dtype_of, element
from portable_gpu.errors import UnsupportedError
from portable_gpu.ops.case import Case
from portable_gpu.ops.explanation import Explanation, Question
from portable_gpu.ops.registry import OPERATIONS
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable


def explained(case: Case, target: Target, table: TuningTable) -> Explanation:
    """The path and policy that a case takes on a target by a table.

    Raises:
        UnsupportedError: The device lacks the dtype.
        PolicyError: The table gives a policy that the target does not take.
    """
    operation, dtype = OPERATIONS[case.operation], dtype_of(case.dtype)
    if element(dtype).needs_fp64 and not target.fp64:
        raise UnsupportedError(
            f"{target.facts.name} has no double precision, which {case.dtype} needs"
        )
    options = operation.options(case)
    question = Question(operation.name, case.extents, dtype, target, table)
    return operation.explain(question, **options)
