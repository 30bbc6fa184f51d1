"""Functions that factorise and solve in one call."""

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
    ArgumentTypeError,
    NotPositiveDefiniteError,
    ShapeError,
)
from portable_gpu.linalg.refinement import corrections
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import EngineGroup, check_place
from portable_gpu.runtime.registry import state_for
from portable_gpu.runtime.views import AnyArray, as_array
from portable_gpu.sparse.factor import Factor
from portable_gpu.sparse.formats import factor_dtype, is_narrower, value_dtype
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
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
) -> Factor:
    """Factorise a sparse positive definite matrix: ``P A P^T = L L^H``.

    It calls :func:`analyze`, makes a :class:`Factor`, and calls :meth:`Factor.refactorize`.  To
    factorise more matrices of the same pattern, call ``refactorize`` of the factor again.

    Args:
        A: The matrix, as for :func:`analyze`.
        ordering, relax: As for :func:`analyze`, with the engine that is used.
        triangle: ``lower`` or ``upper``: only this triangle of `A` is read.  None: both, if both
            are stored; or the one chosen in `symbolic`.
        symbolic: The analysis of a matrix whose pattern includes the elements of `A`, instead of a
            new analysis; `ordering` and `relax` are ignored then.
        dtype: The dtype of the factor: float32, float64, complex64 or complex128.  The default is
            that of `A`, and float64 for integers.
        memory_limit, spill_dir: As for :class:`Factor`: a factor that does not fit into the
            device's memory is written to the disk.
        progress: As for :meth:`Factor.refactorize`: True shows a bar on a terminal.
        engine, queue: The engine, or queue, of the factor.  There is no ``wait_for``: a sparse
            matrix is on the host.  With a :class:`portable_gpu.multi.DeviceGroup` the devices
            factorise parts of the elimination tree (docs/multi.md).

    Raises:
        NotPositiveDefiniteError: The factor does not exist in the precision of `dtype`;
            ``.variable`` is the row of `A`.
        ShapeError, DTypeError, ArgumentError: As :func:`analyze`; or `dtype` is real and `A` is
            complex.
        UnsupportedError: The device has no float64; or `progress` is True on a terminal, without
            the package rich.

    Cost: ``symbolic.flops`` multiplications and additions; ``symbolic.memory_estimate(dtype)``.
    """
    if isinstance(engine, EngineGroup):
        arguments = {
            "A": A, "ordering": ordering, "relax": relax, "triangle": triangle,
            "symbolic": symbolic, "dtype": dtype, "memory_limit": memory_limit,
            "spill_dir": spill_dir, "progress": progress, "queue": queue,
        }  # fmt: skip
        result: Factor = engine.compute("sparse.cholesky", arguments)
        return result
    check_place(engine, queue)
    if symbolic is None:
        local_engine = state_for([], engine, queue).engine
        symbolic = analyze(A, ordering, relax=relax, triangle=triangle, engine=local_engine)
    factor_type = dtype_for(A, symbolic, dtype)
    factor = Factor(
        symbolic, factor_type, engine, queue, memory_limit=memory_limit, spill_dir=spill_dir
    )
    return factor.refactorize(A, triangle=triangle, progress=progress)


def dtype_for(A: Any, symbolic: Any, dtype: Any) -> np.dtype[Any]:
    """Return the dtype of the factor of a matrix; arguments as in :func:`cholesky`.

    Raises:
        ArgumentTypeError: `symbolic` is not an analysis.
        DTypeError, ArgumentError: `dtype` is not supported, or real and `A` is complex.
    """
    if not isinstance(symbolic, Symbolic):
        raise ArgumentTypeError(f"symbolic is {shown(symbolic)}; expected a result of analyze()")
    dtype_of_a = value_dtype(A)
    factor_type = dtype_of_a if dtype is None else factor_dtype(dtype)
    if dtype_of_a.kind == "c" and factor_type.kind != "c":
        raise ArgumentError(f"dtype is {factor_type}, and A is {dtype_of_a}: its factor is complex")
    return factor_type


