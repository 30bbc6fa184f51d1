"""What factorisations and solves tell of matrices without a result, in the call or later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from portable_gpu.dtypes import element
from portable_gpu.errors import NotPositiveDefiniteError, SingularMatrixError
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.repeat import Beside
from portable_gpu.runtime.report import DTYPE, FIELDS, Report
from portable_gpu.runtime.views import Shape, View

_Complain = Callable[[np.ndarray[Any, Any]], None]


def factorised(
    call: Call,
    plan: Plan | None,
    views: Sequence[View],
    batch: Shape,
    check: str,
    earlier: tuple[Report, ...],
) -> Any:
    """What a factorisation gives, and what its report says."""
    report, array = call.beside((int(np.prod(batch)), FIELDS), DTYPE)
    result = call.run(plan, (*views, report))
    complain = not_positive_definite(batch, views[-1].dtype)
    return reported(result, array, complain, plan, call, check, earlier)


def solved(
    call: Call,
    plan: Plan | None,
    views: Sequence[View],
    unit: bool,
    batch: Shape,
    check: str,
    earlier: tuple[Report, ...],
) -> Any:
    """What a solve gives, and what its report says; of a unit diagonal there is none."""
    if unit:
        return reported(call.run(plan, views), None, None, plan, call, check, earlier)
    report, array = call.beside((int(np.prod(batch)), FIELDS), DTYPE)
    result = call.run(plan, (*views, report))
    return reported(result, array, singular(batch), plan, call, check, earlier)


def reported(
    result: Any,
    array: Any,
    complain: _Complain | None,
    plan: Plan | None,
    call: Call,
    check: str,
    earlier: tuple[Report, ...],
) -> Any:
    """The result, once its report and those of its inputs are looked at, or will be.

    Args:
        result, plan, call, check: What was called, and how.
        array: The report's memory.
        complain: Raises what it says; ``None``: there is no report.
        earlier: Reports of the inputs.
    """
    if call.is_planned:
        return result
    reports = earlier
    if plan is not None and complain is not None:
        reports = (*earlier, Report(array, complain))
    if call.host or check == "now" or not isinstance(result, Array):
        for report in reports:
            report.check()
    else:
        result.reports = reports
    return result


def beside_of(batch: Shape, complain: _Complain) -> Beside:
    """What a remembered call's kernels write beside the result."""
    return Beside((int(np.prod(batch)), FIELDS), DTYPE, complain)


def not_positive_definite(batch: Shape, dtype: np.dtype[Any]) -> _Complain:
    """Of factorisations of a stack."""

    def complain(values: np.ndarray[Any, Any]) -> None:
        found = _first_told(values, batch)
        if found is None:
            return
        (column, bits), index, which = found
        wide = element(dtype).needs_fp64
        pivot = float(np.int64(bits).view(np.float64) if wide else np.int32(bits).view(np.float32))
        several = np.count_nonzero(values[:, 0] >= 0)
        others = f"; {several} matrices are not" if several > 1 else ""
        raise NotPositiveDefiniteError(
            f"{which} is not positive definite: the pivot of column {column} is {pivot:g}{others}",
            index,
            column,
            pivot,
        )

    return complain


def singular(batch: Shape) -> _Complain:
    """Of triangles of a stack."""

    def complain(values: np.ndarray[Any, Any]) -> None:
        found = _first_told(values, batch)
        if found is None:
            return
        (column, _), index, which = found
        raise SingularMatrixError(
            f"{which} is singular: its diagonal is 0 at column {column}", index, column
        )

    return complain


def _first_told(
    values: np.ndarray[Any, Any], batch: Shape
) -> tuple[tuple[int, int], tuple[int, ...], str] | None:
    """Of the first matrix that a report tells of: what it says, the index, and its name."""
    if (values.item(0) if len(values) == 1 else values[:, 0].max(initial=-1)) < 0:
        return None
    found = np.flatnonzero(values[:, 0] >= 0)
    column, bits = values[found[0]]
    index = tuple(int(i) for i in np.unravel_index(found[0], batch)) if batch else ()
    return (int(column), int(bits)), index, matrix_at(index)


def matrix_at(index: tuple[int, ...]) -> str:
    """How messages call a matrix of a stack, or the only one."""
    return f"matrix {index} of the stack" if index else "the matrix"
