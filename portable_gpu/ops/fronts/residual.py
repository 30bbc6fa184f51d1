"""Residuals of systems with a sparse matrix, of which both triangles are stored."""

from __future__ import annotations

from collections.abc import Sequence
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
from portable_gpu.runtime.queue_state import QueueState
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
        tables = start.astype(np.int64), column.astype(np.int32), source.astype(np.int64)
        self.tables = [engine.upload(table) for table in tables]
        self.nbytes = sum(table.nbytes for table in tables)


class ResidualPlan(OneLaunch):
    """``R = B - A X``.  The operands are A's values, B, X and R; R is n x count in C order."""

    def __init__(self, rows: Rows, a: Element, elem: Element, count: int, b: Operand, x: Operand):
        """Build the kernel; ``a`` is the element of A's values, ``elem`` that of the others."""
        self._rows = rows
        strides = {"b_row": b.row, "b_col": b.col, "x_row": x.row, "x_col": x.col}
        self._launch = _launch(rows, a, elem, count, ["values", "b", "x", "r"], strides)

    def _buffers(self, state: QueueState, operands: Sequence[Any]) -> Sequence[Any]:
        return super()._buffers(state, (*self._rows.tables, *operands))


class SumsPlan(OneLaunch):
    """The sum of the absolute values of each row (``|re| + |im|`` of complex numbers).

    The operands are A's values and the sums, which are real.
    """

    def __init__(self, rows: Rows, a: Element) -> None:
        """Build the kernel."""
        self._rows = rows
        self._launch = _launch(rows, a, a, 1, ["values", "r"], {}, sums=True)

    def _buffers(self, state: QueueState, operands: Sequence[Any]) -> Sequence[Any]:
        return super()._buffers(state, (*self._rows.tables, *operands))


def _launch(
    rows: Rows,
    a: Element,
    elem: Element,
    count: int,
    operands: list[str],
    strides: dict[str, int],
    sums: bool = False,
) -> Any:
    target = rows.engine.target
    size, run = group_size(target), _RUN if target.is_cpu else 1
    groups = -(-rows.n * count // (run * size))
    return rows.engine.programs.launch(
        residual_text(a, elem, target, sums),
        "residual",
        {"n": rows.n, "count": count, "run": run, **strides},
        ["start", "column", "source", *operands],
        [f"{name}_offset" for name in operands],
        (groups * size,),
        (size,),
    )


def residual_text(a: Element, elem: Element, target: Target, sums: bool) -> Specialization:
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
