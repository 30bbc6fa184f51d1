"""Operands and results in the host's memory, in files (NumPy's memmap) and in Zarr arrays."""

from __future__ import annotations

import mmap
import os
import secrets
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from portable_gpu.arguments import shown
from portable_gpu.dtypes import element
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    OverlapError,
    ResultFileError,
    ShapeError,
    UnsupportedError,
    how_to_install,
)
from portable_gpu.host_memory import check_host
from portable_gpu.multi.array import GroupArray
from portable_gpu.multi.streaming.memmaps import (
    allocate,
    check_length,
    check_writable,
    is_sparse,
    mapped_file,
    mapped_pages,
    overlap,
)
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.views import bounds
from portable_gpu.side_by_side import NoThreadError, Task, run_tasks

Values = np.ndarray[Any, np.dtype[Any]]
#: A tile of an array: a slice along each axis.
Index = tuple[slice, ...]
#: The same as a key of a table: slices have no hash before Python 3.12.
Bounds = tuple[tuple[int, int], ...]

#: Bytes of a chunk of a new Zarr array, at most.
_CHUNK = 16 << 20
#: Pieces of a file that are requested for one tile, at most.
_PIECES = 4096


class TiledOperand:
    """An array that is read tile by tile.

    Attributes:
        values: The array of NumPy or of Zarr.
        name: Its name in messages.
        shape, dtype, ndim: As in NumPy.
        chunks: The extents of a chunk of Zarr; 1 along each axis of an array of NumPy.
        is_in_memory: Whether it is an array of NumPy; then a tile is a view, without a copy.
    """

    def __init__(
        self, values: Any, name: str, lock: AbstractContextManager[Any] | None = None
    ) -> None:
        """Check an argument.

        Args:
            values: The array of NumPy or of Zarr.
            name: Its name in messages.
            lock: Is held during reads of Zarr arrays, if the array is also written.

        Raises:
            ArgumentTypeError: It is not an array of NumPy or of Zarr.
            DTypeError: Its dtype is not supported.
            ArgumentError: Its file is shorter than the memmap.
        """
        if isinstance(values, (*DEVICE_KINDS, GroupArray)):
            raise ArgumentTypeError(
                f"{name} is a device array; pass an array of NumPy, a memmap or a Zarr array here, "
                f"and device arrays to the functions of portable_gpu"
            )
        attributes = ("shape", "dtype", "__getitem__")
        if not all(hasattr(values, attribute) for attribute in attributes):
            raise ArgumentTypeError(
                f"{name} is {shown(values)}; expected an array of NumPy, a memmap or a Zarr array"
            )
        self.values, self.name = values, name
        self._lock = nullcontext() if lock is None else lock
        self.shape = tuple([int(n) for n in values.shape])
        self.dtype: np.dtype[Any] = np.dtype(values.dtype)
        element(self.dtype)
        self.ndim = len(self.shape)
        self.is_in_memory = isinstance(values, np.ndarray)
        chunks = None if self.is_in_memory else getattr(values, "chunks", None)
        self.chunks = tuple(chunks) if chunks else (1,) * self.ndim
        self._pages = mapped_pages(values) if self.is_in_memory else None
        if self.is_in_memory:
            check_length(values, name)

    @property
    def axes(self) -> list[int]:
        """The axes, largest stride first: tiles that are cut along the first one are adjacent."""
        strides = self.values.strides if self.is_in_memory else (0,) * self.ndim
        return sorted(range(self.ndim), key=lambda axis: -abs(strides[axis]))

    @property
    def bytes_on_host(self) -> int:
        """The bytes that a CPU takes for an element of a packed copy, and of a tile of Zarr."""
        return self.dtype.itemsize * (1 if self.is_in_memory else 2)

    def read(self, index: Index) -> Values:
        """Return a tile: a view of an array of NumPy, or new memory."""
        if self.is_in_memory:
            return np.asarray(self.values[index])
        with self._lock:
            return np.asarray(self.values[index])

    def prefetch(self, index: Index) -> None:
        """Let the operating system read a tile of a memmap, and do not wait.

        A tile of many short pieces of the file is not requested.
        """
        if self._pages is None or not hasattr(mmap, "MADV_WILLNEED"):
            return
        piece: Values = np.asarray(self.values[index])
        distances = np.zeros(1, np.intp)  # of each piece from the first one
        while piece.size and is_sparse(piece):
            if len(distances) * len(piece) > _PIECES:
                return
            distances = np.add.outer(distances, piece.strides[0] * np.arange(len(piece))).ravel()
            piece = piece[0]
        low, high = bounds(piece, piece.ctypes.data)
        begins = low - np.frombuffer(self._pages, np.uint8).ctypes.data + distances
        firsts = begins // mmap.PAGESIZE * mmap.PAGESIZE
        lengths = begins - firsts + (high - low)
        with suppress(OSError):
            for first, length in zip(firsts.tolist(), lengths.tolist(), strict=True):
                self._pages.madvise(mmap.MADV_WILLNEED, first, length)


