"""Positive definite systems: factors, solves with them, determinants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, one_of, shown
from portable_gpu.codegen.operators import BinaryOp
from portable_gpu.dtypes import requested_precision
from portable_gpu.errors import ArgumentError, NotPositiveDefiniteError, ShapeError
from portable_gpu.linalg.place import Place, on_common_device, with_reports
from portable_gpu.linalg.refinement import corrections, refined
from portable_gpu.linalg.views import diagonal
from portable_gpu.ops.factor import cholesky
from portable_gpu.ops.factor.api import in_its_place, solve_with_factor
from portable_gpu.ops.factor.arguments import CHECKS, common_dtype, solution_shape, square
from portable_gpu.ops.reduce import reduce
from portable_gpu.ops.reduce.conversion import converted
from portable_gpu.ops.result import check_out, stored
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import EngineGroup
from portable_gpu.runtime.views import AnyArray, as_array
from portable_gpu.typing import of_two, to_factor

#: The dtype in which refinement factorises a matrix of each dtype.
_NARROW = {
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
}
_ADD = BinaryOp("add", identity="0", combine="a + b")


@to_factor
def cho_factor(
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
) -> tuple[Any, bool]:
    """Compute a Cholesky factor for :func:`cho_solve`: SciPy's form of :func:`cholesky`.

    Args:
        a, check, precision: As in :func:`cholesky`.
        lower: Whether the factor is L; else U.
        overwrite_a: Store the factor in the triangle of ``a``.
        out: The array for the factor.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        The factor, and ``lower``.  The other triangle is 0, or that of ``a`` if overwritten.

    Raises, Cost, Accuracy, Order: As :func:`cholesky`.
    """
    lower, overwrite = flag(lower, "lower"), flag(overwrite_a, "overwrite_a")
    factor = cholesky(
        a, lower=lower, overwrite_a=overwrite, out=out, check=check, precision=precision,
        engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip
    return factor, lower


def cho_solve(
    c_and_lower: tuple[AnyArray, bool] | AnyArray,
    b: AnyArray,
    overwrite_b: bool = False,
    *,
    out: AnyArray | None = None,
    lower: bool | None = None,
    a: AnyArray | None = None,
    refine: str | int | None = None,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Solve ``A X = B``, given the Cholesky factor of A.

    Args:
        c_and_lower: The result of :func:`cho_factor`, or a factor alone, of shape (..., n, n), of
            which only the triangle is read.
        b: Shape (..., n, m), or (n,): one vector for each factor; batch axes broadcast.
        overwrite_b: Store X in ``b``, and return that; not with ``refine``.
        out: The array for X.
        lower: Whether a factor that is passed alone is L; else (and by default) it is U.
        a: The matrix A, of which both triangles are read; with ``refine`` only.
        refine: The number of corrections ``X += A^-1 (B - A X)``, with residuals in the common
            dtype of ``a`` and ``b``.  ``"auto"`` corrects until the backward error is that of a
            factor of this dtype.  The factor may be of a narrower dtype than ``a``.
        check: As in :func:`cholesky`.
        precision: The precision of products of float32, as in :func:`portable_gpu.gemm`.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        X: ``b``, ``out`` or a fresh array of its shape, broadcast.

    ``"auto"`` checks the backward error of each column, ``|B - A X| / (|A| |X| + |B|)`` in the
    maximum norm (``|A|``: the maximum of row sums), before each correction.  It stops when all are
    at most ``sqrt(n) eps``.  If a correction reduces the largest error by less than ten times, and
    the factor has a narrower dtype than ``a``, then ``a`` is factorised in its own dtype, and X is
    computed by that factor.  Each check waits for a number from the device.  A fixed number of
    corrections does not wait.  In both cases a column is corrected only if its backward error
    decreases.

    Raises:
        NotPositiveDefiniteError: The matrix of a factor on the device was not positive definite;
            the error is raised when values of the result are copied to the host.
        SingularMatrixError: The factor has a zero on its diagonal.
        ArgumentError: ``a`` is given without ``refine``, or ``refine`` without ``a``.
        ShapeError, DTypeError, OverlapError, ReadOnlyError, UnsupportedError, DeviceMemoryError:
            As :func:`solve_triangular`.

    Cost: ``2 n^2 m`` flop (four times that if complex), and twice that more for each correction,
        with workspace for four arrays like X.
    Accuracy: ``|B - A X| <= gamma(3n + 1) |L| |L^H| |X|`` (Higham, Accuracy and Stability, 2002,
        theorem 10.4); with ``refine`` the backward error above.
    Order: fixed for one target, policy and shape; no atomics.
    Source: LAPACK's dsposv; Carson and Higham, SIAM J. Sci. Comput. 40(2), 2018.
    """
    if engine is not None and isinstance(engine, EngineGroup):
        return engine.compute("cho_solve", locals())
    c, lower = _factor(c_and_lower, lower)
    overwrite = flag(overwrite_b, "overwrite_b")
    b = as_array(b, "b", overwrite)
    refine = corrections(refine)
    one_of(check, CHECKS, "check")
    place = Place(engine, queue, wait_for, requested_precision(precision))
    shape = solution_shape(c.shape, b.shape, name="the factor of c_and_lower")
    dtype = common_dtype(c.dtype, b.dtype)
    if (a is None) != (refine is None):
        raise ArgumentError("a and refine must be given together: the residual is that of a")
    if refine is None and (overwrite or out is not None):
        return _solved(c, lower, b, overwrite, place, check, out)
    if refine is None:
        return on_common_device(
            lambda c, b: _solved(c, lower, b, False, place), (c, b), place, check
        )
    if overwrite:
        raise ArgumentError("overwrite_b is True; with refine, b must not be overwritten")
    a = square(as_array(a, "a"), "a")
    if a.shape != c.shape:
        raise ShapeError(f"a has shape {a.shape} and its factor {c.shape}")
    dtype = np.result_type(a.dtype, dtype)
    check_out(out, shape, dtype, c, a, b)

    def work(c: Any, a: Any, b: Any) -> Any:
        a, b = _as_dtype(dtype, place, a, b)
        x, is_good = refined(a, b, lambda r: _with_factor(c, lower, r, place), refine, place)
        if is_good or c.dtype == dtype:
            return x
        factor = cholesky(a, lower=lower, **place.of_products)
        return _solved(factor, lower, b, False, place, looks_for_zeros=False)

    x = on_common_device(work, (c, a, b), place, check)
    return stored(x, out, engine, queue)


