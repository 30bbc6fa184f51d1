"""Dropout without a device: the kernels of typical calls, and explanations."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.arguments import whole
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import element
from portable_gpu.errors import DTypeError
from portable_gpu.ops.explanation import Explanation, Question
from portable_gpu.ops.random.plan import DropoutProblem, render, variants
from portable_gpu.runtime.views import contiguous_strides
from portable_gpu.targets import Target


def problem(dtype: np.dtype[Any], shape: tuple[int, ...]) -> DropoutProblem:
    """The problem of C-ordered arrays."""
    elem, strides = element(dtype), contiguous_strides(shape)
    if not elem.floating or elem.complex:
        raise DTypeError(f"dropout takes floating numbers, not {dtype}")
    return DropoutProblem(elem, shape, (strides, strides), 16)


def specializations(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
    """The kernels of a C-ordered array, and of a view of a matrix with gaps."""
    elem = element(dtype)
    if not elem.floating or elem.complex:
        return []
    gaps = DropoutProblem(elem, (64, 64), ((128, 2), (64, 1)), 16)
    return [render(item, target) for item in (problem(dtype, (1 << 20,)), gaps)]


def explain(question: Question, *, seed: int = 0) -> Explanation:
    """Explain the kernel of C-ordered arrays of a shape; it is the same for every seed."""
    whole(seed, "seed")
    return question.answer(variants(problem(question.dtype, question.sizes), question.target))
