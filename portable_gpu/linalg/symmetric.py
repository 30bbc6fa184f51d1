"""The symmetric and Hermitian updates of BLAS: one triangle of the product is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, one_of, only_one
from portable_gpu.codegen.epilogue import Epilogue, Stage
from portable_gpu.dtypes import element, requested_precision
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.ops.factors import PLAIN, factor, plain_number
from portable_gpu.ops.gemm.binding import compute_element, result_dtype
from portable_gpu.ops.gemm.call import Product, invocation, multiply, out_dtype
from portable_gpu.ops.gemv import TRANSPOSES
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import AnyArray, Shape, as_array
from portable_gpu.typing import of_one, of_two

_PLAIN = Epilogue()
#: Sets the imaginary parts of the diagonal of a Hermitian matrix to 0.
_REAL_DIAGONAL = Epilogue((Stage("real diagonal", "row == col ? (value_t)(v.x, 0) : v"),))


@of_one
def syrk(
    a: AnyArray,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: AnyArray | None = None,
    c: AnyArray | None = None,
    trans: str = "N",
    lower: bool = False,
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute one triangle of ``C = alpha * A @ A^T + beta * C``, the rank-k update of BLAS.

    Args:
        a: Shape (..., n, k), or (..., k, n) transposed; any strides, any batch axes.  float16,
            bfloat16, float32, float64, complex64 or complex128 (not conjugated: see
            :func:`herk`).
        alpha: Factor of the product; with 0, ``a`` is not read.
        beta: Factor of C; with 0, C is written and not read.
        out: C, of shape (..., n, n), updated in place and returned.  Its dtype is that of ``a``, or
            float32 for 16-bit floats.  Only the triangle is read and written; the other one stays
            unchanged.  Default: a fresh array, whose other triangle is 0, as in
            ``scipy.linalg.blas``.
        c: Another name of ``out``, that of BLAS.
        trans: ``N``, or ``T`` for ``A^T @ A``; for real dtypes ``C`` is the same.
        lower: Whether the triangle is the lower one (``col <= row``), or the upper one.
        precision: The precision of products of float32; see :func:`portable_gpu.gemm`.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        ``out`` or a fresh array: a NumPy array for NumPy arguments (done), ``portable_gpu.Array``
        for device arrays (enqueued).

    Raises:
        ShapeError, DTypeError, OverlapError, UnsupportedError, DeviceMemoryError: As
            :func:`portable_gpu.gemm`.
        ArgumentError: ``trans`` or ``precision`` is unknown, or there is ``beta`` without ``out``.

    Cost: ``n * (n + 1) * k`` flop (4 times as many complex); at least ``(n*k + n*(n+1)/2) *
        itemsize`` bytes.
    Accuracy, Order: as :func:`portable_gpu.gemm`: ``|error| <= gamma(k) |alpha| |A| @ |A|^T``.
    """
    out = only_one(out, "out", c, "c")
    return _rank_k("syrk", a, alpha, beta, out, trans, lower, precision, engine, queue, wait_for)