class TiledResult:
    """An array that is written tile by tile.

    Attributes:
        values: The array of NumPy or of Zarr; of a new file, None before :meth:`create`.
        name: Its name in messages.
    """

    def __init__(self, values: Any, name: str = "out") -> None:
        self.values, self.name = values, name
        self._lock = threading.Lock()

    def create(self) -> None:
        """Create the array, if it is a new file."""

    def in_place(self, index: Index, dtype: np.dtype[Any]) -> Values | None:
        """Return a tile as memory that kernels can write, if it has this dtype and is aligned."""
        values = self.values
        if not (isinstance(values, np.ndarray) and values.dtype == dtype and values.flags.aligned):
            return None
        tile: Values = values[index]
        return tile

    def write(self, index: Index, tile: Values) -> None:
        """Write a tile.

        Raises:
            ResultFileError: The write failed, for example because the disk is full.
        """
        if isinstance(self.values, np.ndarray):
            self.values[index] = tile
            return
        values = tile.astype(self.values.dtype, copy=False)
        # Two tiles may share a chunk, which Zarr reads and writes as a whole.
        with self._lock, _as_result_error(self.name):
            _to_its_end(lambda: self.values.__setitem__(index, values))

    def as_operand(self, name: str) -> TiledOperand:
        """Return the result as an operand, whose tiles are not read during a write.

        A tile may be a part of a chunk that another thread writes as a whole.
        """
        return TiledOperand(self.values, name, self._lock)

    def finish(self) -> Any:
        """Return the complete result."""
        return self.values

    def abandon(self) -> None:
        """Remove what was written, if it has a temporary name."""


