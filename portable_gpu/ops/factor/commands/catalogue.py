"""Factorisations and solves without a device: typical kernels, and explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from portable_gpu.arguments import flag, of_kind, one_of, whole
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import check_precision, element
from portable_gpu.errors import ArgumentError, DTypeError, UnsupportedError
from portable_gpu.ops.explanation import Explanation, explanation
from portable_gpu.ops.factor import packed, ragged
from portable_gpu.ops.factor.copies import CopyProblem, copy_text
from portable_gpu.ops.factor.estimates import BlockSizes
from portable_gpu.ops.factor.plan import TiledProblem, tiles_text, vector_text
from portable_gpu.ops.factor.policy import SolvePolicy, largest
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.factor.stack import Matrix, stacked
from portable_gpu.ops.factor.variants import cholesky_variants, solve_variants
from portable_gpu.ops.fronts.commands import catalogue as fronts
from portable_gpu.ops.variant import best_of
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
    operation: str,
    sizes: Sequence[int],
    dtype: DType,
    target: Target,
    table: TuningTable,
    *,
    batch: Shape = (),
    lower: bool = False,
    overwrite_a: bool = False,
    precision: str = "ieee",
) -> Explanation:
    """Which kernels the factor of C-ordered (n, n) arrays takes, and why.

    Args:
        operation: ``cholesky``.
        sizes: n.
        dtype: The dtype of the arrays.
        target, table: The device, and the table of policies.
        batch: Extents of the batch axes.
        lower, overwrite_a, precision: As the function takes them.

    Raises:
        ArgumentError: There is not one size above 0, or an option is unknown.
        DTypeError: ``dtype`` is none of :data:`DTYPES`.
    """
    if len(sizes) != 1 or sizes[0] < 1:
        raise ArgumentError(f"{operation} takes the size n, at least 1; got {tuple(sizes)}")
    _check_dtype(operation, dtype)
    (n,), batch = sizes, _batch(batch)
    problem = cholesky_problem(
        n, dtype, batch, lower=flag(lower, "lower"), overwrite=flag(overwrite_a, "overwrite_a"),
        precision=check_precision(precision),
    )  # fmt: skip
    named = f"{operation} of {_stack(batch)}{n} x {n} {dtype} on {target.facts.name}"
    return explanation(named, cholesky_variants(problem, target, table), target)


def explain_solve(
    operation: str,
    sizes: Sequence[int],
    dtype: DType,
    target: Target,
    table: TuningTable,
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
        operation: ``solve_triangular``.
        sizes: n and m; m is 1 without it.
        dtype, target, table, batch: See :func:`explain_cholesky`.
        trans, lower, unit_diagonal, side, precision: As the function takes them.

    Raises:
        ArgumentError: There are not one or two sizes above 0, or an option is unknown.
        DTypeError: ``dtype`` is none of :data:`DTYPES`.
    """
    if len(sizes) not in (1, 2) or min(sizes) < 1:
        raise ArgumentError(f"{operation} takes the sizes n and m, at least 1; got {tuple(sizes)}")
    _check_dtype(operation, dtype)
    one_of(trans, _TRANS, "trans")
    one_of(side, _SIDES, "side")
    n, m, batch = sizes[0], sizes[-1] if len(sizes) == 2 else 1, _batch(batch)
    problem = solve_problem(
        n, m, dtype, batch, trans=trans, lower=flag(lower, "lower"),
        unit=flag(unit_diagonal, "unit_diagonal"), side=side, precision=check_precision(precision),
    )  # fmt: skip
    if not unit_diagonal:
        problem = replace(problem, reports="forwards")
    triangle = "lower" if lower else "upper"
    named = (
        f"{operation} of {_stack(batch)}({n} x {n} {triangle} ({trans}), {m} columns) {dtype} "
        f"on {target.facts.name}"
    )
    return explanation(named, solve_variants(problem, target, table, problem.b), target)


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
    result = [copy_text(triangle, target)]
    if BlockSizes.of(target, elem).tiled:
        result += [
            tiles_text(TiledProblem(cholesky_problem(n, dtype, overwrite=overwrite)), target)
            for n, overwrite in ((1000, False), (1000, True), (4096, False))
        ]
    for problem in problems:
        result += best_of(cholesky_variants(problem, target, table), target).texts()
    return _unique(result)


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
    result = [copy_text(inverse, target), *packed.typical_texts(target, elem)]
    result += [*ragged.typical_texts(target, elem), *fronts.typical_texts(target, elem)]
    if BlockSizes.of(target, elem).tiled:
        result += [tiles_text(TiledProblem(large, source), target) for source in (None, large.b)]
        for trans in ("N", "C"):
            tiled = TiledProblem(solve_problem(1000, 1, dtype, trans=trans).forwards()[0])
            result.append(vector_text(tiled, target))
    for n, m, trans in ((block, 1000, "N"), (block, 16, "C"), (8, 16, "N")):
        for side in _SIDES:
            problem = solve_problem(n, m, dtype, (10,), side=side, trans=trans)
            reporting = replace(problem, reports="forwards")
            for p, source in ((problem, None), (reporting, problem.b)):
                result += best_of(solve_variants(p, target, table, source), target).texts()
    return _unique(result)


def _check_dtype(operation: str, dtype: DType) -> None:
    if str(dtype) not in DTYPES:
        raise DTypeError(f"{operation} takes {', '.join(DTYPES)}; dtype is {dtype}")


def _check_compiled(operation: str, dtype: DType) -> None:
    """Raise UnsupportedError for a dtype that is not compiled."""
    if str(dtype) not in DTYPES:
        raise UnsupportedError(f"{operation} of {dtype}")


def _batch(batch: Shape) -> Shape:
    extents = tuple(
        [whole(extent, "an extent of batch") for extent in of_kind(batch, tuple, "batch")]
    )
    if min(extents, default=1) < 1:
        raise ArgumentError(f"batch is {extents}; expected extents of at least 1")
    return extents


def _stack(batch: Shape) -> str:
    return "".join(f"{extent} x " for extent in batch)


def _contiguous(shape: Shape, dtype: DType) -> View:
    return View(None, 0, shape, contiguous_strides(shape), np.dtype(dtype))


def _unique(found: Sequence[Specialization]) -> list[Specialization]:
    return list({spec.key: spec for spec in found}.values())
