"""The public functions: gemm by the rules of BLAS, matmul by NumPy's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import of_kind, one_of, only_one
from portable_gpu.codegen.epilogue import Epilogue, Stage
from portable_gpu.dtypes import element, requested_precision
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.ops.factors import PLAIN, factor, plain_number
from portable_gpu.ops.gemm.binding import compute_element, result_dtype
from portable_gpu.ops.gemm.call import Product, invocation, out_dtype
from portable_gpu.ops.gemm.skinny.vectors import transposed
from portable_gpu.ops.gemv import TRANSPOSES, normalise_gemv
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.runtime.array import DEVICE_KINDS, Array
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import EngineGroup, Planning
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import AnyArray, Shape, View, as_array
from portable_gpu.typing import inner_product, of_two


@of_two
def gemm(
    a: AnyArray,
    b: AnyArray,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: AnyArray | None = None,
    c: AnyArray | None = None,
    trans_a: str = "N",
    trans_b: str = "N",
    precision: str | None = None,
    epilogue: Epilogue | None = None,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``C = epilogue(alpha * op(A) @ op(B) + beta * C)``, the product of BLAS.

    Args:
        a: Shape (m, k), or (k, m) transposed; any strides.  float16, bfloat16, float32, float64,
            complex64 or complex128.
        b: Shape (k, n), or (n, k) transposed.  A dtype that differs from ``a``'s is converted on
            the way in.
        alpha: Factor of the product; with 0, ``a`` and ``b`` are not read.
        beta: Factor of C; with 0, C is written and not read (NaN in it does not spread).
        out: C, of shape (m, n), updated in place and returned.  Its dtype is NumPy's of
            ``a @ b``, or float32 for 16-bit floats.  Without it the result is a fresh array.
        c: Another name of ``out``, that of BLAS.
        trans_a, trans_b: ``N``, ``T`` (transpose) or ``C`` (conjugate transpose).
        precision: The precision of products of float32: ``ieee`` computes and sums them in float32.
            The others use matrix units, if the device has them: ``tf32`` keeps 11 bits of each
            value, ``bf16x3`` 16, ``tf32x3`` 22, ``bf16x6`` all 24.  It is the minimum accuracy:
            other dtypes, and devices without such units, compute as for ``ieee``.
            ``None``: the engine's, which is ``ieee`` unless set.
        epilogue: The stages that each element of the result passes; see
            :class:`~portable_gpu.Epilogue`.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        ``out`` or a fresh array of shape (m, n): a NumPy array for NumPy arguments (done),
        ``portable_gpu.Array`` for device arrays (enqueued).

    Raises:
        ShapeError: The shapes do not fit each other.
        DTypeError: A dtype is not supported, or ``alpha`` is complex for a real product.
        ArgumentError: An option is unknown, or there is ``beta`` without ``out``.
        OverlapError: ``out`` shares memory with an input.
        UnsupportedError: The call needs double precision, which the device lacks.
        DeviceMemoryError: The device lacks memory for the result or for partial sums.

    Cost: ``2*m*n*k`` flop (8 complex); at least ``(m*k + k*n + m*n) * itemsize`` bytes.  A split
        k takes a workspace of ``splits * m * n`` sums, at most 64 MiB.  Matrix units may need a
        copy of an operand, because of its strides or because ``precision`` splits its values: up to
        6 bytes for each element.
    Accuracy: sums in the result's dtype (16-bit floats in float32, rounded once):
        ``|error| <= gamma(k) * |alpha| * |a| @ |b|`` for any order, NaN and infinities as IEEE;
        twice that for 16-bit floats on matrix units, which truncate.  For ``precision``, also with
        infinities, see docs/accuracy.md.
    Order: fixed for one target, policy and shape; no atomics.
    Symmetric products: where ``b`` is ``a``'s transpose in the same memory (by the flags, or a
        view), ``beta`` is 0 and no epilogue follows, half of the flop may suffice: the lower
        triangle is computed and mirrored, so the result is exactly symmetric.  This is done if it
        is estimated to be faster, but never by a plan, which may be called with other arrays.
    Source: Goto & van de Geijn, TOMS 34(3), 2008 (blocking); Volkov & Demmel, SC 2008, and
        Matsumoto, Nakasato & Sedukhin, 2012 (register tiles on GPUs).
    """
    if c is not None:
        out = only_one(out, "out", c, "c")
    if engine is not None and isinstance(engine, EngineGroup):
        return engine.compute("gemm", locals())
    if type(alpha) not in PLAIN or type(beta) not in PLAIN:
        alpha, beta = plain_number(alpha, "alpha"), plain_number(beta, "beta")
    same = same_memory(a, b) and not isinstance(engine, Planning)
    inputs, stages = _with_epilogue(a, b, epilogue)
    options = alpha, beta, trans_a, trans_b, precision, stages, same
    return _GEMM.call(inputs, options, out, (), engine, queue, wait_for)


