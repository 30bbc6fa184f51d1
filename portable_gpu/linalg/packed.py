"""Triangles in half the memory: n (n + 1) / 2 elements, in block rows that products run on.

``docs/linalg_packed.md`` draws the layout.  Triangles of at most 128 rows are as LAPACK packs them:
``lower=True`` by rows (LAPACK's ``U`` by columns), ``lower=False`` the same of the transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, one_of
from portable_gpu.dtypes import check_precision, element
from portable_gpu.errors import ArgumentError, ShapeError
from portable_gpu.ops.factor.api import as_column, lies, not_positive_definite, reported, singular
from portable_gpu.ops.factor.arguments import (
    CHECKS,
    check_dtype,
    common_dtype,
    in_dtype,
    require_fp64,
    solution_shape,
    square,
    transposition,
)
from portable_gpu.ops.factor.candidates import packed_parts
from portable_gpu.ops.factor.packed import BLOCK, PackProblem, packed_size, rows_of
from portable_gpu.ops.factor.packed_steps import (
    Factor,
    PackedProblem,
    PackedSolve,
    cholesky_packed,
    placed,
    product_steps,
    solve_packed,
    way_for,
    zeros_step,
)
from portable_gpu.ops.factor.plan import CopyPlan, CopyProblem
from portable_gpu.ops.factor.stack import Matrix, stacked
from portable_gpu.ops.gemm.product import factor
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.plan import Plan, Step, Steps
from portable_gpu.runtime.report import DTYPE, FIELDS, reports_of
from portable_gpu.runtime.views import AnyArray, View, as_array, check_no_overlap

__all__ = [
    "BLOCK",
    "cho_solve",
    "cholesky",
    "herk",
    "pack",
    "packed_size",
    "solve_triangular",
    "syrk",
    "unpack",
]


def pack(
    a: AnyArray,
    lower: bool = True,
    *,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Copy a triangle of each matrix into packed storage.

    Args:
        a: Shape (..., n, n), any strides.  float32, float64, complex64 or complex128.
        lower: Whether its lower triangle is taken; else its upper one, which lies packed as its
            transpose.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        Shape (..., n (n + 1) / 2): NumPy for NumPy arguments (done), pyopencl for pyopencl ones
        (enqueued).

    Raises:
        ShapeError, DTypeError, UnsupportedError, DeviceMemoryError: As
            :func:`portable_gpu.linalg.cholesky`.
    """
    lower = flag(lower, "lower")
    a = square(as_array(a, "a"), "a")
    n, batch = a.shape[-1], a.shape[:-2]
    call = Call((a,), engine, queue, events_of(wait_for), flop=None)
    require_fp64(call.engine, a.dtype)
    view_a = call.input(a, "a")
    view = call.output((*batch, packed_size(n)), a.dtype)
    return _moved(call, view_a, view, n, "pack", lower, "zero", a)


