"""Factors of packed matrices, and solves with packed triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, one_of
from portable_gpu.dtypes import element, requested_precision
from portable_gpu.linalg.packed.storage import as_row, check_adjacent, in_line, packed_array
from portable_gpu.ops.factor.api import as_column, in_its_place, layout_key
from portable_gpu.ops.factor.arguments import (
    CHECKS,
    common_dtype,
    precision_of,
    solution_shape,
    transposition,
)
from portable_gpu.ops.factor.copies import CopyProblem, copy_plan
from portable_gpu.ops.factor.packed import packed_size
from portable_gpu.ops.factor.packed_steps import (
    PackedPartition,
    PackedProblem,
    PackedSolve,
    cholesky_packed,
    placed,
    solve_packed,
    zeros_step,
)
from portable_gpu.ops.factor.reports import not_positive_definite, report_spec, singular
from portable_gpu.ops.factor.stack import Matrix, stacked
from portable_gpu.ops.factor.variants import packed_parts
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.ops.reduce.conversion import converter
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps
from portable_gpu.runtime.views import AnyArray, View, as_array
from portable_gpu.typing import of_one, of_two


class _Triangle(NamedTuple):
    """How a solve takes the lower triangle M that is in memory: as M, M^T, conj(M) or M^H."""

    transposed: bool
    conjugated: bool
    unit_diagonal: bool


@of_one
def cholesky(
    ap: AnyArray,
    overwrite_ap: bool = False,
    *,
    out: AnyArray | None = None,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the Cholesky factors of packed symmetric or Hermitian positive definite matrices.

    A lower triangle of A is replaced by L of ``A = L L^H``, an upper one by U of ``A = U^H U``;
    these are the same in memory.

    Args:
        ap: Shape (..., n (n + 1) / 2): the packed triangles.
        overwrite_ap: Store the factors in ``ap``, and return it.
        out: The array for the factors, in which elements of a triangle are adjacent.
        check, precision, engine, queue, wait_for: As :func:`portable_gpu.linalg.cholesky`.

    Returns:
        ``ap``, ``out`` or a fresh array of its shape.

    Raises:
        NotPositiveDefiniteError: As :func:`portable_gpu.linalg.cholesky`.
        ShapeError: The length of the last axis is not n (n + 1) / 2.
        ArgumentError: With ``overwrite_ap``, if elements of a triangle are not adjacent, or have
            another byte order.
        DTypeError, OverlapError, ReadOnlyError, UnsupportedError, DeviceMemoryError: As
            :func:`portable_gpu.linalg.cholesky`.

    Cost: ``n^3 / 3`` flop for each matrix (four times that if complex).  Workspace: 256 n elements
        for each matrix; on a GPU ``n^2 / 4``, at least 384 n and at most 1024 n.
    Accuracy: As :func:`portable_gpu.linalg.cholesky`.
    Order: fixed for one target, policy and shape; no atomics.
    """
    overwrite = flag(overwrite_ap, "overwrite_ap")
    one_of(check, CHECKS, "check")
    inputs, out = in_its_place(ap, out, "overwrite_ap") if overwrite else ((ap,), out)
    return _CHOLESKY.call(inputs, (check, precision), out, (), engine, queue, wait_for)


