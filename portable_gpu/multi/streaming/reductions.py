"""Reductions of arrays that are larger than the memory of the device."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from portable_gpu.arguments import flag, real_number
from portable_gpu.dtypes import is_float16_like
from portable_gpu.host_memory import check_host
from portable_gpu.multi.streaming.job import Job, StreamBlock, StreamStep, extents_of
from portable_gpu.multi.streaming.pipeline import run
from portable_gpu.multi.streaming.place import StreamPlace, place_of
from portable_gpu.multi.streaming.storage import (
    Bounds,
    TiledOperand,
    TiledResult,
    Values,
    bounds_of,
)
from portable_gpu.multi.streaming.tile_reductions import (
    Partials,
    PartOfResult,
    TileReduction,
    reduction_of,
)
from portable_gpu.multi.streaming.tiles import grid, reduction_tile, too_small
from portable_gpu.ops import reduce as library
from portable_gpu.ops.reduce.call import Axes, as_axes, normalise_axes, one_axis
from portable_gpu.progress import ProgressCallback, progress_callback
from portable_gpu.runtime.engine import Engine


def _reduce(
    name: str, x: Any, axis: Axes, keepdims: bool, memory_limit: int | None, engine: Any,
    progress: Any, ddof: float = 0.0,
) -> Any:  # fmt: skip
    """Reduce an array.

    Args:
        name: The name of the library's function.
        x, axis, keepdims, memory_limit, engine, progress, ddof: The arguments of the public
            function.
    """
    operand = TiledOperand(x, "x")
    flag(keepdims, "keepdims")
    reduced = normalise_axes(as_axes(axis), operand.ndim)
    reduction = reduction_of(name, operand, reduced, ddof)
    place = place_of(engine, memory_limit)
    if not prod(operand.shape):
        empty = np.empty(operand.shape, operand.dtype)
        with place.members[0].named_errors():
            return getattr(library, name)(
                empty, axis=axis, keepdims=keepdims, engine=place.members[0].engine
            )
    itemsize = operand.dtype.itemsize
    extra = reduction.extra if is_float16_like(operand.dtype) else 0
    max_elements = place.limit // (2 * itemsize + extra)
    extents = reduction_tile(operand, reduced, max_elements)
    if extents is None:
        raise too_small(place.limit, 2 * itemsize + extra, "an element")
    blocks, partials = [], Partials(reduction)
    numbers: dict[Bounds, int] = {}
    for index in grid(operand.shape, extents):
        region = tuple(
            [slice(0, 1) if axis in reduced else part for axis, part in enumerate(index)]
        )
        number = numbers.get(bounds_of(region), 0)
        numbers[bounds_of(region)] = number + 1
        step = StreamStep((index,), float(prod(extents_of(index)) * itemsize))
        blocks.append(StreamBlock(PartOfResult(number, index, region), [step]))
    merges = not operand.ndim or any(number > 1 for number in numbers.values())
    with progress_callback(progress, name, "bytes") as callback:
        if merges:

            def partial(engine: Engine, step: StreamStep, tiles: Sequence[Any], _: Any) -> Any:
                return reduction.of_tile(engine, tiles[0], step.reads[0])

            run(Job(name, (operand,), (extents,), blocks, partial, partials), place, callback)
            result = partials.result()
        else:
            # Each tile has all indices of the reduced axes, so its result is a part of the whole.
            result = _in_place(name, reduction, extents, blocks, ddof, place, callback)
    if not keepdims:
        result = result.reshape([n for axis, n in enumerate(operand.shape) if axis not in reduced])
    return result if result.ndim else result[()]


def _in_place(
    name: str, reduction: TileReduction, extents: tuple[int, ...], blocks: Sequence[StreamBlock],
    ddof: float, place: StreamPlace, progress: ProgressCallback | None,
) -> Values:  # fmt: skip
    """Reduce tiles whose results are not merged by the library's function, to their places.

    Returns:
        The result; reduced axes have extent 1.
    """
    operand, reduced = reduction.x, reduction.reduced
    shape, block = (
        tuple([1 if axis in reduced else n for axis, n in enumerate(shape)])
        for shape in (operand.shape, extents)
    )
    dtype = reduction.result_dtype()
    check_host(prod(shape) * dtype.itemsize, f"a result of shape {shape}")
    result = TiledResult(np.empty(shape, dtype))
    options: dict[str, Any] = {"axis": reduction.axis, "keepdims": True}
    if name.startswith("arg") and reduction.axis is not None:
        options["axis"] = reduction.axis[0]
    if name in ("var", "std"):
        options["ddof"] = ddof

    def call(engine: Engine, _: StreamStep, tiles: Sequence[Any], block: Any) -> Any:
        return getattr(library, name)(tiles[0], out=block, engine=engine, **options)

    placed = [StreamBlock(block.place.region, block.steps) for block in blocks]
    job = Job(name, (operand,), (extents,), placed, call, result, (block, dtype))
    run(job, place, progress)
    values: Values = result.values
    return values


def sum(  # noqa: A001  # NumPy's name
    x: Any, axis: Axes = None, *, keepdims: bool = False, memory_limit: int | None = None,
    engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Sum over all axes, or over ``axis``, of an array that is read in tiles.

    Args:
        x: An array of NumPy, a memmap, or a Zarr array, of any shape and supported dtype.
        axis: An axis, a tuple of axes, or None for all.
        keepdims: Whether reduced axes stay with extent 1.
        memory_limit: The bytes of the tiles on each device.  Default: three quarters of its memory.
        engine: The engine, or a group of devices; the default engine if it is not given.
        progress: True shows a bar if stderr is a terminal (by the package rich).  A function is
            called with the bytes read and with all bytes.

    Returns:
        An array of NumPy, or a number, of the dtype of :func:`portable_gpu.sum`.

    Raises:
        ArgumentTypeError, ArgumentError, AxisError, DTypeError: An argument does not fit.
        DeviceMemoryError: The device has too little memory.

    Memory: two tiles of ``x``, at most ``memory_limit``, and the results of two tiles, on a device
        with memory of its own; none on a CPU, except one tile of a Zarr array.  The host has the
        result and log2 of the number of tiles partial results, of 8 or 16 bytes an element.
    Cost: ``x`` is read once.  Tiles are parts of the axis with the largest stride, if a part of
        extent 1 is not above the limit, and whole chunks of a Zarr array.
    Accuracy: that of :func:`portable_gpu.sum` on a tile; partial sums of floats are added in
        float64, which adds ``log2(tiles)`` units of float64 and one of the result.
    Order: a tree over the tiles, which follow from the shape, the strides, the chunks and the
        limit.  The result has the same bits for any number of devices that choose the same
        variants.
    """
    return _reduce("sum", x, axis, keepdims, memory_limit, engine, progress)


