"""Cases of sampling functions: their cost, the same call of PyTorch, and their oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import gamma, rounding, unit
from portable_gpu.checking.operands import Array, Operands
from portable_gpu.checking.oracle import Oracle, widened, within
from portable_gpu.dtypes import dtype_of
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.ops.sampling.commands.geometry import TYPICAL_CALLS, problem_of
from portable_gpu.ops.sampling.plan import multiply_adds_of
from portable_gpu.ops.sampling.problem import SamplingProblem

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def of(case: Case) -> SamplingProblem:
    """The problem of a case."""
    return problem_of(case.operation, case.extents, dtype_of(case.dtype))


def flop(case: Case) -> int:
    """Two for each tap."""
    return 2 * multiply_adds_of(of(case))


def options(case: Case) -> dict[str, Any]:
    """What the function takes beside the array."""
    return dict(TYPICAL_CALLS[case.operation].options)


def call(case: Case, on_host: bool) -> PublicCall:
    """The public function."""
    return PublicCall(f"nn.{case.operation}", options(case))


def like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """By ``torch.nn.functional``; NumPy has none of these."""
    functional = getattr(getattr(library, "nn", None), "functional", None)
    if functional is None:
        return None
    name, keywords = TYPICAL_CALLS[case.operation].torch
    return partial(getattr(functional, name), *arrays, **keywords)


def oracle(case: Case, inputs: Operands) -> Oracle:
    """By the matrices of the axes, in higher precision."""
    problem, x = of(case), inputs[0]
    expected, magnitude, taps = sampled(problem, x)
    if problem.kind in ("copy", "max"):
        return lambda found: 0.0 if np.array_equal(found, expected) else np.inf
    bound = gamma(taps + 3, unit(x.dtype)) * magnitude + rounding(x.dtype) * np.abs(expected)
    return within(expected, bound)


def sampled(problem: SamplingProblem, x: Array) -> tuple[Array, Array, int]:
    """The values of a problem, the sums of the magnitudes of their terms, and the number of taps.

    Args:
        problem: A problem of kind ``copy``, ``sum`` or ``max``.
        x: The input.
    """
    by_axes = [rule.entries() for rule in problem.rules if rule is not None]
    axes = [axis for axis, rule in enumerate(problem.rules) if rule is not None]
    most = [int(entries.counts.max(initial=0)) for entries in by_axes]
    largest = problem.kind == "max"
    values = x if problem.kind != "sum" else widened(x)
    start = -np.inf if largest else 0
    result = np.full(problem.shape, start, values.dtype)
    magnitude = np.zeros(problem.shape, values.dtype)
    for steps in product(*(range(count) for count in most)):
        taken, weight = values, np.ones((1,) * values.ndim)
        for axis, entries, step in zip(axes, by_axes, steps, strict=True):
            starts = np.cumsum(entries.counts) - entries.counts
            inside = step < entries.counts
            index = np.where(inside, starts + step, 0)
            taken = np.take(taken, entries.places[index], axis)
            along = [1] * values.ndim
            along[axis] = -1
            weight = weight * np.where(inside, entries.weights[index], 0).reshape(along)
        if largest:
            result = np.where(weight != 0, np.maximum(result, taken), result)
        else:
            term = (taken * weight).astype(values.dtype)
            result, magnitude = result + term, magnitude + np.abs(term)
    return result, magnitude, int(np.prod(most))