def factor_for(A: Any, dtype: Any, refine: str | int | None, **options: Any) -> Factor:
    """Factorise a matrix for solutions with refinement.

    Args:
        A: The matrix.
        dtype: The dtype of the factor.
        refine: As for :meth:`Factor.solve`.  With ``auto``, if the factor in a lower precision than
            that of `A` does not exist, the precision of `A` is used.
        options: As for :func:`cholesky`.
    """
    try:
        return cholesky(A, dtype=dtype, **options)
    except NotPositiveDefiniteError:
        dtype_of_a = value_dtype(A)
        if refine != "auto" or dtype is None or not is_narrower(dtype, dtype_of_a):
            raise
    return cholesky(A, dtype=np.result_type(dtype_of_a, dtype), **options)


def spsolve(
    A: Any,
    b: AnyArray,
    *,
    ordering: Any = "auto",
    triangle: str | None = None,
    dtype: Any = None,
    refine: str | int | None = None,
    out: Any = None,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
) -> Any:
    """Solve ``A X = B`` with a sparse positive definite matrix, by :func:`cholesky`.

    Args:
        A: The matrix, n x n, as for :func:`analyze`.
        b: Shape (n,) or (n, k), a NumPy or device array; or a ``scipy.sparse`` array or matrix,
            n x k; not modified.
        ordering, triangle: As for :func:`analyze`.
        dtype: The dtype of the factor; by default NumPy's dtype of ``A @ b``.
        refine: As for :meth:`Factor.solve`.  With ``auto``, a `dtype` of lower precision than `A`
            costs no accuracy; if that factor does not exist, the precision of `A` is used.
        out: As for :meth:`Factor.solve`.
        engine, queue: The engine, or queue, of the solution.  There is no ``wait_for``: the call
            waits for the events of `b`, to which :meth:`portable_gpu.Array.add_event` adds others.
            With a :class:`portable_gpu.multi.DeviceGroup`, `b` may be an array of the group.

    Returns:
        X, of the shape and kind of `b`, in NumPy's dtype of ``A @ b``, or `dtype` if that is wider;
        for a sparse `b` as :meth:`Factor.solve` returns it.

    Raises:
        NotPositiveDefiniteError: `A` is not positive definite in the precision of the factor.
        ShapeError, DTypeError, ArgumentError: As :func:`analyze`; or `b`, `dtype` or `refine` is
            not valid.

    Accuracy: ``|A X - B| / (|A| |X| + |B|)`` is a few units of rounding of the factor's precision;
    with refinement, of the precision of `A` and `b`.
    """
    if isinstance(engine, EngineGroup):
        arguments = {
            "A": A, "b": b, "ordering": ordering, "triangle": triangle, "dtype": dtype,
            "refine": refine, "out": out, "queue": queue,
        }  # fmt: skip
        return engine.compute("sparse.spsolve", arguments)
    check_place(engine, queue)
    refine = corrections(refine)
    right = b if scipy.sparse.issparse(b) else as_array(b, "b")
    device_arrays = [right] if isinstance(right, DEVICE_KINDS) else []
    local_engine = state_for(device_arrays, engine, queue).engine
    if device_arrays and engine is None and queue is None:
        queue = right.queue
    factor = factor_of_system(
        A, right, ordering, triangle, dtype, refine, local_engine, engine=engine, queue=queue
    )
    return factor.solve(right, refine=refine, out=out)


def factor_of_system(
    A: Any,
    right: Any,
    ordering: Any,
    triangle: str | None,
    dtype: Any,
    refine: str | int | None,
    local_engine: Engine,
    **place: Any,
) -> Factor:
    """Analyse and factorise the matrix of a system.

    Args:
        A, ordering, triangle, dtype, refine: As for :func:`spsolve`.
        right: The right-hand side.
        local_engine: The engine for which the matrix is analysed.
        place: The engine and the queue of the factor, as for :func:`cholesky`.
    """
    asked = None if dtype is None else factor_dtype(dtype)
    if right.ndim not in (1, 2):
        raise ShapeError(f"b has the shape {tuple(right.shape)}; expected one or two axes")
    symbolic = analyze(A, ordering, triangle=triangle, engine=local_engine)
    if right.shape[0] != symbolic.n:
        raise ShapeError(f"b has {right.shape[0]} rows, and A {symbolic.n}")
    common = factor_dtype(np.result_type(value_dtype(A), right.dtype))
    return factor_for(A, asked or common, refine, triangle=triangle, symbolic=symbolic, **place)
