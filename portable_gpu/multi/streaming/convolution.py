"""Convolutions of images that are larger than the memory of the device.

Tiles of the result are groups of images, or rows of one image: parts of its first axis of space.
Rows of the result need rows of the input that two tiles may both read::

    input     |--- rows of tile 0 ---|
                             |--- rows of tile 1 ---|
    result    |-- tile 0 --|-- tile 1 --|
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from portable_gpu.dtypes import is_float16_like, requested_precision
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.multi.streaming.job import Job, StreamBlock, StreamStep
from portable_gpu.multi.streaming.pipeline import run
from portable_gpu.multi.streaming.place import place_of
from portable_gpu.multi.streaming.storage import Index, TiledOperand, result_storage
from portable_gpu.multi.streaming.tiles import aligned, even, grid, too_small
from portable_gpu.ops.conv import functions
from portable_gpu.ops.conv.shapes import ConvExtents, Options, geometry, pads
from portable_gpu.progress import progress_callback
from portable_gpu.runtime.engine import Engine

#: The least part of the limit that is left to the workspace of a call: 1 / 8.
_WORKSPACE = 8


def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[Any] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1, *,
    precision: str | None = None, out: Any = None, memory_limit: int | None = None,
    engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Convolve images in tiles: several images, or rows of one.

    Args:
        input: Shape (N, C, H, W) or (C, H, W): an array of NumPy, a memmap, or a Zarr array, of
            float16, bfloat16, float32 or float64.
        weight: Shape (K, C / groups, R, S), of the same dtype; it has to fit the limit.
        bias: Shape (K,), of the same dtype, or None.
        stride, padding, dilation, groups, precision: As for :func:`portable_gpu.nn.conv2d`.
        out: The result, of shape (N, K, P, Q) or (K, P, Q) and the dtype of ``input``; the forms of
            :func:`gemm`.
        memory_limit: The bytes of the tiles on each device.  Default: three quarters of its memory.
        engine: The engine, or a group of devices; the default engine if it is not given.
        progress: True shows a bar if stderr is a terminal (by the package rich).  A function is
            called with the completed and with all operations.

    Returns:
        The memmap or Zarr array of the new file, or ``out``, or a new array of NumPy.

    Raises:
        ArgumentTypeError, ArgumentError, ShapeError, DTypeError: An argument does not fit, or the
            limit is too small for one row of the result.
        ReadOnlyError, OverlapError: ``out`` cannot be written, or shares memory with an operand.
        ResultFileError: The disk is full, or the file cannot be written.
        HostMemoryError, DeviceMemoryError: There is too little memory.

    Memory: two tiles of the input, of the result, of the weights and of the bias take at most seven
        eighths of ``memory_limit``, and the workspace of a call takes the rest
        (``workspace_limit`` of :func:`portable_gpu.nn.conv2d`).  On a CPU, arrays and memmaps are
        used in place; there the rest has the windows of a tile, ``C R S`` elements for each place
        of the result, unless those of one row exceed it.
    Cost: ``2 N K P Q (C / groups) R S`` flop.  The input is read once if an image fits the limit;
        otherwise rows are read again where the tiles of one image overlap.
    Accuracy: that of :func:`portable_gpu.nn.conv2d`, for the variant that a tile takes.
    Order: the tiles follow from the shapes, the dtype, the chunks and the limit.  The result has
        the same bits for any number of devices that choose the same variants.
    """
    options = Options(2, stride, padding, dilation, groups)
    arrays = {"input": input, "weight": weight, "bias": bias}
    return _convolve(
        functions.conv2d, arrays, options, precision, out, memory_limit, engine, progress
    )