def unpack(
    ap: AnyArray,
    lower: bool = True,
    symmetric: bool = False,
    *,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Copy packed triangles into matrices.

    Args:
        ap: Shape (..., n (n + 1) / 2).
        lower: Whether they are lower triangles.
        symmetric: Fill the other triangle too, as of a symmetric or Hermitian matrix; else it is
            zero.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        Shape (..., n, n).

    Raises:
        ShapeError: The length of the last axis is that of no triangle.
        DTypeError, UnsupportedError, DeviceMemoryError: As :func:`pack`.
    """
    lower, symmetric = flag(lower, "lower"), flag(symmetric, "symmetric")
    ap, n = _packed(ap)
    call = Call((ap,), engine, queue, events_of(wait_for), flop=None)
    require_fp64(call.engine, ap.dtype)
    view_ap = call.input(_in_line(ap, "ap"), "ap")
    view = call.output((*ap.shape[:-1], n, n), ap.dtype)
    above = "conj" if symmetric else "zero"
    return _moved(call, view_ap, view, n, "unpack", lower, above, ap)


def cholesky(
    ap: AnyArray,
    *,
    overwrite: bool = False,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the Cholesky factors of packed symmetric or Hermitian positive definite matrices.

    Lower triangles of A become L of ``A = L L^H``, upper ones U of ``A = U^H U``: it is the same
    in memory.

    Args:
        ap: Shape (..., n (n + 1) / 2): the packed triangles.
        overwrite: Put the factors into ``ap``, and return it.
        check, precision, engine, queue, wait_for: As :func:`portable_gpu.linalg.cholesky`.

    Returns:
        ``ap``, or a fresh array of its shape.

    Raises:
        NotPositiveDefiniteError: As :func:`portable_gpu.linalg.cholesky`.
        ShapeError: The length of the last axis is that of no triangle.
        ArgumentError: With ``overwrite``, if elements of a triangle are not adjacent.
        DTypeError, OverlapError, ReadOnlyError, UnsupportedError, DeviceMemoryError: As
            :func:`portable_gpu.linalg.cholesky`.

    Cost: ``n^3 / 3`` flop for each matrix (four times that if complex).  Memory besides
        the result: 256 n elements for each matrix; on a GPU two eighths of ``n^2``, at least
        384 n and at most 1024 n.
    Accuracy: As :func:`portable_gpu.linalg.cholesky`.
    Order: fixed for one target, policy and shape; no atomics.
    """
    overwrite = flag(overwrite, "overwrite")
    one_of(check, CHECKS, "check")
    ap, n = _packed(ap)
    if overwrite:
        _check_adjacent(ap, "ap")
    batch, dtype = ap.shape[:-1], ap.dtype
    flop = int(ap.size) * 2 * n // 3 * element(dtype).components ** 2
    call = Call((ap,), engine, queue, events_of(wait_for), flop=flop)
    require_fp64(call.engine, dtype)
    precision = _precision(precision, call)
    view_l = call.output(ap.shape, dtype, ap if overwrite else None, "ap", read=overwrite)
    views = [view_l] if overwrite else [call.input(ap, "ap"), view_l]
    report, array = call.beside((int(np.prod(batch)), FIELDS), DTYPE)
    plan = None
    if view_l.size:

        def make() -> Plan:
            extents, operands = _stacks(views)
            p = PackedProblem(n, extents, operands[-1], precision, _aligned(call))
            steps = cholesky_packed(
                p, packed_parts(call.engine, p.elem), way_for(n, n, call.engine.target)
            )
            return _after_copy(call.engine, packed_size(n), extents, operands, Steps(steps))

        key = ("packed cholesky", overwrite, precision, *lies(*views))
        plan = call.engine.plan(key, make)
    result = call.run(plan, (*views, report))
    complain = not_positive_definite(batch, dtype)
    return reported(result, array, complain, plan, call, check, reports_of(ap))


def solve_triangular(
    ap: AnyArray,
    b: AnyArray,
    trans: int | str = "N",
    lower: bool = True,
    unit_diagonal: bool = False,
    *,
    side: str = "left",
    overwrite_b: bool = False,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Solve ``op(A) X = B``, or ``X op(A) = B``, for packed triangles A.

    Args:
        ap: Shape (..., n (n + 1) / 2): the triangles.
        b: As :func:`portable_gpu.linalg.solve_triangular` takes it.
        lower: Whether A is a lower triangle, before ``op``.
        trans, unit_diagonal, side, overwrite_b, check, precision, engine, queue, wait_for: As
            :func:`portable_gpu.linalg.solve_triangular`.

    Returns:
        X: ``b``, or a fresh array of its shape, broadcast.

    Raises:
        As :func:`portable_gpu.linalg.solve_triangular`.

    Cost: ``n^2 m`` flop for each pair (four times that if complex).  Memory besides
        the result: 128 n elements for each triangle; on a GPU, with more than 32 columns, up to
        ``512 n``.
    Accuracy: As :func:`portable_gpu.linalg.solve_triangular`.
    """
    op, lower = transposition(trans), flag(lower, "lower")
    unit = flag(unit_diagonal, "unit_diagonal")
    # A's memory holds a lower triangle: an upper A is its transpose.
    solves = (((op != "N") != (not lower), op == "C", unit),)
    return _solve(
        ap, b, solves, side, overwrite_b, check, precision, engine, queue, events_of(wait_for)
    )


def cho_solve(
    ap: AnyArray,
    b: AnyArray,
    lower: bool = True,
    *,
    overwrite_b: bool = False,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Solve ``A X = B``, given A's packed Cholesky factor.

    Args:
        ap: Shape (..., n (n + 1) / 2): what :func:`cholesky` returned.
        b: Shape (n,), or (..., n, m).
        lower: Whether A was given by its lower triangle; it matters for complex ones only.
        overwrite_b, check, precision, engine, queue, wait_for: As :func:`solve_triangular`.

    Returns:
        X: ``b``, or a fresh array of its shape, broadcast.

    Raises:
        As :func:`solve_triangular`.

    Cost: ``2 n^2 m`` flop for each pair (four times that if complex).
    Accuracy: ``|(A + E) X - B| = 0`` with ``|E| <= gamma(3n + 1) |L| |L^H|`` (Higham, Accuracy and
        Stability, 2002, theorem 10.4).
    """
    lower = flag(lower, "lower")
    # L L^H; or, with the memory's M = U^T, U^H U = conj(M) M^T.
    solves = ((False, not lower, False), (True, lower, False))
    return _solve(
        ap, b, solves, "left", overwrite_b, check, precision, engine, queue, events_of(wait_for)
    )


def syrk(
    a: AnyArray,
    ap: AnyArray | None = None,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    *,
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``alpha A A^T + beta C``, of a packed symmetric C, lower or upper.

    Args:
        a: Shape (..., n, k), any strides.
        ap: C, shape (..., n (n + 1) / 2), updated in place and returned; without it the result is a
            fresh array.
        alpha, beta: Numbers; of ``beta == 0`` C is not read.
        precision, engine, queue, wait_for: As :func:`portable_gpu.gemm`.

    Returns:
        ``ap`` or a fresh array.

    Raises:
        ShapeError, DTypeError, ArgumentError, OverlapError, ReadOnlyError, UnsupportedError,
        DeviceMemoryError: As :func:`portable_gpu.gemm`.

    Cost: ``n^2 k`` flop (four times that if complex).  Memory besides the result: 128 n elements
        for each C; on a GPU up to ``512 n``.
    Accuracy: As :func:`portable_gpu.gemm`.
    """
    return _rank_k(a, ap, alpha, beta, False, precision, engine, queue, events_of(wait_for))


def herk(
    a: AnyArray,
    ap: AnyArray | None = None,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    *,
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``alpha A A^H + beta C``, of a packed Hermitian C by its lower triangle.

    Args, Returns, Raises, Cost, Accuracy: As :func:`syrk`.
    """
    return _rank_k(a, ap, alpha, beta, True, precision, engine, queue, events_of(wait_for))


# -- what they share


def _moved(
    call: Call, source: View, target: View, n: int, what: str, lower: bool, above: str, given: Any
) -> Any:
    """Run a plan between packed and dense."""
    plan = None
    if target.size:

        def make() -> Plan:
            packs = what == "pack"
            line, matrix = (target, source) if packs else (source, target)
            matrices = [_line(line), Matrix(matrix, trans=not lower)]
            extents, (packed, dense) = stacked(matrices, target.shape[: -1 if packs else -2])
            whole = (0, n)
            problem = PackProblem(
                n, extents, packed, dense, whole, whole, what, diagonal=False, above=above
            )
            return packed_parts(call.engine, packed.elem).pack(problem)

        plan = call.engine.plan((what, lower, above, *lies(source, target)), make)
    result = call.run(plan, (source, target))
    if isinstance(result, Array):
        result.reports = reports_of(given)
    return result


def _solve(
    ap: Any,
    b: Any,
    solves: tuple[tuple[bool, bool, bool], ...],
    side: str,
    overwrite_b: bool,
    check: str,
    precision: str | None,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: list[cl.Event],
) -> Any:
    """Solves one after the other, each of which is transposed, conjugated, with unit diagonal."""
    overwrite = flag(overwrite_b, "overwrite_b")
    one_of(side, ("left", "right"), "side")
    one_of(check, CHECKS, "check")
    ap, n = _packed(ap)
    b = as_array(b, "b")
    shape = solution_shape((*ap.shape[:-1], n, n), b.shape, side)
    dtype = common_dtype(ap.dtype, b.dtype)
    if overwrite:
        check_no_overlap(b, "b", [(ap, "ap")])
    call = Call((ap, b), engine, queue, wait_for, flop=None)
    require_fp64(call.engine, dtype)
    precision = _precision(precision, call)
    line = in_dtype(ap, dtype, call)
    view_x = call.output(shape, dtype, b if overwrite else None, "b", read=overwrite)
    views = [call.input(_in_line(line, "ap"), "ap"), view_x]
    if not overwrite:
        views.insert(1, call.input(in_dtype(b, dtype, call), "b"))
    is_vector = b.ndim == 1
    batch = shape[:-1] if is_vector else shape[:-2]
    plan = None
    if view_x.size:
        key = ("packed solve", solves, side, precision, is_vector, *lies(*views))
        plan = call.engine.plan(
            key, lambda: _solve_plan(call, views, n, solves, side, precision, is_vector)
        )
    unit, earlier = solves[0][2], reports_of(ap, b)
    if unit:  # the diagonal is not read
        return reported(call.run(plan, views), None, None, plan, call, check, earlier)
    report, array = call.beside((int(np.prod(batch)), FIELDS), DTYPE)
    result = call.run(plan, (*views, report))
    return reported(result, array, singular(batch), plan, call, check, earlier)


def _solve_plan(
    call: Call,
    views: Sequence[View],
    n: int,
    solves: tuple[tuple[bool, bool, bool], ...],
    side: str,
    precision: str,
    is_vector: bool,
) -> Plan:
    """Operands: the triangles, B where X is not to be in its place, X, and the report."""
    line, *others = views
    if is_vector:
        others = [as_column(view, side) for view in others]
    left = side == "left"
    matrices = [Matrix(view, trans=not left) for view in others]
    extents, (packed, *rest) = stacked([_line(line), *matrices], others[-1].shape[:-2])
    m = matrices[-1].shape[1]
    p = PackedProblem(n, extents, packed, precision, _aligned(call))
    parts, way = packed_parts(call.engine, p.elem), way_for(n, m, call.engine.target)
    x = len(rest)
    steps: list[Step] = []
    if not solves[0][2]:
        steps.append(zeros_step(p, parts, x + 1))
    if len(rest) == 2:
        copy = CopyProblem(n, m, extents, rest[0], rest[1])
        steps.append(Step(CopyPlan(call.engine, copy), (1, 2)))
    for transposed, conj, unit in solves:
        solve = PackedSolve(p, m, rest[-1], transposed == left, conj, unit)
        steps.extend(placed(solve_packed(solve, parts, way), (0, x)))
    return Steps(steps)


def _rank_k(
    a: Any,
    ap: Any,
    alpha: Any,
    beta: Any,
    hermitian: bool,
    precision: str | None,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: list[cl.Event],
) -> Any:
    a = as_array(a, "a")
    check_dtype(a.dtype, "a")
    if a.ndim < 2:
        raise ShapeError(f"a has shape {tuple(a.shape)}; a matrix is needed, or a stack of them")
    elem = element(a.dtype)
    alpha, beta = factor(alpha, "alpha", elem), factor(beta, "beta", elem)
    *batch, n, k = a.shape
    shape = (*batch, packed_size(n))
    if ap is None and beta != 0:
        raise ArgumentError(f"beta is {beta} and there is no ap; pass ap=")
    if ap is not None:
        check_no_overlap(ap, "ap", [(a, "a")])
    call = Call((a, ap), engine, queue, wait_for, flop=None)
    require_fp64(call.engine, a.dtype)
    precision = _precision(precision, call)
    view_a = call.input(a, "a")
    view = call.output(shape, a.dtype, ap, "ap", read=beta != 0)
    if ap is not None:
        _check_adjacent(ap, "ap")
    plan = None
    reads, multiplies = beta != 0, alpha != 0 and k > 0
    if view.size:

        def make() -> Plan:
            extents, (packed, x) = stacked([_line(view), Matrix(view_a)], tuple(batch))
            p = PackedProblem(n, extents, packed, precision, _aligned(call))
            rows = Factor(x, 0, 0, k if multiplies else 0, hermitian)
            way = way_for(n, n, call.engine.target)
            parts = packed_parts(call.engine, elem)
            return Steps(product_steps(p, rows, 0, 1, parts, way, None, reads))

        key = ("packed product", hermitian, reads, multiplies, precision, *lies(view_a, view))
        plan = call.engine.plan(key, make)
    return call.run(plan, (view_a, view), (alpha, beta))


def _packed(value: Any) -> tuple[Any, int]:
    """The array, and how many rows its triangles have."""
    ap = as_array(value, "ap")
    check_dtype(ap.dtype, "ap")
    if ap.ndim == 0:
        raise ShapeError("ap is one number; packed triangles have an axis of n (n + 1) / 2")
    size = ap.shape[-1]
    n = rows_of(size)
    if n is None:
        below = int((np.sqrt(8.0 * size + 1) - 1) / 2)
        nearest = min((below, below + 1), key=lambda rows: abs(packed_size(rows) - size))
        raise ShapeError(
            f"ap has shape {tuple(ap.shape)}: {size} elements are no triangle's; nearest is "
            f"{packed_size(nearest)}, of {nearest} rows"
        )
    return ap, n


def _check_adjacent(ap: Any, name: str) -> None:
    if ap.size and ap.shape[-1] > 1 and ap.strides[-1] != ap.dtype.itemsize:
        raise ArgumentError(
            f"{name} has strides {ap.strides} bytes; a triangle's elements must be adjacent: "
            "copy it first"
        )


def _in_line(ap: Any, name: str) -> Any:
    """With adjacent elements."""
    if isinstance(ap, np.ndarray) and ap.size and ap.strides[-1] != ap.dtype.itemsize:
        return np.ascontiguousarray(ap)
    _check_adjacent(ap, name)
    return ap


def _line(view: View) -> Matrix:
    """Packed triangles as matrices of one row."""
    *batch, size = view.shape
    *steps, step = view.strides
    shape, strides = (*batch, 1, size), (*steps, 0, step)
    return Matrix(View(view.buffer, view.offset, shape, strides, view.dtype, view.address))


def _stacks(views: Sequence[View]) -> tuple[tuple[int, ...], list[Any]]:
    return stacked([_line(view) for view in views], views[-1].shape[:-1])


def _after_copy(
    engine: Engine, size: int, extents: tuple[int, ...], operands: Sequence[Any], work: Plan
) -> Plan:
    """Work on the last operand, into which the first is copied if there are two."""
    if len(operands) == 1:
        return work
    source, target = operands
    copy = CopyPlan(engine, CopyProblem(1, size, extents, source, target))
    return Steps([Step(copy, (0, 1)), Step(work, (1, 2))])


def _precision(precision: str | None, call: Call) -> str:
    return call.engine.precision if precision is None else check_precision(precision)


def _aligned(call: Call) -> bool:
    return not call.engine.maps_host_memory