class _NewFile(TiledResult):
    """A file of NumPy's format that has a temporary name until it is complete."""

    def __init__(self, path: Path, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        super().__init__(None, f"out ({path})")
        self._path, self._temporary = path, _temporary_name(path)
        self._shape, self._dtype = tuple(shape), dtype

    def create(self) -> None:
        with _as_result_error(self.name):
            if not prod(self._shape):
                self.values = np.empty(self._shape, self._dtype)
                with self._temporary.open("xb") as file:
                    np.save(file, self.values)
                return
            self.values = np.lib.format.open_memmap(
                self._temporary, "w+", dtype=self._dtype, shape=self._shape
            )
            allocate(self._temporary)

    def finish(self) -> Any:
        with _as_result_error(self.name):
            if isinstance(self.values, np.memmap):
                self.values.flush()
                # Another call may replace the file after this one has.
                self.values = np.load(self._temporary, mmap_mode="r+")
                self.values.filename = self._path.resolve()
            os.replace(self._temporary, self._path)
        return self.values

    def abandon(self) -> None:
        self._temporary.unlink(missing_ok=True)


class _NewZarr(TiledResult):
    """A Zarr array that has a temporary name until it is complete."""

    def __init__(
        self, path: Path, shape: Sequence[int], dtype: np.dtype[Any], tile: Sequence[int]
    ) -> None:
        super().__init__(None, f"out ({path})")
        try:
            import zarr
        except ImportError:
            raise UnsupportedError(
                f"out is {path}, which needs the package zarr: {how_to_install('zarr')}"
            ) from None
        if path.exists():
            raise ArgumentError(f"out is {path}, which exists; remove it, or pass another name")
        self._path, self._temporary, self._open = path, _temporary_name(path), zarr.open_array
        self._shape, self._dtype = tuple(shape), dtype
        self._chunks = _chunks_of(shape, dtype.itemsize, tile)

    def create(self) -> None:
        def create() -> None:
            self.values = self._open(
                str(self._temporary), mode="w", shape=self._shape, dtype=self._dtype,
                chunks=self._chunks,
            )  # fmt: skip

        with _as_result_error(self.name):
            _to_its_end(create)

    def finish(self) -> Any:
        with _as_result_error(self.name):
            os.replace(self._temporary, self._path)
        return self._open(str(self._path), mode="r+")

    def abandon(self) -> None:
        shutil.rmtree(self._temporary, ignore_errors=True)


def _to_its_end(write: Callable[[], Any]) -> None:
    """Let Zarr write files, and wait for the end, also if a signal handler raises an exception.

    Threads of Zarr write them, which an exception does not end: they would write files of a result
    that has been removed.
    """
    permit: deque[None] = deque([None])  # the thread takes it to start, or the caller to leave
    ended: list[None] = []

    def task() -> Sequence[Task]:
        if _takes(permit):
            try:
                write()
            finally:
                ended.append(None)
        return ()

    try:
        run_tasks([task], 1)
    except NoThreadError:
        if _takes(permit):
            write()
    except BaseException:
        if not _takes(permit):
            while not ended:
                time.sleep(1e-3)
        raise


def _takes(permit: deque[None]) -> bool:
    """Take a permit, if it is there."""
    try:
        permit.pop()
    except IndexError:
        return False
    return True


def bounds_of(index: Index) -> Bounds:
    """Return the first and the end of a tile along each axis."""
    return tuple([(part.start, part.stop) for part in index])


@contextmanager
def result_storage(
    out: Any,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    tile: Sequence[int],
    operands: Sequence[TiledOperand],
) -> Iterator[TiledResult]:
    """Provide the storage of a result.

    After an exception, nothing is left of a file or a Zarr array that would have been new.

    Args:
        out: None for a new array of NumPy; the name of a new file (``.npy``) or Zarr array
            (``.zarr``); or a writable array of NumPy or of Zarr.
        shape, dtype: Those of the result.
        tile: The extents of the tiles that will be written.
        operands: The arrays that are read meanwhile.

    Raises:
        ArgumentTypeError, ArgumentError, ShapeError, DTypeError, ReadOnlyError, OverlapError:
            ``out`` is none of these, does not fit, or shares memory with an operand.
        HostMemoryError: The host has too little memory for a new array.
        ResultFileError: The file cannot be created, or the disk has too little space.
        UnsupportedError: The package zarr is missing.
    """
    result = _storage(out, shape, dtype, tile, operands)
    try:
        result.create()
        yield result
    except BaseException:
        result.abandon()
        raise


@contextmanager
def scratch_storage(
    out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Iterator[TiledResult]:
    """Provide the storage of an array that exists as long as the block of the ``with`` statement.

    Args:
        out: The name of a file for the array; if it is anything else, the array is in memory.
        shape, dtype: The shape and the dtype of the array.

    Raises:
        HostMemoryError, ResultFileError: There is too little memory, or space on the disk.
    """
    if isinstance(out, (str, os.PathLike)):
        scratch: TiledResult = _NewFile(Path(out), shape, dtype)
    else:
        scratch = _storage(None, shape, dtype, (), ())
    try:
        scratch.create()
        yield scratch
    finally:
        scratch.abandon()


def _storage(
    out: Any,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    tile: Sequence[int],
    operands: Sequence[TiledOperand],
) -> TiledResult:
    if out is None:
        nbytes = prod(shape) * dtype.itemsize
        check_host(nbytes, f"a result of shape {shape}, which out= can put into a file,")
        return TiledResult(np.empty(shape, dtype))
    if isinstance(out, (str, os.PathLike)):
        path = Path(out)
        if path.suffix in (".npy", ".zarr") and dtype.kind not in "biufc":
            raise DTypeError(f"out is {path}, and a file of this kind cannot hold {dtype}")
        if path.suffix == ".npy":
            return _NewFile(path, shape, dtype)
        if path.suffix == ".zarr":
            return _NewZarr(path, shape, dtype, tile)
        raise ArgumentError(f"out is {str(path)!r}; expected a name that ends in .npy or .zarr")
    attributes = ("shape", "dtype", "__setitem__")
    if isinstance(out, (*DEVICE_KINDS, GroupArray)) or not all(
        hasattr(out, attribute) for attribute in attributes
    ):
        raise ArgumentTypeError(
            f"out is {shown(out)}; "
            "expected a file's name, an array of NumPy, a memmap or a Zarr array"
        )
    if tuple(out.shape) != shape:
        raise ShapeError(f"out has shape {tuple(out.shape)}; the result has {shape}")
    if np.dtype(out.dtype) != dtype:
        raise DTypeError(f"out has dtype {out.dtype}; the result has {dtype}")
    check_writable(out)
    if isinstance(out, np.ndarray):
        check_length(out, "out")
    for operand in operands:
        if overlap(out, operand.values):
            raise OverlapError(f"out shares memory with {operand.name}; pass another array")
    file = mapped_file(out) if isinstance(out, np.ndarray) and out.size else None
    if file is not None:
        with _as_result_error("out"):
            allocate(file)
    return TiledResult(out)


def _temporary_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")


def _chunks_of(shape: Sequence[int], itemsize: int, tile: Sequence[int]) -> tuple[int, ...]:
    """Return extents of chunks of which each tile has whole ones, except at the end of an axis."""
    extents = [max(1, min(n, t)) for n, t in zip(shape, tile, strict=True)]
    while prod(extents) * itemsize > _CHUNK:
        divisible = [
            axis
            for axis, n in enumerate(extents)
            if n > 1 and (n % 2 == 0 or tile[axis] >= shape[axis])
        ]
        if not divisible:
            break
        axis = max(divisible, key=lambda axis: extents[axis])
        extents[axis] = -(-extents[axis] // 2)
    return tuple(extents)


@contextmanager
def _as_result_error(what: str) -> Iterator[None]:
    try:
        yield
    except ResultFileError:
        raise
    except OSError as error:
        raise ResultFileError(
            error.errno, f"{what} cannot be written: {error.strerror or error}"
        ) from error
