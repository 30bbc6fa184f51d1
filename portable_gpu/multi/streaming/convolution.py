"""Convolutions of images that are larger than the memory of the device.

Tiles of the result are groups of images, or rows of one image.  Rows of the result need rows of the
input that two tiles may both read::

    input     |--- rows of tile 0 ---|
                             |--- rows of tile 1 ---|
    result    |-- tile 0 --|-- tile 1 --|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from portable_gpu.dtypes import check_precision, is_float16_like
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.multi.streaming.pipeline import Job, StreamBlock, StreamStep, run
from portable_gpu.multi.streaming.place import place_of
from portable_gpu.multi.streaming.storage import Index, TiledOperand, result_storage
from portable_gpu.multi.streaming.tiles import aligned, even, grid, too_small
from portable_gpu.ops.conv.functions import conv2d as conv2d_of_tiles
from portable_gpu.ops.conv.shapes import ConvExtents, Options, geometry, pads
from portable_gpu.progress import progress_callback
from portable_gpu.runtime.engine import Engine

#: The part of the limit that is left to the workspace of a call: 1 / 8.
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
        used in place.
    Cost: ``2 N K P Q (C / groups) R S`` flop.  The input is read once if an image fits the limit;
        otherwise rows are read again where the tiles of one image overlap.
    Accuracy: that of :func:`portable_gpu.nn.conv2d`, for the variant that a tile takes.
    Order: the tiles follow from the shapes, the dtype, the chunks and the limit.  The result has
        the same bits for any number of devices that choose the same variants.
    """
    arrays = {"input": input, "weight": weight, "bias": bias}
    operands = [TiledOperand(each, name) for name, each in arrays.items() if each is not None]
    _check_dtypes(operands)
    if precision is not None:
        check_precision(precision)
    images, weights = operands[0], operands[1]
    options = Options(2, stride, padding, dilation, groups)
    g = geometry(options, images.shape, weights.shape, None, ("input", "weight", "the result"))
    if bias is not None and operands[2].shape != (g.filters,):
        raise ShapeError(
            f"bias has shape {operands[2].shape}; the {g.filters} channels of the result need "
            f"({g.filters},)"
        )
    padded = pads(options, g.w_size[1:], g.stride[1:], g.dilation[1:])
    members, limit = place_of(engine, memory_limit)
    rows = _RowsOfImages(g, padded)
    count, height = _tile(rows, images, operands[1:], limit)
    small = tuple([tuple([slice(0, n) for n in each.shape]) for each in operands[1:]])

    def call(engine: Engine, step: StreamStep, tiles: Sequence[Any], block: Any) -> Any:
        x, w, b = tiles if len(tiles) == 3 else (*tiles, None)
        return conv2d_of_tiles(
            x, w, b, stride=stride, padding=step.options, dilation=dilation, groups=groups,
            precision=precision, workspace_limit=limit // _WORKSPACE, out=block, engine=engine,
        )  # fmt: skip

    shape = (g.filters, *g.y_size[1:])
    flop = 2.0 * shape[0] * shape[2] * g.channels // g.groups * g.w_size[1] * g.w_size[2]
    blocks = []
    for batch, part in grid((g.batch, shape[1]), (count, height)):
        read, pairs = rows.of_input(part)
        index = _index(g.batched, batch, g.channels, read, g.x_size[2])
        work = flop * (batch.stop - batch.start) * (part.stop - part.start)
        step = StreamStep((index, *small), work, pairs)
        blocks.append(StreamBlock(_index(g.batched, batch, shape[0], part, shape[2]), [step]))
    front = (count,) if g.batched else ()
    input_tile = (*front, g.channels, rows.height_of_input(height), g.x_size[2])
    block = (*front, shape[0], height, shape[2])
    whole = (g.batch, *shape) if g.batched else shape
    with (
        progress_callback(progress, "conv2d") as callback,
        result_storage(out, whole, images.dtype, block, operands) as result,
    ):
        tiles = (input_tile, *[each.shape for each in operands[1:]])
        job = Job("conv2d", operands, tiles, blocks, call, result, (block, images.dtype))
        run(job, members, callback)
        return result.finish()


@dataclass(frozen=True)
class _RowsOfImages:
    """The rows of the input that some rows of the result need.

    Attributes:
        g: The extents of the convolution.
        padding: The padding before and after each axis.
    """

    g: ConvExtents
    padding: Sequence[tuple[int, int]]

    def height_of_input(self, height: int) -> int:
        """Return the most rows that ``height`` rows of the result need."""
        if height >= self.g.y_size[1]:
            return self.g.x_size[1]
        return max(1, min(self.g.x_size[1], (height - 1) * self.g.stride[1] + self.span))

    @property
    def span(self) -> int:
        """The rows that one row of the result needs."""
        return self.g.dilation[1] * (self.g.w_size[1] - 1) + 1

    def of_input(self, part: slice) -> tuple[slice, tuple[tuple[int, int], tuple[int, int]]]:
        """Return the rows of the input for rows of the result, and the padding of this tile."""
        height, (top, bottom) = self.g.x_size[1], self.padding[0]
        if part.stop - part.start == self.g.y_size[1]:
            return slice(0, height), ((top, bottom), self.padding[1])
        first = part.start * self.g.stride[1] - top
        end = (part.stop - 1) * self.g.stride[1] - top + self.span
        rows = slice(max(0, first), min(height, end))
        return rows, ((max(0, -first), max(0, end - height)), self.padding[1])


def _tile(
    rows: _RowsOfImages, images: TiledOperand, small: Sequence[TiledOperand], limit: int
) -> tuple[int, int]:
    """Return the images and the rows of the result of a tile.

    Raises:
        ArgumentError: The limit is too small; or rows have to be cut, and some need padding alone.
    """
    g, itemsize = rows.g, images.dtype.itemsize
    fixed = 2 * sum([each.values.size * itemsize for each in small])
    budget = limit - limit // _WORKSPACE - fixed

    def nbytes(height: int) -> int:
        read = g.channels * rows.height_of_input(height) * g.x_size[2]
        return 2 * itemsize * (read + g.filters * height * g.y_size[2])

    height = max(1, g.y_size[1])
    if nbytes(height) <= budget:
        count = even(g.batch, budget // max(1, nbytes(height)), 1)
        return aligned(count, images.chunks[0] if g.batched else 1), height
    if nbytes(1) > budget:
        raise too_small(limit, (fixed + nbytes(1)) * _WORKSPACE // (_WORKSPACE - 1) + 1, "a row")
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
    return 1, even(height, low, 1)


def _index(batched: bool, batch: slice, channels: int, rows: slice, columns: int) -> Index:
    front = (batch,) if batched else ()
    return (*front, slice(0, channels), rows, slice(0, columns))


def _check_dtypes(operands: Sequence[TiledOperand]) -> None:
    for each in operands:
        if each.dtype.kind != "f" and not is_float16_like(each.dtype):
            raise DTypeError(
                f"{each.name} is {each.dtype}; float16, bfloat16, float32 and float64 are convolved"
            )
        if each.dtype != operands[0].dtype:
            raise DTypeError(
                f"{each.name} is {each.dtype}, and input is {operands[0].dtype}; convert one"
            )
