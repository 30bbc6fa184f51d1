"""Residuals of systems with a sparse matrix, of which both triangles are stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.codegen.parameters import operand, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.fronts.kernels import read, tables
from portable_gpu.ops.fronts.stages import group_size
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target

_RUN = 256


class Rows:
    """The rows of a matrix on a device: row pointers, columns, and the source of each value.

    A negative source ``s`` stands for the conjugate of value ``~s``.
    """

    def __init__(
        self,
        engine: Engine,
        start: np.ndarray[Any, Any],
        column: np.ndarray[Any, Any],
        source: np.ndarray[Any, Any],
    ) -> None:
        self.engine, self.n = engine, len(start) - 1
        arrays: dict[str, np.ndarray[Any, Any]] = {
            "start": start.astype(np.int64),
            "column": column.astype(np.int32),
            "source": source.astype(np.int64),
        }
        self.tables = {name: engine.upload(array) for name, array in arrays.items()}
        self.nbytes = sum(array.nbytes for array in arrays.values())


def residual_plan(
    rows: Rows, a: Element, elem: Element, count: int, b: Operand, x: Operand
) -> OneLaunch:
    """Return the plan of ``R = B - A X``.

    The operands are A's values, B, X and R; R is n x count in C order.

    Args:
        rows: The rows of A.
        a, elem: The element types of A's values, and of the others.
        count: The columns of X.
        b, x: The strides of B and X.
    """
    strides = {"b_row": b.row, "b_col": b.col, "x_row": x.row, "x_col": x.col}
    return _plan(rows, residual_spec(a, elem, rows.engine.target, False), count, "bxr", strides)


def sums_plan(rows: Rows, a: Element) -> OneLaunch:
    """Return the plan of the sums of absolute values of rows (``|re| + |im|`` of complex numbers).

    The operands are A's values and the sums, which are real.
    """
    return _plan(rows, residual_spec(a, a, rows.engine.target, True), 1, "r", {})


def _plan(
    rows: Rows, spec: Specialization, count: int, operands: str, strides: dict[str, int]
) -> OneLaunch:
    target = rows.engine.target
    size, run = group_size(target), _RUN if target.is_cpu else 1
    groups = -(-rows.n * count // (run * size))
    return OneLaunch(
        rows.engine, spec, "residual", {"n": rows.n, "count": count, "run": run, **strides},
        ["values", *operands], (groups * size,), (size,), tables=rows.tables,
    )  # fmt: skip


def residual_spec(a: Element, elem: Element, target: Target, sums: bool) -> Specialization:
    """Render the kernel."""
    result = elem.real if sums else f"{elem.name}_t"
    parameters = [
        *tables("long", "start"),
        *tables("int", "column"),
        *tables("long", "source"),
        *scalars("long", "n", "count", "run"),
        *([] if sums else scalars("long", "b_row", "b_col", "x_row", "x_col")),
        *read(a, "values"),
        *([] if sums else read(elem, "b", "x")),
        *operand(result, "r", writes=True, restrict=False),
    ]
    kernels = {"residual": parameters}
    size = group_size(target)
    return specialize("fronts/residual", target, kernels, a=a, e=elem, size=size, sums=sums)
