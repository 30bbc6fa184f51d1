"""Reductions of Dask arrays: a task for each chunk, and a tree of a fixed shape over the parts."""

from __future__ import annotations

from functools import partial
from itertools import product
from math import prod as product_of
from typing import Any

import dask.array as da
import numpy as np

from portable_gpu.arguments import finite, flag
from portable_gpu.dtypes import as_dtype, element
from portable_gpu.errors import DTypeError, ShapeError
from portable_gpu.multi.dask import reduction_tasks as tasks
from portable_gpu.multi.dask.graph import Graph, Key, add_tree, array_of, checked, new_name
from portable_gpu.multi.dask.reduction_tasks import ReductionTasks
from portable_gpu.multi.merging import merged_extremes, merged_moments, merged_norms
from portable_gpu.ops.reduce.call import Axes, as_axes, normalise_axes, one_axis

DType = np.dtype[Any]


def sum(x: da.Array, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> da.Array:  # noqa: A001
    """Sum over all axes, or over ``axis``.

    Args:
        x: A Dask array of any dtype that :func:`portable_gpu.sum` supports.
        axis: An axis, a tuple of axes, or ``None`` for all.
        dtype: The dtype in which elements are added, and that of the result.  Default: that of
            ``x``, or 64 bits for shorter integers, as in NumPy.
        keepdims: Whether summed axes stay with extent 1.

    Returns:
        A Dask array with the chunks of ``x`` along the other axes.

    Raises:
        ArgumentTypeError, ArgumentError, DTypeError: ``x`` is not a Dask array of known chunks and
            of a supported dtype.
        AxisError, ShapeError: An axis is out of range, or named twice.

    Cost: one task for each chunk, and one for each eight results of tasks.  A chunk is read once;
        a GPU needs a copy of it, which takes longer than the sum.  A function that is passed to
        :func:`~portable_gpu.multi.dask.map_blocks` can compute a chunk and its sum in one task.
    Accuracy: ``|error| <= (16 + log2(chunks)) u sum |x|``.
    Order: fixed by the chunks, the kind of device and the worker's cores, independent of the
        number of workers, of timing and of repeated tasks.
    """
    return _folded("sum", x, axis, dtype, keepdims, np.add)


def prod(x: da.Array, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> da.Array:
    """Product over all axes, or over ``axis``; otherwise as :func:`sum`."""
    return _folded("prod", x, axis, dtype, keepdims, np.multiply)


def min(x: da.Array, axis: Axes = None, keepdims: bool = False) -> da.Array:  # noqa: A001
    """Smallest element, NaN if there is one; otherwise as :func:`sum`.  Exact.

    Raises:
        ShapeError: There are no elements; otherwise as :func:`sum`.
    """
    return _exact("min", x, axis, keepdims, np.minimum)


def max(x: da.Array, axis: Axes = None, keepdims: bool = False) -> da.Array:  # noqa: A001
    """Largest element; see :func:`min`."""
    return _exact("max", x, axis, keepdims, np.maximum)


def any(x: da.Array, axis: Axes = None, keepdims: bool = False) -> da.Array:  # noqa: A001
    """Whether any element differs from zero (NaN does); bool.  Otherwise as :func:`sum`."""
    return _exact("any", x, axis, keepdims, np.logical_or)


def all(x: da.Array, axis: Axes = None, keepdims: bool = False) -> da.Array:  # noqa: A001
    """Whether all elements differ from zero (NaN does); bool.  Otherwise as :func:`sum`."""
    return _exact("all", x, axis, keepdims, np.logical_and)


def count_nonzero(x: da.Array, axis: Axes = None, keepdims: bool = False) -> da.Array:
    """Number of elements (int64) that differ from zero.  Otherwise as :func:`sum`."""
    return _exact("count_nonzero", x, axis, keepdims, np.add)


def mean(x: da.Array, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> da.Array:
    """Arithmetic mean over all axes, or over ``axis``; NaN where nothing is averaged.

    Arguments, errors, cost, accuracy and order are those of :func:`sum`, but integers are averaged
    in float64 unless ``dtype``, floating or complex, says otherwise.
    """
    checked(x, "x")
    result = _mean_dtype(x.dtype, dtype)
    axes = _axes(x, axis)
    count = product_of(x.shape[axis] for axis in axes)
    kind = ReductionTasks(
        partial(tasks.folded, "sum", _computed(result)), np.add,
        partial(tasks.quotient, count, result),
    )  # fmt: skip
    return _reduced("mean", x, axes, keepdims, result, kind)


def var(
    x: da.Array, axis: Axes = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False
) -> da.Array:
    """Variance ``sum |x - mean|^2 / (n - ddof)``, real also for complex ``x``.

    Arguments and errors are those of :func:`mean`; ``ddof`` is subtracted from the count.

    Cost: as :func:`sum`; a chunk is read four times, and copied to a GPU once.
    Accuracy: that of :func:`portable_gpu.var` for each chunk; parts are merged in double precision.
    Source: Chan, Golub & LeVeque, The American Statistician 37(3), 1983 (merging of parts).
    """
    return _moment("var", x, axis, dtype, ddof, keepdims)


def std(
    x: da.Array, axis: Axes = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False
) -> da.Array:
    """Standard deviation: the square root of :func:`var`, with its arguments."""
    return _moment("std", x, axis, dtype, ddof, keepdims)


def argmin(x: da.Array, axis: int | None = None, keepdims: bool = False) -> da.Array:
    """Index (int64) of the smallest element; ties give the lowest index, and NaN is the smallest.

    Args:
        x: As for :func:`sum`.
        axis: An axis, or ``None`` for the index into ``x`` flattened in C order.
        keepdims: Whether the axes stay with extent 1.

    Raises:
        ShapeError: There are no elements; otherwise as :func:`sum`.
    """
    return _index_of("argmin", x, axis, keepdims)


def argmax(x: da.Array, axis: int | None = None, keepdims: bool = False) -> da.Array:
    """Index (int64) of the largest element; see :func:`argmin`."""
    return _index_of("argmax", x, axis, keepdims)


def nrm2(x: da.Array, axis: Axes = None, keepdims: bool = False) -> da.Array:
    """Euclidean norm ``sqrt(sum |x|^2)``, which neither overflows nor underflows on the way.

    The result is real, of the precision of ``x`` (integers give float64).  Otherwise as
    :func:`sum`.
    """
    checked(x, "x")
    result = _real(_mean_dtype(x.dtype, None))
    kind = ReductionTasks(tasks.norm, merged_norms, partial(tasks.rounded, result))
    return _reduced("nrm2", x, _axes(x, axis), keepdims, result, kind)


def vdot(a: da.Array, b: da.Array) -> da.Array:
    """``sum(conj(a) * b)`` over two arrays of one shape.

    Args:
        a, b: Dask arrays; where they are cut differently, both are rechunked.

    Returns:
        A Dask array without axes, of NumPy's dtype.

    Raises:
        ShapeError: The shapes differ; otherwise as :func:`sum`.

    Cost, Accuracy, Order: as :func:`sum`.
    """
    checked(a, "a")
    checked(b, "b")
    if a.shape != b.shape:
        raise ShapeError(f"a has shape {a.shape} and b {b.shape}; expected equal shapes")
    result = np.result_type(a.dtype, b.dtype)
    name = new_name("vdot", a, b)
    axes = list(range(a.ndim))
    _, (a, b) = da.core.unify_chunks(a, axes, b, axes, warn=False)
    graph: Graph = {}
    leaves: list[Key] = []
    for place in product(*(range(count) for count in a.numblocks)):
        leaves.append((f"{name}-part", *place))
        graph[leaves[-1]] = (tasks.inner_product, (a.name, *place), (b.name, *place))
    finish = partial(tasks.finished, np.add, partial(tasks.rounded, result), ())
    add_tree(graph, (name,), leaves, partial(tasks.merged, np.add), finish)
    return array_of(name, graph, [a, b], (), result)


# -- the graph


def _reduced(
    name: str, x: da.Array, axes: tuple[int, ...], keepdims: bool, dtype: DType,
    kind: ReductionTasks, *options: Any,
) -> da.Array:  # fmt: skip
    keepdims = flag(keepdims, "keepdims")
    if not kind.takes_empty and not product_of(x.shape[axis] for axis in axes) and x.ndim:
        raise ShapeError(f"{name} of no elements does not exist: x has shape {x.shape}")
    label = new_name(name, x, axes, keepdims, dtype, *options)
    starts = [np.cumsum([0, *sizes]).tolist() for sizes in x.chunks]
    other = [axis for axis in range(x.ndim) if axis not in axes]
    merge = partial(tasks.merged, kind.merge)
    finish = partial(tasks.finished, kind.merge, kind.finish, () if keepdims else axes)
    graph: Graph = {}
    for outer in product(*(range(x.numblocks[axis]) for axis in other)):
        at = dict(zip(other, outer, strict=True))
        leaves: list[Key] = []
        for inner in product(*(range(x.numblocks[axis]) for axis in axes)):
            at |= zip(axes, inner, strict=True)
            place = tuple(at[axis] for axis in range(x.ndim))
            if not kind.takes_empty and 0 in [x.chunks[axis][at[axis]] for axis in axes]:
                continue
            offsets = tuple(starts[axis][at[axis]] for axis in range(x.ndim))
            leaves.append((f"{label}-part", *place))
            graph[leaves[-1]] = (partial(kind.part, offsets, axes), (x.name, *place))
        root = tuple(0 if axis in axes else at[axis] for axis in range(x.ndim))
        if not keepdims:
            root = outer
        add_tree(graph, (label, *root), leaves, merge, finish)
    chunks = tuple(
        (1,) if axis in axes else x.chunks[axis]
        for axis in range(x.ndim)
        if keepdims or axis not in axes
    )
    return array_of(label, graph, [x], chunks, dtype)


def _axes(x: da.Array, axis: Any) -> tuple[int, ...]:
    return tuple(sorted(normalise_axes(as_axes(axis), x.ndim)))


def _folded(
    name: str, x: da.Array, axis: Axes, dtype: Any, keepdims: bool, fold: np.ufunc
) -> da.Array:
    checked(x, "x")
    result = x.dtype if dtype is None else as_dtype(dtype)
    if dtype is None and result.kind in "biu" and result.itemsize < 8:
        result = np.dtype(np.uint64 if result.kind == "u" else np.int64)
    element(result)
    if x.dtype.kind == "c" and result.kind != "c":
        raise DTypeError(f"dtype is {result} and x is {x.dtype}; expected a complex dtype")
    kind = ReductionTasks(
        partial(tasks.folded, name, _computed(result)), fold, partial(tasks.rounded, result)
    )  # fmt: skip
    return _reduced(name, x, _axes(x, axis), keepdims, result, kind)


def _exact(name: str, x: da.Array, axis: Axes, keepdims: bool, fold: np.ufunc) -> da.Array:
    checked(x, "x")
    result = x.dtype
    if name not in ("min", "max"):
        result = np.dtype(np.int64 if name == "count_nonzero" else np.bool_)
    kind = ReductionTasks(
        partial(tasks.exact, name), fold, partial(tasks.rounded, result),
        takes_empty=name not in ("min", "max"),
    )  # fmt: skip
    return _reduced(name, x, _axes(x, axis), keepdims, result, kind)


def _moment(
    name: str, x: da.Array, axis: Axes, dtype: Any, ddof: float, keepdims: bool
) -> da.Array:
    checked(x, "x")
    computed = _mean_dtype(x.dtype, dtype)
    result = computed if dtype is not None and computed.kind == "c" else _real(computed)
    axes, ddof = _axes(x, axis), finite(ddof, "ddof")
    count = np.maximum(product_of(x.shape[axis] for axis in axes) - ddof, 0)
    kind = ReductionTasks(
        partial(tasks.moments_of_chunk, _computed(computed)), merged_moments,
        partial(tasks.variance, name == "std", count, result),
    )  # fmt: skip
    return _reduced(name, x, axes, keepdims, result, kind, ddof)


def _index_of(name: str, x: da.Array, axis: int | None, keepdims: bool) -> da.Array:
    checked(x, "x")
    axes = _axes(x, None if axis is None else one_axis(axis))
    is_better = np.greater if name == "argmax" else np.less
    kind = ReductionTasks(
        partial(tasks.index_of_extreme, name, x.shape),
        partial(merged_extremes, is_better),
        tasks.index,
        takes_empty=False,
    )
    return _reduced(name, x, axes, keepdims, np.dtype(np.int64), kind)


# -- dtypes


def _mean_dtype(dtype: DType, asked: Any) -> DType:
    if asked is not None:
        result = as_dtype(asked)
        if result.kind in "biu" or (dtype.kind == "c" and result.kind != "c"):
            raise DTypeError(f"dtype is {result} for x of {dtype}; expected a floating one")
        element(result)
        return result
    return np.dtype(np.float64) if dtype.kind in "biu" else dtype


def _real(dtype: DType) -> DType:
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def _computed(dtype: DType) -> DType:
    """Return the dtype in which a device computes a part: float32 for 16-bit floats."""
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype
