"""Cases of gemm: what they cost, their operands and variants, and their oracle."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.operands import Operands
from portable_gpu.checking.oracle import (
    SPLIT_ERRORS,
    Oracle,
    bound_of_sums,
    root_mean_square,
    times,
    worst,
)
from portable_gpu.dtypes import PRECISIONS, dtype_of, element
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemv.commands.cases import by_transposes, transposed
from portable_gpu.ops.public_call import PublicCall

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case

#: The precisions of float32 products, and the dtype of the result of 16-bit floats.
MANNERS = {"float32": PRECISIONS, "float16": ("float32",), "bfloat16": ("float32",)}
_TRANSPOSES = ("NN", "NT", "TN", "TT")
#: The product of a matrix and its own transpose, which is one array: ``A @ A.T``.
SYMMETRIC = "NS"


def problem_of(case: Case) -> GemmProblem:
    """The product of a case, of contiguous arrays."""
    m, k, n = case.extents
    batch = () if case.batch is None else (case.batch,)
    elem, result = element(dtype_of(case.dtype)), element(dtype_of(case.result))
    a, b, c = Operand(elem, k, 1), Operand(elem, n, 1), Operand(result, n, 1)
    return GemmProblem(m=m, n=n, k=k, batch=batch, a=a, b=b, c=c, compute=elem)


def shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of A and B as stored; of A alone where B is its transpose in memory.

    Raises:
        ArgumentError: Such a product is not square.
    """
    m, k, n = case.extents
    if case.trans == SYMMETRIC:
        if m != n:
            raise ArgumentError(f"{case.size} is not a size: {SYMMETRIC} takes m x k x m")
        return ((m, k) if case.batch is None else (case.batch, m, k),)
    a = (k, m) if case.trans[:1] == "T" else (m, k)
    b = (n, k) if case.trans[1:] == "T" else (k, n)
    batch = () if case.batch is None else (case.batch,)
    return (*batch, *a), (*batch, *b)


def options(case: Case) -> dict[str, Any]:
    """Transposes or the batch, and the precision."""
    if case.batch is not None:
        return {"batch": (case.batch,), "precision": case.precision}
    return {"trans_a": case.trans[0], "trans_b": case.trans[1], "precision": case.precision}


def variants(case: Case, variant: str, alone: bool) -> Iterator[Case]:
    """All transposes of single square products; others as they are."""
    every = len(set(case.extents)) == 1 and case.batch is None
    known = (*_TRANSPOSES, SYMMETRIC) if variant else _TRANSPOSES if every else _TRANSPOSES[:1]
    yield from by_transposes(case, known, variant)


def call(case: Case, on_host: bool) -> PublicCall:
    """``matmul`` for batches, and for NumPy arrays, whose transposes are views; else ``gemm``.

    If the result has another dtype, it is ``gemm`` into a given C.
    """
    converts = case.result != case.dtype
    if case.trans == SYMMETRIC:
        return PublicCall("matmul", {"precision": case.precision}, transposed="NT")
    if case.batch is not None or (on_host and not converts):
        return PublicCall("matmul", {"precision": case.precision}, transposed=case.trans)
    c = ("c", (case.extents[0], case.extents[2]), case.result) if converts else None
    return PublicCall("gemm", options(case), into=c)


def oracle(case: Case, inputs: Operands) -> Oracle:
    """Freivalds' test: ``C r`` against ``A (B r)`` for a random vector r.

    It detects every wrong element, at the cost of a few products with a vector.
    """
    a, b = transposed(case, inputs)
    n = b.shape[-1]
    r = np.random.default_rng(2).standard_normal(n)
    expected = times(a, times(b, r))
    k, scale = a.shape[-1], root_mean_square(dtype_of(case.dtype)) ** 2
    # The n errors of a row of C are multiplied by the factors of r; they add up as a random walk.
    size = np.asarray(sqrt(k) * scale)
    bound = np.linalg.norm(r) * bound_of_sums(dtype_of(case.result), k, scale, size)
    bound = bound + 16 * SPLIT_ERRORS[case.precision] * np.linalg.norm(r) * sqrt(k) * scale
    # The test's own sums, of n terms on either side, are in double precision.
    bound = bound + 2 * bound_of_sums(np.dtype(np.float64), n, sqrt(k) * scale, np.zeros(()))
    shape = (*a.shape[:-1], n)
    return lambda found: worst(times(found, r), expected, bound) if found.shape == shape else np.inf
