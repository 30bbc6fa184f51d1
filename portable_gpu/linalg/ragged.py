"""Factors and solves of matrices of different sizes: a list of arrays, or matrices in one buffer.

Small matrices take one launch for each class of sizes.  Each large matrix has its own plan, which
splits it recursively in halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, one_of
from portable_gpu.dtypes import element, requested_precision
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.linalg.ragged_matrices import Ragged, gather, listed
from portable_gpu.ops.factor.arguments import CHECKS, precision_of, transposition
from portable_gpu.ops.factor.copies import CopyProblem, copy_plan
from portable_gpu.ops.factor.packed_steps import placed
from portable_gpu.ops.factor.ragged import ragged_zeros
from portable_gpu.ops.factor.reports import not_positive_definite, report_spec, singular
from portable_gpu.ops.factor.variants import make_ragged_cholesky, make_ragged_solve
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.operation import Invocation, complete
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.plan import Plan, Step, Steps
from portable_gpu.runtime.views import AnyArray, View

__all__ = ["Ragged", "cho_solve", "cholesky", "solve_triangular"]


def cholesky(
    a: Ragged | Sequence[AnyArray],
    lower: bool = False,
    overwrite_a: bool = False,
    *,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the Cholesky factors of matrices of different sizes.

    Args:
        a: A list of square matrices, all of NumPy or all of a device, or a :class:`Ragged`.
        lower: Whether the factors are L; else U.
        overwrite_a: Store the factors in the buffer of a :class:`Ragged`.
        check, precision, engine, queue, wait_for: As in :func:`portable_gpu.linalg.cholesky`.

    Returns:
        For a list, a list of views of one fresh buffer, with zeros in the other triangles.  For a
        :class:`Ragged`, another one, with the same buffer or a copy of it; the other triangles are
        unchanged.

    Raises:
        NotPositiveDefiniteError: ``index`` is the index of the matrix.
        ShapeError, DTypeError, ArgumentError, UnsupportedError, DeviceMemoryError: As
            :func:`portable_gpu.linalg.cholesky`.

    Cost: ``n^3 / 3`` flop for each matrix.  A plan is made for the sizes and offsets; later calls
        with the same (:meth:`Ragged.like`) do no work on the host for each matrix.
    """
    lower, overwrite = flag(lower, "lower"), flag(overwrite_a, "overwrite_a")
    one_of(check, CHECKS, "check")
    place = engine, queue, events_of(wait_for)
    if not isinstance(a, Ragged):
        if overwrite:
            raise ArgumentError("overwrite_a is for a Ragged; a list's matrices are copied")
        gathered = gather(a, "a", lower, *place)
        return listed(cholesky(gathered, lower=lower, overwrite_a=True, check=check,
                                precision=precision, engine=engine, queue=queue))  # fmt: skip
    _check_square(a)
    buffer = a.buffer
    requested_precision(precision)

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        view, products = views[-1], precision_of(precision, engine)

        def make() -> Plan:
            steps = make_ragged_cholesky(engine, a._matrices(view), lower, products)
            if overwrite:
                return Steps(steps)
            return Steps([_copy(engine, views, 0, 1), *placed(steps, (1, 2))])

        return engine.plan(
            ("ragged cholesky", lower, overwrite, products, *a._plan_key(view)), make
        )

    count = (len(a),)
    asked = Invocation(
        inputs=() if overwrite else (buffer,),
        names=() if overwrite else ("a",),
        shape=buffer.shape,
        dtype=buffer.dtype,
        plan=plan,
        out=buffer if overwrite else None,
        out_name="a",
        reads_out=overwrite,
        report=report_spec(count, not_positive_definite(count, buffer.dtype)),
        check=check,
    )
    return a.like(complete(asked, None, (), *place))


