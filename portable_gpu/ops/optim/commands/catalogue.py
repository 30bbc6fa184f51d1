"""Steps of optimisers without a device: typical kernels, and explanations."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import element
from portable_gpu.errors import DTypeError
from portable_gpu.ops.explanation import Explanation, Question
from portable_gpu.ops.optim.plan import StepProblem, render, variants
from portable_gpu.targets import Target

#: The states of each rule.
STATES = {"sgd": ("buffer",), "adam": ("average", "squares")}


def problem(operation: str, dtype: np.dtype[Any], size: int) -> StepProblem:
    """The problem of a step with momentum, or of Adam; 16-bit parameters have a master copy."""
    elem, rule = element(dtype), operation.removesuffix("_step")
    if not elem.floating or elem.complex:
        raise DTypeError(f"{operation} takes floating numbers, not {dtype}")
    is_short = elem.itemsize == 2
    state_elem = element(np.float32) if is_short else elem
    return StepProblem(
        rule=rule, elem=elem, wide=state_elem, size=size, states=STATES[rule], master=is_short,
        flags=frozenset(), is_aligned=True,
    )  # fmt: skip


def sgd_kernels(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
    """The kernel of a step with momentum."""
    return [render(problem("sgd_step", dtype, 1 << 20), target)]


def adam_kernels(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
    """The kernel of a step of Adam."""
    return [render(problem("adam_step", dtype, 1 << 20), target)]


def explain(question: Question) -> Explanation:
    """Explain the kernel of a step of parameters of a shape."""
    asked = problem(question.operation, question.dtype, prod(question.sizes))
    return question.answer(variants(asked, question.target))
