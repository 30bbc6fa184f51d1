"""Cases of sampling functions: their cost, the equivalent call of PyTorch, and their oracle."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import gamma, rounding_errors, unit
from portable_gpu.checking.operands import Array, Operands
from portable_gpu.checking.oracle import Oracle, widened, within
from portable_gpu.dtypes import dtype_of
from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.ops.sampling.commands.geometry import (
    TYPICAL_CALLS,
    indices_of,
    operand_shapes,
    problem_of,
)
from portable_gpu.ops.sampling.plan import multiply_adds_of
from portable_gpu.ops.sampling.problem import SamplingProblem
from portable_gpu.ops.sizes import Size, random_extents
from portable_gpu.runtime.views import Shape

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def problem_of_case(case: Case) -> SamplingProblem:
    """Return the problem of a case."""
    return problem_of(case.operation, case.extents, dtype_of(case.dtype))


def flop(case: Case) -> int:
    """Return the operations: two for each tap."""
    problem = problem_of_case(case)
    return 2 * multiply_adds_of(problem.shape, problem.rules)


def shapes(case: Case) -> tuple[Shape, ...]:
    """Return the shapes of the arrays."""
    return operand_shapes(case.operation, case.extents)


def operands(case: Case, inputs: Operands) -> Operands:
    """Return the arrays; indices are those of a forward call."""
    if len(inputs) == 1:
        return inputs
    return (inputs[0], indices_of(case.operation, case.extents))


def call(case: Case, on_host: bool) -> PublicCall:
    """Return the call of the public function."""
    options = TYPICAL_CALLS[case.operation].arguments(case.extents)
    return PublicCall(f"nn.{case.operation}", options)


def like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """Return the call of PyTorch; NumPy has none of these functions."""
    if not hasattr(library, "nn"):
        return None
    return partial(TYPICAL_CALLS[case.operation].torch, library, case.extents, *arrays)


def oracle(case: Case, inputs: Operands) -> Oracle:
    """Return the oracle: each output is computed from its taps in higher precision."""
    problem = problem_of_case(case)
    expected, magnitude, taps = sampled(problem, *inputs)
    if problem.kind in ("copy", "max"):
        return lambda result: 0.0 if np.array_equal(result, expected) else np.inf
    dtype = inputs[0].dtype
    bound = gamma(taps + 4, unit(dtype)) * magnitude + rounding_errors(dtype, expected)
    return within(expected, bound)


def sampled(
    problem: SamplingProblem, x: Array, indices: Array | None = None
) -> tuple[Array, Array, int]:
    """Return the values, the sums of the magnitudes of their terms, and the number of taps.

    Args:
        problem: A problem.
        x: The input, or the gradient of the result.
        indices: The places in the plane to which the elements of a gradient are added.
    """
    by_axes = [rule.entries() for rule in problem.rules if rule is not None]
    axes = [axis for axis, rule in enumerate(problem.rules) if rule is not None]
    max_counts = [int(entries.counts.max(initial=0)) for entries in by_axes]
    if indices is not None:
        result = np.zeros((int(np.prod(problem.shape[:2])), int(np.prod(problem.shape[2:]))))
        magnitude = np.zeros(result.shape)
        planes = np.arange(len(result))[:, None]
        flat, values = indices.reshape(len(result), -1), widened(x).reshape(len(result), -1)
        np.add.at(result, (planes, flat), values)
        np.add.at(magnitude, (planes, flat), np.abs(values))
        both = (result.reshape(problem.shape), magnitude.reshape(problem.shape))
        return *both, int(np.prod(max_counts))
    is_max = problem.kind == "max"
    values = widened(x) if problem.kind == "sum" else x
    result = np.full(problem.shape, -np.inf if is_max else 0, values.dtype)
    magnitude = np.zeros(problem.shape, values.dtype)
    for steps in product(*(range(count) for count in max_counts)):
        term, weight = values, np.ones((1,) * values.ndim)
        for axis, entries, step in zip(axes, by_axes, steps, strict=True):
            starts = np.cumsum(entries.counts) - entries.counts
            inside = step < entries.counts
            index = np.where(inside, starts + step, 0)
            term = np.take(term, entries.places[index], axis)
            along = [1] * values.ndim
            along[axis] = -1
            weight = weight * np.where(inside, entries.weights[index], 0).reshape(along)
        if is_max:
            result = np.where(weight != 0, np.maximum(result, term), result)
        else:
            product_of_both = (term * weight).astype(values.dtype)
            result, magnitude = result + product_of_both, magnitude + np.abs(product_of_both)
    return result, magnitude, int(np.prod(max_counts))


_MOST_ELEMENTS = {True: 1 << 22, False: 1 << 25}  # by whether the device is a CPU


def images(rng: random.Random, on_cpu: bool) -> Size:
    """A batch of images with channels."""
    limits = ((64, 1), (512, 1), (512, 4), (512, 4))
    return Size(random_extents(rng, limits, _MOST_ELEMENTS[on_cpu]))


RANDOM = (RandomSizes("images", ("float32", "float16"), images),)