def solve_triangular(
    a: Ragged | Sequence[AnyArray],
    b: Ragged | Sequence[AnyArray],
    trans: int | str = "N",
    lower: bool = False,
    unit_diagonal: bool = False,
    *,
    overwrite_b: bool = False,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Solve ``op(A) X = B`` for triangles of different sizes.

    Args:
        a: A list of square matrices, or a :class:`Ragged`.
        b: A list of matrices or vectors, one for each of ``a``, or a :class:`Ragged`; of the dtype
            of ``a``.
        trans, lower, unit_diagonal, check, precision, engine, queue, wait_for: As in
            :func:`portable_gpu.linalg.solve_triangular`.
        overwrite_b: Store X in the buffer of a :class:`Ragged`.

    Returns:
        For a list, a list; for a :class:`Ragged`, another one, as in :func:`cholesky`.

    Raises:
        SingularMatrixError: ``index`` is the index of the matrix.
        ShapeError, DTypeError, ArgumentError, OverlapError, UnsupportedError, DeviceMemoryError: As
            :func:`portable_gpu.linalg.solve_triangular`.
    """
    op, lower = transposition(trans), flag(lower, "lower")
    solves = ((op != "N", op == "C", flag(unit_diagonal, "unit_diagonal")),)
    place = engine, queue, events_of(wait_for)
    return _solve(a, b, lower, solves, overwrite_b, check, precision, *place)


def cho_solve(
    a: Ragged | Sequence[AnyArray],
    b: Ragged | Sequence[AnyArray],
    lower: bool = False,
    *,
    overwrite_b: bool = False,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Solve ``A X = B``, given Cholesky factors of different sizes.

    Args, Returns, Raises: As in :func:`solve_triangular`; ``a`` is the result of :func:`cholesky`.
    """
    lower = flag(lower, "lower")
    first, second = (False, False, False), (True, True, False)
    solves = (first, second) if lower else (second, first)
    place = engine, queue, events_of(wait_for)
    return _solve(a, b, lower, solves, overwrite_b, check, precision, *place)


def _solve(
    a: Any,
    b: Any,
    lower: bool,
    solves: tuple[tuple[bool, bool, bool], ...],
    overwrite: Any,
    check: str,
    precision: str | None,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Solve one or two triangular systems in turn.

    Each of ``solves`` is: whether it is transposed, conjugated, and has a unit diagonal.
    """
    overwrite = flag(overwrite, "overwrite_b")
    one_of(check, CHECKS, "check")
    place = engine, queue, events_of(wait_for)
    if not isinstance(b, Ragged):
        if overwrite:
            raise ArgumentError("overwrite_b is for a Ragged; a list's matrices are copied")
        triangles = a if isinstance(a, Ragged) else gather(a, "a", None, *place)
        gathered = gather(b, "b", None, *place)
        solution = _solve(triangles, gathered, lower, solves, True, check, precision, *place)
        return [_shaped(matrix, x.shape) for matrix, x in zip(listed(solution), b, strict=True)]
    if not isinstance(a, Ragged):
        a = gather(a, "a", None, *place)
    _check_square(a)
    _check_pairs(a, b)
    requested_precision(precision)
    reads = not solves[0][2]

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        view_a, view, products = views[0], views[-1], precision_of(precision, engine)
        x = len(views) - 1

        def make() -> Plan:
            matrices, right_sides = a._matrices(view_a), b._matrices(view)
            steps = [] if overwrite else [_copy(engine, views[1:], 1, 2)]
            for transposed, conj, unit in solves:
                made = make_ragged_solve(
                    engine, matrices, right_sides, lower, transposed, conj, unit, products
                )
                steps.extend(placed(made, (0, x)))
            if reads:
                steps[:0] = placed([ragged_zeros(engine, matrices)], (0, x, x + 1))
            return Steps(steps)

        sizes = *a._plan_key(view_a), *b._plan_key(view)
        key = "ragged solve", lower, solves, overwrite, products, *sizes
        return engine.plan(key, make)

    count = (len(a),)
    asked = Invocation(
        inputs=(a.buffer,) if overwrite else (a.buffer, b.buffer),
        names=("a",) if overwrite else ("a", "b"),
        shape=b.buffer.shape,
        dtype=b.buffer.dtype,
        plan=plan,
        out=b.buffer if overwrite else None,
        out_name="b",
        reads_out=overwrite,
        report=report_spec(count, singular(count)) if reads else None,
        check=check,
    )
    return b.like(complete(asked, None, (), *place))


# -- arguments


def _check_square(a: Ragged) -> None:
    wrong = np.flatnonzero(a.rows != a.columns)
    if wrong.size:
        k = int(wrong[0])
        raise ShapeError(f"matrix {k} of a is {a.rows[k]} x {a.columns[k]}; square ones are needed")


def _check_pairs(a: Ragged, b: Ragged) -> None:
    if len(a) != len(b):
        raise ShapeError(f"a has {len(a)} matrices and b {len(b)}")
    wrong = np.flatnonzero(a.rows != b.rows)
    if wrong.size:
        k = int(wrong[0])
        raise ShapeError(f"matrix {k} of a has {a.rows[k]} rows, that of b {b.rows[k]}")
    if len(a) and a.buffer.dtype != b.buffer.dtype:  # an empty list has none
        raise DTypeError(f"a is {a.buffer.dtype} and b {b.buffer.dtype}; convert one of them")


def _copy(engine: Engine, views: Sequence[View], source: int, target: int) -> Step:
    """Return the step that copies one buffer into another."""
    elem = element(views[0].dtype)
    line = Operand(elem, 0, 1)
    return Step(copy_plan(engine, CopyProblem(1, views[0].size, (), line, line)), (source, target))


def _shaped(array: Any, shape: tuple[int, ...]) -> Any:
    """Reshape a matrix of one column into a vector, if ``shape`` is that of a vector."""
    if array.shape == shape:
        return array
    result = array.reshape(shape)
    if isinstance(result, Array):
        result.reports = array.reports
    return result
