"""Parts of a factor in a file that has no name: whatever ends the process, nothing is left."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from portable_gpu.errors import ArgumentError, SpillError

_Values = np.ndarray[Any, np.dtype[Any]]


class Spill:
    """A file for values of one dtype, which goes when it is closed or forgotten."""

    def __init__(self, folder: str | os.PathLike[str] | None, size: int, dtype: Any) -> None:
        """Take the room on the disk.

        Args:
            folder: Where; the system's folder for temporary files if there is none.
            size: Elements.
            dtype: Of the elements.

        Raises:
            ArgumentError: There is no such folder.
            SpillError: The disk has no such room.
        """
        if folder is not None and not Path(folder).is_dir():
            raise ArgumentError(f"spill_dir is {str(folder)!r}, which is no folder")
        self._dtype, self._lock = np.dtype(dtype), threading.Lock()
        self.nbytes = size * self._dtype.itemsize
        where = folder or tempfile.gettempdir()
        self._where = f"{self.nbytes} bytes of a factor in {where}"
        try:
            self._file = tempfile.TemporaryFile(dir=folder, prefix="portable_gpu-")  # noqa: SIM115
            if self.nbytes and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file.fileno(), 0, self.nbytes)
        except OSError as error:
            self.close()
            raise SpillError(error.errno, f"{self._where}: {error.strerror}") from error

    def write(self, start: int, values: _Values) -> None:
        """Write values at element ``start``.

        Raises:
            SpillError: The disk refused them.
        """
        try:
            with self._lock:
                self._file.seek(start * self._dtype.itemsize)
                self._file.write(values.data.cast("B"))
        except OSError as error:
            raise SpillError(error.errno, f"{self._where}: {error.strerror}") from error

    def read(self, start: int, out: _Values) -> None:
        """Fill an array with the values from element ``start`` on.

        Raises:
            SpillError: The disk did not give them.
        """
        try:
            with self._lock:
                self._file.seek(start * self._dtype.itemsize)
                found = self._file.readinto(out.data.cast("B"))
        except OSError as error:
            raise SpillError(error.errno, f"{self._where}: {error.strerror}") from error
        if found != out.nbytes:
            raise SpillError(0, f"{self._where}: {out.nbytes - found} bytes are missing")

    def close(self) -> None:
        """Let go of the room on the disk."""
        with contextlib.suppress(AttributeError, OSError):
            self._file.close()
