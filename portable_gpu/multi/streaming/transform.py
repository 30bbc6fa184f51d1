"""Fourier transforms of arrays that are larger than the memory of the device.

Axes are transformed in passes over the array.  A pass transforms the axes that its tiles have as a
whole, and cuts others.  The first reads ``x``; each further one reads and writes the result::

    axes 1 and 2    | tile 0 |          axis 0    | t | t | t |
    of (8, 4, 4)    |  ...   |                    | i | i | i |
                    | tile 3 |                    | l | l | l |
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from portable_gpu.arguments import one_of
from portable_gpu.errors import ArgumentError
from portable_gpu.fft import fftn as fftn_of_tiles
from portable_gpu.fft import ifftn as ifftn_of_tiles
from portable_gpu.multi.streaming.pipeline import Job, StreamBlock, StreamStep, extents_of, run
from portable_gpu.multi.streaming.place import place_of
from portable_gpu.multi.streaming.storage import (
    Index,
    TiledOperand,
    TiledResult,
    Values,
    result_storage,
)
from portable_gpu.multi.streaming.tiles import block_extents, grid
from portable_gpu.ops.fft.call import NORMS, axes_and_lengths, dtype_of_transforms, whole_numbers
from portable_gpu.progress import progress_callback
from portable_gpu.runtime.engine import Engine

#: Tiles that the limit has to hold: two that are read, two that are written, and the workspace.
_TILES = 6


def fftn(
    x: Any, axes: Sequence[int] | None = None, norm: str | None = None, *, out: Any = None,
    memory_limit: int | None = None, engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Transform ``x`` along several axes, in tiles.

    Args:
        x: An array of NumPy, a memmap, or a Zarr array, of a dtype of :func:`portable_gpu.fft.fft`.
        axes: The axes; None for all.
        norm: ``"backward"`` (the default), ``"forward"`` or ``"ortho"``, as in
            :func:`portable_gpu.fft.fft`.
        out: The result, of ``x``'s shape and the complex dtype of :func:`portable_gpu.fft.fft`; the
            forms of :func:`gemm`.
        memory_limit: The bytes of the tiles on each device.  Default: three quarters of its memory.
        engine: The engine, or a group of devices; the default engine if it is not given.
        progress: True shows a bar if stderr is a terminal (by the package rich).  A function is
            called with the bytes transformed and with all bytes.

    Returns:
        The memmap or Zarr array of the new file, or ``out``, or a new array of NumPy.

    Raises:
        ArgumentTypeError, ArgumentError, AxisError, ShapeError, DTypeError: An argument does not
            fit, or a line is too long for the limit.
        ReadOnlyError, OverlapError: ``out`` cannot be written, or shares memory with ``x``.
        ResultFileError: The disk is full, or the file cannot be written.
        HostMemoryError, DeviceMemoryError: There is too little memory.

    Memory: a tile takes at most a sixth of ``memory_limit``, and has whole lines of the axes of its
        pass.  There are two that are read and two that are written on a device with memory of its
        own; a CPU takes one, which is written to the result in the second and further passes.  The
        workspace of a call takes the rest of the limit.
    Cost: a pass reads and writes all elements.  There is one if all transformed axes fit into a
        tile; arrays of two or more axes mostly need two.
    Accuracy: that of :func:`portable_gpu.fft.fftn`.
    Order: passes and tiles follow from the shape, the axes, the dtype, the chunks and the limit.
        The result has the same bits for any number of devices that choose the same variants.
    """
    return _transform(x, axes, norm, False, out, memory_limit, engine, progress)


def ifftn(
    x: Any, axes: Sequence[int] | None = None, norm: str | None = None, *, out: Any = None,
    memory_limit: int | None = None, engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """The inverse of :func:`fftn`, with its arguments."""
    return _transform(x, axes, norm, True, out, memory_limit, engine, progress)


def _transform(
    x: Any, axes: Any, norm: str | None, inverse: bool, out: Any, memory_limit: int | None,
    engine: Any, progress: Any,
) -> Any:  # fmt: skip
    operand = TiledOperand(x, "x")
    mode = one_of("backward" if norm is None else norm, NORMS, "norm")
    real = dtype_of_transforms(operand.dtype, "c2c")
    dtype = np.result_type(real, np.complex64)
    places, _ = axes_and_lengths(operand, None, whole_numbers(axes, "axes"), "c2c")
    members, limit = place_of(engine, memory_limit)
    passes = _passes(operand.shape, places, limit // (_TILES * dtype.itemsize), limit)
    chunks = [operand.chunks] + [(1,) * operand.ndim] * (len(passes) - 1)
    max_elements = limit // (_TILES * dtype.itemsize)
    extents = []
    for transformed, whole in zip(passes, chunks, strict=True):
        cut = [axis for axis in operand.axes if axis not in transformed]
        tile = block_extents(operand.shape, max_elements, whole, cut)
        assert tile is not None  # by the choice of passes
        extents.append(tile)
    smallest = [min(each) for each in zip(*extents, strict=True)]
    with (
        progress_callback(progress, "fftn", "bytes") as callback,
        result_storage(out, operand.shape, dtype, smallest, (operand,)) as result,
    ):
        total = float(prod(operand.shape) * dtype.itemsize * len(passes))
        for number, (transformed, tile) in enumerate(zip(passes, extents, strict=True)):
            source = result.as_operand("out") if number else operand
            sink = _Rewritten(result) if number else result

            def call(
                engine: Engine,
                _: StreamStep,
                tiles: Sequence[Any],
                block: Any,
                axes: tuple[int, ...] = transformed,
            ) -> Any:
                function = ifftn_of_tiles if inverse else fftn_of_tiles
                return function(tiles[0], axes=axes, norm=mode, out=block, engine=engine)

            blocks = [
                StreamBlock(
                    index, [StreamStep((index,), float(prod(extents_of(index)) * dtype.itemsize))]
                )
                for index in grid(operand.shape, tile)
            ]
            before = total / len(passes) * number
            job = Job("fftn", (source,), (tile,), blocks, call, sink, (tile, dtype))
            run(job, members, callback and _Offset(callback, before, total))
        return result.finish()


def _passes(
    shape: Sequence[int], axes: Sequence[int], max_elements: int, limit: int
) -> list[tuple[int, ...]]:
    """Return the axes of each pass: the last ones first, up to the elements of a tile.

    Raises:
        ArgumentError: A line of an axis has more elements than a tile.
    """
    passes: list[tuple[int, ...]] = []
    group: tuple[int, ...] = ()
    for axis in sorted(axes, reverse=True):
        if shape[axis] > max_elements:
            raise ArgumentError(
                f"memory_limit is {limit} bytes, of which a sixth cannot hold a line of axis "
                f"{axis} of x, which has {shape[axis]} elements; expected a larger limit"
            )
        if group and prod([shape[each] for each in (axis, *group)]) > max_elements:
            passes.append(group)
            group = ()
        group = (axis, *group)
    return [*passes, group]


class _Rewritten:
    """A result whose tiles are also read: kernels do not write them in place."""

    def __init__(self, result: TiledResult) -> None:
        self._result = result

    def in_place(self, place: Index, dtype: np.dtype[Any]) -> None:
        """Return nothing."""

    def write(self, place: Index, tile: Values) -> None:
        self._result.write(place, tile)


class _Offset:
    """Reports the progress of one pass as that of all."""

    def __init__(self, callback: Any, before: float, total: float) -> None:
        self._callback, self._before, self._total = callback, before, total

    def __call__(self, done: float, total: float) -> None:
        self._callback(self._before + done, self._total)