def mean(
    x: Any, axis: Axes = None, *, keepdims: bool = False, memory_limit: int | None = None,
    engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Arithmetic mean over all axes, or over ``axis``: the sum divided by the count.

    Arguments, errors, memory, cost, accuracy and order are those of :func:`sum`.

    Returns:
        An array of NumPy, or a number, of the dtype of :func:`portable_gpu.mean`.
    """
    return _reduce("mean", x, axis, keepdims, memory_limit, engine, progress)


def min(  # noqa: A001  # NumPy's name
    x: Any, axis: Axes = None, *, keepdims: bool = False, memory_limit: int | None = None,
    engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Smallest element; NaN if there is one.  Exact.

    Arguments, errors, memory and cost are those of :func:`sum`.

    Raises:
        ShapeError: Also where an empty axis is reduced.
    """
    return _reduce("min", x, axis, keepdims, memory_limit, engine, progress)


def max(  # noqa: A001  # NumPy's name
    x: Any, axis: Axes = None, *, keepdims: bool = False, memory_limit: int | None = None,
    engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Largest element; see :func:`min`."""
    return _reduce("max", x, axis, keepdims, memory_limit, engine, progress)


def argmin(
    x: Any, axis: int | None = None, *, keepdims: bool = False, memory_limit: int | None = None,
    engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Index (int64) of the smallest element; ties give the lowest index, and NaN is the smallest.

    With ``axis=None`` the index is into ``x`` flattened in C order.  Otherwise as :func:`min`.
    """
    axis = None if axis is None else one_axis(axis)
    return _reduce("argmin", x, axis, keepdims, memory_limit, engine, progress)


def argmax(
    x: Any, axis: int | None = None, *, keepdims: bool = False, memory_limit: int | None = None,
    engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Index (int64) of the largest element; see :func:`argmin`."""
    axis = None if axis is None else one_axis(axis)
    return _reduce("argmax", x, axis, keepdims, memory_limit, engine, progress)


def nrm2(
    x: Any, axis: Axes = None, *, keepdims: bool = False, memory_limit: int | None = None,
    engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Euclidean norm, which neither overflows nor underflows on the way.

    Arguments, errors, cost and order are those of :func:`sum`.  The result is real.

    Memory: as :func:`sum`; a tile of 16-bit floats is converted, and takes three times its bytes.
    Accuracy: that of :func:`portable_gpu.nrm2` on a tile, and the rounding of the result.
    """
    return _reduce("nrm2", x, axis, keepdims, memory_limit, engine, progress)


def var(
    x: Any, axis: Axes = None, *, ddof: float = 0, keepdims: bool = False,
    memory_limit: int | None = None, engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Variance of real elements: ``sum (x - mean)^2 / (n - ddof)``.

    Arguments, errors, memory, cost and order are those of :func:`sum`: ``x`` is read once.

    Args:
        ddof: Subtracted from the count, as in :func:`portable_gpu.var`.

    Raises:
        DTypeError: ``x`` is complex.

    Accuracy: relative error about 16 u, as :func:`portable_gpu.var`, also if the mean is large.
    Source: Chan, Golub and LeVeque, Am. Stat. 37(3), 1983.
    """
    count = real_number(ddof, "ddof")
    return _reduce("var", x, axis, keepdims, memory_limit, engine, progress, count)


def std(
    x: Any, axis: Axes = None, *, ddof: float = 0, keepdims: bool = False,
    memory_limit: int | None = None, engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Standard deviation: the square root of :func:`var`, with its arguments."""
    count = real_number(ddof, "ddof")
    return _reduce("std", x, axis, keepdims, memory_limit, engine, progress, count)
