"""Elementwise expressions without a device: typical kernels, and explanations."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from portable_gpu.codegen.expression import PATTERNS, RESERVED, check_expression
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import element
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.ops.elementwise.variants import variants
from portable_gpu.ops.explanation import Explanation, Question
from portable_gpu.ops.variant import best_texts
from portable_gpu.runtime.views import Shape, contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

DType = np.dtype[Any]
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*\b(?!\s*\()")


def problem(
    expression: str, dtype: DType, shape: Shape, spread: dict[str, Shape]
) -> ElementwiseProblem:
    """The problem of C-ordered arrays; ``spread`` has the strides of the broadcast ones."""
    names = [
        word
        for word in dict.fromkeys(_NAME.findall(expression))
        if word not in RESERVED and not PATTERNS.fullmatch(word)
    ]
    elem, whole = element(dtype), contiguous_strides(shape)
    strides = (*(spread.get(name, whole) for name in names), whole)
    inputs = (elem,) * len(names)
    return ElementwiseProblem(
        expression=expression, names=tuple(names), inputs=inputs, updated=(), scalars=(),
        compute=elem, result=elem, shape=shape, strides=strides, alignment=16,
    )  # fmt: skip


def specializations(target: Target, dtype: DType) -> list[Specialization]:
    """The kernels of three typical expressions, under the shipped table.

    They are a sum of two vectors, a matrix with two columns, a matrix times a row, and the copy of
    a transposed matrix.
    """
    table, n = TuningTable.shipped(), 4096
    text = "exp(x - m) / s" if element(dtype).floating else "(x - m) * s"
    problems = [
        problem("x + y", dtype, (1 << 24,), {}),
        problem(text, dtype, (n, n), {"m": (1, 0), "s": (0, 1)}),
        problem("x * y", dtype, (n, n), {"y": (1, n)}),
        problem("x", dtype, (n, n), {"x": (1, n)}),
    ]
    return best_texts([variants(p, target, table) for p in problems], target)


def explain(question: Question, *, expression: str = "x + y") -> Explanation:
    """Explain the choice of a kernel for an expression of C-ordered arrays of one shape."""
    check_expression(expression, "expression")
    asked = problem(expression, question.dtype, question.sizes, {})
    named = replace(question, operation=f"{question.operation} {expression!r}")
    return named.answer(variants(asked, question.target, question.table))
