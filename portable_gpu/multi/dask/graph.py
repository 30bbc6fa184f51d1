"""Parts of Dask graphs: checks of Dask arrays, arrays made of tasks, and trees of a fixed shape.

Graphs are built without any device, and hold functions, numbers and keys only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import isnan
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from portable_gpu.arguments import of_kind
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError

#: The number of parts that one task of a tree merges.
FAN_IN = 8

Key = tuple[Hashable, ...]
Graph = dict[Key, Any]


def checked(x: Any, name: str) -> da.Array:
    """Return ``x``, a Dask array of known chunks and of a dtype that devices support.

    Raises:
        ArgumentTypeError: It is something else.
        ArgumentError: The extents of its chunks are not known.
        DTypeError: Its dtype is not supported.
    """
    of_kind(x, da.Array, name, "a dask.array.Array (dask.array.from_array makes one)")
    if any(isnan(extent) for extent in x.shape):
        raise ArgumentError(
            f"{name} has chunks of unknown extents; call {name}.compute_chunk_sizes()"
        )
    element(x.dtype)
    return x


def unchunked(x: da.Array, axes: Sequence[int], name: str) -> None:
    """Raise ArgumentError unless each of some axes is in one chunk."""
    for axis in axes:
        if len(x.chunks[axis]) > 1:
            raise ArgumentError(
                f"axis {axis} of {name} is cut into {len(x.chunks[axis])} chunks, and the call "
                f"needs it in one chunk; call {name}.rechunk({{{axis}: -1}})"
            )


def new_name(operation: str, *arguments: Any) -> str:
    """Return the name of an array: that of an operation on the same arguments is the same."""
    return f"portable_gpu-{operation}-{tokenize(operation, *arguments)}"


def array_of(
    name: str,
    graph: Mapping[Key, Any],
    inputs: Sequence[da.Array],
    chunks: tuple[tuple[int, ...], ...],
    dtype: Any,
) -> da.Array:
    """Return the Dask array whose chunks are the results of the tasks ``(name, i, j, ...)``."""
    layers = HighLevelGraph.from_collections(name, graph, dependencies=list(inputs))
    meta = np.empty((0,) * len(chunks), dtype)
    return da.Array(layers, name, chunks, meta=meta)


def add_tree(
    graph: Graph, root: Key, leaves: Sequence[Key], merge: Callable[[list[Any]], Any],
    finish: Callable[[list[Any]], Any],
) -> None:  # fmt: skip
    """Add tasks that merge the results of ``leaves`` in their order, a fixed number at a time.

    The tree depends on the number of leaves alone, so the result has the same bits on any workers
    and in any order.

    Args:
        graph: The graph, which is extended.
        root: The key of the result.
        leaves: The keys of the parts.
        merge: Makes one part of several.
        finish: Makes the result of the last parts, at most :data:`FAN_IN`.
    """
    level = 0
    while len(leaves) > FAN_IN:
        level += 1
        parents: list[Key] = []
        for first in range(0, len(leaves), FAN_IN):
            key = (f"{root[0]}-merge{level}", *root[1:], first // FAN_IN)
            graph[key] = (merge, list(leaves[first : first + FAN_IN]))
            parents.append(key)
        leaves = parents
    graph[root] = (finish, list(leaves))
