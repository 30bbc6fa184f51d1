"""The nearest neighbours of points, by distances from matrix products."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import Any

import dask.array as da
import numpy as np

from portable_gpu.arguments import whole
from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.dtypes import requested_precision
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.multi.dask.device import device
from portable_gpu.multi.dask.graph import (
    Graph,
    Key,
    add_tree,
    array_of,
    checked,
    new_name,
    unchunked,
)
from portable_gpu.ops.gemm import gemm

Block = np.ndarray[Any, Any]
#: Squared distances, ascending, and the indices of the points: for each query a row.
Nearest = tuple[Block, Block]
#: The number of candidates beyond the neighbours.  Candidates are chosen by distances of a product,
#: whose rounding may exchange points that are almost equally near, and compared by exact ones.
_EXTRA_CANDIDATES = 8
#: The number of pairs whose distances are in memory at the same time.
_PAIRS = 1 << 22


def nearest_neighbors(
    points: da.Array, queries: da.Array, k: int = 1, *, precision: str | None = None
) -> tuple[da.Array, da.Array]:
    """Find the k points that are nearest to each query, by Euclidean distance.

    Args:
        points: A Dask array of shape (n, d), of float32 or float64, with all coordinates in one
            chunk: it is cut into rows.
        queries: A Dask array of shape (m, d) of the same dtype, cut into rows as well.
        k: The number of neighbours, from 1 to n.
        precision: The precision of products of float32; see :func:`portable_gpu.gemm`.

    Returns:
        The distances, ascending, and the indices (int64) of the points: Dask arrays of shape
        (m, k), cut as ``queries``.  Of equal distances the smaller index is first.

    Raises:
        ArgumentError: ``k`` is out of range, or coordinates are in several chunks.
        ShapeError: The arrays are not matrices with equal numbers of columns.
        DTypeError: The arrays have another dtype, or two different ones.
        ArgumentTypeError: As :func:`~portable_gpu.multi.dask.matmul`.

    Cost: ``2 m n d`` flop in products; a selection by :func:`numpy.partition` of the m n distances,
        which takes longer than the products for small d.  One task for each pair of chunks, and one
        for each eight results; k distances and indices for each query travel from them.
    Memory: a task holds its two chunks and 2^22 distances.
    Accuracy: distances are sums of squares of differences: relative error ``(d + 4) u``.
        Candidates are chosen by ``|p|^2 - 2 q.p`` relative to the mean of the points of the chunk,
        so a point may be missed for another one whose squared distance is larger by at most
        ``4 (d + 2) u (|q| + |p|)^2``, with q and p relative to that mean; eight candidates more
        than k are compared by their exact distances.
    Order: as :func:`~portable_gpu.multi.dask.matmul`; candidates are merged by a fixed tree.
    """
    for array, name in ((points, "points"), (queries, "queries")):
        checked(array, name)
        if array.ndim != 2:
            raise ShapeError(f"{name} has shape {array.shape}; expected a matrix")
        unchunked(array, [1], name)
        if array.dtype not in (np.float32, np.float64):
            raise DTypeError(f"{name} is {array.dtype}; expected float32 or float64")
    if points.shape[1] != queries.shape[1]:
        raise ShapeError(
            f"points have {points.shape[1]} coordinates and queries {queries.shape[1]}; "
            "expected equal numbers"
        )
    if points.dtype != queries.dtype:
        raise DTypeError(f"points are {points.dtype} and queries {queries.dtype}; convert one")
    k = whole(k, "k")
    if not 1 <= k <= points.shape[0]:
        raise ArgumentError(f"k is {k}; expected 1 to {points.shape[0]}, the number of points")
    precision = requested_precision(precision)
    name = new_name("nearest", points, queries, k, precision)
    starts = np.cumsum([0, *points.chunks[0]]).tolist()
    graph: Graph = {}
    for i in range(queries.numblocks[0]):
        leaves: list[Key] = []
        for j in range(points.numblocks[0]):
            leaves.append((f"{name}-pair", i, j))
            task = partial(_nearest_of_chunk, starts[j], k, precision)
            graph[leaves[-1]] = (task, (points.name, j, 0), (queries.name, i, 0))
        merge = partial(_merge, k)
        add_tree(graph, (f"{name}-nearest", i), leaves, merge, merge)
        graph[f"{name}-distances", i, 0] = (_distances, (f"{name}-nearest", i))
        graph[f"{name}-indices", i, 0] = (itemgetter(1), (f"{name}-nearest", i))
    chunks = (queries.chunks[0], (k,))
    return (
        array_of(f"{name}-distances", graph, [points, queries], chunks, points.dtype),
        array_of(f"{name}-indices", graph, [points, queries], chunks, np.int64),
    )


# -- the tasks


def _nearest_of_chunk(
    start: int, k: int, precision: str | None, points: Block, queries: Block
) -> Nearest:
    """Return squared distances and indices of the nearest points of a chunk, for each query.

    Args:
        start: The index of the chunk's first point.
        k: The number of neighbours; a chunk with fewer points gives all of them.
        precision: See :func:`nearest_neighbors`.
        points, queries: The points of the chunk, and the queries.
    """
    count = min(k, len(points))
    squares = np.empty((len(queries), count), points.dtype)
    indices = np.empty((len(queries), count), np.int64)
    if not squares.size:
        return squares, indices
    origin = points.mean(axis=0)
    centred = np.ascontiguousarray(points - origin)
    epilogue = Epilogue().bias(np.einsum("ij,ij->i", centred, centred))
    rows = max(1, _PAIRS // len(points))
    for i in range(0, len(queries), rows):
        part = slice(i, i + rows)
        with device() as worker:
            relative = gemm(
                queries[part] - origin, centred, alpha=-2.0, trans_b="T", epilogue=epilogue,
                precision=precision, engine=worker.engine,
            )  # fmt: skip
        candidates = _smallest(relative, min(count + _EXTRA_CANDIDATES, len(points)))
        squares[part], where = _compared(points, queries[part], candidates, count)
        indices[part] = where + start
    return squares, indices


def _smallest(values: Block, count: int) -> Block:
    """Return the columns of the least values of each row."""
    if count == values.shape[1]:
        return np.broadcast_to(np.arange(count), (len(values), count))
    return np.argpartition(values, count - 1, axis=1)[:, :count]


def _compared(points: Block, queries: Block, candidates: Block, count: int) -> Nearest:
    """Return the nearest candidates by their exact distances: squares, and indices of points."""
    squares = np.empty(candidates.shape, points.dtype)
    rows = max(1, _PAIRS // (candidates.shape[1] * points.shape[1] + 1))
    for i in range(0, len(queries), rows):
        part = slice(i, i + rows)
        differences = points[candidates[part]] - queries[part, None]
        squares[part] = np.einsum("ijk,ijk->ij", differences, differences)
    return _sorted(squares, candidates, count)


def _sorted(squares: Block, indices: Block, count: int) -> Nearest:
    """Return the first ``count`` of each row, sorted by the squares and then by the indices."""
    order = np.lexsort((indices, squares), axis=1)[:, :count]
    return np.take_along_axis(squares, order, 1), np.take_along_axis(indices, order, 1)


def _merge(k: int, parts: list[Nearest]) -> Nearest:
    """Return the nearest of the nearest points of several chunks."""
    squares, indices = (np.concatenate(side, axis=1) for side in zip(*parts, strict=True))
    return _sorted(squares, indices, k)


def _distances(nearest: Nearest) -> Block:
    return np.sqrt(nearest[0])
