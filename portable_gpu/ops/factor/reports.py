"""What factorisations and solves tell of matrices without a result, in the call or later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from portable_gpu.dtypes import element
from portable_gpu.errors import NotPositiveDefiniteError, SingularMatrixError
from portable_gpu.runtime.report import DTYPE, FIELDS, ReportSpec
from portable_gpu.runtime.views import Shape

_Complain = Callable[[np.ndarray[Any, Any]], None]


def report_spec(batch: Shape, complain: _Complain) -> ReportSpec:
    """Return what the kernels write about the matrices of a stack, and what checks it."""
    return ReportSpec((int(np.prod(batch)), FIELDS), DTYPE, complain)


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
