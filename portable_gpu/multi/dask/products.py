"""Matrix products of Dask arrays: one task for each chunk of the result."""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import dask.array as da
import numpy as np

from portable_gpu.arguments import shown, whole
from portable_gpu.dtypes import requested_precision
from portable_gpu.errors import ArgumentError, AxisError, ShapeError
from portable_gpu.multi.dask.graph import (
    Graph,
    Key,
    add_tree,
    array_of,
    checked,
    new_name,
    unchunked,
)
from portable_gpu.multi.dask.product_tasks import (
    add,
    gram_of_block,
    multiply_stacks,
    sum_products_of_chunks,
)
from portable_gpu.ops.gemm.binding import result_dtype


def matmul(a: da.Array, b: da.Array, *, precision: str | None = None) -> da.Array:
    """Compute ``a @ b`` by NumPy's rules.

    Args:
        a, b: Dask arrays, of any dtypes that :func:`portable_gpu.matmul` takes.  One-dimensional
            ones are vectors; further axes before the last two are batches and broadcast.
        precision: The precision of products of float32; see :func:`portable_gpu.gemm`.  Default:
            that of the worker.

    Returns:
        A Dask array of NumPy's shape and dtype.  Its chunks are those of ``a`` along rows and those
        of ``b`` along columns.  Where ``a`` and ``b`` are cut differently along the summed axis or
        along a batch axis, both are rechunked.

    Raises:
        ArgumentTypeError, ArgumentError, DTypeError: An operand is not a Dask array of known
            chunks, or has a dtype that devices do not take.
        ShapeError: The shapes do not fit each other, or an operand is a scalar.

    Cost: ``2 m n k`` flop, one task for each chunk of the result.  The task multiplies all chunks
        of a row of ``a`` with those of a column of ``b`` and adds in place, so no partial sums
        travel.  Each chunk of ``a`` travels to at most as many workers as the result has chunks in
        a row.
    Memory: a task holds ``(mc k + k nc + mc nc) w`` bytes of host memory, for chunks of mc rows and
        nc columns and elements of w bytes.  A GPU holds two pairs of chunks and the result,
        ``(2 mc kc + 2 kc nc + mc nc) w`` bytes, or pieces of them within the worker's memory limit.
    Accuracy: as :func:`portable_gpu.gemm` for sums of length k.
    Order: fixed by the chunks, the kind of device and the worker's cores and memory limit;
        workers, timing and repeated tasks make no difference.
    """
    checked(a, "a")
    checked(b, "b")
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"a has shape {a.shape} and b {b.shape}; expected arrays with axes")
    if a.ndim == 1 or b.ndim == 1 or (a.ndim == 2 and b.ndim == 2):
        return _contract("matmul", a, b, [a.ndim - 1], [max(b.ndim - 2, 0)], precision)
    return _batched(a, b, precision)


def tensordot(
    a: da.Array,
    b: da.Array,
    axes: int | tuple[int | Sequence[int], int | Sequence[int]] = 2,
    *,
    precision: str | None = None,
) -> da.Array:
    """Sum products over axes of two arrays, as :func:`numpy.tensordot`.

    Args:
        a, b: Dask arrays of any dtypes that :func:`portable_gpu.matmul` takes.
        axes: The number of last axes of ``a`` and first axes of ``b``, or the axes of ``a`` and
            those of ``b``.
        precision: The precision of products of float32; see :func:`portable_gpu.gemm`.

    Returns:
        A Dask array of the other axes of ``a``, then those of ``b``.

    Raises:
        ShapeError: The extents of summed axes differ, or an axis is named twice.
        AxisError: An axis is out of range.
        ArgumentTypeError, ArgumentError, DTypeError: As :func:`matmul`.

    Cost, Memory, Accuracy, Order: as :func:`matmul`; chunks whose summed axes are not the last ones
        of ``a`` and the first ones of ``b`` are copied on the host.
    """
    checked(a, "a")
    checked(b, "b")
    return _contract("tensordot", a, b, *_summed_axes(a, b, axes), precision)


