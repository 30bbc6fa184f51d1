"""Sampling functions without a device: typical kernels, and explanations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import DTypeError
from portable_gpu.ops.explanation import Explanation, Question
from portable_gpu.ops.sampling.commands.geometry import channels_last, problem_of
from portable_gpu.ops.sampling.plan import variants
from portable_gpu.ops.variant import best_texts
from portable_gpu.targets import Target


def explain(question: Question) -> Explanation:
    """Explain the kernel of the typical call on a C-ordered array; no device is needed."""
    problem = problem_of(question.operation, question.sizes, question.dtype)
    return question.answer(variants(problem, question.target))


def specializations(operation: str, target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
    """The kernels of the typical call on images: C-ordered, channels-last, and with indices.

    There are none of a dtype that the function does not take.
    """
    try:
        problem = problem_of(operation, (8, 64, 56, 56), np.dtype(dtype))
    except DTypeError:
        return []
    problems = [problem, channels_last(problem)]
    if problem.kind == "max":
        steps = (*problem.strides, problem.strides[-1])
        problems += [replace(problem, kind=kind, strides=steps) for kind in ("argmax", "picked")]
    if problem.kind == "routed":
        problems.append(replace(problem, kind="placed"))
    return best_texts([variants(p, target) for p in problems], target)
