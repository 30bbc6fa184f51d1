"""The public functions with kernels of their own: cholesky, solve_triangular, inv_triangular."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, one_of
from portable_gpu.dtypes import element, requested_precision
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.factor.arguments import (
    CHECKS,
    common_dtype,
    precision_of,
    solution_shape,
    square,
    transposition,
)
from portable_gpu.ops.factor.packed import zeros_plan
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.factor.reports import not_positive_definite, report_spec, singular
from portable_gpu.ops.factor.stack import Matrix, stacked
from portable_gpu.ops.factor.variants import make_cholesky, make_inverse, make_solve
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.ops.reduce.conversion import converter
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import EngineGroup
from portable_gpu.runtime.plan import Plan, Step, Steps
from portable_gpu.runtime.views import AnyArray, View, as_array
from portable_gpu.typing import of_one, of_two


@of_one
def cholesky(
    a: AnyArray,
    lower: bool = False,
    overwrite_a: bool = False,
    *,
    out: AnyArray | None = None,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the Cholesky factor of a symmetric or Hermitian positive definite matrix.

    ``A = L L^H`` with L lower triangular, or ``A = U^H U`` with U upper triangular.

    Args:
        a: Shape (..., n, n): a matrix, or a stack of them; any strides.  float32, float64,
            complex64 or complex128.  Only the triangle selected by ``lower`` is read, and only the
            real part of its diagonal.
        lower: Whether the factor is L; else U.
        overwrite_a: Store the factor in the triangle of ``a``, and return ``a``; its other triangle
            is unchanged.
        out: The array for the factor, with zeros in the other triangle.
        check: When the error for a matrix that is not positive definite is raised.  ``late``: when
            the values of a device array's result are first copied to the host (``get``,
            ``asnumpy``, ``float``, DLPack), so the call does not wait; ``now``: in the call, which
            waits.  With NumPy arrays it is always raised in the call; so it is if ``a`` is a
            pyopencl array and overwritten, because pyopencl's ``get`` does not check.
        precision: The precision of products of float32, as in :func:`portable_gpu.gemm`.
        engine, queue, wait_for: Where to run, and after which events.  A ``multi.DeviceGroup``
            factorises one matrix by block columns.

    Returns:
        ``a``, ``out`` or a fresh array of its shape, with zeros in the other triangle: a NumPy
        array for NumPy arguments (done), ``portable_gpu.Array`` for device arrays (enqueued).

    Raises:
        NotPositiveDefiniteError: A pivot is not a positive number, also because of NaN or infinity
            in the triangle.  The error has the ``index`` of the first such matrix, the ``column``
            and the ``pivot``.  With ``overwrite_a`` the triangle is lost.
        ShapeError: ``a`` is not a stack of square matrices.
        DTypeError: ``a`` has another dtype.
        ArgumentError, OverlapError, ReadOnlyError: An option is unknown, or ``a`` cannot be
            overwritten.
        UnsupportedError: The call needs double precision, which the device lacks.
        DeviceMemoryError: The result cannot be allocated.

    Cost: ``n^3 / 3`` flop for each matrix (four times that if complex).  Memory: the result.
    Accuracy: ``|A - L L^H| <= gamma(n + 3) |L| |L^H|`` element by element (Higham, Accuracy and
        Stability, 2002, theorem 10.3, with reciprocal roots), where products are ``ieee``.
    Order: fixed for one target, policy and shape; no atomics.
    Source: Gustavson, IBM J. Res. Dev. 41(6), 1997 (by halves).
    """
    lower, overwrite = flag(lower, "lower"), flag(overwrite_a, "overwrite_a")
    one_of(check, CHECKS, "check")
    if engine is not None and isinstance(engine, EngineGroup):
        return engine.compute("cholesky", locals())
    inputs, out = in_its_place(a, out, "overwrite_a") if overwrite else ((a,), out)
    return _CHOLESKY.call(inputs, (lower, check, precision), out, (), engine, queue, wait_for)