@inner_product
def matmul(
    a: AnyArray,
    b: AnyArray,
    *,
    out: AnyArray | None = None,
    precision: str | None = None,
    epilogue: Epilogue | None = None,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``a @ b`` by NumPy's rules.

    Args:
        a, b: One-dimensional arrays are vectors; further axes before the last two are batches
            and broadcast.  Any supported dtypes; the result has NumPy's (integers wrap around in
            their own type; bool is ``or`` of ``and``).
        out: The array for the result, of its shape and dtype (or float32 for 16-bit floats).
        precision: The precision of products of float32; see :func:`gemm`.
        epilogue: The stages that each element of the result passes; see
            :class:`~portable_gpu.Epilogue`.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        ``out`` or a fresh array; a NumPy array for NumPy arguments (done), ``portable_gpu.Array``
        for device arrays (enqueued).

    Raises:
        ShapeError, DTypeError, OverlapError, UnsupportedError, DeviceMemoryError: As in
            :func:`gemm`; ShapeError also for scalars.

    Cost, Accuracy, Order, Symmetric products, Source: as :func:`gemm`; a matrix and a vector go
        to gemv.
    """
    if engine is not None and isinstance(engine, EngineGroup):
        return engine.compute("matmul", locals())
    same = same_memory(a, b) and not isinstance(engine, Planning)
    inputs, stages = _with_epilogue(a, b, epilogue)
    return _MATMUL.call(inputs, (precision, stages, same), out, (), engine, queue, wait_for)


def _with_epilogue(
    a: Any, b: Any, epilogue: Epilogue | None
) -> tuple[tuple[Any, ...], tuple[Stage, ...]]:
    """Return the arrays that a product reads, and the stages of its epilogue."""
    if epilogue is None:
        return (a, b), ()
    of_kind(epilogue, Epilogue, "epilogue", "a portable_gpu.Epilogue or None")
    return (a, b, *epilogue.arrays), epilogue.stages


def _normalise_gemm(arguments: CallArguments) -> Invocation:
    out = arguments.out
    alpha, beta, trans_a, trans_b, precision, stages, same = arguments.options
    requested_precision(precision)
    a, b = as_array(arguments.inputs[0], "a"), as_array(arguments.inputs[1], "b")
    for name, array, trans in (("a", a, trans_a), ("b", b, trans_b)):
        one_of(trans, TRANSPOSES, f"trans_{name}")
        if array.ndim != 2:
            raise ShapeError(f"{name} has shape {array.shape}; gemm takes matrices (see matmul)")
    m, k = a.shape if trans_a == "N" else a.shape[::-1]
    k_b, n = b.shape if trans_b == "N" else b.shape[::-1]
    if k != k_b:
        raise ShapeError(
            f"a is {a.shape} ({trans_a}) and b {b.shape} ({trans_b}): "
            f"the product's inner sizes {k} and {k_b} differ"
        )
    dtype = result_dtype(a.dtype, b.dtype)
    if not element(dtype).floating:
        raise DTypeError(f"gemm of {a.dtype} and {b.dtype}; floating dtypes (see matmul)")
    compute = compute_element(a.dtype, b.dtype)
    alpha, beta = factor(alpha, "alpha", compute), factor(beta, "beta", compute)
    if beta != 0 and out is None:
        raise ArgumentError(f"beta is {beta} and there is no out (c); pass out=")
    product = Product(
        a, b, out, "out (c)", (m, n), out_dtype(dtype, out), trans_a, trans_b, alpha, beta,
        Epilogue(stages, arguments.inputs[2:]), precision, same=same,
    )  # fmt: skip
    return invocation(product)


def _normalise_matmul(arguments: CallArguments) -> Invocation:
    out = arguments.out
    precision, stages, same = arguments.options
    requested_precision(precision)
    a, b = as_array(arguments.inputs[0], "a"), as_array(arguments.inputs[1], "b")
    shape = _matmul_shape(a.shape, b.shape)
    dtype = result_dtype(a.dtype, b.dtype)
    by_vector = not stages and {a.ndim, b.ndim} == {1, 2} and a.size and b.size
    if by_vector and _takes_gemv(a.dtype, b.dtype, out):
        return _by_gemv(a, b, out)
    product = Product(
        a, b, out, "out", shape, out_dtype(dtype, out), "N", "N", 1, 0,
        Epilogue(stages, arguments.inputs[2:]), precision, same=same,
    )  # fmt: skip
    return invocation(product)


def _by_gemv(a: Any, b: Any, out: Any) -> Invocation:
    """Return the call of a product of a matrix and a vector."""
    if a.ndim == 2:
        return normalise_gemv(a, b, 1.0, 0.0, "N", out, "out")
    product = normalise_gemv(b, a, 1.0, 0.0, "T", out, "out")

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        vector, matrix, result = views
        return transposed(product.plan(engine, (matrix, vector, result)))

    return replace(product, inputs=(a, b), names=("a", "b"), plan=plan)


_GEMM = Operation("gemm", _normalise_gemm)
_MATMUL = Operation("matmul", _normalise_matmul)
Array._matmul = matmul  # what a @ b does


def _matmul_shape(a: Shape, b: Shape) -> Shape:
    if not a or not b:
        raise ShapeError(
            f"a has shape {a} and b {b}; scalars cannot be matrices, * multiplies them"
        )
    if a[-1] != (b[-2] if len(b) > 1 else b[0]):
        raise ShapeError(
            f"a has shape {a} and b {b}; the inner sizes "
            f"{a[-1]} and {b[-2] if len(b) > 1 else b[0]} differ"
        )
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise ShapeError(f"a has shape {a} and b {b}; the batch axes do not broadcast") from None
    return (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def _takes_gemv(a: np.dtype[Any], b: np.dtype[Any], out: Any) -> bool:
    """Whether gemv takes these dtypes as they are."""
    return a == b and element(a).floating and getattr(out, "dtype", a) == a


def same_memory(a: Any, b: Any) -> bool:
    """Whether two arrays begin at the same element of the same memory, as ``x`` and ``x.T`` do.

    It takes little time if they do not, because each repeated call does it.
    """
    if a is b:
        return isinstance(a, (np.ndarray, *DEVICE_KINDS))
    if type(a) is np.ndarray and type(b) is np.ndarray:
        base_a, base_b = a.base, b.base
        related = (a if base_a is None else base_a) is (b if base_b is None else base_b)
        return related and a.dtype == b.dtype and a.ctypes.data == b.ctypes.data
    if isinstance(a, DEVICE_KINDS) and isinstance(b, DEVICE_KINDS):
        memory = a.base_data
        return memory is not None and memory is b.base_data and a.offset == b.offset
    return False
