"""The tasks of products of Dask arrays: sums of products of chunks, on the worker's device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.multi.dask.device import WorkerDevice, device
from portable_gpu.ops.gemm import gemm
from portable_gpu.ops.gemm import matmul as matmul_of_blocks

Block = np.ndarray[Any, Any]
Pair = tuple[Block, Block]


def gram_of_block(block: Block, precision: str | None) -> Block:
    """Return the Gram matrix of one chunk."""
    with device() as worker:
        result: Block = gemm(block, block, trans_a="C", precision=precision, engine=worker.engine)
    return result.astype(block.dtype, copy=False)


def add(parts: list[Block]) -> Block:
    """Return the sum of arrays, in their order."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def sum_products_of_chunks(
    order_a: Sequence[int], order_b: Sequence[int], summed: int, dtype: np.dtype[Any],
    precision: str | None, of_a: list[Block], of_b: list[Block],
) -> Block:  # fmt: skip
    """Return a chunk of a tensor product: the sum of the products of pairs of chunks.

    Args:
        order_a, order_b: The axes of a chunk of ``a`` and of ``b``, as a matrix needs them: of
            ``a`` the summed ones are the last, of ``b`` the first.
        summed: The number of summed axes.
        dtype: That of the result.
        precision: As for :func:`portable_gpu.gemm`.
        of_a, of_b: The chunks.
    """
    free_a, free_b = len(order_a) - summed, len(order_b) - summed
    shape = tuple(of_a[0].shape[axis] for axis in order_a[:free_a])
    shape += tuple(of_b[0].shape[axis] for axis in order_b[len(order_b) - free_b :])

    def matrices() -> Iterator[Pair]:
        for a, b in zip(of_a, of_b, strict=True):
            yield _as_matrix(a.transpose(order_a), free_a), _as_matrix(b.transpose(order_b), summed)

    m, n = prod(shape[:free_a]), prod(shape[free_a:])
    with device() as worker:
        return sum_of_products(matrices(), m, n, dtype, precision, worker).reshape(shape)


def _as_matrix(x: Block, axes_of_rows: int) -> Block:
    return x.reshape(prod(x.shape[:axes_of_rows]), prod(x.shape[axes_of_rows:]))


def sum_of_products(
    pairs: Iterable[Pair], m: int, n: int, dtype: np.dtype[Any], precision: str | None,
    worker: WorkerDevice,
) -> Block:  # fmt: skip
    """Return the sum of the products of pairs of matrices, (m, k) and (k, n), in their order."""
    pairs = [(a, b) for a, b in pairs if a.shape[1]]
    if not (pairs and m and n):
        return np.zeros((m, n), dtype)
    if dtype.kind in "biu":
        return _sum_of_integers(pairs, precision, worker)
    wide = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
    total = np.empty((m, n), wide)
    if worker.uses_host_memory:
        for step, (a, b) in enumerate(pairs):
            gemm(a, b, out=total, beta=float(step > 0), precision=precision, engine=worker.engine)
    else:
        rows, columns, depth = piece(pairs, m, n, wide.itemsize, worker.memory_limit)
        for i in range(0, m, rows):
            for j in range(0, n, columns):
                total[i : i + rows, j : j + columns] = streamed(
                    _pieces(pairs, slice(i, i + rows), slice(j, j + columns), depth),
                    wide, precision, worker,
                )  # fmt: skip
    return total.astype(dtype, copy=False)


def streamed(
    pairs: Iterable[Pair], dtype: np.dtype[Any], precision: str | None, worker: WorkerDevice
) -> Block:
    """Return the sum of products of pairs that are copied to the device one after the other.

    A pair is copied on a queue of its own while the product of the pair before it runs, so the
    device holds two pairs.
    """
    engine = worker.engine
    total: Any = None
    before: list[cl.Event] = []
    for a, b in pairs:
        left, right = worker.upload(a), worker.upload(b)
        beta = 0.0 if total is None else 1.0
        if total is None:
            total = worker.empty((a.shape[0], b.shape[1]), dtype)
        gemm(
            left, right, out=total, beta=beta, precision=precision, engine=engine,
            queue=engine.queue,
        )  # fmt: skip
        if before:
            cl.wait_for_events(before)
        before = list(total.events)
    result: Block = total.get()
    return result


def piece(
    pairs: Sequence[Pair], m: int, n: int, itemsize: int, limit: int | None
) -> tuple[int, int, int]:
    """Return rows, columns and depth of pieces: two pairs and a result are within the limit.

    The longest extent is halved until they are.
    """
    sizes = [m, n, max(a.shape[1] for a, _ in pairs)]
    while limit is not None and max(sizes) > 1:
        rows, columns, depth = sizes
        if (2 * depth * (rows + columns) + rows * columns) * itemsize <= limit:
            break
        longest = sizes.index(max(sizes))
        sizes[longest] = -(-sizes[longest] // 2)
    return sizes[0], sizes[1], sizes[2]


def _pieces(pairs: Sequence[Pair], rows: slice, columns: slice, depth: int) -> Iterator[Pair]:
    for a, b in pairs:
        for k in range(0, a.shape[1], depth):
            yield a[rows, k : k + depth], b[k : k + depth, columns]


def _sum_of_integers(pairs: Sequence[Pair], precision: str | None, worker: WorkerDevice) -> Block:
    """Return the sum of products of integers, which wrap around, or of truth values."""
    return _sum(matmul_of_blocks(a, b, precision=precision, engine=worker.engine) for a, b in pairs)


def _sum(parts: Iterable[Block]) -> Block:
    total: Block | None = None
    for part in parts:
        if total is None:
            total = part
        else:
            total += part
    assert total is not None
    return total


def multiply_stacks(
    dtype: np.dtype[Any], precision: str | None, of_a: list[Block], of_b: list[Block]
) -> Block:
    """Return a chunk of a product of stacks of matrices."""
    wide = np.dtype(np.float32) if dtype.kind not in "biu" and dtype.itemsize == 2 else dtype
    batch = np.broadcast_shapes(of_a[0].shape[:-2], of_b[0].shape[:-2])
    shape = (*batch, of_a[0].shape[-2], of_b[0].shape[-1])
    with device() as worker:
        result = _sum(
            matmul_of_blocks(
                a, b, out=np.empty(shape, wide), precision=precision, engine=worker.engine
            )
            for a, b in zip(of_a, of_b, strict=True)
        )
    return result.astype(dtype, copy=False)
