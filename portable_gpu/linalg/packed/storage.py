"""Packed storage: what an array of it has to be, and copies from and to matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag
from portable_gpu.errors import ArgumentError, ShapeError
from portable_gpu.ops.factor.api import lies
from portable_gpu.ops.factor.arguments import check_dtype, require_fp64, square
from portable_gpu.ops.factor.candidates import packed_parts
from portable_gpu.ops.factor.packed import PackProblem, packed_size, rows_of
from portable_gpu.ops.factor.stack import Matrix, stacked
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.report import reports_of
from portable_gpu.runtime.views import AnyArray, View, as_array


def pack(
    a: AnyArray,
    lower: bool = True,
    *,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Copy a triangle of each matrix into packed storage.

    Args:
        a: Shape (..., n, n), any strides.  float32, float64, complex64 or complex128.
        lower: Whether its lower triangle is taken; else its upper one, which lies packed as its
            transpose.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        Shape (..., n (n + 1) / 2): NumPy's for NumPy arguments (done),
        ``portable_gpu.Array`` for device arrays (enqueued).

    Raises:
        ShapeError, DTypeError, UnsupportedError, DeviceMemoryError: As
            :func:`portable_gpu.linalg.cholesky`.
    """
    lower = flag(lower, "lower")
    a = square(as_array(a, "a"), "a")
    n, batch = a.shape[-1], a.shape[:-2]
    call = Call((a,), engine, queue, events_of(wait_for), flop=None)
    require_fp64(call.engine, a.dtype)
    view_a = call.input(a, "a")
    view = call.output((*batch, packed_size(n)), a.dtype)
    return _moved(call, view_a, view, n, "pack", lower, "zero", a)


def unpack(
    ap: AnyArray,
    lower: bool = True,
    symmetric: bool = False,
    *,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Copy packed triangles into matrices.

    Args:
        ap: Shape (..., n (n + 1) / 2).
        lower: Whether they are lower triangles.
        symmetric: Fill the other triangle too, as of a symmetric or Hermitian matrix; else it is
            zero.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        Shape (..., n, n).

    Raises:
        ShapeError: The length of the last axis is that of no triangle.
        DTypeError, UnsupportedError, DeviceMemoryError: As :func:`pack`.
    """
    lower, symmetric = flag(lower, "lower"), flag(symmetric, "symmetric")
    ap, n = packed_array(ap)
    call = Call((ap,), engine, queue, events_of(wait_for), flop=None)
    require_fp64(call.engine, ap.dtype)
    view_ap = call.input(in_line(ap, "ap"), "ap")
    view = call.output((*ap.shape[:-1], n, n), ap.dtype)
    above = "conj" if symmetric else "zero"
    return _moved(call, view_ap, view, n, "unpack", lower, above, ap)


def _moved(
    call: Call, source: View, target: View, n: int, what: str, lower: bool, above: str, given: Any
) -> Any:
    """Run a plan between packed and dense."""
    plan = None
    if target.size:

        def make() -> Plan:
            packs = what == "pack"
            line, matrix = (target, source) if packs else (source, target)
            matrices = [as_row(line), Matrix(matrix, trans=not lower)]
            extents, (packed, dense) = stacked(matrices, target.shape[: -1 if packs else -2])
            whole = (0, n)
            problem = PackProblem(
                n, extents, packed, dense, whole, whole, what, diagonal=False, above=above
            )
            return packed_parts(call.engine, packed.elem).pack(problem)

        plan = call.engine.plan((what, lower, above, *lies(source, target)), make)
    result = call.run(plan, (source, target))
    if isinstance(result, Array):
        result.reports = reports_of(given)
    return result


# -- arrays of packed triangles


def packed_array(value: Any, overwrite: bool = False) -> tuple[Any, int]:
    """The array, and how many rows its triangles have."""
    ap = as_array(value, "ap", overwrite)
    check_dtype(ap.dtype, "ap")
    if ap.ndim == 0:
        raise ShapeError("ap is one number; packed triangles have an axis of n (n + 1) / 2")
    size = ap.shape[-1]
    n = rows_of(size)
    if n is None:
        below = int((np.sqrt(8.0 * size + 1) - 1) / 2)
        nearest = min((below, below + 1), key=lambda rows: abs(packed_size(rows) - size))
        raise ShapeError(
            f"ap has shape {tuple(ap.shape)}: {size} elements are no triangle's; nearest is "
            f"{packed_size(nearest)}, of {nearest} rows"
        )
    return ap, n


def check_adjacent(ap: Any, name: str) -> None:
    """Raise ArgumentError unless a triangle's elements follow each other in memory."""
    if ap.size and ap.shape[-1] > 1 and ap.strides[-1] != ap.dtype.itemsize:
        raise ArgumentError(
            f"{name} has strides {ap.strides} bytes; a triangle's elements must be adjacent: "
            "copy it first"
        )


def in_line(ap: Any, name: str) -> Any:
    """With adjacent elements."""
    if isinstance(ap, np.ndarray) and ap.size and ap.strides[-1] != ap.dtype.itemsize:
        return np.ascontiguousarray(ap)
    check_adjacent(ap, name)
    return ap


def as_row(view: View) -> Matrix:
    """Packed triangles as matrices of one row."""
    *batch, size = view.shape
    *steps, step = view.strides
    shape, strides = (*batch, 1, size), (*steps, 0, step)
    return Matrix(View(view.buffer, view.offset, shape, strides, view.dtype, view.address))