def gram_matrix(x: da.Array, *, precision: str | None = None) -> da.Array:
    """Compute ``x^H x`` of a tall matrix: the inner products of its columns.

    Args:
        x: A Dask array of shape (m, n) of floats or complex numbers, whose columns are in one
            chunk: it is cut into rows.
        precision: The precision of products of float32; see :func:`portable_gpu.gemm`.

    Returns:
        A Dask array of shape (n, n), in one chunk, of the dtype of ``x``.

    Raises:
        ArgumentError: Columns are in several chunks.
        ShapeError: ``x`` has not two axes.
        ArgumentTypeError, DTypeError: As :func:`matmul`.

    Cost: ``2 m n^2`` flop, one task for each chunk and one for each eight results of tasks; only
        matrices of n x n travel.
    Accuracy: ``|error| <= gamma(m) |x|^H |x|``.
    Order: as :func:`matmul`; the sums of chunks are added by a fixed tree.
    """
    rows = tall(x)
    name = new_name("gram", x, precision)
    graph: Graph = {}
    leaves: list[Key] = []
    for i in range(len(rows.chunks[0])):
        leaves.append((f"{name}-part", i))
        graph[leaves[-1]] = (partial(gram_of_block, precision=precision), (x.name, i, 0))
    add_tree(graph, (name, 0, 0), leaves, add, add)
    n = (x.shape[1],)
    return array_of(name, graph, [x], (n, n), x.dtype)


def tall(x: Any) -> da.Array:
    """Return ``x``, a matrix of floats that is cut into rows."""
    checked(x, "x")
    if x.ndim != 2:
        raise ShapeError(f"x has shape {x.shape}; expected a matrix")
    if x.dtype.kind not in "fc":
        raise ArgumentError(f"x is {x.dtype}; expected floats or complex numbers")
    unchunked(x, [1], "x")
    return x


# -- the graph


def _summed_axes(a: da.Array, b: da.Array, axes: Any) -> tuple[list[int], list[int]]:
    """Return the axes of ``a`` and of ``b`` that are summed, counted from 0."""
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise ArgumentError(f"axes is {shown(axes)}; expected a number, or axes of a and of b")
        listed = [
            [whole(axis, "axes") for axis in (side if isinstance(side, (tuple, list)) else [side])]
            for side in axes
        ]
    else:
        count = whole(axes, "axes")
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise ArgumentError(f"axes is {count}; a has {a.ndim} axes and b {b.ndim}")
        listed = [list(range(a.ndim - count, a.ndim)), list(range(count))]
    for array, name, named in ((a, "a", listed[0]), (b, "b", listed[1])):
        for axis in named:
            if not -array.ndim <= axis < array.ndim:
                raise AxisError(f"axis {axis} is out of range; {name} has {array.ndim} axes")
    of_a, of_b = ([axis % x.ndim for axis in side] for x, side in zip((a, b), listed, strict=True))
    if len(of_a) != len(of_b) or len(set(of_a)) < len(of_a) or len(set(of_b)) < len(of_b):
        raise ShapeError(f"axes is {shown(axes)}; expected as many axes of a as of b, each once")
    return of_a, of_b