@of_one
def herk(
    a: AnyArray,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    out: AnyArray | None = None,
    c: AnyArray | None = None,
    trans: str = "N",
    lower: bool = False,
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute one triangle of ``C = alpha * A @ A^H + beta * C``, which is Hermitian.

    Args:
        a: Shape (..., n, k), or (..., k, n) transposed; for real dtypes this is :func:`syrk`.
        alpha, beta: Real factors.
        out, c: C, of shape (..., n, n), as in :func:`syrk`.  The imaginary parts of its diagonal
            are not read, and are set to 0.
        trans: ``N``, or ``C`` for ``A^H @ A``; for real dtypes ``T`` is the same.
        lower, precision, engine, queue, wait_for: As in :func:`syrk`.

    Returns:
        ``out`` or a fresh array, whose other triangle is 0.

    Raises:
        DTypeError: ``alpha`` or ``beta`` is complex; else as :func:`syrk`.

    Cost, Accuracy, Order: as :func:`syrk`.
    """
    _check_real(alpha=alpha, beta=beta)
    out = only_one(out, "out", c, "c")
    return _rank_k("herk", a, alpha, beta, out, trans, lower, precision, engine, queue, wait_for)


@of_two
def syr2k(
    a: AnyArray,
    b: AnyArray,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: AnyArray | None = None,
    c: AnyArray | None = None,
    trans: str = "N",
    lower: bool = False,
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute one triangle of ``C = alpha * A @ B^T + alpha * B @ A^T + beta * C``.

    Args:
        a, b: Shape (..., n, k), or (..., k, n) transposed; batch axes broadcast.
        alpha, beta, out, c: As in :func:`syrk`.
        trans: ``N``, or ``T`` for ``A^T @ B`` and ``B^T @ A``; for real dtypes ``C`` is the same.
        lower, precision, engine, queue, wait_for: As in :func:`syrk`.

    Returns:
        ``out`` or a fresh array, whose other triangle is 0.

    Raises:
        As :func:`syrk`.

    Cost: ``2 * n * (n + 1) * k`` flop (4 times as many complex); two products, so the triangle
        of C is written twice and read once more.
    Accuracy: ``|error| <= gamma(2k) |alpha| (|A| @ |B|^T + |B| @ |A|^T)``; 16-bit results are
        rounded after the first product too (give a float32 ``out`` where that matters).
    Order: as :func:`syrk`.
    """
    out = only_one(out, "out", c, "c")
    return _rank_2k(
        "syr2k", a, b, alpha, beta, out, trans, lower, precision, engine, queue, wait_for
    )


@of_two
def her2k(
    a: AnyArray,
    b: AnyArray,
    *,
    alpha: complex = 1.0,
    beta: float = 0.0,
    out: AnyArray | None = None,
    c: AnyArray | None = None,
    trans: str = "N",
    lower: bool = False,
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute one triangle of ``C = alpha * A @ B^H + conj(alpha) * B @ A^H + beta * C``.

    Args:
        a, b: Shape (..., n, k), or (..., k, n) transposed; batch axes broadcast.  For real
            dtypes this is :func:`syr2k`.
        alpha: A complex factor.
        beta: A real factor.
        out, c: As in :func:`herk`.
        trans: ``N``, or ``C`` for ``alpha * A^H @ B`` and ``conj(alpha) * B^H @ A``; for real
            dtypes ``T`` is the same.
        lower, precision, engine, queue, wait_for: As in :func:`syrk`.

    Returns:
        ``out`` or a fresh array, whose other triangle is 0.

    Raises:
        DTypeError: ``beta`` is complex; else as :func:`syrk`.

    Cost, Accuracy, Order: as :func:`syr2k`.
    """
    _check_real(beta=beta)
    out = only_one(out, "out", c, "c")
    return _rank_2k(
        "her2k", a, b, alpha, beta, out, trans, lower, precision, engine, queue, wait_for
    )


def _rank_k(
    name: str,
    a: Any,
    alpha: Any,
    beta: Any,
    c: Any,
    trans: Any,
    lower: Any,
    precision: str | None,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    lower = flag(lower, "lower")
    if type(alpha) not in PLAIN or type(beta) not in PLAIN:
        alpha, beta = plain_number(alpha, "alpha"), plain_number(beta, "beta")
    options = name, alpha, beta, trans, lower, precision
    return _RANK_K.call((a, a), options, c, (), engine, queue, wait_for)


def _normalise(arguments: CallArguments) -> Invocation:
    c = arguments.out
    name, alpha, beta, trans, lower, precision = arguments.options
    one_of(trans, TRANSPOSES, "trans")
    a = as_array(arguments.inputs[0], "a")
    shape = _square(a, a, trans)
    return invocation(_triangle(name, a, a, shape, alpha, beta, c, trans, lower, precision))


_RANK_K = Operation("rank-k update", _normalise)


def _rank_2k(
    name: str,
    a: Any,
    b: Any,
    alpha: Any,
    beta: Any,
    c: Any,
    trans: Any,
    lower: Any,
    precision: str | None,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Add two products: the first to ``beta * C``, the second to the result."""
    lower = flag(lower, "lower")
    one_of(trans, TRANSPOSES, "trans")
    a, b = as_array(a, "a"), as_array(b, "b")
    shape = _square(a, b, trans)
    alpha = plain_number(alpha, "alpha")
    other = alpha.conjugate() if name == "her2k" else alpha
    first = _triangle(name, a, b, shape, alpha, beta, c, trans, lower, precision)
    result = multiply(first, engine, queue, wait_for)
    second = _triangle(name, b, a, shape, other, 1.0, result, trans, lower, precision)
    return multiply(second, engine, queue, None)


def _square(a: Any, b: Any, trans: str) -> Shape:
    """Return the shape of the result.

    Raises:
        ShapeError: An argument is not a matrix, or the shapes differ.
    """
    for name, array in (("a", a), ("b", b)):
        if array.ndim < 2:
            raise ShapeError(f"{name} has shape {array.shape}; it takes at least two axes")
    if a.shape[-2:] != b.shape[-2:]:
        raise ShapeError(f"a has shape {a.shape} and b {b.shape}: their matrices differ in shape")
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ShapeError(
            f"a has shape {a.shape} and b {b.shape}: the batch axes do not broadcast"
        ) from None
    n = a.shape[-2 if trans == "N" else -1]
    return (*batch, n, n)


def _triangle(
    name: str,
    a: Any,
    b: Any,
    shape: Shape,
    alpha: Any,
    beta: Any,
    c: Any,
    trans: str,
    lower: bool,
    precision: str | None,
) -> Product:
    """Check the arguments of one product, and return it."""
    requested_precision(precision)
    dtype = result_dtype(a.dtype, b.dtype)
    if not element(dtype).floating:
        other = "" if b is a else f", b is {b.dtype}"
        raise DTypeError(f"a is {a.dtype}{other}; {name} takes floating dtypes")
    compute = compute_element(a.dtype, b.dtype)
    alpha, beta = factor(alpha, "alpha", compute), factor(beta, "beta", compute)
    if beta != 0 and c is None:
        raise ArgumentError(f"beta is {beta} and there is no out (c); pass out=")
    hermitian = name in ("herk", "her2k")
    transpose = "C" if hermitian else "T"
    if trans not in ("N", transpose) and compute.complex:
        raise ArgumentError(
            f"trans is {trans!r} and the product complex: {name} takes N and {transpose}"
        )
    trans_a, trans_b = ("N", transpose) if trans == "N" else (transpose, "N")
    return Product(
        a, b, c, "out (c)", shape, out_dtype(dtype, c), trans_a, trans_b, alpha, beta,
        _REAL_DIAGONAL if hermitian and compute.complex else _PLAIN, precision,
        triangle="lower" if lower else "upper",
    )  # fmt: skip


def _check_real(**factors: Any) -> None:
    for name, value in factors.items():
        if isinstance(value, complex) and value.imag:
            raise DTypeError(f"{name} is {value}; herk and her2k take a real one")
