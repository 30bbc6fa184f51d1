"""Factorisations and solves without a device: typical kernels, and explanations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from portable_gpu.arguments import flag, one_of
from portable_gpu.codegen.specialization import Specialization, distinct
from portable_gpu.dtypes import check_precision, element
from portable_gpu.errors import ArgumentError, DTypeError, UnsupportedError
from portable_gpu.ops.explanation import Explanation, Question, batch_extents
from portable_gpu.ops.factor import packed, ragged
from portable_gpu.ops.factor.copies import CopyProblem, copy_spec
from portable_gpu.ops.factor.estimates import BlockSizes
from portable_gpu.ops.factor.plan import TiledProblem, tiles_spec, vector_spec
from portable_gpu.ops.factor.policy import SolvePolicy, largest
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.factor.stack import Matrix, stacked
from portable_gpu.ops.factor.variants import cholesky_variants, solve_variants
from portable_gpu.ops.fronts.commands import catalogue as fronts
from portable_gpu.ops.variant import best_texts
from portable_gpu.runtime.views import Shape, View, contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

DType = np.dtype[Any]
#: The dtypes of matrices.
DTYPES = ("float32", "float64", "complex64", "complex128")
_SIDES = ("left", "right")
_TRANS = ("N", "T", "C")


def cholesky_problem(
    n: int,
    dtype: DType,
    batch: Shape = (),
    *,
    lower: bool = True,
    overwrite: bool = False,
    precision: str = "ieee",
) -> CholeskyProblem:
    """The factorisation of C-ordered, aligned matrices."""
    matrix = Matrix(_contiguous((*batch, n, n), dtype), trans=not lower)
    extents, (a,) = stacked([matrix], batch)
    return CholeskyProblem(n, extents, a, a, overwrite, precision)


def solve_problem(
    n: int,
    m: int,
    dtype: DType,
    batch: Shape = (),
    *,
    trans: str = "N",
    lower: bool = False,
    unit: bool = False,
    side: str = "left",
    precision: str = "ieee",
) -> SolveProblem:
    """The solve with C-ordered matrices that start aligned: m unknown vectors of n elements."""
    left = side == "left"
    # A solve from the right is the transposed solve from the left, so a transpose cancels there.
    transposed = (trans != "N") == left
    b = Matrix(_contiguous((*batch, *((n, m) if left else (m, n))), dtype), trans=not left)
    a = Matrix(_contiguous((*batch, n, n), dtype), transposed, trans == "C")
    extents, (triangle, rest) = stacked([a, b], batch)
    return SolveProblem(
        n=n, m=m, batch=extents, l=triangle, b=rest, lower=lower != transposed, unit=unit,
        precision=precision,
    )  # fmt: skip


def explain_cholesky(
    question: Question,
    *,
    batch: Shape = (),
    lower: bool = False,
    overwrite_a: bool = False,
    precision: str = "ieee",
) -> Explanation:
    """Which kernels the factor of C-ordered (n, n) arrays takes, and why.

    Args:
        question: The call; its size is n.
        batch: Extents of the batch axes.
        lower, overwrite_a, precision: As the function takes them.

    Raises:
        ArgumentError: There is not one size above 0, or an option is unknown.
        DTypeError: ``dtype`` is none of :data:`DTYPES`.
    """
    sizes = question.sizes
    if len(sizes) != 1 or sizes[0] < 1:
        raise ArgumentError(f"{question.operation} takes the size n, at least 1; got {sizes}")
    _check_dtype(question)
    (n,), batch = sizes, batch_extents(batch, 1)
    problem = cholesky_problem(
        n, question.dtype, batch, lower=flag(lower, "lower"),
        overwrite=flag(overwrite_a, "overwrite_a"), precision=check_precision(precision),
    )  # fmt: skip
    every = cholesky_variants(problem, question.target, question.table)
    return question.answer(every, f"{_stack(batch)}{n} x {n}")


def explain_solve(
    question: Question,
    *,
    batch: Shape = (),
    trans: str = "N",
    lower: bool = False,
    unit_diagonal: bool = False,
    side: str = "left",
    precision: str = "ieee",
) -> Explanation:
    """Which kernels the solve of C-ordered (n, n) and (n, m) arrays takes, and why.

    The kernels include the check for zeros on the diagonal: small triangles are checked in local
    memory, others by a launch before the solve.

    Args:
        question: The call; its sizes are n and m, which is 1 by default.
        batch: Extents of the batch axes.
        trans, lower, unit_diagonal, side, precision: As the function takes them.

    Raises:
        ArgumentError: There are not one or two sizes above 0, or an option is unknown.
        DTypeError: ``dtype`` is none of :data:`DTYPES`.
    """
    sizes, target = question.sizes, question.target
    if len(sizes) not in (1, 2) or min(sizes) < 1:
        raise ArgumentError(
            f"{question.operation} takes the sizes n and m, at least 1; got {sizes}"
        )
    _check_dtype(question)
    one_of(trans, _TRANS, "trans")
    one_of(side, _SIDES, "side")
    (n, m), batch = (*sizes, 1)[:2], batch_extents(batch, 1)
    problem = solve_problem(
        n, m, question.dtype, batch, trans=trans, lower=flag(lower, "lower"),
        unit=flag(unit_diagonal, "unit_diagonal"), side=side, precision=check_precision(precision),
    )  # fmt: skip
    if not unit_diagonal:
        problem = replace(problem, reports="forwards")
    triangle = "lower" if lower else "upper"
    every = solve_variants(problem, target, question.table, problem.b)
    return question.answer(every, f"{_stack(batch)}({n} x {n} {triangle} ({trans}), {m} columns)")


def cholesky_specializations(target: Target, dtype: DType) -> list[Specialization]:
    """List the kernels of small matrices, stored by rows and by columns, of copies and of tiles."""
    _check_compiled("cholesky", dtype)
    elem = element(dtype)
    table, most = TuningTable.shipped(), largest(target, elem)
    problems = [
        cholesky_problem(n, dtype, (1000,), lower=lower, overwrite=overwrite)
        for n in dict.fromkeys(min(n, most) for n in (8, 16, 32, 64, 128))
        for lower, overwrite in ((True, False), (False, True))
    ]
    by_halves = cholesky_problem(most, dtype)
    triangle = CopyProblem(most, most, (), by_halves.a, by_halves.l, triangle=True)
    result = [copy_spec(triangle, target)]
    if BlockSizes.of(target, elem).tiled:
        result += [
            tiles_spec(TiledProblem(cholesky_problem(n, dtype, overwrite=overwrite)), target)
            for n, overwrite in ((1000, False), (1000, True), (4096, False))
        ]
    result += best_texts([cholesky_variants(p, target, table) for p in problems], target)
    return distinct(result)


def solve_specializations(target: Target, dtype: DType) -> list[Specialization]:
    """List the kernels of the largest and the smallest block, with B along rows and columns.

    Also those of tiles, of packed triangles, of matrices of different sizes, and of fronts.
    """
    _check_compiled("solve_triangular", dtype)
    table = TuningTable.shipped()
    elem = element(dtype)
    block = SolvePolicy.default(target, elem).rows
    large = solve_problem(1000, 1000, dtype)
    inverse = CopyProblem(1000, 1000, (), large.l, large.b, inverse=block)
    result = [copy_spec(inverse, target), *packed.typical_texts(target, elem)]
    result += [*ragged.typical_texts(target, elem), *fronts.typical_texts(target, elem)]
    if BlockSizes.of(target, elem).tiled:
        result += [tiles_spec(TiledProblem(large, source), target) for source in (None, large.b)]
        for trans in ("N", "C"):
            tiled = TiledProblem(solve_problem(1000, 1, dtype, trans=trans).forwards()[0])
            result.append(vector_spec(tiled, target))
    for n, m, trans in ((block, 1000, "N"), (block, 16, "C"), (8, 16, "N")):
        for side in _SIDES:
            problem = solve_problem(n, m, dtype, (10,), side=side, trans=trans)
            reporting = replace(problem, reports="forwards")
            result += best_texts(
                [
                    solve_variants(problem, target, table, None),
                    solve_variants(reporting, target, table, problem.b),
                ],
                target,
            )
    return distinct(result)


def _check_dtype(question: Question) -> None:
    if str(question.dtype) not in DTYPES:
        accepted = ", ".join(DTYPES)
        raise DTypeError(f"{question.operation} takes {accepted}; dtype is {question.dtype}")


def _check_compiled(operation: str, dtype: DType) -> None:
    """Raise UnsupportedError for a dtype that is not compiled."""
    if str(dtype) not in DTYPES:
        raise UnsupportedError(f"{operation} of {dtype}")


def _stack(batch: Shape) -> str:
    return "".join(f"{extent} x " for extent in batch)


def _contiguous(shape: Shape, dtype: DType) -> View:
    return View(None, 0, shape, contiguous_strides(shape), np.dtype(dtype))