@of_two
def solve(
    a: AnyArray,
    b: AnyArray,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    *,
    out: AnyArray | None = None,
    assume_a: str | None = None,
    refine: str | int | None = None,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Solve ``A X = B`` for a symmetric or Hermitian positive definite A.

    Args:
        a: Shape (..., n, n), as in :func:`cholesky`.  With ``refine`` both triangles are read, else
            the one that ``lower`` selects.
        b: Shape (..., n, m), or (n,): one vector for each ``a``; batch axes broadcast.
        lower: Whether the lower triangle of A is factorised, or the upper one.
        overwrite_a: Whether the factor may take the place of ``a``, which saves memory.
        overwrite_b: Store X in ``b``, and return that.
        out: The array for X.
        assume_a: ``"pos"``, which must be passed, because SciPy has other values too.
        refine: ``None`` factorises in the dtype of ``a`` and ``b``.  ``"auto"`` factorises float64
            in float32 (complex128 in complex64), and corrects X in float64 until its backward error
            is that of float64, as :func:`cho_solve` does; if that fails, or A has no factor in
            float32, it factorises in float64.  An integer is the number of corrections, without
            waiting and without a second factorisation.  float32 and complex64 are solved as with
            ``None``.
        check: As in :func:`cholesky`.
        precision: The precision of products of float32, as in :func:`portable_gpu.gemm`; with
            ``refine`` the default is ``bf16x6``.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        X: ``b``, ``out`` or a fresh array of ``b``'s shape, broadcast.

    Corrections help if ``n 2^-24 cond(A)`` is well below 1 and no element exceeds the range of
    float32.  If they fail, ``"auto"`` costs one factorisation in float32 more than ``None``.

    Raises:
        NotPositiveDefiniteError: As :func:`cholesky`; with a number of corrections, also of a
            matrix that has no factor in float32.
        ArgumentError: ``assume_a``, ``refine`` or ``check`` is unknown.
        ShapeError, DTypeError, ReadOnlyError, UnsupportedError, DeviceMemoryError: As
            :func:`solve_triangular`.

    Cost: ``n^3 / 3`` flop and the cost of :func:`cho_solve`.  Memory: a factor (with ``refine``, in
        the narrower dtype), and the workspace of :func:`cho_solve`.
    Accuracy: As :func:`cho_solve`.
    Order: fixed for one target, policy and shape; no atomics.
    Source: As :func:`cho_solve`.
    """
    if not isinstance(assume_a, str) or assume_a != "pos":
        raise ArgumentError(f"assume_a is {shown(assume_a)}; it must be 'pos', and has no default")
    lower, refine = flag(lower, "lower"), corrections(refine)
    one_of(check, CHECKS, "check")
    place = Place(engine, queue, wait_for, requested_precision(precision))
    over_a, over_b = flag(overwrite_a, "overwrite_a"), flag(overwrite_b, "overwrite_b")
    if over_b:
        _, out = in_its_place(b, out, "overwrite_b")
    a, b = square(as_array(a, "a", over_a), "a"), as_array(b, "b", over_b)
    shape = solution_shape(a.shape, b.shape)
    dtype = common_dtype(a.dtype, b.dtype)
    check_out(out, shape, dtype, a, b)
    narrow = None if refine is None else _NARROW.get(dtype)

    def plain(a: Any, b: Any) -> Any:
        factor = cholesky(a, lower=lower, overwrite_a=over_a, **place.of_products)
        return _solved(factor, lower, b, False, place, looks_for_zeros=False)

    def work(a: Any, b: Any) -> Any:
        a, b = _as_dtype(dtype, place, a, b)
        if narrow is None or refine is None or not b.size:
            return plain(a, b)
        fast = replace(place, precision=precision or "bf16x6")

        try:
            c = converted(a, narrow, **place.options)
            c = cholesky(c, lower=lower, overwrite_a=True, **fast.of_products)
            solve_in_narrow = partial(_with_factor, c, lower, place=fast, looks_for_zeros=False)
            x, is_good = refined(a, b, solve_in_narrow, refine, place)
        except NotPositiveDefiniteError:
            if refine != "auto":
                raise
            return plain(a, b)
        return with_reports(x, c) if is_good else plain(a, b)

    return stored(on_common_device(work, (a, b), place, check), out, engine, queue)


def logdet(
    a: tuple[AnyArray, bool] | AnyArray,
    lower: bool = False,
    *,
    out: AnyArray | None = None,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the logarithm of the determinant of a positive definite matrix.

    Args:
        a: Shape (..., n, n), as in :func:`cholesky`; or the result of :func:`cho_factor`, of which
            only the diagonal is read.
        lower: Whether the lower triangle of a matrix is read, or the upper one.
        out: The array for the result.
        check, precision: As in :func:`cholesky`.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        ``out``, or a fresh array of shape (...,) and the real dtype; a scalar for a single NumPy
        matrix.

    Raises:
        As :func:`cholesky`.

    Cost: ``n^3 / 3`` flop for each matrix, or ``n`` logarithms of a factor's diagonal.
    Accuracy: that of the factor, and ``19 u sum |2 log c_jj|`` (the sum, and 3 ulp of a logarithm).
    Order: fixed for one target, policy and shape; no atomics.
    """
    one_of(check, CHECKS, "check")
    place = Place(engine, queue, wait_for, requested_precision(precision))
    is_factor = isinstance(a, tuple)
    lower = flag(lower, "lower")
    matrix = _factor(a, None, "a")[0] if is_factor else square(as_array(a, "a"), "a")
    check_out(out, matrix.shape[:-2], np.empty(0, matrix.dtype).real.dtype, matrix)

    def work(x: Any) -> Any:
        c = x if is_factor else cholesky(x, lower=lower, check=check, **place.of_products)
        return with_reports(
            reduce(diagonal(c), _ADD, map="2 * log(x)", axis=-1, **place.options), c
        )

    return stored(on_common_device(work, (matrix,), place, check), out, engine, queue)


# -- parts of these functions


def _solved(
    c: Any,
    lower: bool,
    b: Any,
    overwrite: bool,
    place: Place,
    check: str = "late",
    out: Any = None,
    looks_for_zeros: bool = True,
) -> Any:
    """See :func:`solve_with_factor`.

    ``looks_for_zeros`` is needed for a user's factor only: those of this library have no zeros on
    their diagonals.
    """
    where = place.precision, place.engine, place.queue, place.wait_for
    return solve_with_factor(c, b, lower, overwrite, out, check, *where, looks_for_zeros)


def _with_factor(c: Any, lower: bool, b: Any, place: Place, looks_for_zeros: bool = True) -> Any:
    """Solve with a factor of a narrower dtype; the result has the dtype of ``b``."""
    (narrow,) = _as_dtype(c.dtype, place, b)
    overwrite = narrow is not b
    x = _solved(c, lower, narrow, overwrite, place, looks_for_zeros=looks_for_zeros)
    return _as_dtype(b.dtype, place, x)[0]


def _as_dtype(dtype: np.dtype[Any], place: Place, *arrays: Any) -> list[Any]:
    """Return arrays in a dtype: those of another dtype are converted."""
    return [x if x.dtype == dtype else converted(x, dtype, **place.options) for x in arrays]


def _factor(
    c_and_lower: Any, lower: bool | None, argument: str = "c_and_lower"
) -> tuple[Any, bool]:
    """Return a factor after a check, and whether it is a lower one; ``argument`` is for errors."""
    if isinstance(c_and_lower, tuple):
        if len(c_and_lower) != 2 or lower is not None:
            raise ArgumentError(
                f"{argument} is a tuple of {len(c_and_lower)}, lower is {shown(lower)}; "
                "expected the two that cho_factor returned, or a factor and lower="
            )
        c_and_lower, lower = c_and_lower
    name = f"the factor of {argument}"
    c = square(as_array(c_and_lower, name), name)
    return c, False if lower is None else flag(lower, "lower")