def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[Any] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1, *,
    precision: str | None = None, out: Any = None, memory_limit: int | None = None,
    engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Convolve signals in tiles: several signals, or parts of one.

    The arguments, errors and properties are those of :func:`conv2d`, for ``input`` of shape
    (N, C, W) or (C, W), ``weight`` of shape (K, C / groups, S) and a result of shape (N, K, Q) or
    (K, Q); see also :func:`portable_gpu.nn.conv1d`.
    """
    options = Options(1, stride, padding, dilation, groups)
    arrays = {"input": input, "weight": weight, "bias": bias}
    return _convolve(
        functions.conv1d, arrays, options, precision, out, memory_limit, engine, progress
    )


def conv3d(
    input: Any, weight: Any, bias: Any = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[Any] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1, *,
    precision: str | None = None, out: Any = None, memory_limit: int | None = None,
    engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Convolve volumes in tiles: several volumes, or slices of one.

    The arguments, errors and properties are those of :func:`conv2d`, for ``input`` of shape
    (N, C, D, H, W) or (C, D, H, W), ``weight`` of shape (K, C / groups, T, R, S) and a result of
    shape (N, K, O, P, Q) or (K, O, P, Q); see also :func:`portable_gpu.nn.conv3d`.
    """
    options = Options(3, stride, padding, dilation, groups)
    arrays = {"input": input, "weight": weight, "bias": bias}
    return _convolve(
        functions.conv3d, arrays, options, precision, out, memory_limit, engine, progress
    )


def _convolve(
    convolution: Callable[..., Any],
    arrays: Mapping[str, Any],
    options: Options,
    precision: str | None,
    out: Any,
    memory_limit: int | None,
    engine: Any,
    progress: Any,
) -> Any:
    """Convolve in tiles by a function of the library; the arguments are those of :func:`conv2d`."""
    operands = [TiledOperand(array, name) for name, array in arrays.items() if array is not None]
    _check_dtypes(operands)
    requested_precision(precision)
    images, weights = operands[0], operands[1]
    g = geometry(options, images.shape, weights.shape, None, ("input", "weight", "the result"))
    if len(operands) > 2 and operands[2].shape != (g.filters,):
        raise ShapeError(
            f"bias has shape {operands[2].shape}; the {g.filters} channels of the result need "
            f"({g.filters},)"
        )
    first = 3 - options.rank
    padded = pads(options, g.w_size[first:], g.stride[first:], g.dilation[first:])
    place = place_of(engine, memory_limit)
    rows = _RowsOfImages(g, first, padded)
    on_cpu = any(member.engine.target.is_cpu for member in place.members)
    count, height, workspace = _tile(rows, images, operands[1:], place.limit, on_cpu)
    small = tuple([tuple([slice(0, n) for n in operand.shape]) for operand in operands[1:]])

    def call(engine: Engine, step: StreamStep, tiles: Sequence[Any], block: Any) -> Any:
        x, w, b = tiles if len(tiles) == 3 else (*tiles, None)
        return convolution(
            x, w, b, stride=options.stride, padding=step.options, dilation=options.dilation,
            groups=options.groups, precision=precision, workspace_limit=workspace,
            out=block, engine=engine,
        )  # fmt: skip

    shape, row_of_input = (g.filters, *g.y_size[first:]), g.x_size[first + 1 :]
    flop = 2.0 * prod(shape) / max(1, shape[1]) * g.channels // g.groups * prod(g.w_size[first:])
    blocks = []
    for batch, part in grid((g.batch, shape[1]), (count, height)):
        read, pairs = rows.of_input(part)
        index = _index(g.batched, batch, g.channels, read, row_of_input)
        work = flop * (batch.stop - batch.start) * (part.stop - part.start)
        step = StreamStep((index, *small), work, pairs)
        blocks.append(StreamBlock(_index(g.batched, batch, shape[0], part, shape[2:]), [step]))
    front = (count,) if g.batched else ()
    input_tile = (*front, g.channels, rows.height_of_input(height), *row_of_input)
    block = (*front, shape[0], height, *shape[2:])
    whole = (g.batch, *shape) if g.batched else shape
    name = f"conv{options.rank}d"
    with (
        progress_callback(progress, name) as callback,
        result_storage(out, whole, images.dtype, block, operands) as result,
    ):
        tiles = (input_tile, *[operand.shape for operand in operands[1:]])
        job = Job(name, operands, tiles, blocks, call, result, (block, images.dtype))
        if blocks:
            run(job, place, callback)
        return result.finish()


