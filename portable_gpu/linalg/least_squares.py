"""Least squares by normal equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import one_of
from portable_gpu.dtypes import requested_precision
from portable_gpu.errors import NotPositiveDefiniteError, ShapeError
from portable_gpu.linalg.place import Place, on_common_device
from portable_gpu.linalg.views import columns, diagonal, parts, spread, vectors
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.factor import cholesky
from portable_gpu.ops.factor.api import solve_with_factor
from portable_gpu.ops.factor.arguments import CHECKS, check_dtype, common_dtype
from portable_gpu.ops.factor.reports import matrix_at
from portable_gpu.ops.reduce.conversion import converted
from portable_gpu.ops.result import check_out, stored
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.report import KernelReport
from portable_gpu.runtime.views import AnyArray, Shape, as_array
from portable_gpu.typing import of_two

#: Corrections by the residual: after one, the result is as accurate as that of a stable method.
_CORRECTIONS = 2


@of_two
def lstsq(
    a: AnyArray,
    b: AnyArray,
    *,
    out: AnyArray | None = None,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Find the X with the least ``||A X - B||``, by normal equations and corrections.

    ``A^H A X = A^H B`` by a Cholesky factor, and twice ``X += (A^H A)^-1 A^H (B - A X)``.

    Args:
        a: Shape (..., m, n), of at least as many rows as columns, which are independent; any
            strides.  float32, float64, complex64 or complex128.
        b: Shape (..., m, k), or (m,): one vector for each ``a``; batch axes broadcast.
        out: The array for X.
        check: As :func:`cholesky` takes it.
        precision: The precision of products of float32; see :func:`portable_gpu.gemm`.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        X: ``out`` or a fresh array of shape (..., n, k) or (..., n).  Nothing else is returned:
        SciPy's residues are ``nrm2(a @ x - b, axis=-2) ** 2``, and there are no singular values.

    If ``max(m, n) u cond(A)^2`` is well below 1 (cond(A) below 1e7 in float64, below 1e3 in
    float32, with some margin), X is as accurate as by a QR factorisation.  For larger condition
    numbers the corrections do not help; columns that are linearly dependent to working precision
    raise an error.

    Raises:
        NotPositiveDefiniteError: A column of A is a linear combination of those before it to
            working precision: the square of its residual after projection onto these, relative to
            its own square, is at most ``max(m, n) eps``.  ``index`` is the index of the matrix,
            ``column`` the column and ``pivot`` that ratio, which is NaN for a column with NaN or
            infinity.
        ShapeError: The shapes do not fit, or A has fewer rows than columns.
        DTypeError, ArgumentError, UnsupportedError, DeviceMemoryError: As :func:`cholesky`.

    Cost: ``2 m n^2 + n^3 / 3 + 12 m n k`` flop (four times that if complex).  Memory: ``n^2``
        elements, and some arrays like B and X.
    Accuracy: relative error of X of about ``u cond(A) (1 + cond(A) ||R|| / (||A|| ||X||))``, if the
        condition above holds (Björck, Linear Algebra Appl. 88/89, 1987).
    Order: fixed for one target, policy and shape; no atomics.
    """
    one_of(check, CHECKS, "check")
    precision = requested_precision(precision)
    place = Place(engine, queue, wait_for, precision)
    a, b = as_array(a, "a"), as_array(b, "b")
    shape = _checked_shape(a, b)
    dtype = common_dtype(a.dtype, b.dtype)
    result_shape = (*shape[:-2], a.shape[-1], *(shape[-1:] if b.ndim > 1 else ()))
    check_out(out, result_shape, dtype, a, b)

    def work(a: Any, b: Any) -> Any:
        a = a if a.dtype == dtype else converted(a, dtype, **place.options)
        matrix = columns(b) if b.ndim == 1 else b
        matrix = converted(spread(matrix, shape), dtype, **place.options)
        x = _solved(a, matrix, place)
        return vectors(x) if b.ndim == 1 else x

    return stored(on_common_device(work, (a, b), place, check), out, engine, queue)


