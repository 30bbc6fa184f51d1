"""Explanations of matrix-vector products, and the kernels of typical ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.arguments import one_of
from portable_gpu.codegen.specialization import Specialization, distinct
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError, DTypeError
from portable_gpu.ops.explanation import Explanation, Question
from portable_gpu.ops.gemv.problem import TRANSPOSES, GemvProblem
from portable_gpu.ops.gemv.variants import variants
from portable_gpu.ops.variant import best_texts
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable


def explain(question: Question, *, trans: str = "N") -> Explanation:
    """Which kernel and policy the product of a C-ordered (m, n) array takes, and why.

    Raises:
        ArgumentError: There are not two sizes above 0, or ``trans`` is unknown.
        DTypeError: ``dtype`` is bool.
    """
    operation, sizes = question.operation, question.sizes
    if len(sizes) != 2 or min(sizes) < 1:
        raise ArgumentError(f"{operation} takes the sizes m and n, at least 1; got {sizes}")
    one_of(trans, TRANSPOSES, "trans")
    if question.dtype.kind == "b":
        raise DTypeError(f"{operation} takes no bool; convert it, for instance to int32")
    m, n = sizes
    problem = _contiguous(m, n, question.dtype, trans)
    every = variants(problem, question.target, question.table)
    return question.answer(every, f"{m} x {n} ({trans})")


def specialization_of(problem: GemvProblem, target: Target) -> Specialization:
    """The texts of a product by shipped policies."""
    return best_texts([variants(problem, target, TuningTable.shipped())], target)[0]


def specializations(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
    """The texts of products of typical shapes: each kernel once or more."""
    shapes = (
        (1 << 20, 32, "N"),
        (1 << 14, 1024, "N"),
        (1 << 14, 4096, "N"),
        (8, 1 << 22, "N"),
        (4096, 4096, "T"),
    )
    return distinct(specialization_of(_contiguous(m, n, dtype, t), target) for m, n, t in shapes)


def _contiguous(m: int, n: int, dtype: np.dtype[Any], trans: str) -> GemvProblem:
    elem = element(dtype)
    if trans == "N":
        return GemvProblem(elem, m, n, n, 1, 1, 1)
    return GemvProblem(
        elem=elem, m=n, n=m, a_out=1, a_sum=n, x_step=1, y_step=1,
        conj=trans == "C" and elem.complex,
    )  # fmt: skip
