"""Errors of factorisations and solves that are raised when the device has finished."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from portable_gpu.dtypes import element
from portable_gpu.errors import NotPositiveDefiniteError, SingularMatrixError
from portable_gpu.runtime.report import DTYPE, FIELDS, ReportSpec
from portable_gpu.runtime.views import Shape

_Check = Callable[[np.ndarray[Any, Any]], None]


def report_spec(batch: Shape, check: _Check) -> ReportSpec:
    """Return the report of kernels about the matrices of a stack, and the check of its values."""
    return ReportSpec((int(np.prod(batch)), FIELDS), DTYPE, check)


def not_positive_definite(batch: Shape, dtype: np.dtype[Any]) -> _Check:
    """Return the check of the report of factorisations."""

    def check(values: np.ndarray[Any, Any]) -> None:
        failure = _first_failure(values, batch)
        if failure is None:
            return
        (column, bits), index, which = failure
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

    return check


def singular(batch: Shape) -> _Check:
    """Return the check of the report of solves."""

    def check(values: np.ndarray[Any, Any]) -> None:
        failure = _first_failure(values, batch)
        if failure is None:
            return
        (column, _), index, which = failure
        raise SingularMatrixError(
            f"{which} is singular: its diagonal is 0 at column {column}", index, column
        )

    return check


def _first_failure(
    values: np.ndarray[Any, Any], batch: Shape
) -> tuple[tuple[int, int], tuple[int, ...], str] | None:
    """Return the fields of the first failure in a report, the matrix's index, and its name."""
    if (values.item(0) if len(values) == 1 else values[:, 0].max(initial=-1)) < 0:
        return None
    failures = np.flatnonzero(values[:, 0] >= 0)
    column, bits = values[failures[0]]
    index = tuple(int(i) for i in np.unravel_index(failures[0], batch)) if batch else ()
    return (int(column), int(bits)), index, matrix_at(index)


def matrix_at(index: tuple[int, ...]) -> str:
    """Return the name of a matrix of a stack, or of the only one, in messages."""
    return f"matrix {index} of the stack" if index else "the matrix"