def _contract(
    operation: str, a: da.Array, b: da.Array, of_a: list[int], of_b: list[int],
    precision: str | None,
) -> da.Array:  # fmt: skip
    """Sum products over the axes ``of_a`` of ``a`` and the axes ``of_b`` of ``b``, in this order.

    Each axis has a letter, and axes that are summed together have the same one.
    """
    for i, j in zip(of_a, of_b, strict=True):
        if a.shape[i] != b.shape[j]:
            raise ShapeError(
                f"axis {i} of a has extent {a.shape[i]} and axis {j} of b {b.shape[j]}, for shapes "
                f"{a.shape} and {b.shape}; expected equal ones"
            )
    dtype = result_dtype(a.dtype, b.dtype)
    precision = requested_precision(precision)
    letters = iter(string.ascii_letters)
    names_a = [next(letters) for _ in a.shape]
    summed = [names_a[i] for i in of_a]
    names_b = [
        summed[of_b.index(j)] if j in of_b else next(letters) for j in range(b.ndim)
    ]  # fmt: skip
    name = new_name(operation, a, b, of_a, of_b, precision)
    a, b = _cut_alike(a, names_a, b, names_b)
    free_a = [i for i in range(a.ndim) if i not in of_a]
    free_b = [j for j in range(b.ndim) if j not in of_b]
    task = partial(
        sum_products_of_chunks, (*free_a, *of_a), (*of_b, *free_b), len(of_a), dtype, precision
    )
    chunks = (*(a.chunks[i] for i in free_a), *(b.chunks[j] for j in free_b))
    free = [*(names_a[i] for i in free_a), *(names_b[j] for j in free_b)]
    graph: Graph = {}
    for place in product(*(range(len(extents)) for extents in chunks)):
        keys_a: list[Key] = []
        keys_b: list[Key] = []
        chunk_of = dict(zip(free, place, strict=True))  # the number of the chunk along each axis
        for inner in product(*(range(len(a.chunks[i])) for i in of_a)):
            chunk_of |= zip(summed, inner, strict=True)
            keys_a.append((a.name, *(chunk_of[letter] for letter in names_a)))
            keys_b.append((b.name, *(chunk_of[letter] for letter in names_b)))
        graph[(name, *place)] = (task, keys_a, keys_b)
    return array_of(name, graph, [a, b], chunks, dtype)


def _cut_alike(
    a: da.Array, names_a: list[str], b: da.Array, names_b: list[str]
) -> tuple[da.Array, da.Array]:
    """Return the arrays with equal chunks along axes of one name; one chunk if the extent is 1."""
    a, b = (
        x.rechunk({axis: -1 for axis, extent in enumerate(x.shape) if extent == 1}) for x in (a, b)
    )
    _, (a, b) = da.core.unify_chunks(a, names_a, b, names_b, warn=False)
    return a, b


def _batched(a: da.Array, b: da.Array, precision: str | None) -> da.Array:
    """Multiply stacks of matrices, whose batch axes broadcast.

    Each axis has a letter: I for rows, J for columns, K for the summed axis.
    """
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        batch = None
    if batch is None or a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"shapes {a.shape} and {b.shape} do not fit each other in a product")
    dtype = result_dtype(a.dtype, b.dtype)
    precision = requested_precision(precision)
    name = new_name("matmul", a, b, precision)
    letters = string.ascii_letters[: len(batch)]
    names_a = [*letters[len(batch) - a.ndim + 2 :], "I", "K"]
    names_b = [*letters[len(batch) - b.ndim + 2 :], "K", "J"]
    a, b = _cut_alike(a, names_a, b, names_b)
    chunks_of: dict[str, tuple[int, ...]] = {}
    named = [*zip(names_a, a.chunks, strict=True), *zip(names_b, b.chunks, strict=True)]
    for letter, extents in named:
        if chunks_of.get(letter, (1,)) == (1,):  # an axis of extent 1 broadcasts
            chunks_of[letter] = extents
    chunks = tuple(chunks_of[letter] for letter in [*letters, "I", "J"])
    task = partial(multiply_stacks, dtype, precision)
    graph: Graph = {}
    for place in product(*(range(len(extents)) for extents in chunks)):
        chunk_of = dict(zip([*letters, "I", "J"], place, strict=True))
        keys: list[list[Key]] = [[], []]
        for k in range(len(chunks_of["K"])):
            chunk_of["K"] = k
            for array, names, block_keys in ((a, names_a, keys[0]), (b, names_b, keys[1])):
                where = (
                    min(chunk_of[letter], len(extents) - 1)  # an axis of extent 1 has one chunk
                    for letter, extents in zip(names, array.chunks, strict=True)
                )
                block_keys.append((array.name, *where))
        graph[(name, *place)] = (task, *keys)
    return array_of(name, graph, [a, b], chunks, dtype)