def _normalise_cholesky(arguments: CallArguments) -> Invocation:
    out = arguments.out
    check, precision = arguments.options
    overwrite = not arguments.inputs
    ap, n = packed_array(out if overwrite else arguments.inputs[0], overwrite)
    if overwrite:
        check_adjacent(ap, "ap")
    elif isinstance(out, (np.ndarray, *DEVICE_KINDS)):
        check_adjacent(out, "out")
    requested_precision(precision)
    batch, dtype = ap.shape[:-1], ap.dtype

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        products = precision_of(precision, engine)
        operand_views = views[-1:] if overwrite else views

        def make() -> Plan:
            extents, operands = _stacks(operand_views)
            p = PackedProblem(n, extents, operands[-1], products, not engine.maps_host_memory)
            parts, partition = packed_parts(engine, p.elem), PackedPartition.of(n, n, engine.target)
            steps = cholesky_packed(p, parts, partition)
            return _after_copy(engine, packed_size(n), extents, operands, Steps(steps))

        return engine.plan(
            ("packed cholesky", overwrite, products, *layout_key(*operand_views)), make
        )

    return Invocation(
        inputs=() if overwrite else (ap,),
        names=() if overwrite else ("ap",),
        shape=ap.shape,
        dtype=dtype,
        plan=plan,
        flop=int(ap.size) * 2 * n // 3 * element(dtype).components ** 2,
        out=out,
        out_name="ap" if overwrite else "out",
        reads_out=overwrite,
        report=report_spec(batch, not_positive_definite(batch, dtype)),
        check=check,
    )


_CHOLESKY = Operation("packed cholesky", _normalise_cholesky)


