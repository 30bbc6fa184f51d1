"""The public function: a matrix times a vector, by the rules of BLAS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import one_of, only_one
from portable_gpu.dtypes import Element, element
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.ops.factors import PLAIN, factor, plain_number
from portable_gpu.ops.gemv.problem import TRANSPOSES, GemvProblem
from portable_gpu.ops.gemv.variants import variants
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.ops.reduce.conversion import converter
from portable_gpu.ops.variant import bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import EngineGroup
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import AnyArray, View, as_array
from portable_gpu.typing import of_two


@of_two
def gemv(
    a: AnyArray,
    x: AnyArray,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: AnyArray | None = None,
    y: AnyArray | None = None,
    trans: str = "N",
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``y = alpha * op(A) @ x + beta * y``, the matrix-vector product of BLAS.

    Args:
        a: Shape (m, n), or (n, m) with ``trans`` T or C; any offset and strides.  The dtype is
            floating, complex or integer; integers wrap around in their own dtype, as in NumPy.
        x: Shape (n,).  If its dtype differs from that of ``a``, both are first copied to NumPy's
            common dtype.
        alpha: The factor of the product.  If it is 0, ``a`` and ``x`` are not read.
        beta: The factor of y.  If it is 0, y is not read, so NaN in it has no effect.
        out: The array y, of shape (m,) and the common dtype.  It is updated in place and returned.
            Default: a fresh array.
        y: Another name of ``out``, which BLAS uses.
        trans: ``N``, ``T`` (transpose) or ``C`` (conjugate transpose).
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        ``out`` or a fresh array of shape (m,): a NumPy array for NumPy arguments (done),
        ``portable_gpu.Array`` for device arrays (enqueued).

    Raises:
        ShapeError: ``a`` is not a matrix, ``x`` is not a vector, or their sizes differ.
        DTypeError: A dtype is not supported (bool is not), or it cannot represent a factor.
        ArgumentError: ``trans`` is unknown, or there is ``beta`` without ``out``.
        OverlapError: ``out`` shares memory with ``a`` or ``x``, or with itself.
        ReadOnlyError: ``out`` cannot be written.
        UnsupportedError: The call needs double precision, which the device lacks.
        DeviceMemoryError: The device lacks memory.

    Cost: ``2*m*n`` flop (``8*m*n`` if complex); ``(m*n + m + n) * itemsize`` bytes.  If several
        work-groups share the summed axis, each has the sums of a block of outputs in workspace;
        there are about 4 such groups for each compute unit.
    Accuracy: sums are computed in the common dtype, and of 16-bit floats in float32, rounded once:
        ``|error| <= gamma(n) * |alpha| * |A| @ |x|`` for any order; NaN and infinities as IEEE 754.
    Order: fixed for one target, policy, shape and alignment; no floating-point atomics.
    Source: Van Zee & van de Geijn, TOMS 41(3), 2015: dotxf or axpyf, depending on the strides of
        the matrix.
    """
    if y is not None:
        out = only_one(out, "out", y, "y")
    if engine is not None and isinstance(engine, EngineGroup):
        return engine.compute("gemv", locals())
    if type(alpha) not in PLAIN or type(beta) not in PLAIN:
        alpha, beta = plain_number(alpha, "alpha"), plain_number(beta, "beta")
    return _GEMV.call((a, x), (alpha, beta, trans), out, (), engine, queue, wait_for)


def _normalise(arguments: CallArguments) -> Invocation:
    (a, x), (alpha, beta, trans) = arguments.inputs, arguments.options
    return normalise_gemv(a, x, alpha, beta, trans, arguments.out, "out (y)")


_GEMV = Operation("gemv", _normalise)


def normalise_gemv(
    a: AnyArray, x: AnyArray, alpha: Any, beta: Any, trans: str, out: Any, out_name: str
) -> Invocation:
    """Check the arguments of :func:`gemv`."""
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
    alpha, beta = factor(alpha, "alpha", elem), factor(beta, "beta", elem)
    if out is None and beta:
        raise ArgumentError(f"beta is {beta} and there is no out (y); pass out=")
    return Invocation(
        inputs=(a, x),
        names=("a", "x"),
        shape=(m,),
        dtype=dtype,
        plan=lambda engine, views: plan_gemv(engine, views, elem, m, n, trans),
        flop=2 * a.size * elem.components,
        scalars=(alpha if n else 0, beta),
        out=out,
        out_name=out_name,
        reads_out=bool(beta),
        convert=None if a.dtype == x.dtype else converter(dtype),
    )


def plan_gemv(
    engine: Engine, views: Sequence[View], elem: Element, m: int, n: int, trans: str
) -> Plan:
    """Return the plan of a product; the views are those of A, x and y."""
    a, x, y = views
    (first, second), x_step, y_step = a.strides, x.strides[0], y.strides[0]
    a_out, a_sum = (first, second) if trans == "N" else (second, first)
    aligned_a, aligned_x = (
        1 if engine.target.is_cpu else min(16, view.alignment) for view in (a, x)
    )
    conj = trans == "C" and elem.complex
    problem = GemvProblem(
        elem=elem, m=m, n=n, a_out=a_out, a_sum=a_sum, x_step=x_step, y_step=y_step, conj=conj,
        a_aligned=aligned_a, x_aligned=aligned_x,
    )  # fmt: skip
    return engine.plan(
        problem, lambda: bind_best(engine, variants(problem, engine.target, engine.table))
    )


def _common(a: np.dtype[Any], x: np.dtype[Any]) -> np.dtype[Any]:
    try:
        dtype = np.result_type(a, x)
    except TypeError as error:
        raise DTypeError(f"a is {a} and x is {x}: {error}; convert one of them") from None
    element(dtype)
    return dtype