@dataclass(frozen=True)
class _RowsOfImages:
    """The rows of the input that some rows of the result need.

    Attributes:
        g: The extents of the convolution.
        axis: The number of the rows' axis among those of space.
        padding: The padding before and after the axes from that one on.
    """

    g: ConvExtents
    axis: int
    padding: Sequence[tuple[int, int]]

    def height_of_input(self, height: int) -> int:
        """Return the most rows that ``height`` rows of the result need."""
        rows = self.g.x_size[self.axis]
        if height >= self.g.y_size[self.axis]:
            return rows
        return max(1, min(rows, (height - 1) * self.g.stride[self.axis] + self.span))

    @property
    def span(self) -> int:
        """The rows that one row of the result needs."""
        return self.g.dilation[self.axis] * (self.g.w_size[self.axis] - 1) + 1

    def of_input(self, part: slice) -> tuple[slice, tuple[tuple[int, int], ...]]:
        """Return the rows of the input for rows of the result, and the padding of this tile."""
        height, (top, bottom) = self.g.x_size[self.axis], self.padding[0]
        if part.stop - part.start == self.g.y_size[self.axis]:
            return slice(0, height), ((top, bottom), *self.padding[1:])
        first = part.start * self.g.stride[self.axis] - top
        end = (part.stop - 1) * self.g.stride[self.axis] - top + self.span
        rows = slice(max(0, first), min(height, end))
        return rows, ((max(0, -first), max(0, end - height)), *self.padding[1:])


class _TileOfImages(NamedTuple):
    """The extents of the tiles.

    Attributes:
        images, rows: The images and the rows of the result of a tile.
        workspace: The bytes that are left to a call.
    """

    images: int
    rows: int
    workspace: int


def _tile(
    rows: _RowsOfImages,
    images: TiledOperand,
    small: Sequence[TiledOperand],
    limit: int,
    on_cpu: bool,
) -> _TileOfImages:
    """Return the extents of the tiles.

    A CPU multiplies copies of the windows of a tile by the weights, where the workspace has them.

    Raises:
        ArgumentError: The limit is too small; or rows have to be cut, and some need padding alone.
    """
    g, itemsize = rows.g, images.dtype.itemsize
    fixed = 2 * sum([operand.values.size * itemsize for operand in small])
    budget, copies_windows = limit - fixed, on_cpu and g.groups < g.channels

    def tiles(height: int) -> int:
        """Return the bytes of the tiles for some rows of one image."""
        read = g.channels * rows.height_of_input(height) * prod(g.x_size[rows.axis + 1 :])
        written = g.filters * height * prod(g.y_size[rows.axis + 1 :])
        return 2 * itemsize * (read + written)

    def nbytes(height: int) -> int:
        """Return the bytes of the tiles and of the workspace."""
        places = height * prod(g.y_size[rows.axis + 1 :])
        windows = g.channels * prod(g.w_size[rows.axis :]) * places * itemsize + fixed // 2
        return tiles(height) + max(limit // _WORKSPACE, windows if copies_windows else 0)

    height = max(1, g.y_size[rows.axis])
    if not g.batch:  # there is no tile
        return _TileOfImages(1, height, 0)
    copies_windows = copies_windows and nbytes(1) <= budget
    if nbytes(height) <= budget:
        of_image = max(1, tiles(height))
        count = even(g.batch, (budget - nbytes(height)) // of_image + 1, 1)
        count = aligned(count, images.chunks[0] if g.batched else 1)
        return _TileOfImages(count, height, budget - count * of_image)
    if nbytes(1) > budget:
        raise too_small(limit, (fixed + tiles(1)) * _WORKSPACE // (_WORKSPACE - 1) + 1, "a row")
    if max(rows.padding[0]) >= rows.span:
        raise ArgumentError(
            f"memory_limit is {limit} bytes, less than an image takes, and padding is "
            f"{max(rows.padding[0])}; "
            f"expected less than the dilated filter's {rows.span} rows, or a larger limit"
        )
    low, high = 1, height  # nbytes(low) fits, nbytes(high) does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if nbytes(middle) <= budget else (low, middle)
    height = even(height, low, 1)
    return _TileOfImages(1, height, budget - tiles(height))


def _index(
    batched: bool, batch: slice, channels: int, rows: slice, extents_of_row: Sequence[int]
) -> Index:
    front = (batch,) if batched else ()
    return (*front, slice(0, channels), rows, *[slice(0, n) for n in extents_of_row])


def _check_dtypes(operands: Sequence[TiledOperand]) -> None:
    for operand in operands:
        if operand.dtype.kind != "f" and not is_float16_like(operand.dtype):
            raise DTypeError(
                f"{operand.name} is {operand.dtype}; float16, bfloat16, float32 and float64 are "
                "convolved"
            )
        if operand.dtype != operands[0].dtype:
            raise DTypeError(
                f"{operand.name} is {operand.dtype}, and input is {operands[0].dtype}; convert one"
            )
