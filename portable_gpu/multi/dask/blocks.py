"""Functions of a user's own on each chunk, and arrays that workers read from files."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

from portable_gpu.arguments import of_kind
from portable_gpu.dtypes import as_dtype
from portable_gpu.errors import ArgumentError, ArgumentTypeError, ShapeError
from portable_gpu.multi.dask.device import device
from portable_gpu.multi.dask.graph import Graph, array_of, checked, new_name
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.transfer import asnumpy

Block = np.ndarray[Any, Any]


def map_blocks(
    function: Callable[..., Any],
    *arrays: Any,
    dtype: Any,
    chunks: tuple[tuple[int, ...], ...] | None = None,
    **options: Any,
) -> da.Array:
    """Call a function of device arrays on each chunk: one task, one copy to the device and back.

    Args:
        function: Takes :class:`portable_gpu.Array` objects, the chunks, and returns one, or a NumPy
            array.  Its calls of this library on them run on the worker's device.  It is pickled.
        arrays: Dask arrays of one shape, which are rechunked where they are cut differently, and
            numbers or NumPy scalars, which are passed as they are.
        dtype: The dtype of the result.
        chunks: The chunks of the result, as many along each axis as ``arrays`` have.  Default:
            those of ``arrays``.
        options: Further arguments of ``function``, as keywords.

    Returns:
        A Dask array.

    Raises:
        ArgumentTypeError: ``function`` cannot be called, or no array is given.
        ShapeError: The shapes differ, or ``chunks`` has other numbers of chunks; when computed:
            ``function`` returns another shape than that of the chunk.
        ArgumentError, DTypeError: As :func:`~portable_gpu.multi.dask.sum`.

    Cost: that of ``function`` and of the copies.  Several steps in one function need one copy to
        the device and one back, and not a pair for each step.
    Order: fixed by the chunks, the kind of device and the worker's cores, if ``function`` is.
    """
    if not callable(function):
        raise ArgumentTypeError(f"function is of type {type(function).__name__}; call it with one")
    result_dtype = as_dtype(dtype)
    where = [n for n, one in enumerate(arrays) if isinstance(one, da.Array)]
    if not where:
        raise ArgumentTypeError("arrays has no Dask array; expected one at least")
    inputs = [checked(arrays[n], f"arrays[{n}]") for n in where]
    if len({one.shape for one in inputs}) > 1:
        raise ShapeError(f"shapes {[one.shape for one in inputs]} differ; expected equal ones")
    axes = list(range(inputs[0].ndim))
    _, inputs = da.core.unify_chunks(*(one for x in inputs for one in (x, axes)), warn=False)
    cut = inputs[0].chunks
    results = cut if chunks is None else tuple(tuple(one) for one in chunks)
    if [len(one) for one in results] != [len(one) for one in cut]:
        raise ShapeError(f"chunks has {results}; expected as many along each axis as {cut}")
    name = new_name("map", function, *arrays, result_dtype, results, options)
    graph: Graph = {}
    for place in np.ndindex(*inputs[0].numblocks):
        shape = tuple(one[i] for one, i in zip(results, place, strict=True))
        values = list(arrays)
        for n, one in zip(where, inputs, strict=True):
            values[n] = (one.name, *place)
        graph[(name, *place)] = (partial(_call, function, options, result_dtype, shape), values)
    return array_of(name, graph, list(inputs), results, result_dtype)


def from_npy(path: str | os.PathLike[str], chunks: Any = "auto") -> da.Array:
    """Return a Dask array of a ``.npy`` file, of which each worker reads the chunks of its tasks.

    :func:`dask.array.from_array` of a memory map would send the values with the graph.

    Args:
        path: The file, which all workers can read by this path.
        chunks: The chunks, as :func:`dask.array.from_array` takes them.

    Returns:
        A Dask array; a file that changes later gives wrong values.

    Raises:
        OSError: The file cannot be read.
        ArgumentError: It is no array of a dtype that devices take.
    """
    of_kind(path, (str, os.PathLike), "path", "the path of a .npy file")
    file = Path(path).absolute()
    try:
        values = np.load(file, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ArgumentError(f"path is {file}, which is no .npy file: {error}") from error
    cut = da.core.normalize_chunks(chunks, values.shape, dtype=values.dtype)
    status = file.stat()
    name = new_name("npy", str(file), status.st_mtime_ns, status.st_size, cut)
    starts = [np.cumsum([0, *one]).tolist() for one in cut]
    graph: Graph = {}
    for place in np.ndindex(*(len(one) for one in cut)):
        index = tuple(slice(one[i], one[i + 1]) for one, i in zip(starts, place, strict=True))
        graph[(name, *place)] = (_read, str(file), index)
    return checked(array_of(name, graph, [], cut, values.dtype), "path")


# -- the tasks


def _call(
    function: Callable[..., Any], options: dict[str, Any], dtype: np.dtype[Any],
    shape: tuple[int, ...], values: list[Any],
) -> Block:  # fmt: skip
    with device() as worker:
        passed = [worker.upload(one) if isinstance(one, np.ndarray) else one for one in values]
        result = function(*passed, **options)
        result = asnumpy(result) if isinstance(result, Array) else np.asarray(result)
    if result.shape != shape:
        raise ShapeError(f"function returned shape {result.shape} for a chunk of {shape}")
    return result.astype(dtype, copy=False)


def _read(path: str, index: tuple[slice, ...]) -> Block:
    return np.array(np.load(path, mmap_mode="r", allow_pickle=False)[index])
