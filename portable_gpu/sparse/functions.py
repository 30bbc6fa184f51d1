"""Factors and solutions in one call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import shown
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import check_place
from portable_gpu.runtime.registry import state_for
from portable_gpu.runtime.views import AnyArray, as_array
from portable_gpu.sparse.factor import Factor
from portable_gpu.sparse.matrix import factor_dtype, value_dtype
from portable_gpu.sparse.symbolic import Symbolic, analyze


def cholesky(
    A: Any,
    ordering: Any = "auto",
    *,
    relax: Sequence[tuple[float, float]] | None = None,
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
        symbolic: The analysis of a matrix in whose pattern the elements of `A` lie, in place of a
            new one; `ordering` and `relax` are not looked at then.
        dtype: Of the factor: float32, float64, complex64 or complex128; that of `A` by default,
            float64 of integers.
        memory_limit, spill_dir: As :class:`Factor` takes them: a factor that the device does not
            hold is written to the disk.
        progress: As :meth:`Factor.refactorize` takes it: True shows a bar on a terminal.
        engine, queue: Where to run.

    Raises:
        NotPositiveDefiniteError: The factor does not exist; ``.variable`` is the row of `A`.
        ShapeError, DTypeError, ArgumentError: As of :func:`analyze`; or `dtype` is real and `A`
            complex.
        UnsupportedError: The device has no float64; or `progress` is True on a terminal, without
            the package rich.

    Cost: ``symbolic.flops`` multiplications and additions; ``symbolic.memory_estimate(dtype)``.
    """
    check_place(engine, queue)
    if symbolic is None:
        symbolic = analyze(A, ordering, relax=relax, engine=state_for([], engine, queue).engine)
    if not isinstance(symbolic, Symbolic):
        raise DTypeError(f"symbolic is {shown(symbolic)}; what analyze() returned is wanted")
    own = value_dtype(A)
    kind = own if dtype is None else factor_dtype(dtype)
    if own.kind == "c" and kind.kind != "c":
        raise ArgumentError(f"dtype is {kind}, and A is {own}: its factor is complex")
    factor = Factor(symbolic, kind, engine, queue, memory_limit=memory_limit, spill_dir=spill_dir)
    return factor.refactorize(A, progress=progress)


def spsolve(
    A: Any,
    b: AnyArray,
    *,
    ordering: Any = "auto",
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
) -> Any:
    """Solve ``A X = B`` with a sparse positive definite matrix: :func:`cholesky`, and its solution.

    Args:
        A: The matrix, n x n, as :func:`analyze` takes it.
        b: n numbers, or n x k of them, of NumPy or on the device; it is not changed.
        ordering: As :func:`analyze` takes it.
        engine, queue: Where to run.

    Returns:
        X, of the shape of `b`, where `b` is, in the dtype that NumPy gives to ``A @ b``.

    Raises:
        NotPositiveDefiniteError: `A` is not positive definite.
        ShapeError, DTypeError, ArgumentError: As of :func:`analyze`; or `b` does not fit.

    Accuracy: ``|A X - B| / (|A| |X| + |B|)`` is a few units of rounding.
    """
    check_place(engine, queue)
    right = as_array(b, "b")
    if right.ndim not in (1, 2):
        raise ShapeError(f"b has the shape {tuple(right.shape)}; one or two axes are wanted")
    own = [right] if not isinstance(right, np.ndarray) else []
    symbolic = analyze(A, ordering, engine=state_for(own, engine, queue).engine)
    if right.shape[0] != symbolic.n:
        raise ShapeError(f"b has {right.shape[0]} rows, and A {symbolic.n}")
    kind = factor_dtype(np.result_type(value_dtype(A), right.dtype))
    if isinstance(right, np.ndarray):
        right = right.astype(kind, copy=False)
    elif right.dtype != kind:
        raise DTypeError(f"b is {right.dtype} on the device, and {kind} is wanted: A is {A.dtype}")
    elif engine is None and queue is None:
        queue = right.queue
    factor = cholesky(A, symbolic=symbolic, dtype=kind, engine=engine, queue=queue)
    return factor.solve(right)
