"""Products of matrices that are larger than the memory of the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from portable_gpu.arguments import one_of
from portable_gpu.dtypes import element, requested_precision
from portable_gpu.errors import DTypeError, ShapeError
from portable_gpu.multi.streaming.job import Job, StreamBlock, StreamStep
from portable_gpu.multi.streaming.pipeline import run
from portable_gpu.multi.streaming.place import place_of
from portable_gpu.multi.streaming.storage import Index, TiledOperand, result_storage
from portable_gpu.multi.streaming.tiles import aligned, grid, inner_extent, product_tiles
from portable_gpu.ops.factors import factor, plain_number
from portable_gpu.ops.gemm import gemm as gemm_of_tiles
from portable_gpu.ops.gemm.binding import compute_element, result_dtype
from portable_gpu.ops.gemv import TRANSPOSES
from portable_gpu.progress import progress_callback
from portable_gpu.runtime.engine import Engine


def gemm(
    a: Any, b: Any, *, alpha: complex = 1.0, trans_a: str = "N", trans_b: str = "N",
    precision: str | None = None, out: Any = None, memory_limit: int | None = None,
    engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Compute ``alpha * op(A) @ op(B)`` from tiles of the operands.

    Args:
        a: Shape (m, k), or (k, m) transposed: an array of NumPy, a memmap, or a Zarr array.  Its
            dtype is one of :func:`portable_gpu.gemm`.
        b: Shape (k, n), or (n, k) transposed.
        alpha, trans_a, trans_b, precision: As for :func:`portable_gpu.gemm`.
        out: The result, of shape (m, n) and NumPy's dtype of ``a @ b``: the name of a new file
            (``.npy``, which replaces a file of this name) or of a new Zarr array (``.zarr``); a
            writable array of NumPy, memmap or Zarr array; or None for a new array of NumPy.  A new
            file has a temporary name until it is complete, and nothing is left of it after an
            error.  An array that is given has unspecified values after an error.
        memory_limit: The bytes of the tiles on each device.  Default: three quarters of its memory.
        engine: The engine, or a group of devices; the default engine if it is not given.
        progress: True shows a bar if stderr is a terminal (by the package rich).  A function is
            called with the completed and with all operations.

    Returns:
        The memmap or Zarr array of the new file, or ``out``, or the new array.

    Raises:
        ArgumentTypeError, ArgumentError, ShapeError, DTypeError: An argument does not fit, or the
            limit is too small for a tile.
        ReadOnlyError, OverlapError: ``out`` cannot be written, or shares memory with an operand.
        ResultFileError: The disk is full, or the file cannot be written.
        HostMemoryError: The host has too little memory for a new array.
        DeviceMemoryError: The device has too little memory.

    Memory: the tiles of C have r rows and c columns, and those of A and B the inner extent t.  On a
        device with memory of its own there are two of each: ``2 (r t a + t c b + r c w)`` bytes,
        at most ``memory_limit``, where a and b are the itemsizes and w is the result's (4 for
        16-bit floats); and the workspace of one call of :func:`portable_gpu.gemm`.  The host takes
        160 MiB of pinned memory, and a tile of each Zarr array.  On a CPU, operands and results in
        memory or in memmaps are used in place; a tile of each Zarr array is in memory, and the
        workspace is a packed copy of a tile of A and of B, so that t is larger:
        ``r t a + t c b + r c w`` bytes are at most the limit, with 2 a and 2 b for Zarr arrays.
    Cost: ``2 m n k`` flop (8 complex).  A is read ``n / c`` times and B ``m / r`` times.
    Accuracy: that of :func:`portable_gpu.gemm`: tiles of C are sums over parts of k in order.
    Order: the tiles follow from the shapes, the dtypes, the chunks of Zarr and the limit.  The
        result has the same bits for any number of devices that choose the same variants.
    """
    left, right = TiledOperand(a, "a"), TiledOperand(b, "b")
    m, n, k = _extents(left, right, trans_a, trans_b)
    dtype = result_dtype(left.dtype, right.dtype)
    if not element(dtype).floating:
        raise DTypeError(f"gemm of {left.dtype} and {right.dtype}; expected floating dtypes")
    compute = compute_element(left.dtype, right.dtype)
    alpha = factor(plain_number(alpha, "alpha"), "alpha", compute)
    requested_precision(precision)
    sums = dtype if compute == element(dtype) else np.dtype(np.float32)
    itemsizes = left.dtype.itemsize, right.dtype.itemsize, sums.itemsize
    place = place_of(engine, memory_limit)
    rows, columns, inner = product_tiles((m, n, k), itemsizes, place.limit)
    if all(member.engine.maps_host_memory for member in place.members):
        # The memory of tiles of A and B is that of their packed copies.
        sizes = rows * left.bytes_on_host, columns * right.bytes_on_host
        inner = inner_extent(k, sizes, place.limit - rows * columns * sums.itemsize)
    a_chunks = left.chunks[::-1] if trans_a != "N" else left.chunks
    b_chunks = right.chunks[::-1] if trans_b != "N" else right.chunks
    rows, columns = aligned(rows, a_chunks[0]), aligned(columns, b_chunks[1])
    inner = aligned(inner, max(a_chunks[1], b_chunks[0]))

    def call(engine: Engine, step: StreamStep, tiles: Sequence[Any], block: Any) -> Any:
        return gemm_of_tiles(
            *tiles, alpha=alpha, beta=step.options, trans_a=trans_a, trans_b=trans_b,
            precision=precision, out=block, engine=engine,
        )  # fmt: skip

    def steps(block: Index) -> list[StreamStep]:
        parts = [slice(at, min(at + inner, k)) for at in range(0, k, inner)] or [slice(0, 0)]
        flop = 2.0 * (block[0].stop - block[0].start) * (block[1].stop - block[1].start)
        return [
            StreamStep(
                (
                    (block[0], part) if trans_a == "N" else (part, block[0]),
                    (part, block[1]) if trans_b == "N" else (block[1], part),
                ),
                flop * (part.stop - part.start),
                float(part.start > 0),
            )
            for part in parts
        ]

    blocks = [StreamBlock(index, steps(index)) for index in grid((m, n), (rows, columns))]
    tiles = [(rows, inner), (inner, columns)]
    with (
        progress_callback(progress, "gemm") as callback,
        result_storage(out, (m, n), dtype, (rows, columns), (left, right)) as result,
    ):
        block = (rows, columns), sums
        run(Job("gemm", (left, right), tiles, blocks, call, result, block), place, callback)
        return result.finish()


def _extents(
    left: TiledOperand, right: TiledOperand, trans_a: str, trans_b: str
) -> tuple[int, int, int]:
    for operand, trans in ((left, trans_a), (right, trans_b)):
        one_of(trans, TRANSPOSES, f"trans_{operand.name}")
        if operand.ndim != 2:
            raise ShapeError(f"{operand.name} has shape {operand.shape}; gemm takes matrices")
    m, k = left.shape if trans_a == "N" else left.shape[::-1]
    k_b, n = right.shape if trans_b == "N" else right.shape[::-1]
    if k != k_b:
        raise ShapeError(
            f"a is {left.shape} ({trans_a}) and b {right.shape} ({trans_b}): "
            f"the product's inner sizes {k} and {k_b} differ"
        )
    return m, n, k
