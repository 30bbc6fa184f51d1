"""Fourier transforms of arrays that are larger than the memory of the device.

Axes are transformed in passes over the array.  A pass transforms the axes that its tiles have as a
whole, and cuts others.  The first reads ``x``; each further one reads and writes the result::

    axes 1 and 2    | tile 0 |          axis 0    | t | t | t |
    of (8, 4, 4)    |  ...   |                    | i | i | i |
                    | tile 3 |                    | l | l | l |

Real lines are transformed in the first pass.  The inverse makes them in the last pass, from an
array for the spectrum that exists as long as the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from math import prod
from typing import Any, NamedTuple

import numpy as np

from portable_gpu.arguments import one_of, whole
from portable_gpu.errors import ArgumentError
from portable_gpu.multi.streaming.job import Job, StreamBlock, StreamStep, extents_of
from portable_gpu.multi.streaming.pipeline import run
from portable_gpu.multi.streaming.place import place_of
from portable_gpu.multi.streaming.storage import (
    Index,
    TiledOperand,
    TiledResult,
    Values,
    result_storage,
    scratch_storage,
)
from portable_gpu.multi.streaming.tiles import block_extents, grid
from portable_gpu.ops.fft.call import (
    NORMS,
    axes_and_lengths,
    dtype_of_transforms,
    transform,
    whole_numbers,
)
from portable_gpu.ops.fft.problem import TransformKind
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
    storage = out, memory_limit, engine, progress
    return _transform("c2c", x, axes, norm, None, storage, inverse=False)


def ifftn(
    x: Any, axes: Sequence[int] | None = None, norm: str | None = None, *, out: Any = None,
    memory_limit: int | None = None, engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """The inverse of :func:`fftn`, with its arguments."""
    storage = out, memory_limit, engine, progress
    return _transform("c2c", x, axes, norm, None, storage, inverse=True)


def rfftn(
    x: Any, axes: Sequence[int] | None = None, norm: str | None = None, *, out: Any = None,
    memory_limit: int | None = None, engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """Transform real ``x`` along several axes, in tiles.

    The arguments, errors and properties are those of :func:`fftn`.  The result has ``n // 2 + 1``
    elements along the last of ``axes``, whose extent is n.
    """
    storage = out, memory_limit, engine, progress
    return _transform("r2c", x, axes, norm, None, storage, inverse=False)


def irfftn(
    x: Any, axes: Sequence[int] | None = None, norm: str | None = None, *, n: int | None = None,
    out: Any = None, memory_limit: int | None = None, engine: Any = None, progress: Any = None,
) -> Any:  # fmt: skip
    """The inverse of :func:`rfftn`, with a real result.

    The arguments, errors and properties are those of :func:`fftn`, and:

    Args:
        n: The extent of the result along the last of ``axes``, for which ``x`` has m elements.
            Default: ``2 (m - 1)``.

    Memory: if the axes need several passes, an array of the shape and the complex dtype of ``x`` in
        addition: a file without a name in the folder of ``out``, if that is the name of a file,
        else an array of NumPy.
    """
    storage = out, memory_limit, engine, progress
    return _transform("c2r", x, axes, norm, n, storage, inverse=True)


class _ArrayPass(NamedTuple):
    """A pass over the array.

    Attributes:
        kind: Whether input and output are complex, real, or half of a spectrum.
        axes: The axes that are transformed, in the order of the arguments.
        lengths: The length of each.
        reads, writes: The shapes of the arrays that are read and written.
        tile: The extents of the tiles that are read.
    """

    kind: TransformKind
    axes: tuple[int, ...]
    lengths: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    tile: tuple[int, ...]

    def written(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Return the extents of the tile that is written for one that is read."""
        return tuple(
            whole if axis in self.axes else extent
            for axis, (extent, whole) in enumerate(zip(extents, self.writes, strict=True))
        )


