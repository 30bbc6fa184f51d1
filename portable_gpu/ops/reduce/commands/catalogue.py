"""Reductions without a device: the kernels that each builds by default, and explanations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from portable_gpu.codegen.operators import BinaryOp, Map
from portable_gpu.codegen.reductions import Request
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.explanation import Explanation, Question
from portable_gpu.ops.reduce import call
from portable_gpu.ops.reduce.call import Axes, normalise_axes
from portable_gpu.ops.reduce.problem import Problem
from portable_gpu.ops.reduce.variants import require_support, variants
from portable_gpu.ops.variant import best_texts
from portable_gpu.runtime.views import Shape, contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

DType = np.dtype[Any]

#: What each operation computes by default, from its inputs' dtypes.
_RULES: dict[str, Callable[..., tuple[Request, DType]]] = {
    "sum": call.sum_like("sum", None),
    "prod": call.sum_like("prod", None),
    "mean": call.mean(None),
    "var": call.moment(None, 0.0, False),
    "std": call.moment(None, 0.0, True),
    "min": call.minimum,
    "max": call.maximum,
    "argmin": call.argmin,
    "argmax": call.argmax,
    "any": call.any_,
    "all": call.all_,
    "count_nonzero": call.count_nonzero,
    "asum": call.asum,
    "nrm2": call.nrm2,
    "dot": call.dot,
    "vdot": call.vdot,
    "reduce": call.custom(BinaryOp("add", "0", "a + b"), Map("x"), None),
}
_WHOLE_ONLY = ("dot", "vdot")
_SINGLE_AXIS = ("argmin", "argmax")
_ALIGNMENT = 128  # bytes: what a fresh buffer has


def problem(operation: str, shape: Shape, axis: Axes, dtype: DType, target: Target) -> Problem:
    """The reduction of a C-ordered array that starts aligned."""
    inputs = 2 if operation in _WHOLE_ONLY else 1
    request, _ = _RULES[operation](*[dtype] * inputs)
    folded = normalise_axes(axis, len(shape))
    out_shape = tuple(n for a, n in enumerate(shape) if a not in folded)
    strides = (contiguous_strides(shape),) * inputs
    alignment = 1 if target.is_cpu else _ALIGNMENT
    return Problem(request, shape, strides, folded, contiguous_strides(out_shape), alignment)


def specializations(operation: str, target: Target, dtype: DType) -> list[Specialization]:
    """The texts by default policies for a long vector, and along both axes of matrices."""
    problems: list[tuple[Shape, Axes]] = [((1 << 24,), None)]
    if operation not in _WHOLE_ONLY:
        problems += [((1 << 16, 32), 1), ((4096, 4096), 1), ((4096, 4096), 0)]
    asked = [problem(operation, shape, axis, dtype, target) for shape, axis in problems]
    return best_texts([variants(p, target, TuningTable.shipped()) for p in asked], target)


def explain(question: Question, *, axis: Axes = None) -> Explanation:
    """The kernels of a reduction of a C-ordered array, their partition, and the reasons."""
    operation, shape, target = question.operation, question.sizes, question.target
    if operation in _WHOLE_ONLY and (axis is not None or len(shape) != 1):
        raise ArgumentError(f"{operation} takes one size, that of both vectors; got {shape}")
    if operation in _SINGLE_AXIS and isinstance(axis, tuple):
        raise ArgumentError(f"{operation} takes one axis or none; got {axis}")
    asked = problem(operation, shape, axis, question.dtype, target)
    require_support(asked, target)
    return question.answer(variants(asked, target, question.table), axis=axis)
