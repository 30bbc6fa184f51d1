"""A user's function applied to each chunk, and arrays that workers read from files."""

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
    """Call a function of device arrays on each chunk.

    Args:
        function: It is called with chunks as :class:`portable_gpu.Array` objects, and returns one,
            or a NumPy array.  Calls of this library on these arrays run on the worker's device.
            The function is pickled.
        arrays: Dask arrays of one shape, and numbers or NumPy scalars, which are passed unchanged.
            If chunks of the arrays differ, the arrays are rechunked.
        dtype: The dtype of the result.
        chunks: The chunks of the result; their number along each axis is that of ``arrays``.
            Default: the chunks of ``arrays``.
        options: Further arguments of ``function``, as keywords.

    Returns:
        A Dask array.

    Raises:
        ArgumentTypeError: ``function`` cannot be called, or no array is given.
        ShapeError: The shapes differ, or ``chunks`` has other numbers of chunks; when computed:
            ``function`` returns another shape than that of the chunk.
        ArgumentError, DTypeError: As :func:`~portable_gpu.multi.dask.sum`.

    Cost: that of ``function``, and for each chunk one task, one copy to the device and one back.
        So several steps in one function copy less than one call for each step.
    Order: fixed by the chunks, the kind of device and the worker's cores, if ``function`` fixes its
        own.
    """
    if not callable(function):
        raise ArgumentTypeError(f"function is of type {type(function).__name__}; call it with one")
    result_dtype = as_dtype(dtype)
    where = [n for n, value in enumerate(arrays) if isinstance(value, da.Array)]
    if not where:
        raise ArgumentTypeError("arrays has no Dask array; expected one at least")
    inputs = [checked(arrays[n], f"arrays[{n}]") for n in where]
    if len({array.shape for array in inputs}) > 1:
        raise ShapeError(f"shapes {[array.shape for array in inputs]} differ; expected equal ones")
    axes = list(range(inputs[0].ndim))
    _, inputs = da.core.unify_chunks(*(item for x in inputs for item in (x, axes)), warn=False)
    input_chunks = inputs[0].chunks
    result_chunks = input_chunks
    if chunks is not None:
        result_chunks = tuple(tuple(extents) for extents in chunks)
    if [len(extents) for extents in result_chunks] != [len(extents) for extents in input_chunks]:
        raise ShapeError(
            f"chunks has {result_chunks}; expected as many along each axis as {input_chunks}"
        )
    name = new_name("map", function, *arrays, result_dtype, result_chunks, options)
    graph: Graph = {}
    for place in np.ndindex(*inputs[0].numblocks):
        shape = tuple(extents[i] for extents, i in zip(result_chunks, place, strict=True))
        values = list(arrays)
        for n, array in zip(where, inputs, strict=True):
            values[n] = (array.name, *place)
        graph[(name, *place)] = (partial(_call, function, options, result_dtype, shape), values)
    return array_of(name, graph, list(inputs), result_chunks, result_dtype)


def from_npy(path: str | os.PathLike[str], chunks: Any = "auto") -> da.Array:
    """Return a Dask array of a ``.npy`` file; each worker reads the chunks of its tasks.

    :func:`dask.array.from_array` of a memory map would send all values to the scheduler.

    Args:
        path: The file, which all workers can read by this path.
        chunks: The chunks, as :func:`dask.array.from_array` takes them.

    Returns:
        A Dask array.  If values of the file change later, they are read as they are then; if its
        shape or dtype does, the tasks raise ArgumentError.

    Raises:
        OSError: The file cannot be read.
        ArgumentError: It does not contain an array of a dtype that devices support.
    """
    of_kind(path, (str, os.PathLike), "path", "the path of a .npy file")
    file = Path(path).absolute()
    try:
        values = np.load(file, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ArgumentError(f"path is {file}, which is not a .npy file: {error}") from error
    cut = da.core.normalize_chunks(chunks, values.shape, dtype=values.dtype)
    status = file.stat()
    name = new_name("npy", str(file), status.st_mtime_ns, status.st_size, cut)
    starts = [np.cumsum([0, *extents]).tolist() for extents in cut]
    graph: Graph = {}
    for place in np.ndindex(*(len(extents) for extents in cut)):
        index = tuple(slice(start[i], start[i + 1]) for start, i in zip(starts, place, strict=True))
        graph[(name, *place)] = (_read, str(file), values.shape, values.dtype, index)
    return checked(array_of(name, graph, [], cut, values.dtype), "path")


# -- the tasks


def _call(
    function: Callable[..., Any], options: dict[str, Any], dtype: np.dtype[Any],
    shape: tuple[int, ...], values: list[Any],
) -> Block:  # fmt: skip
    with device() as worker:
        passed = [worker.upload(x) if isinstance(x, np.ndarray) else x for x in values]
        result = function(*passed, **options)
        result = asnumpy(result) if isinstance(result, Array) else np.asarray(result)
    if result.shape != shape:
        raise ShapeError(f"function returned shape {result.shape} for a chunk of {shape}")
    return result.astype(dtype, copy=False)


def _read(
    path: str, shape: tuple[int, ...], dtype: np.dtype[Any], index: tuple[slice, ...]
) -> Block:
    values = np.load(path, mmap_mode="r", allow_pickle=False)
    if (values.shape, values.dtype) != (shape, dtype):
        raise ArgumentError(
            f"path is {path}, which has {values.dtype} of shape {values.shape} now, and had "
            f"{dtype} of {shape} when the graph was made; call from_npy again"
        )
    return np.array(values[index])