def _transform(
    kind: TransformKind, x: Any, axes: Any, norm: str | None, n: int | None,
    storage: tuple[Any, ...], *, inverse: bool,
) -> Any:  # fmt: skip
    out, memory_limit, engine, progress = storage
    operand = TiledOperand(x, "x")
    mode = one_of("backward" if norm is None else norm, NORMS, "norm")
    spectrum = np.result_type(dtype_of_transforms(operand.dtype, kind), np.complex64)
    dtype = np.empty(0, spectrum).real.dtype if kind == "c2r" else spectrum
    places, lengths = axes_and_lengths(operand, None, whole_numbers(axes, "axes"), kind)
    if n is not None:
        lengths = (*lengths[:-1], whole(n, "n"))
        axes_and_lengths(operand, lengths, places, kind)
    stream_place = place_of(engine, memory_limit)
    passes = _passes(kind, operand, places, lengths, stream_place.limit, spectrum)
    smallest = [min(extents) for extents in zip(*[p.written(p.tile) for p in passes], strict=True)]
    several = kind == "c2r" and len(passes) > 1
    name = {"c2c": "fftn", "r2c": "rfftn", "c2r": "irfftn"}[kind]
    with (
        progress_callback(progress, name, "bytes") as callback,
        result_storage(out, passes[-1].writes, dtype, smallest, (operand,)) as result,
        scratch_storage(out, operand.shape, spectrum) if several else nullcontext(result) as middle,
    ):
        sizes = [float(prod(array_pass.reads) * spectrum.itemsize) for array_pass in passes]
        source = operand
        for number, array_pass in enumerate(passes):
            target = result if number + 1 == len(passes) else middle
            is_rewritten = number > 0 and target is middle

            def call(
                engine: Engine,
                _: StreamStep,
                tiles: Sequence[Any],
                block: Any,
                array_pass: _ArrayPass = array_pass,
            ) -> Any:
                return transform(
                    array_pass.kind, tiles[0], array_pass.lengths, array_pass.axes, mode,
                    inverse=inverse, out=block, engine=engine,
                )  # fmt: skip

            blocks = []
            for index in grid(array_pass.reads, array_pass.tile):
                place = tuple(
                    slice(0, end) if axis in array_pass.axes else part
                    for axis, (part, end) in enumerate(zip(index, array_pass.writes, strict=True))
                )
                work = float(prod(extents_of(index)) * spectrum.itemsize)
                blocks.append(StreamBlock(place, [StreamStep((index,), work)]))
            block = array_pass.written(array_pass.tile), dtype if target is result else spectrum
            sink = _Rewritten(target) if is_rewritten else target
            job = Job(name, (source,), (array_pass.tile,), blocks, call, sink, block)
            before, total = sum(sizes[:number]), sum(sizes)
            run(job, stream_place, callback and _Offset(callback, before, total))
            source = target.as_operand("out")
        return result.finish()


def _passes(
    kind: TransformKind,
    x: TiledOperand,
    axes: Sequence[int],
    lengths: Sequence[int],
    limit: int,
    spectrum: np.dtype[Any],
) -> list[_ArrayPass]:
    """Return the passes: as many axes at a time as the elements of a tile allow.

    Raises:
        ArgumentError: A line of an axis has more elements than a tile.
    """
    max_elements = limit // (_TILES * spectrum.itemsize)
    by_axis = dict(zip(axes, lengths, strict=True))
    longest = {axis: max(x.shape[axis], by_axis[axis]) for axis in axes}
    order = sorted(axes, reverse=True)
    if kind != "c2c":  # real lines are read first, or written last
        order.remove(axes[-1])
        order.insert(0 if kind == "r2c" else len(order), axes[-1])
    groups: list[list[int]] = [[]]
    for axis in order:
        if longest[axis] > max_elements:
            raise ArgumentError(
                f"memory_limit is {limit} bytes, of which a sixth cannot hold a line of axis "
                f"{axis} of x, which has {longest[axis]} elements; expected a larger limit"
            )
        if groups[-1] and prod([longest[number] for number in (axis, *groups[-1])]) > max_elements:
            groups.append([])
        groups[-1].append(axis)
    passes, shape = [], x.shape
    for number, group in enumerate(groups):
        last = axes[-1] if axes and axes[-1] in group and kind != "c2c" else None
        transformed = tuple(sorted(group, key=lambda axis: (axis == last, axis)))
        pass_kind = "c2c" if last is None else kind
        writes = [by_axis[axis] if axis in group else n for axis, n in enumerate(shape)]
        if pass_kind == "r2c":
            writes[transformed[-1]] = by_axis[transformed[-1]] // 2 + 1
        chunks = (1,) * x.ndim if number else x.chunks
        cut = [axis for axis in x.axes if axis not in group]
        larger = [max(pair) for pair in zip(shape, writes, strict=True)]
        tile = block_extents(larger, max_elements, chunks, cut)
        assert tile is not None  # passes are chosen so that there is one
        tile = tuple(min(pair) for pair in zip(tile, shape, strict=True))
        part = tuple(by_axis[axis] for axis in transformed)
        passes.append(_ArrayPass(pass_kind, transformed, part, shape, tuple(writes), tile))
        shape = tuple(writes)
    return passes


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
