"""Factors and solutions in one call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl
import scipy.sparse

from portable_gpu.arguments import shown
from portable_gpu.errors import (
    ArgumentError,
    DTypeError,
    NotPositiveDefiniteError,
    ShapeError,
)
from portable_gpu.linalg.refinement import corrections
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import check_place
from portable_gpu.runtime.registry import state_for
from portable_gpu.runtime.views import AnyArray, as_array
from portable_gpu.sparse.factor import Factor
from portable_gpu.sparse.matrix import factor_dtype, is_narrower, value_dtype
from portable_gpu.sparse.symbolic import Symbolic, analyze


def cholesky(
    A: Any,
    ordering: Any = "auto",
    *,
    relax: Sequence[tuple[float, float]] | None = None,
    triangle: str | None = None,
    symbolic: Symbolic | None = None,
    dtype: Any = None,
    memory_limit: int | None = None,
    spill_dir: str | os.PathLike[str] | None = None,
    progress: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
) -> Factor:
    """Factorise a sparse positive definite matrix: ``P A P^T = L L^H``.

    It is :func:`analyze`, a :class:`Factor` and its :meth:`Factor.refactorize`, which are the calls
    to make where more matrices of the same pattern follow.

    Args:
        A: The matrix, as :func:`analyze` takes it.
        ordering, relax: As :func:`analyze` takes them, with the engine that is used.
        triangle: ``lower`` or ``upper``: that triangle of `A` counts, the other one is ignored.
            None: both, if both are stored; or what was chosen in `symbolic`.
        symbolic: The analysis of a matrix within whose pattern the elements of `A` are, in place of
            a new one; `ordering` and `relax` are not looked at then.
        dtype: Of the factor: float32, float64, complex64 or complex128; that of `A` by default,
            float64 of integers.
        memory_limit, spill_dir: As :class:`Factor` takes them: a factor that the device does not
            hold is written to the disk.
        progress: As :meth:`Factor.refactorize` takes it: True shows a bar on a terminal.
        engine, queue: Where to run.

    Raises:
        NotPositiveDefiniteError: The factor does not exist in the precision of `dtype`;
            ``.variable`` is the row of `A`.
        ShapeError, DTypeError, ArgumentError: As of :func:`analyze`; or `dtype` is real and `A`
            complex.
        UnsupportedError: The device has no float64; or `progress` is True on a terminal, without
            the package rich.

    Cost: ``symbolic.flops`` multiplications and additions; ``symbolic.memory_estimate(dtype)``.
    """
    check_place(engine, queue)
    if symbolic is None:
        own = state_for([], engine, queue).engine
        symbolic = analyze(A, ordering, relax=relax, triangle=triangle, engine=own)
    if not isinstance(symbolic, Symbolic):
        raise DTypeError(f"symbolic is {shown(symbolic)}; what analyze() returned is wanted")
    given = value_dtype(A)
    kind = given if dtype is None else factor_dtype(dtype)
    if given.kind == "c" and kind.kind != "c":
        raise ArgumentError(f"dtype is {kind}, and A is {given}: its factor is complex")
    factor = Factor(symbolic, kind, engine, queue, memory_limit=memory_limit, spill_dir=spill_dir)
    return factor.refactorize(A, triangle=triangle, progress=progress)


def factor_for(A: Any, dtype: Any, refine: str | int | None, **options: Any) -> Factor:
    """A factor whose solutions are to be refined.

    Args:
        A: The matrix.
        dtype: Of the factor.
        refine: As :meth:`Factor.solve` takes it.  Where a factor of less precision than the values
            of `A` does not exist, ``auto`` takes one of their precision.
        options: As :func:`cholesky` takes them.
    """
    try:
        return cholesky(A, dtype=dtype, **options)
    except NotPositiveDefiniteError:
        own = value_dtype(A)
        if refine != "auto" or dtype is None or not is_narrower(dtype, own):
            raise
    return cholesky(A, dtype=np.result_type(own, dtype), **options)


def spsolve(
    A: Any,
    b: AnyArray,
    *,
    ordering: Any = "auto",
    triangle: str | None = None,
    dtype: Any = None,
    refine: str | int | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
) -> Any:
    """Solve ``A X = B`` with a sparse positive definite matrix: :func:`cholesky`, and its solution.

    Args:
        A: The matrix, n x n, as :func:`analyze` takes it.
        b: n numbers, or n x k of them, of NumPy or on the device; or a ``scipy.sparse`` array or
            matrix, n x k; it is not changed.
        ordering, triangle: As :func:`analyze` takes them.
        dtype: Of the factor; by default the one that NumPy gives to ``A @ b``.
        refine: As :meth:`Factor.solve` takes it.  With ``auto`` a `dtype` of less precision than
            the values of `A` costs no accuracy: where that factor does not exist, one in the
            precision of `A` is made.
        engine, queue: Where to run.

    Returns:
        X, of the shape of `b`, where `b` is, in the dtype that NumPy gives to ``A @ b``, with
        `dtype` if that is wider; of a sparse `b` as :meth:`Factor.solve` returns it.

    Raises:
        NotPositiveDefiniteError: `A` is not positive definite, in the precision of the factor.
        ShapeError, DTypeError, ArgumentError: As of :func:`analyze`; or `b`, `dtype` or `refine`
            does not fit.

    Accuracy: ``|A X - B| / (|A| |X| + |B|)`` is a few units of rounding of the factor's precision;
    refined, of that of `A` and `b`.
    """
    check_place(engine, queue)
    refine = corrections(refine)
    kind = None if dtype is None else factor_dtype(dtype)
    right = b if scipy.sparse.issparse(b) else as_array(b, "b")
    if right.ndim not in (1, 2):
        raise ShapeError(f"b has the shape {tuple(right.shape)}; one or two axes are wanted")
    own = [right] if isinstance(right, DEVICE_KINDS) else []
    symbolic = analyze(A, ordering, triangle=triangle, engine=state_for(own, engine, queue).engine)
    if right.shape[0] != symbolic.n:
        raise ShapeError(f"b has {right.shape[0]} rows, and A {symbolic.n}")
    common = factor_dtype(np.result_type(value_dtype(A), right.dtype))
    if own and engine is None and queue is None:
        queue = right.queue
    factor = factor_for(
        A, kind or common, refine, triangle=triangle, symbolic=symbolic, engine=engine, queue=queue
    )
    return factor.solve(right, refine=refine)
