"""Fourier transforms of the lines of a Dask array: one task for each chunk."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from portable_gpu import fft as of_blocks
from portable_gpu.arguments import one_of
from portable_gpu.multi.dask.device import device
from portable_gpu.multi.dask.graph import array_of, checked, new_name, unchunked
from portable_gpu.ops.fft.call import NORMS, axes_and_lengths, dtype_of_transforms, whole_numbers
from portable_gpu.ops.fft.problem import TransformKind

Block = np.ndarray[Any, Any]


def fft(x: da.Array, n: int | None = None, axis: int = -1, norm: str | None = None) -> da.Array:
    """Transform each line of ``x`` along ``axis``; see :func:`portable_gpu.fft.fft`.

    Args:
        x: A Dask array with all of ``axis`` in one chunk; it is cut along other axes.
        n: The length of the transform: lines are cut, or padded with zeros.  Default: their extent.
        axis: The axis.
        norm: ``backward``, ``ortho`` or ``forward``.

    Returns:
        A Dask array, cut as ``x`` along other axes, of SciPy's dtype.

    Raises:
        ArgumentError: ``axis`` is cut into chunks, a length is below 1, or ``norm`` is unknown.
        AxisError: The axis is out of range.
        ArgumentTypeError, DTypeError: ``x`` is not a Dask array, or has a dtype that is not
            transformed.

    Cost: one task for each chunk.  On a GPU a task takes about as long as the copies of its chunk
        to the device and back.
    Accuracy, Order: as :func:`portable_gpu.fft.fft`; the bits are those of a call on one chunk.
    """
    return _lines("fft", "c2c", x, n, axis, norm)


def ifft(x: da.Array, n: int | None = None, axis: int = -1, norm: str | None = None) -> da.Array:
    """The inverse of :func:`fft`, with its arguments."""
    return _lines("ifft", "c2c", x, n, axis, norm)


def rfft(x: da.Array, n: int | None = None, axis: int = -1, norm: str | None = None) -> da.Array:
    """The transform of real lines: the first n // 2 + 1 results of :func:`fft`.

    Raises:
        DTypeError: ``x`` is complex; else as :func:`fft`.
    """
    return _lines("rfft", "r2c", x, n, axis, norm)


def irfft(x: da.Array, n: int | None = None, axis: int = -1, norm: str | None = None) -> da.Array:
    """The inverse of :func:`rfft`: n real numbers, 2 (m - 1) by default, for lines of m numbers."""
    return _lines("irfft", "c2r", x, n, axis, norm)


def fftn(
    x: da.Array, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> da.Array:  # fmt: skip
    """The transform along several axes, each of which is in one chunk.

    Args:
        x, norm: See :func:`fft`.
        s: The lengths.  Default: the extents of ``x``.
        axes: The axes.  Default: the last ``len(s)``, or all without ``s``.

    Raises:
        ShapeError: ``s`` and ``axes`` differ in length; else as :func:`fft`.
    """
    return _transform("fftn", "c2c", x, s, axes, norm, {"s": s, "axes": axes})


def ifftn(
    x: da.Array, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> da.Array:  # fmt: skip
    """The inverse of :func:`fftn`, with its arguments."""
    return _transform("ifftn", "c2c", x, s, axes, norm, {"s": s, "axes": axes})


def _lines(
    name: str, kind: TransformKind, x: da.Array, n: Any, axis: Any, norm: str | None
) -> da.Array:
    return _transform(name, kind, x, n, axis, norm, {"n": n, "axis": axis})


def _transform(
    name: str, kind: TransformKind, x: da.Array, s: Any, axes: Any, norm: str | None,
    arguments: dict[str, Any],
) -> da.Array:  # fmt: skip
    checked(x, "x")
    norm = norm if norm is None else one_of(norm, NORMS, "norm")
    lengths, places = whole_numbers(s, "s"), whole_numbers(axes, "axes")
    places, lengths = axes_and_lengths(x, lengths, places, kind)
    unchunked(x, places, "x")
    real = np.dtype(np.float32 if dtype_of_transforms(x.dtype, kind) in _SINGLE else np.float64)
    dtype = real if kind == "c2r" else np.result_type(real, np.complex64)
    chunks = list(x.chunks)
    for axis, length in zip(places, lengths, strict=True):
        chunks[axis] = (length,)
    if kind == "r2c":
        chunks[places[-1]] = (lengths[-1] // 2 + 1,)
    label = new_name(name, x, lengths, places, norm)
    task = partial(_transform_block, name, arguments | {"norm": norm})
    graph = {(label, *place): (task, (x.name, *place)) for place in np.ndindex(*x.numblocks)}
    return array_of(label, graph, [x], tuple(chunks), dtype)


_SINGLE = (np.float32, np.complex64)


def _transform_block(name: str, arguments: dict[str, Any], block: Block) -> Block:
    with device() as worker:
        result: Block = getattr(of_blocks, name)(block, **arguments, engine=worker.engine)
    return result
