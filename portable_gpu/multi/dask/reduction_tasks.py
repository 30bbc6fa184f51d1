"""The tasks of reductions of Dask arrays: parts of chunks, and how parts are merged.

Reduced axes stay with extent 1 until the last task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import nan, prod
from typing import Any

import numpy as np

from portable_gpu.dtypes import is_float16_like
from portable_gpu.multi import moments
from portable_gpu.multi.dask.device import device
from portable_gpu.multi.merging import Extreme, Moments, in_double
from portable_gpu.ops import reduce as of_blocks
from portable_gpu.runtime.transfer import asnumpy

Block = np.ndarray[Any, Any]
DType = np.dtype[Any]
#: The offsets of a chunk in the array, and the reduced axes.
Offsets = tuple[int, ...]
Axes = tuple[int, ...]


@dataclass(frozen=True)
class ReductionTasks:
    """The functions of the tasks of a reduction.

    Attributes:
        part: Makes the part of a chunk from its offsets in the array, the axes, and the chunk.
        merge: Makes one part of two, in the order of their chunks.
        finish: Makes the values of the last part.
        takes_empty: Whether the reduction of no elements has a value.
    """

    part: Callable[[Offsets, Axes, Block], Any]
    merge: Callable[[Any, Any], Any]
    finish: Callable[[Any], Any]
    takes_empty: bool = True


def merged(merge: Callable[[Any, Any], Any], parts: list[Any]) -> Any:
    """Return one part of several, in the order of their chunks."""
    with np.errstate(all="ignore"):
        return reduce(merge, parts)


def finished(
    merge: Callable[[Any, Any], Any], finish: Callable[[Any], Any], removed: Axes, parts: list[Any]
) -> Block:
    """Return the values of the last parts, without the removed axes."""
    whole = merged(merge, parts)
    with np.errstate(all="ignore"):
        return np.squeeze(np.asarray(finish(whole)), removed)


# -- sums, products, extremes and truth values


def folded(name: str, dtype: DType, offsets: Offsets, axes: Axes, block: Block) -> Block:
    """Return the sum or the product of a chunk, computed in a dtype."""
    with device() as worker:
        function = getattr(of_blocks, name)
        return in_double(function(block, axes, dtype=dtype, keepdims=True, engine=worker.engine))


def exact(name: str, offsets: Offsets, axes: Axes, block: Block) -> Block:
    """Return the extremes, truth values or counts of a chunk."""
    with device() as worker:
        function = getattr(of_blocks, name)
        return np.asarray(function(block, axes, keepdims=True, engine=worker.engine))


def rounded(dtype: DType, values: Block) -> Block:
    """Return the values in the dtype of the result."""
    return np.asarray(values).astype(dtype, copy=False)


def quotient(count: int, dtype: DType, values: Block) -> Block:
    """Return means: sums of ``count`` values, divided by their number."""
    return rounded(dtype, np.divide(values, count))


# -- the variance


def moments_of_chunk(dtype: DType, offsets: Offsets, axes: Axes, block: Block) -> Moments:
    """Return the moments of a chunk, computed in a dtype."""
    count = prod(block.shape[axis] for axis in axes)
    if not block.size:
        nothing = np.full([1 if n in axes else extent for n, extent in enumerate(block.shape)], nan)
        return count, nothing, nothing, nothing
    if dtype.kind == "c":
        real = np.dtype(f"f{dtype.itemsize // 2}")
        _, pivot, mean, squares = moments_of_chunk(real, offsets, axes, block.real)
        _, *imaginary, others = moments_of_chunk(real, offsets, axes, block.imag)
        return count, pivot + 1j * imaginary[0], mean + 1j * imaginary[1], squares + others
    with device() as worker:
        x = block if worker.uses_host_memory else worker.upload(block)
        arrays = moments.on_device(x, axes, dtype, worker.engine)
        return moments.from_device(count, *[asnumpy(array) for array in arrays])


def variance(root: bool, count: float, dtype: DType, whole: Moments) -> Block:
    """Return the variance, or its square root, from moments and the divisor."""
    values = np.divide(whole[3], count)
    return rounded(dtype, np.sqrt(values) if root else values)


# -- indices of extremes


def index_of_extreme(
    name: str, shape: tuple[int, ...], offsets: Offsets, axes: Axes, block: Block
) -> Extreme:
    """Return the extremes of a chunk and their indices in the whole array, of a shape."""
    along = axes[0] if len(axes) == 1 else None
    with device() as worker:
        function = getattr(of_blocks, name)
        where = np.asarray(function(block, along, keepdims=True, engine=worker.engine))
    if along is not None:
        return where + offsets[along], np.take_along_axis(block, where, along)
    values = block.reshape(-1)[where]
    place = [
        local + offset
        for local, offset in zip(np.unravel_index(where, block.shape), offsets, strict=True)
    ]
    return np.ravel_multi_index(tuple(place), shape) if place else where, values


def index(whole: Extreme) -> Block:
    """Return the indices."""
    return rounded(np.dtype(np.int64), whole[0])


# -- the norm and the inner product


def norm(offsets: Offsets, axes: Axes, block: Block) -> Block:
    """Return the Euclidean norm of a chunk; that of 16-bit floats is not rounded."""
    with device() as worker:
        return in_double(of_blocks.nrm2(_wide(block), axes, keepdims=True, engine=worker.engine))


def inner_product(a: Block, b: Block) -> Block:
    """Return the inner product of two chunks; that of 16-bit floats is not rounded."""
    with device() as worker:
        return in_double(of_blocks.vdot(_wide(a), _wide(b), engine=worker.engine))


def _wide(block: Block) -> Block:
    return block.astype(np.float32) if is_float16_like(block.dtype) else block
