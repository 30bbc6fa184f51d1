"""The public function: a matrix times a vector, by the rules of BLAS."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Number
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import one_of, shown
from portable_gpu.dtypes import Element, element
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.ops.candidate import bind_best
from portable_gpu.ops.gemv.plan import candidates, require_fp64
from portable_gpu.ops.gemv.problem import TRANSPOSES, GemvProblem
from portable_gpu.ops.reduce.run import converted
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.repeat import NUMBERS, Bound, again
from portable_gpu.runtime.views import AnyArray, as_array, check_no_overlap


def gemv(
    a: AnyArray,
    x: AnyArray,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    y: AnyArray | None = None,
    trans: str = "N",
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``y = alpha * op(A) @ x + beta * y``, the matrix-vector product of BLAS.

    Args:
        a: Shape (m, n), or (n, m) with ``trans`` T or C; any offset and strides.  Floating,
            complex or integer; integers wrap around in their own dtype, as NumPy's do.
        x: Shape (n,).  A dtype that differs from ``a``'s: both become NumPy's common dtype first,
            by a copy.
        alpha: Factor of the product; with 0, ``a`` and ``x`` are not read.
        beta: Factor of ``y``; with 0, ``y`` is written and not read (NaN in it does not spread).
        y: Shape (m,), of the common dtype, updated in place and returned; a fresh array
            without it.
        trans: ``N``, ``T`` (transpose) or ``C`` (conjugate transpose).
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        ``y`` or a fresh array of shape (m,): NumPy's for NumPy arguments (done),
        ``portable_gpu.Array`` for device arrays (enqueued).

    Raises:
        ShapeError: ``a`` is no matrix, ``x`` no vector, or their sizes differ.
        DTypeError: A dtype is not supported (bool neither), or a factor is not of the kind.
        ArgumentError: An unknown ``trans``, or ``beta`` without ``y``.
        OverlapError: ``y`` shares memory with ``a`` or ``x``, or with itself.
        ReadOnlyError: ``y`` cannot be written.
        UnsupportedError: Double precision on a device without it.
        DeviceMemoryError: The device lacks room.

    Cost: ``2*m*n`` flop (8 complex); ``(m*n + m + n) * itemsize`` bytes.  Where work-groups share
        the summed axis, workspace for at most 4 sums a compute unit and block of outputs.
    Accuracy: sums in the common dtype, 16-bit floats in float32 and rounded once:
        ``|error| <= gamma(n) * |alpha| * |A| @ |x|`` for any order, NaN and infinities as IEEE.
    Order: fixed for one target, policy, shape and alignment; no floating-point atomics.
    Source: the work split by shape, as in the founding texts' sgemv v0 to v2; Van Zee & van de
        Geijn, TOMS 41(3), 2015 (dotxf and axpyf, by how the matrix is stored).
    """
    if wait_for is not None:
        wait_for = events_of(wait_for)
    result = key = None
    if queue is None and not wait_for:
        head = ("gemv", alpha, beta, trans)
        if type(alpha) in NUMBERS and type(beta) in NUMBERS:
            result, key = again(head, (a, x), y, engine)
    if result is not None:
        return result
    return bind_gemv(a, x, alpha, beta, y, trans, engine, queue, wait_for).run(key, (a, x))


