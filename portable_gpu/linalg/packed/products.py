"""Products of a matrix by its own transpose, as packed triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError, ShapeError
from portable_gpu.linalg.packed.storage import as_row, check_adjacent
from portable_gpu.ops.factor.api import lies
from portable_gpu.ops.factor.arguments import check_dtype, precision_of, require_fp64
from portable_gpu.ops.factor.candidates import packed_parts
from portable_gpu.ops.factor.packed import packed_size
from portable_gpu.ops.factor.packed_steps import Factor, PackedProblem, PackedWay, product_steps
from portable_gpu.ops.factor.stack import Matrix, stacked
from portable_gpu.ops.gemm.product import factor
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.plan import Plan, Steps
from portable_gpu.runtime.views import AnyArray, as_array, check_no_overlap


def syrk(
    a: AnyArray,
    ap: AnyArray | None = None,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    *,
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``alpha A A^T + beta C``, of a packed symmetric C, lower or upper.

    Args:
        a: Shape (..., n, k), any strides.
        ap: C, shape (..., n (n + 1) / 2), updated in place and returned; without it the result is a
            fresh array.
        alpha, beta: Numbers; of ``beta == 0`` C is not read.
        precision, engine, queue, wait_for: As :func:`portable_gpu.gemm`.

    Returns:
        ``ap`` or a fresh array.

    Raises:
        ShapeError, DTypeError, ArgumentError, OverlapError, ReadOnlyError, UnsupportedError,
        DeviceMemoryError: As :func:`portable_gpu.gemm`.

    Cost: ``n^2 k`` flop (four times that if complex).  Memory besides the result: 128 n elements
        for each C; on a GPU up to ``512 n``.
    Accuracy: As :func:`portable_gpu.gemm`.
    """
    return _rank_k(a, ap, alpha, beta, False, precision, engine, queue, events_of(wait_for))


def herk(
    a: AnyArray,
    ap: AnyArray | None = None,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    *,
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``alpha A A^H + beta C``, of a packed Hermitian C by its lower triangle.

    Args, Returns, Raises, Cost, Accuracy: As :func:`syrk`.
    """
    return _rank_k(a, ap, alpha, beta, True, precision, engine, queue, events_of(wait_for))


def _rank_k(
    a: Any,
    ap: Any,
    alpha: Any,
    beta: Any,
    hermitian: bool,
    precision: str | None,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: list[cl.Event],
) -> Any:
    a = as_array(a, "a")
    check_dtype(a.dtype, "a")
    if a.ndim < 2:
        raise ShapeError(f"a has shape {tuple(a.shape)}; a matrix is needed, or a stack of them")
    elem = element(a.dtype)
    alpha, beta = factor(alpha, "alpha", elem), factor(beta, "beta", elem)
    *batch, n, k = a.shape
    shape = (*batch, packed_size(n))
    if ap is None and beta != 0:
        raise ArgumentError(f"beta is {beta} and there is no ap; pass ap=")
    if ap is not None:
        check_no_overlap(ap, "ap", [(a, "a")])
    call = Call((a, ap), engine, queue, wait_for, flop=None)
    require_fp64(call.engine, a.dtype)
    precision = precision_of(precision, call.engine)
    view_a = call.input(a, "a")
    view = call.output(shape, a.dtype, ap, "ap", read=beta != 0)
    if ap is not None:
        check_adjacent(ap, "ap")
    plan = None
    reads, multiplies = beta != 0, alpha != 0 and k > 0
    if view.size:

        def make() -> Plan:
            extents, (packed, x) = stacked([as_row(view), Matrix(view_a)], tuple(batch))
            p = PackedProblem(n, extents, packed, precision, not call.engine.maps_host_memory)
            rows = Factor(x, 0, 0, k if multiplies else 0, hermitian)
            way = PackedWay.of(n, n, call.engine.target)
            parts = packed_parts(call.engine, elem)
            return Steps(product_steps(p, rows, 0, 1, parts, way, None, reads))

        key = ("packed product", hermitian, reads, multiplies, precision, *lies(view_a, view))
        plan = call.engine.plan(key, make)
    return call.run(plan, (view_a, view), (alpha, beta))
