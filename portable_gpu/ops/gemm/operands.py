"""Operands as kernel arguments; ``cl_kernels/gemm/_operands.cl.mako`` is the kernels' side."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.runtime.program import BUFFER, INT, LONG


def parameters(operand: Operand) -> list[Any]:
    """``_operands.parameters``: buffer and offset are left open, strides stay."""
    strides = (operand.row, operand.col, *operand.batch)
    return [BUFFER, LONG, *((LONG, stride) for stride in strides)]


def batch_parameters(problem: GemmProblem) -> list[Any]:
    """``_operands.batch_parameters``: the extents of the batch axes."""
    return [(LONG, extent) for extent in problem.batch]


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

__all__ = ["BUFFER", "INT", "LONG", "batch_parameters", "parameters", "scalar_type"]
