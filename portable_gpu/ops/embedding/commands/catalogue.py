"""Embeddings without a device: typical kernels, and explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError, DTypeError
from portable_gpu.ops.embedding.plan import EmbeddingProblem, Norm, texts, variants
from portable_gpu.ops.explanation import Explanation, Question
from portable_gpu.targets import Target

#: Rows of the weight of typical calls.
ROWS = 30_000


def problem(operation: str, dtype: np.dtype[Any], sizes: Sequence[int]) -> EmbeddingProblem:
    """The problem of C-ordered arrays: a number of indices, and of columns of the weight."""
    elem = element(dtype)
    if not elem.floating or elem.complex:
        raise DTypeError(f"{operation} takes floating numbers, not {dtype}")
    if len(sizes) != 2:
        raise ArgumentError(f"{operation} takes the numbers of indices and of columns")
    count, columns = sizes
    vector = max(1, 16 // elem.itemsize)
    backward = operation.endswith("backward")
    vector = vector if columns % vector == 0 else 1
    return EmbeddingProblem(
        elem=elem, index=element(np.int64), count=count, rows=ROWS, columns=columns,
        strides=(columns, 1), vector=vector, backward=backward,
    )  # fmt: skip


def gather_kernels(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
    """The kernel of a gather, and those that limit rows by each kind of norm."""
    typical = problem("embedding", dtype, (8192, 512))
    limits = [texts(replace(typical, norm=norm), target)[1] for norm in get_args(Norm)]
    return [*texts(typical, target), *limits]


def sum_kernels(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
    """The kernels of sums of rows, and of means."""
    typical = problem("embedding_backward", dtype, (8192, 512))
    return [*texts(typical, target), texts(replace(typical, by_count=True), target)[-1]]


def explain(question: Question) -> Explanation:
    """Explain the kernels of a number of indices and of columns."""
    asked = problem(question.operation, question.dtype, question.sizes)
    return question.answer(variants(asked, question.target))
