"""Memmaps, and views of their pages; which arrays share memory."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from portable_gpu.errors import ArgumentError, ReadOnlyError
from portable_gpu.runtime.views import bounds

Values = np.ndarray[Any, Any]


def check_writable(out: Any) -> None:
    """Raise ReadOnlyError if an array, or the file that it is a view of, cannot be written."""
    if isinstance(out, np.ndarray):
        if not out.flags.writeable:
            raise ReadOnlyError("out is read-only; open the memmap with mode 'r+'")
        if any(isinstance(base, np.memmap) and base.mode == "c" for base in bases(out)):
            raise ReadOnlyError("out is a memmap of mode 'c', which changes no file; expected 'r+'")
    elif getattr(out, "read_only", False):
        raise ReadOnlyError("out is a read-only Zarr array; open it with mode 'r+'")


def check_length(values: Values, name: str) -> None:
    """Raise ArgumentError if a file has become shorter than its memmap.

    An access to a page behind the end of the file would end the process.

    Args:
        values: An array of NumPy, which may be a view of a memmap.
        name: Its name in messages.
    """
    pages = mapped_pages(values)
    with suppress(OSError):  # memory without a file has no size
        if pages is not None and pages.size() < len(pages):
            raise ArgumentError(
                f"{name} maps {len(pages)} bytes of a file that has {pages.size()}; the file was "
                "truncated"
            )


def overlap(out: Any, values: Any) -> bool:
    """Return whether two arrays may share memory, pages of a file, or a Zarr array."""
    if out is values:
        return True
    if isinstance(out, np.ndarray) and isinstance(values, np.ndarray):
        if np.may_share_memory(out, values):
            return True
        first, second = mapped_file(out), mapped_file(values)
        if first is None or second is None:
            return False
        with suppress(OSError):
            return first.samefile(second)
        return first == second  # a file that was removed
    stores = getattr(out, "store", None), getattr(values, "store", None)
    same_path = getattr(out, "path", None) == getattr(values, "path", None)
    return None not in stores and stores[0] == stores[1] and same_path


def bases(values: Values) -> Iterator[Any]:
    """Yield an array, and the objects of whose memory it is a view."""
    base: Any = values
    while base is not None:
        yield base
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)


def mapped_pages(values: Values) -> mmap.mmap | None:
    """Return the mapping of a file that an array is a view of."""
    return next((base for base in bases(values) if isinstance(base, mmap.mmap)), None)


def mapped_file(values: Values) -> Path | None:
    """Return the file of a memmap that an array is a view of."""
    files = [base.filename for base in bases(values) if isinstance(base, np.memmap)]
    return next((Path(file) for file in files if file is not None), None)


def is_sparse(tile: Values) -> bool:
    """Return whether a tile has rows, and less than half of the bytes that it spans."""
    low, high = bounds(tile, tile.ctypes.data)
    return tile.ndim > 1 and high - low > 2 * tile.nbytes


def allocate(path: Path) -> None:
    """Allocate all blocks of a file: a write to a page without one would end the process."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