def _solved(a: Any, b: Any, place: Place) -> Any:
    """Solve; ``b`` is a fresh array."""
    squares = place.product(a, a, "C")
    on_diagonal = diagonal(squares)
    square_norms = converted(on_diagonal, on_diagonal.dtype, **place.options)
    check_rank = _rank_check(max(a.shape[-2:]) * float(np.finfo(a.dtype).eps))
    try:
        factor = cholesky(squares, lower=True, overwrite_a=True, **place.of_products)
    except NotPositiveDefiniteError:  # raised for NumPy arrays; the factor has NaN from there on
        factor = squares
    residuals = _residuals(diagonal(factor), square_norms, place)
    report = KernelReport(residuals, check_rank)
    if isinstance(residuals, np.ndarray):
        report.check()
    else:
        residuals.reports = ()  # this report contains that of the factor

    def corrections(residual: Any) -> Any:
        projected = place.product(a, residual, "C")
        where = place.precision, place.engine, place.queue, place.wait_for
        return solve_with_factor(factor, projected, True, True, None, "late", *where, False)

    x = corrections(b)
    if not x.size:
        return x
    for _ in range(_CORRECTIONS):
        residual = converted(b, b.dtype, **place.options)
        place.product(a, x, c=residual, alpha=-1, beta=1)
        _add(x, corrections(residual), place)
    if isinstance(x, Array):
        x.reports = (report,)  # it contains the report of the factor
    return x


def _residuals(c: Any, s: Any, place: Place) -> Any:
    """Return the ratio of each column's residual to its norm, both squared.

    A column with NaN or infinity has no finite norm, and its ratio is NaN.  If a finite column has
    no residual, the factor has NaN or zero, and its ratio is 0.  NumPy divides its own arrays,
    which saves the build of a program.

    Args:
        c: The diagonal of the factor.
        s: The squares of the columns' norms.
        place: Where it is computed.
    """
    if isinstance(c, np.ndarray):
        with np.errstate(all="ignore"):
            return np.where((s - s == 0) & ~(c * c > 0), c.dtype.type(0), c * c / s)
    return elementwise("s - s == 0 && !(c * c > 0) ? 0 : c * c / s", c=c, s=s, **place.options)


def _add(x: Any, correction: Any, place: Place) -> None:
    """Add to x in place; NumPy adds its own arrays, which saves the build of a program."""
    if isinstance(x, np.ndarray):
        with np.errstate(all="ignore"):
            np.add(x, correction, out=x)
        return
    values = parts(x)
    elementwise("x + d", x=values, d=parts(correction), out=values, **place.options)


def _rank_check(tolerance: float) -> Callable[[np.ndarray[Any, Any]], None]:
    """Return a check of the ratios that :func:`_residuals` returns."""

    def check(residuals: np.ndarray[Any, Any]) -> None:
        dependent = np.argwhere(np.isnan(residuals))
        if not dependent.size:
            dependent = np.argwhere(~(residuals > tolerance))
        if not dependent.size:
            return
        *matrix, column = (int(i) for i in dependent[0])
        index, residual = tuple(matrix), float(residuals[(*matrix, column)])
        if residual != residual:
            raise NotPositiveDefiniteError(
                f"a has NaN, infinity or numbers whose squares overflow: of {matrix_at(index)}, "
                f"in column {column}",
                index,
                column,
                residual,
            )
        raise NotPositiveDefiniteError(
            f"a does not have full rank to working precision: of {matrix_at(index)}, column "
            f"{column} depends on those before it: its residual, squared and relative to its "
            f"square, is {residual:g}, and more than {tolerance:g} is needed",
            index,
            column,
            residual,
        )

    return check


def _checked_shape(a: Any, b: Any) -> Shape:
    """Return the shape of B as matrices, with its batch axes broadcast with those of A."""
    if a.ndim < 2 or a.shape[-2] < a.shape[-1]:
        raise ShapeError(
            f"a has shape {tuple(a.shape)}; matrices of at least as many rows as columns are needed"
        )
    check_dtype(a.dtype, "a")
    rows = b.shape[-2:][:1]  # the only axis of a vector
    if rows != a.shape[-2:-1]:
        raise ShapeError(f"a has shape {a.shape} and b {b.shape}: b must have {a.shape[-2]} rows")
    matrix = (*b.shape, 1) if b.ndim == 1 else b.shape
    try:
        return (*np.broadcast_shapes(a.shape[:-2], matrix[:-2]), *matrix[-2:])
    except ValueError:
        raise ShapeError(
            f"a has shape {a.shape} and b {b.shape}: the batch axes do not broadcast"
        ) from None
