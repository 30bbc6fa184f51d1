"""The public functions: gemm by the rules of BLAS, matmul by NumPy's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from numbers import Number
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.dtypes import Element, element, is_float16_like
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.ops.gemm.binding import bind, compute_element, result_dtype
from portable_gpu.ops.gemm.paths import GemmPath, make_path
from portable_gpu.ops.gemv import gemv
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.repeat import NUMBERS, Key, again, remember
from portable_gpu.runtime.views import (
    AnyArray,
    Call,
    Shape,
    View,
    as_array,
    check_no_overlap,
    places,
)

_NO_EPILOGUE = Epilogue()
_PRECISIONS = ("ieee",)


def gemm(
    a: AnyArray,
    b: AnyArray,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    c: AnyArray | None = None,
    trans_a: str = "N",
    trans_b: str = "N",
    precision: str = "ieee",
    epilogue: Epilogue | None = None,
    engine: Engine | None = None,
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
        beta: Factor of ``c``; with 0, ``c`` is written and not read (NaN in it does not spread).
        c: Shape (m, n), updated in place and returned.  Its dtype is NumPy's of ``a @ b``, or
            float32 for 16-bit floats.  Without it the result is a fresh array.
        trans_a, trans_b: ``N``, ``T`` (transpose) or ``C`` (conjugate transpose).
        precision: ``ieee``: products and sums in the dtype's own precision.
        epilogue: What follows on each element; see :class:`~portable_gpu.Epilogue`.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        ``c`` or a fresh array of shape (m, n): NumPy for NumPy arguments (done), pyopencl for
        pyopencl ones (enqueued).

    Raises:
        ShapeError: The shapes do not fit each other.
        DTypeError: A dtype is not supported, or ``alpha`` is complex for a real product.
        ArgumentError: An unknown option, or ``beta`` without ``c``.
        OverlapError: ``c`` shares memory with an input.
        UnsupportedError: float64 on a device without it.
        DeviceMemoryError: The device lacks room for the result or for partial sums.

    Cost: ``2*m*n*k`` flop (8 complex); at least ``(m*k + k*n + m*n) * itemsize`` bytes.  A split
        k takes a workspace of ``splits * m * n`` sums, at most 64 MiB.
    Accuracy: sums in the result's dtype (16-bit floats in float32, rounded once):
        ``|error| <= gamma(k) * |alpha| * |a| @ |b|`` for any order, NaN and infinities as IEEE.
    Order: fixed for one target, policy and shape; no atomics.
    Source: Goto & van de Geijn, TOMS 34(3), 2008 (blocking); Volkov & Demmel, SC 2008, and
        Matsumoto, Nakasato & Sedukhin, 2012 (register tiles on GPUs).
    """
    given, key = (a, b), None
    if c is None and epilogue is None and engine is None and queue is None and not wait_for:
        head = ("gemm", alpha, beta, trans_a, trans_b, precision)
        if type(alpha) in NUMBERS and type(beta) in NUMBERS:
            result, key = again(head, (a, b))
            if result is not None:
                return result
    if precision not in _PRECISIONS:
        raise ArgumentError(f"precision is {precision!r}; {', '.join(_PRECISIONS)} is known")
    a, b = as_array(a, "a"), as_array(b, "b")
    for name, array, trans in (("a", a, trans_a), ("b", b, trans_b)):
        if trans not in ("N", "T", "C"):
            raise ArgumentError(f"trans_{name} is {trans!r}; N, T and C are known")
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
    alpha, beta = _factor(alpha, "alpha", compute), _factor(beta, "beta", compute)
    if beta != 0 and c is None:
        raise ArgumentError(f"beta is {beta} and there is no c; pass c=")
    return _run(
        a, b, c, "c", (m, n), dtype, trans_a, trans_b, alpha, beta,
        epilogue or _NO_EPILOGUE, engine, queue, wait_for, key, given,
    )  # fmt: skip


