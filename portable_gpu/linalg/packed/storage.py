"""Packed storage: checks of its arrays, and copies from and to matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag
from portable_gpu.errors import ArgumentError, ShapeError
from portable_gpu.ops.factor.api import layout_key
from portable_gpu.ops.factor.arguments import check_dtype, square
from portable_gpu.ops.factor.packed import PackProblem, packed_size, rows_of
from portable_gpu.ops.factor.stack import Matrix, stacked
from portable_gpu.ops.factor.variants import packed_parts
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import AnyArray, View, as_array
from portable_gpu.typing import of_one


@of_one
def pack(
    a: AnyArray,
    lower: bool = False,
    *,
    out: AnyArray | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Copy a triangle of each matrix into packed storage.

    Args:
        a: Shape (..., n, n), any strides.  float32, float64, complex64 or complex128.
        lower: Whether the lower triangle is copied; else the upper one, of which the transpose is
            stored.
        out: The array for the result, in which elements of a triangle are adjacent.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        ``out`` or a fresh array of shape (..., n (n + 1) / 2): a NumPy array for NumPy arguments
        (done), ``portable_gpu.Array`` for device arrays (enqueued).

    Raises:
        ShapeError, DTypeError, UnsupportedError, DeviceMemoryError: As
            :func:`portable_gpu.linalg.cholesky`.
    """
    return _PACK.call((a,), (flag(lower, "lower"),), out, (), engine, queue, wait_for)


@of_one
def unpack(
    ap: AnyArray,
    lower: bool = False,
    symmetric: bool = False,
    *,
    out: AnyArray | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Copy packed triangles into matrices.

    Args:
        ap: Shape (..., n (n + 1) / 2).
        lower: Whether they are lower triangles.
        symmetric: Fill the other triangle too, as in a symmetric or Hermitian matrix; else it is
            zero.
        out: The array for the result.
        engine, queue, wait_for: Where to run, and after which events.

    Returns:
        ``out`` or a fresh array of shape (..., n, n).

    Raises:
        ShapeError: The length of the last axis is not n (n + 1) / 2.
        DTypeError, UnsupportedError, DeviceMemoryError: As in :func:`pack`.
    """
    options = flag(lower, "lower"), flag(symmetric, "symmetric")
    return _UNPACK.call((ap,), options, out, (), engine, queue, wait_for)


def _normalise_pack(arguments: CallArguments) -> Invocation:
    (lower,) = arguments.options
    a = square(as_array(arguments.inputs[0], "a"), "a")
    n, out = a.shape[-1], arguments.out
    if isinstance(out, (np.ndarray, *DEVICE_KINDS)):
        check_adjacent(out, "out")
    return Invocation(
        inputs=(a,),
        names=("a",),
        shape=(*a.shape[:-2], packed_size(n)),
        dtype=a.dtype,
        out=out,
        plan=lambda engine, views: _plan(engine, views, n, "pack", lower, "zero"),
    )


def _normalise_unpack(arguments: CallArguments) -> Invocation:
    lower, symmetric = arguments.options
    ap, n = packed_array(arguments.inputs[0])
    above = "conj" if symmetric else "zero"
    return Invocation(
        inputs=(in_line(ap, "ap"),),
        names=("ap",),
        shape=(*ap.shape[:-1], n, n),
        dtype=ap.dtype,
        out=arguments.out,
        plan=lambda engine, views: _plan(engine, views, n, "unpack", lower, above),
    )


_PACK = Operation("pack", _normalise_pack)
_UNPACK = Operation("unpack", _normalise_unpack)


def _plan(
    engine: Engine, views: Sequence[View], n: int, operation: str, lower: bool, above: str
) -> Plan:
    """Return the plan of a copy between packed and dense triangles."""
    source, target = views

    def make() -> Plan:
        packs = operation == "pack"
        line, matrix = (target, source) if packs else (source, target)
        matrices = [as_row(line), Matrix(matrix, trans=not lower)]
        extents, (packed, dense) = stacked(matrices, target.shape[: -1 if packs else -2])
        whole = (0, n)
        problem = PackProblem(
            n, extents, packed, dense, whole, whole, operation, diagonal=False, above=above
        )
        return packed_parts(engine, packed.elem).pack(problem)

    return engine.plan((operation, lower, above, *layout_key(source, target)), make)


# -- arrays of packed triangles


def packed_array(value: Any, overwrite: bool = False) -> tuple[Any, int]:
    """Check an array of packed triangles; return it, and the number of rows of its triangles."""
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
            f"ap has shape {tuple(ap.shape)}: {size} elements are not a triangle; nearest is "
            f"{packed_size(nearest)}, of {nearest} rows"
        )
    return ap, n


def check_adjacent(ap: Any, name: str) -> None:
    """Raise ArgumentError unless a triangle's elements follow each other in memory."""
    if ap.ndim and ap.size and ap.shape[-1] > 1 and ap.strides[-1] != ap.dtype.itemsize:
        raise ArgumentError(
            f"{name} has strides {ap.strides} bytes; a triangle's elements must be adjacent: "
            "copy it first"
        )


def in_line(ap: Any, name: str) -> Any:
    """Return a copy of a NumPy array whose elements are not adjacent; else check the array."""
    if isinstance(ap, np.ndarray) and ap.size and ap.strides[-1] != ap.dtype.itemsize:
        return np.ascontiguousarray(ap)
    check_adjacent(ap, name)
    return ap


def as_row(view: View) -> Matrix:
    """View packed triangles as matrices of one row."""
    *batch, size = view.shape
    *steps, step = view.strides
    shape, strides = (*batch, 1, size), (*steps, 0, step)
    return Matrix(View(view.buffer, view.offset, shape, strides, view.dtype, view.address))
