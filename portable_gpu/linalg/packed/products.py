"""Products of a matrix by its own transpose, as packed triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag
from portable_gpu.dtypes import element, requested_precision
from portable_gpu.errors import ArgumentError, ShapeError
from portable_gpu.linalg.packed.storage import as_row, check_adjacent
from portable_gpu.ops.factor.api import layout_key
from portable_gpu.ops.factor.arguments import check_dtype, precision_of
from portable_gpu.ops.factor.packed import packed_size
from portable_gpu.ops.factor.packed_steps import (
    PackedPartition,
    PackedProblem,
    RankKOperand,
    product_steps,
)
from portable_gpu.ops.factor.stack import Matrix, stacked
from portable_gpu.ops.factor.variants import packed_parts
from portable_gpu.ops.factors import PLAIN, factor, plain_number
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Steps
from portable_gpu.runtime.views import AnyArray, View, as_array
from portable_gpu.typing import of_one


@of_one
def syrk(
    a: AnyArray,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: AnyArray | None = None,
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``alpha A A^T + beta C``, for a packed symmetric C, lower or upper.

    Args:
        a: Shape (..., n, k), any strides.
        alpha, beta: Numbers; with ``beta == 0`` C is not read.
        out: C, shape (..., n (n + 1) / 2), updated in place and returned; without it the result is
            a fresh array.
        precision, engine, queue, wait_for: As in :func:`portable_gpu.gemm`.

    Returns:
        ``out`` or a fresh array.

    Raises:
        ShapeError, DTypeError, ArgumentError, OverlapError, ReadOnlyError, UnsupportedError,
        DeviceMemoryError: As :func:`portable_gpu.gemm`.

    Cost: ``n^2 k`` flop (four times that if complex).  Workspace: 128 n elements for each C; on a
        GPU up to ``512 n``.
    Accuracy: As :func:`portable_gpu.gemm`.
    """
    return _rank_k(a, out, alpha, beta, "", precision, engine, queue, wait_for)


@of_one
def herk(
    a: AnyArray,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: AnyArray | None = None,
    lower: bool = False,
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``alpha A A^H + beta C``, for a packed Hermitian C.

    Args:
        a, alpha, beta, out, precision, engine, queue, wait_for: As :func:`syrk`.
        lower: Whether the lower triangle of C is stored; else the transpose of the upper one.

    Returns, Raises, Cost, Accuracy: As :func:`syrk`.
    """
    triangle = "lower" if flag(lower, "lower") else "upper"
    return _rank_k(a, out, alpha, beta, triangle, precision, engine, queue, wait_for)


def _rank_k(
    a: Any,
    out: Any,
    alpha: Any,
    beta: Any,
    hermitian: str,
    precision: str | None,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Update a packed triangle; ``hermitian`` is ``lower`` or ``upper``, or empty if symmetric."""
    if type(alpha) not in PLAIN or type(beta) not in PLAIN:
        alpha, beta = plain_number(alpha, "alpha"), plain_number(beta, "beta")
    options = alpha, beta, hermitian, precision
    return _RANK_K.call((a,), options, out, (), engine, queue, wait_for)


def _normalise(arguments: CallArguments) -> Invocation:
    out = arguments.out
    alpha, beta, hermitian, precision = arguments.options
    a = as_array(arguments.inputs[0], "a")
    check_dtype(a.dtype, "a")
    if a.ndim < 2:
        raise ShapeError(f"a has shape {tuple(a.shape)}; a matrix is needed, or a stack of them")
    elem = element(a.dtype)
    alpha, beta = factor(alpha, "alpha", elem), factor(beta, "beta", elem)
    *batch, n, k = a.shape
    if out is None and beta != 0:
        raise ArgumentError(f"beta is {beta} and there is no out; pass out=")
    if isinstance(out, (np.ndarray, *DEVICE_KINDS)):
        check_adjacent(out, "out")
    requested_precision(precision)
    reads, multiplies = beta != 0, alpha != 0 and k > 0

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        view_a, view = views
        products = precision_of(precision, engine)

        def make() -> Plan:
            # The memory holds a lower triangle: for an upper C its transpose, so its conjugate.
            rows = Matrix(view_a, conj=hermitian == "upper")
            extents, (packed, x) = stacked([as_row(view), rows], tuple(batch))
            p = PackedProblem(n, extents, packed, products, not engine.maps_host_memory)
            factor_a = RankKOperand(x, 0, 0, k if multiplies else 0, bool(hermitian))
            partition = PackedPartition.of(n, n, engine.target)
            parts = packed_parts(engine, elem)
            return Steps(product_steps(p, factor_a, 0, 1, parts, partition, None, reads))

        key = ("packed product", hermitian, reads, multiplies, products, *layout_key(view_a, view))
        return engine.plan(key, make)

    return Invocation(
        inputs=(a,),
        names=("a",),
        shape=(*batch, packed_size(n)),
        dtype=a.dtype,
        plan=plan,
        scalars=(alpha, beta),
        out=out,
        reads_out=reads,
    )


_RANK_K = Operation("packed rank-k update", _normalise)