def matmul(
    a: AnyArray,
    b: AnyArray,
    *,
    out: AnyArray | None = None,
    epilogue: Epilogue | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``a @ b`` by NumPy's rules.

    Args:
        a, b: One-dimensional arrays are vectors; further axes before the last two are batches
            and broadcast.  Any supported dtypes; the result has NumPy's (integers wrap around
            in their own type, bool is "any of the ands").
        out: Where to put the result: its shape and dtype (or float32 for 16-bit floats).
        epilogue: What follows on each element; see :class:`~portable_gpu.Epilogue`.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        ``out`` or a fresh array; NumPy for NumPy arguments, pyopencl for pyopencl ones.

    Raises:
        ShapeError, DTypeError, OverlapError, UnsupportedError, DeviceMemoryError: As in
            :func:`gemm`; scalars are a ShapeError.

    Cost, Accuracy, Order, Source: as :func:`gemm`; a matrix and a vector go to gemv.
    """
    given, key = (a, b), None
    if out is None and epilogue is None and engine is None and queue is None and not wait_for:
        result, key = again(("matmul",), (a, b))
        if result is not None:
            return result
    a, b = as_array(a, "a"), as_array(b, "b")
    shape = _matmul_shape(a.shape, b.shape)
    dtype = result_dtype(a.dtype, b.dtype)
    by_vector = epilogue is None and {a.ndim, b.ndim} == {1, 2} and a.size and b.size
    if by_vector and _takes_gemv(a.dtype, b.dtype, out):
        matrix, vector, trans = (a, b, "N") if a.ndim == 2 else (b, a, "T")
        return gemv(
            matrix, vector, y=out, trans=trans, engine=engine, queue=queue, wait_for=wait_for
        )
    result = _run(
        a, b, out, "out", shape, dtype, "N", "N", 1, 0,
        epilogue or _NO_EPILOGUE, engine, queue, wait_for, key, given,
    )  # fmt: skip
    return result[()] if not shape and out is None and isinstance(result, np.ndarray) else result


def _run(
    a: Any,
    b: Any,
    out: Any,
    out_name: str,
    shape: Shape,
    dtype: np.dtype[Any],
    trans_a: str,
    trans_b: str,
    alpha: Any,
    beta: Any,
    epilogue: Epilogue,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
    key: Key | None,
    given: tuple[Any, Any],
) -> Any:
    arrays = [as_array(x, "an array of the epilogue") for x in epilogue.arrays]
    if out is not None:
        check_no_overlap(out, out_name, [(a, "a"), (b, "b"), *((x, "epilogue") for x in arrays)])
        if is_float16_like(dtype) and getattr(out, "dtype", None) == np.float32:
            dtype = out.dtype
    inner = a.shape[-1] if trans_a == "N" else a.shape[-2]
    flop = 2 * math.prod(shape) * inner * compute_element(a.dtype, b.dtype).components ** 2
    call = Call((a, b, out, *arrays), engine, queue, wait_for, flop=flop)
    if out is None:
        call.engine.check_allocation(math.prod(shape) * dtype.itemsize)
    va, vb = call.input(a, "a"), call.input(b, "b")
    extras = [call.input(x, "epilogue") for x in arrays]
    vc = call.output(shape, dtype, out, out_name, read=beta != 0)
    problem = (
        "gemm", trans_a, trans_b, alpha == 0, beta == 0, epilogue.stages,
        *((v.dtype, v.shape, v.strides, v.alignment) for v in (va, vb, vc, *extras)),
    )  # fmt: skip
    path = call.engine.plan(
        problem,
        lambda: _make(
            call.engine, va, vb, vc, trans_a, trans_b, epilogue, extras, alpha != 0, beta != 0
        ),
    )
    if path is not None:
        enqueue = partial(path.enqueue, alpha, beta)
        call.event(enqueue(call.state, *places((va, vb, vc, *extras)), call.wait_for))
        remember(key, given, call.state, enqueue, shape, dtype)
    return call.finish()


def _matmul_shape(a: Shape, b: Shape) -> Shape:
    if not a or not b:
        raise ShapeError(f"matmul of shapes {a} and {b}: scalars cannot be matrices; use *")
    if a[-1] != (b[-2] if len(b) > 1 else b[0]):
        raise ShapeError(
            f"matmul of shapes {a} and {b}: the inner sizes "
            f"{a[-1]} and {b[-2] if len(b) > 1 else b[0]} differ"
        )
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise ShapeError(f"matmul of shapes {a} and {b}: the batch axes do not broadcast") from None
    return (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def _make(
    engine: Engine,
    a: View,
    b: View,
    c: View,
    trans_a: str,
    trans_b: str,
    epilogue: Epilogue,
    extras: Sequence[View],
    multiplies: bool,
    reads_c: bool,
) -> GemmPath | None:
    """The path of one product of views; ``None`` where C is empty."""
    problem = bind(
        engine.target, a, b, c, trans_a=trans_a, trans_b=trans_b, stages=epilogue.stages,
        extras=extras, multiplies=multiplies, reads_c=reads_c,
    )  # fmt: skip
    return make_path(engine, problem) if c.size else None


def _factor(value: Any, name: str, compute: Element) -> Any:
    """``alpha`` or ``beta`` as a number of the product's kind."""
    if type(value) in (float, int):
        return value + 0  # -0.0 becomes 0.0
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, Number):
        raise DTypeError(f"{name} is a {type(value).__name__}; a number is needed")
    number = complex(value)  # type: ignore[call-overload]  # every number that NumPy knows
    if compute.complex:
        return number
    if number.imag:
        raise DTypeError(f"{name} is {value}, and the product is real")
    return number.real


def _takes_gemv(a: np.dtype[Any], b: np.dtype[Any], out: Any) -> bool:
    """Whether gemv takes these dtypes as they are."""
    return a == b and element(a).floating and getattr(out, "dtype", a) == a