def bind_gemv(
    a: AnyArray,
    x: AnyArray,
    alpha: Any,
    beta: Any,
    y: AnyArray | None,
    trans: str,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Bound:
    """Check the arguments of :func:`gemv`, find the queue, and find or build the plan."""
    a, x = as_array(a, "a"), as_array(x, "x")
    if a.ndim != 2 or x.ndim != 1:
        raise ShapeError(f"a has shape {a.shape} and x {x.shape}; a matrix and a vector are needed")
    one_of(trans, TRANSPOSES, "trans")
    m, n = a.shape if trans == "N" else a.shape[::-1]
    if x.shape[0] != n:
        raise ShapeError(
            f"a is {a.shape} ({trans}) and x {x.shape}: x must have {n} elements, not {x.shape[0]}"
        )
    dtype = a.dtype if a.dtype == x.dtype else _common(a.dtype, x.dtype)
    elem = element(dtype)
    if elem.name == "b8":
        raise DTypeError("a and x are bool; convert them, for instance by astype('int32')")
    alpha, beta = _factor(alpha, "alpha", elem), _factor(beta, "beta", elem)
    if y is None and beta:
        raise ArgumentError(f"beta is {beta} and there is no y; pass y=")
    call = Call((a, x, y), engine, queue, wait_for, flop=2 * a.size * elem.components)
    if y is not None:
        check_no_overlap(y, "y", ((a, "a"), (x, "x")))
    of_copies = a.dtype != x.dtype
    if of_copies:
        a, x = (_converted(array, dtype, call) for array in (a, x))
    view_y = call.output((m,), dtype, y, "y", bool(beta))
    if m == 0:
        return Bound(call, (), None, (), y)
    view_a, view_x = call.input(a, "a"), call.input(x, "x")
    vectors = not call.engine.target.is_cpu
    aligned_a = min(16, view_a.alignment) if vectors else 1
    aligned_x = min(16, view_x.alignment) if vectors else 1
    strides = view_a.strides, view_x.strides[0], view_y.strides[0]
    plan = call.engine.plan(
        ("gemv", elem.name, m, n, strides, trans, aligned_a, aligned_x),
        lambda: _plan(call.engine, elem, m, n, trans, strides, aligned_a, aligned_x),
    )
    scalars = alpha if n else 0, beta
    return Bound(call, (view_a, view_x, view_y), plan, scalars, y, of_copies)


def _plan(
    engine: Engine,
    elem: Element,
    m: int,
    n: int,
    trans: str,
    strides: tuple[tuple[int, ...], int, int],
    aligned_a: int,
    aligned_x: int,
) -> Plan:
    (first, second), x_step, y_step = strides
    a_out, a_sum = (first, second) if trans == "N" else (second, first)
    conj = trans == "C" and elem.complex
    problem = GemvProblem(
        elem, m, n, a_out, a_sum, x_step, y_step, conj, aligned_a, aligned_x
    )  # fmt: skip
    require_fp64(engine.target, problem)
    return bind_best(engine, candidates(problem, engine.target, engine.table))


def _common(a: np.dtype[Any], x: np.dtype[Any]) -> np.dtype[Any]:
    try:
        dtype = np.result_type(a, x)
    except TypeError as error:
        raise DTypeError(f"a is {a} and x is {x}: {error}; convert one of them") from None
    element(dtype)
    return dtype


def _converted(array: Any, dtype: np.dtype[Any], call: Call) -> Any:
    """``array`` in another dtype, by a copy; a device array's copy is queued.

    pyopencl's ``astype`` knows neither bool nor views with gaps.
    """
    if array.dtype == dtype:
        return array
    if isinstance(array, DEVICE_KINDS):
        return converted(array, dtype, call.engine, call.state.queue)
    return array.astype(dtype)


def _factor(value: Any, name: str, elem: Element) -> Any:
    """``alpha`` or ``beta`` as a number of the product's kind."""
    if type(value) is float and elem.real == "double" and not elem.complex:
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.bool_):
        value = bool(value)
    if not isinstance(value, Number):
        raise DTypeError(f"{name} is {shown(value)}; a number is needed")
    try:
        number = complex(value)  # type: ignore[call-overload]  # every number that NumPy knows
    except (TypeError, ValueError, OverflowError) as error:
        raise DTypeError(f"{name} is {shown(value)}: {error}") from None
    if elem.complex:
        return number + 0.0
    if number.imag:
        raise DTypeError(f"{name} is {value}, and the product is real")
    if elem.floating:
        return number.real + 0.0
    if isinstance(value, Integral):  # of which a float may hold less
        return int(value) & ((1 << 64) - 1 if elem.itemsize == 8 else (1 << 32) - 1)
    try:
        exact = int(value.real if isinstance(value, complex) else value)  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        exact = None
    if exact is None or exact != number.real:
        raise DTypeError(f"{name} is {value}, and the product is of integers; pass an integer")
    return exact & ((1 << 64) - 1 if elem.itemsize == 8 else (1 << 32) - 1)