def _normalise_cholesky(arguments: CallArguments) -> Invocation:
    out = arguments.out
    lower, check, precision = arguments.options
    overwrite = not arguments.inputs
    a = square(as_array(out if overwrite else arguments.inputs[0], "a", overwrite), "a")
    requested_precision(precision)

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        products = precision_of(precision, engine)
        key = ("cholesky", lower, overwrite, products, *layout_key(views[0], views[-1]))
        return engine.plan(
            key,
            lambda: _cholesky_plan(engine, views[0], views[-1], lower, overwrite, products),
        )

    batch = a.shape[:-2]
    return Invocation(
        inputs=() if overwrite else (a,),
        names=() if overwrite else ("a",),
        shape=a.shape,
        dtype=a.dtype,
        plan=plan,
        flop=_cholesky_flop(a),
        out=out,
        out_name="a" if overwrite else "out",
        reads_out=overwrite,
        report=report_spec(batch, not_positive_definite(batch, a.dtype)),
        check=check,
    )


_CHOLESKY = Operation("cholesky", _normalise_cholesky)


@of_two
def solve_triangular(
    a: AnyArray,
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
    """Solve ``op(A) X = B``, or ``X op(A) = B``, for a triangular A.

    Args:
        a: Shape (..., n, n): triangles, of which nothing is read beyond the diagonal.
        b: Shape (..., n, m) (``side="right"``: (..., m, n)), or (n,): one vector for each ``a``;
            batch axes of ``a`` and ``b`` broadcast.  float32, float64, complex64 or complex128, as
            ``a``; two dtypes are converted to NumPy's common one.
        trans: ``op``: N or 0 (as it is), T or 1 (transpose), C or 2 (conjugate transpose).
        lower: Whether A is a lower triangle, before ``op``.
        unit_diagonal: Assume that the diagonal of A is ones, and do not read it.
        side: ``left`` or ``right``.
        overwrite_b: Store X in ``b``, and return that.
        out: The array for X.
        check: When the error for a zero on the diagonal is raised, as in :func:`cholesky`.
        precision: The precision of products of float32, as in :func:`portable_gpu.gemm`.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        X: ``b``, ``out`` or a fresh array of its shape, broadcast.

    Raises:
        SingularMatrixError: There is a zero on the diagonal; the error has the ``index`` and the
            ``column`` of the first one.
        ShapeError, DTypeError, ArgumentError, OverlapError, ReadOnlyError, UnsupportedError,
        DeviceMemoryError: As :func:`cholesky`.

    Cost: ``n^2 m`` flop for each pair (four times that if complex).
    Accuracy: ``|B - op(A) X| <= gamma(n + 2) |op(A)| |X|`` element by element (Higham, Accuracy and
        Stability, 2002, theorem 8.5, with reciprocals of the diagonal).  NaN and infinity spread.
    Order: fixed for one target, policy and shape; no atomics.
    """
    trans = transposition(trans)
    lower, unit = flag(lower, "lower"), flag(unit_diagonal, "unit_diagonal")
    overwrite = flag(overwrite_b, "overwrite_b")
    one_of(side, ("left", "right"), "side")
    one_of(check, CHECKS, "check")
    return _solve(
        a, b, (trans,), lower, unit, side, overwrite, out, check, precision, engine, queue,
        wait_for, not unit,
    )  # fmt: skip


def solve_with_factor(
    c: AnyArray,
    b: AnyArray,
    lower: bool,
    overwrite: bool,
    out: AnyArray | None,
    check: str,
    precision: str | None,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
    looks_for_zeros: bool = True,
) -> Any:
    """Solve ``A X = B``, given A's Cholesky factor: two solves in one plan.

    Arguments as :func:`solve_triangular` takes them, checked; ``overwrite``: of ``b``;
    ``looks_for_zeros``: whether the diagonal may have zeros, which are reported.
    """
    solves = ("N", "C") if lower else ("C", "N")
    return _solve(
        c, b, solves, lower, False, "left", overwrite, out, check, precision, engine, queue,
        wait_for, looks_for_zeros,
    )  # fmt: skip


def _solve(
    a: Any,
    b: Any,
    solves: tuple[str, ...],
    lower: bool,
    unit: bool,
    side: str,
    overwrite: bool,
    out: AnyArray | None,
    check: str,
    precision: str | None,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
    looks_for_zeros: bool,
) -> Any:
    """Solves by one triangle, one after the other, each with another ``op``."""
    inputs: tuple[Any, ...] = (a, b)
    if overwrite:
        _, out = in_its_place(b, out, "overwrite_b")
        inputs = (a,)
    options = solves, lower, unit, looks_for_zeros, side, check, precision
    return _SOLVE.call(inputs, options, out, (), engine, queue, wait_for)


def _normalise_solve(arguments: CallArguments) -> Invocation:
    out = arguments.out
    solves, lower, unit, looks_for_zeros, side, check, precision = arguments.options
    overwrite = len(arguments.inputs) == 1
    a = square(as_array(arguments.inputs[0], "a"), "a")
    b = as_array(out if overwrite else arguments.inputs[1], "b", overwrite)
    shape = solution_shape(a.shape, b.shape, side)
    dtype = common_dtype(a.dtype, b.dtype)
    requested_precision(precision)
    is_vector = b.ndim == 1

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        products = precision_of(precision, engine)
        how = solves, lower, unit, looks_for_zeros, side, products, is_vector
        key = ("solve", *how, *layout_key(*views))
        return engine.plan(key, lambda: _solve_plan(engine, views, *how))

    batch = shape[:-1] if is_vector else shape[:-2]
    return Invocation(
        inputs=(a,) if overwrite else (a, b),
        names=("a",) if overwrite else ("a", "b"),
        shape=shape,
        dtype=dtype,
        plan=plan,
        flop=len(solves) * int(np.prod(shape)) * a.shape[-1] * element(dtype).components ** 2,
        out=out,
        out_name="b" if overwrite else "out",
        reads_out=overwrite,
        convert=None if a.dtype == b.dtype else converter(dtype),
        report=report_spec(batch, singular(batch)) if looks_for_zeros else None,
        check=check,
    )


_SOLVE = Operation("triangular solve", _normalise_solve)


@of_one
def inv_triangular(
    a: AnyArray,
    lower: bool = False,
    unit_diagonal: bool = False,
    *,
    out: AnyArray | None = None,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the inverse of a triangular matrix.

    Args:
        a: Shape (..., n, n): triangles, of which nothing is read beyond the diagonal.  float32,
            float64, complex64 or complex128.
        lower: Whether A is a lower triangle.
        unit_diagonal: Take A's diagonal as ones, and do not read it.
        out: The array for the inverse.
        check, precision: As :func:`solve_triangular` takes them.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        ``out`` or a fresh array of ``a``'s shape, with zeros in the other triangle.

    Raises:
        As :func:`solve_triangular`.

    Cost: ``n^3 / 3`` flop for each matrix (four times that if complex), a third of a solve against
        the identity.  Memory: the result.
    Accuracy: ``||A X - I|| <= c n u ||A|| ||X||`` with a small c, in the 1-norm and in the infinity
        norm (Du Croz and Higham, IMA J. Numer. Anal. 12(1), 1992, method 2B).  To solve, prefer
        :func:`solve_triangular`, whose bound has no condition number.
    Order: fixed for one target, policy and shape; no atomics.
    """
    lower, unit = flag(lower, "lower"), flag(unit_diagonal, "unit_diagonal")
    one_of(check, CHECKS, "check")
    return _INVERSE.call((a,), (lower, unit, check, precision), out, (), engine, queue, wait_for)


def _normalise_inverse(arguments: CallArguments) -> Invocation:
    lower, unit, check, precision = arguments.options
    a = square(as_array(arguments.inputs[0], "a"), "a")
    requested_precision(precision)

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        products = precision_of(precision, engine)
        key = ("inverse", lower, unit, products, *layout_key(*views))
        return engine.plan(key, lambda: _inverse_plan(engine, views, lower, unit, products))

    batch = a.shape[:-2]
    return Invocation(
        inputs=(a,),
        names=("a",),
        shape=a.shape,
        dtype=a.dtype,
        plan=plan,
        flop=_cholesky_flop(a),
        out=arguments.out,
        report=None if unit else report_spec(batch, singular(batch)),
        check=check,
    )


_INVERSE = Operation("triangular inverse", _normalise_inverse)


def in_its_place(array: Any, out: Any, option: str) -> tuple[tuple[Any, ...], Any]:
    """Return the inputs and the result's array of a call that overwrites its input.

    Raises:
        ArgumentError: There is another array for the result.
    """
    if out is not None and out is not array:
        raise ArgumentError(f"{option} is True and out is given; the result has one place")
    return (), array


# -- plans


def _cholesky_plan(
    engine: Engine, a: View, out: View, lower: bool, in_place: bool, precision: str
) -> Plan:
    matrices = [Matrix(view, trans=not lower) for view in (a, out)]
    batch, (source, target) = stacked(matrices, out.shape[:-2])
    problem = CholeskyProblem(
        out.shape[-1], batch, source, target, in_place, precision, not engine.maps_host_memory
    )
    return make_cholesky(engine, problem)


def _solve_plan(
    engine: Engine,
    views: Sequence[View],
    solves: Sequence[str],
    lower: bool,
    unit: bool,
    looks_for_zeros: bool,
    side: str,
    precision: str,
    is_vector: bool,
) -> Plan:
    """Operands: A, B where X is not to be in its place, X; and the report, if there is one."""
    a, *others = views
    if is_vector:
        others = [as_column(view, side) for view in others]
    report, x = len(views), len(views) - 1
    steps: list[Step] = []
    for trans in solves:
        problem, source = _solve_problem(engine, a, others, trans, lower, unit, side, precision)
        operands = (0, x) if source is None else (0, 1, x)
        if not steps and looks_for_zeros:
            problem, operands = replace(problem, reports="forwards"), (*operands, report)
        steps.append(Step(make_solve(engine, problem, source), operands))
        others = others[-1:]
    return Steps(steps) if len(steps) > 1 else steps[0].plan


def _solve_problem(
    engine: Engine,
    a: View,
    others: Sequence[View],
    trans: str,
    lower: bool,
    unit: bool,
    side: str,
    precision: str,
) -> tuple[SolveProblem, Operand | None]:
    """Return the problem of a solve, and B unless X overwrites it; ``others``: B if so, and X."""
    left, transposed = side == "left", _is_transposed(trans, side)
    matrices = [
        Matrix(a, trans=transposed, conj=trans == "C"),
        *(Matrix(view, trans=not left) for view in others),
    ]
    extents, (triangle, *rest) = stacked(matrices, others[-1].shape[:-2])
    n, m = matrices[-1].shape
    problem = SolveProblem(
        n=n, m=m, batch=extents, l=triangle, b=rest[-1], lower=lower != transposed, unit=unit,
        precision=precision, aligned=not engine.maps_host_memory,
    )  # fmt: skip
    return problem, rest[0] if len(rest) > 1 else None


def _inverse_plan(
    engine: Engine, views: Sequence[View], lower: bool, unit: bool, precision: str
) -> Plan:
    """Plan an inverse; operands: A, X and the report, if there is one.

    An upper triangle is the transpose of a lower one.
    """
    matrices = [Matrix(view, trans=not lower) for view in views]
    n = views[0].shape[-1]
    batch, (triangle, x) = stacked(matrices, views[0].shape[:-2])
    problem = SolveProblem(
        n=n, m=n, batch=batch, l=triangle, b=x, unit=unit, precision=precision,
        aligned=not engine.maps_host_memory,
    )  # fmt: skip
    inverse = make_inverse(engine, problem)
    if unit:
        return inverse
    zeros = zeros_plan(engine, problem.n, problem.batch, problem.l, "dense")
    return Steps([Step(zeros, (0, 2)), Step(inverse, (0, 1))])


def _is_transposed(trans: str, side: str) -> bool:
    """Whether A is transposed in a solve from the left: X op(A) = B is op(A)^T X^T = B^T."""
    return (trans != "N") == (side == "left")


def as_column(view: View, side: str) -> View:
    """View vectors as matrices of one column, or of one row if A is on their right."""
    axis = len(view.shape) if side == "left" else len(view.shape) - 1
    shape = (*view.shape[:axis], 1, *view.shape[axis:])
    strides = (*view.strides[:axis], 1, *view.strides[axis:])
    return View(view.buffer, view.offset, shape, strides, view.dtype, view.address)


def layout_key(*views: View) -> tuple[Any, ...]:
    """Return the part of a plan's key that describes its operands."""
    return tuple([(v.dtype, v.shape, v.strides, v.alignment) for v in views])


def _cholesky_flop(a: Any) -> int:
    return int(a.size) * int(a.shape[-1]) // 3 * element(a.dtype).components ** 2