@of_two
def solve_triangular(
    ap: AnyArray,
    b: AnyArray,
    trans: int | str = "N",
    lower: bool = False,
    unit_diagonal: bool = False,
    *,
    side: str = "left",
    overwrite_b: bool = False,
    out: AnyArray | None = None,
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
        trans, unit_diagonal, side, overwrite_b, out, check, precision, engine, queue, wait_for:
            As :func:`portable_gpu.linalg.solve_triangular`.

    Returns:
        X: ``b``, ``out`` or a fresh array of its shape, broadcast.

    Raises:
        As :func:`portable_gpu.linalg.solve_triangular`.

    Cost: ``n^2 m`` flop for each pair (four times that if complex).  Workspace: 128 n elements for
        each triangle; on a GPU, with more than 32 columns, up to ``512 n``.
    Accuracy: As :func:`portable_gpu.linalg.solve_triangular`.
    """
    op, lower = transposition(trans), flag(lower, "lower")
    unit = flag(unit_diagonal, "unit_diagonal")
    # A's memory holds a lower triangle: an upper A is its transpose.
    triangles = (_Triangle((op != "N") != (not lower), op == "C", unit),)
    return _solve(
        ap, b, triangles, side, overwrite_b, out, check, precision, engine, queue, wait_for
    )


@of_two
def cho_solve(
    ap: AnyArray,
    b: AnyArray,
    lower: bool = False,
    *,
    overwrite_b: bool = False,
    out: AnyArray | None = None,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Solve ``A X = B``, given A's packed Cholesky factor.

    Args:
        ap: Shape (..., n (n + 1) / 2): the result of :func:`cholesky`.
        b: Shape (n,), or (..., n, m).
        lower: Whether ``ap`` held lower triangles of A; it matters only for complex matrices.
        overwrite_b, out, check, precision, engine, queue, wait_for: As :func:`solve_triangular`.

    Returns:
        X: ``b``, ``out`` or a fresh array of its shape, broadcast.

    Raises:
        As :func:`solve_triangular`.

    Cost: ``2 n^2 m`` flop for each pair (four times that if complex).
    Accuracy: ``|(A + E) X - B| = 0`` with ``|E| <= gamma(3n + 1) |L| |L^H|`` (Higham, Accuracy and
        Stability, 2002, theorem 10.4).
    """
    lower = flag(lower, "lower")
    # A is M M^H with M = L in memory; or it is U^H U = conj(M) M^T with M = U^T in memory.
    triangles = _Triangle(False, not lower, False), _Triangle(True, lower, False)
    return _solve(
        ap, b, triangles, "left", overwrite_b, out, check, precision, engine, queue, wait_for
    )


# -- shared parts


def _solve(
    ap: Any,
    b: Any,
    triangles: tuple[_Triangle, ...],
    side: str,
    overwrite_b: bool,
    out: Any,
    check: str,
    precision: str | None,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Solve one or two triangular systems in turn; other arguments: :func:`solve_triangular`."""
    overwrite = flag(overwrite_b, "overwrite_b")
    one_of(side, ("left", "right"), "side")
    one_of(check, CHECKS, "check")
    inputs: tuple[Any, ...] = (ap, b)
    if overwrite:
        _, out = in_its_place(b, out, "overwrite_b")
        inputs = (ap,)
    options = triangles, side, check, precision
    return _SOLVE.call(inputs, options, out, (), engine, queue, wait_for)


def _normalise_solve(arguments: CallArguments) -> Invocation:
    out = arguments.out
    triangles, side, check, precision = arguments.options
    overwrite = len(arguments.inputs) == 1
    ap, n = packed_array(arguments.inputs[0])
    b = as_array(out if overwrite else arguments.inputs[1], "b", overwrite)
    shape = solution_shape((*ap.shape[:-1], n, n), b.shape, side, "the matrix of ap")
    dtype = common_dtype(ap.dtype, b.dtype)
    ap = in_line(ap, "ap")
    requested_precision(precision)
    is_vector = b.ndim == 1

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        products = precision_of(precision, engine)
        key = ("packed solve", triangles, side, products, is_vector, *layout_key(*views))
        return engine.plan(
            key, lambda: _solve_plan(engine, views, n, triangles, side, products, is_vector)
        )

    batch = shape[:-1] if is_vector else shape[:-2]
    unit = triangles[0].unit_diagonal
    return Invocation(
        inputs=(ap,) if overwrite else (ap, b),
        names=("ap",) if overwrite else ("ap", "b"),
        shape=shape,
        dtype=dtype,
        plan=plan,
        out=out,
        out_name="b" if overwrite else "out",
        reads_out=overwrite,
        convert=None if ap.dtype == b.dtype else converter(dtype),
        report=None if unit else report_spec(batch, singular(batch)),
        check=check,
    )


_SOLVE = Operation("packed solve", _normalise_solve)


def _solve_plan(
    engine: Engine,
    views: Sequence[View],
    n: int,
    triangles: tuple[_Triangle, ...],
    side: str,
    precision: str,
    is_vector: bool,
) -> Plan:
    """Plan the solves; operands are the triangles, B unless X overwrites it, X, and the report."""
    packed_view, *others = views
    if is_vector:
        others = [as_column(view, side) for view in others]
    left = side == "left"
    matrices = [Matrix(view, trans=not left) for view in others]
    extents, (packed, *rest) = stacked([as_row(packed_view), *matrices], others[-1].shape[:-2])
    m = matrices[-1].shape[1]
    p = PackedProblem(n, extents, packed, precision, not engine.maps_host_memory)
    parts, partition = packed_parts(engine, p.elem), PackedPartition.of(n, m, engine.target)
    at_x = len(rest)  # the index of X among the operands; the report comes after it
    steps: list[Step] = []
    if not triangles[0].unit_diagonal:
        steps.append(zeros_step(p, parts, at_x + 1))
    if len(rest) == 2:
        copy = CopyProblem(n, m, extents, rest[0], rest[1])
        steps.append(Step(copy_plan(engine, copy), (1, 2)))
    for transposed, conj, unit in triangles:
        solve = PackedSolve(p, m, rest[-1], transposed == left, conj, unit)
        steps.extend(placed(solve_packed(solve, parts, partition), (0, at_x)))
    return Steps(steps)


def _stacks(views: Sequence[View]) -> tuple[tuple[int, ...], list[Any]]:
    """Return the merged batch axes of packed arrays, and the arrays as operands with these."""
    return stacked([as_row(view) for view in views], views[-1].shape[:-1])


def _after_copy(
    engine: Engine, size: int, extents: tuple[int, ...], operands: Sequence[Any], work: Plan
) -> Plan:
    """Run ``work`` on the last operand; if there are two, the first is copied into it before."""
    if len(operands) == 1:
        return work
    source, target = operands
    copy = copy_plan(engine, CopyProblem(1, size, extents, source, target))
    return Steps([Step(copy, (0, 1)), Step(work, (1, 2))])
