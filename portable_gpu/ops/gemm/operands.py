"""Operands as kernel arguments; ``cl_kernels/gemm/_operands.cl.mako`` is the kernels' side."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.runtime.program import BUFFER, INT, LONG
from portable_gpu.runtime.views import View


def arguments(view: View, operand: Operand) -> list[Any]:
    """Values for ``_operands.parameters``: where the operand lies and how it strides."""
    return [view.buffer, view.offset, operand.row, operand.col, *operand.batch]


def argument_types(rank: int) -> list[Any]:
    """Types of :func:`arguments` for ``rank`` batch axes."""
    return [BUFFER, LONG, LONG, LONG, *[LONG] * rank]


def scalar_type(problem: GemmProblem) -> Any:
    """The NumPy scalar type of ``alpha`` and ``beta``: a ``value_t`` in C."""
    return _SCALARS[problem.compute.value]


_SCALARS: dict[str, Any] = {
    "float": np.float32,
    "double": np.float64,
    "float2": np.complex64,
    "double2": np.complex128,
    "char": np.int8,
    "short": np.int16,
    "int": np.int32,
    "long": np.int64,
    "uchar": np.uint8,
    "ushort": np.uint16,
    "uint": np.uint32,
    "ulong": np.uint64,
}

__all__ = ["BUFFER", "INT", "LONG", "argument_types", "arguments", "scalar_type"]
