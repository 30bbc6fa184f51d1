"""Cases of gemv: what they cost, their operands and variants, and their oracle."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from portable_gpu.checking.operands import Operands
from portable_gpu.checking.oracle import (
    Oracle,
    bound_of_sums,
    root_mean_square,
    times,
    widened,
    within,
)
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.sizes import MATRIX, MOST_ELEMENTS, Size, random_extents

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def problem_of(case: Case) -> GemvProblem:
    """The product of a case, of contiguous arrays."""
    m, n = case.extents
    elem = element(dtype_of(case.dtype))
    return GemvProblem(elem, m, n, n, 1, 1, 1)


def shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    """The shapes of the matrix and of the vector."""
    m, n = case.extents
    return (m, n), (m if case.trans == "T" else n,)


def by_transposes(case: Case, known: Sequence[str], wanted: str) -> Iterator[Case]:
    """The case with each of some transposes, or with the wanted one.

    Raises:
        ArgumentError: The wanted one is not known.
    """
    if wanted and wanted not in known:
        name = case.operation
        raise ArgumentError(f"{name} has no variant {wanted!r}; there are {', '.join(known)}")
    for trans in (wanted,) if wanted else known:
        yield replace(case, trans=trans)


def variants(case: Case, variant: str, alone: bool) -> Iterator[Case]:
    """The matrix as it is, and transposed."""
    yield from by_transposes(case, ("N", "T"), variant)


def transposed(case: Case, arrays: Sequence[Any]) -> list[Any]:
    """Return the operands of ``a @ b``, of gemm too; transposes are views.

    A single array is both operands.  ``case.trans`` has a letter for each operand: N for the array
    as it is; any other letter for its transpose.
    """
    flags = (case.trans + "NN")[:2]
    both = arrays if len(arrays) > 1 else [*arrays] * 2
    return [x.swapaxes(-1, -2) if t != "N" else x for x, t in zip(both, flags, strict=True)]


def like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any]:
    """Return the call of ``matmul`` of another library; gemm takes it too."""
    return partial(library.matmul, *transposed(case, arrays))


def oracle(case: Case, inputs: Operands) -> Oracle:
    """NumPy in higher precision."""
    a, x = inputs[0] if case.trans == "N" else inputs[0].T, inputs[1]
    expected, dtype = times(a, widened(x)), dtype_of(case.dtype)
    scale = root_mean_square(dtype) ** 2
    return within(expected, bound_of_sums(dtype, a.shape[1], scale, expected))


def matrix(rng: random.Random, on_cpu: bool) -> Size:
    """A matrix of any shape, as it is or transposed."""
    extents = random_extents(rng, MATRIX, MOST_ELEMENTS[on_cpu])
    return Size(extents, variant=rng.choice("NT"))


RANDOM = (RandomSizes("matrix", ("float32", "float16", "float64"), matrix),)
