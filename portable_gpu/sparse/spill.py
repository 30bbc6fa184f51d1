"""Parts of a factor in an unnamed file, which disappears however the process ends."""

from __future__ import annotations

import io
import os
import secrets
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from portable_gpu.errors import ArgumentError, SpillError, reraise_of_signal

_Values = np.ndarray[Any, np.dtype[Any]]


class Spill:
    """An unnamed file for values of one dtype, which is deleted when it is closed or collected.

    Reads and writes give their offset; the file position is not used.  So a call may be interrupted
    anywhere, and a signal handler may read meanwhile.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, size: int, dtype: Any) -> None:
        """Allocate the space on the disk.

        Args:
            folder: The folder of the file; None for the system's folder for temporary files.
            size: The number of elements.
            dtype: The dtype of the elements.

        Raises:
            ArgumentError: There is no such folder.
            SpillError: The disk has too little free space.
        """
        if folder is not None and not Path(folder).is_dir():
            raise ArgumentError(f"spill_dir is {str(folder)!r}, which is not a folder")
        self._itemsize = np.dtype(dtype).itemsize
        self.nbytes = size * self._itemsize
        where = folder or tempfile.gettempdir()
        self._described = f"{self.nbytes} bytes of a factor in {where}"
        try:
            self._file = _without_name(os.fspath(where))
            if self.nbytes and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file.fileno(), 0, self.nbytes)
        except OSError as error:
            reraise_of_signal(error)
            raise SpillError(error.errno, f"{self._described}: {error.strerror}") from error

    def write(self, start: int, values: _Values) -> None:
        """Write values from element ``start`` on.

        Raises:
            SpillError: The write failed.
        """
        self._transfer(os.pwrite, start, values)

    def read(self, start: int, out: _Values) -> None:
        """Fill an array with the values from element ``start`` on.

        Raises:
            SpillError: The read failed.
        """
        self._transfer(lambda file, part, at: os.preadv(file, [part], at), start, out)

    def _transfer(self, move: Callable[[int, Any, int], int], start: int, values: _Values) -> None:
        """Transfer all bytes, by several calls of ``move`` where they are more than 2 GiB.

        Args:
            move: A system call: of a file descriptor, bytes, and their offset in the file.  It
                returns the number of bytes that it has transferred.
            start: The number of the first element in the file.
            values: The elements.
        """
        data, at = values.view(np.uint8), start * self._itemsize
        while data.size:
            try:
                done = move(self._file.fileno(), data, at)
            except OSError as error:
                reraise_of_signal(error)
                raise SpillError(error.errno, f"{self._described}: {error.strerror}") from error
            if not done:
                raise SpillError(0, f"{self._described}: {data.size} bytes are missing")
            data, at = data[done:], at + done

    def close(self) -> None:
        """Free the space on the disk."""
        self._file.close()


def _without_name(folder: str) -> io.FileIO:
    """Create an unnamed file in a folder, open for reading and writing.

    Between the system call and the construction of the object that closes the descriptor, Python
    executes no bytecode, where a signal handler could raise and leave the descriptor open.
    """
    nameless = getattr(os, "O_TMPFILE", 0)
    if nameless:
        flags = nameless | os.O_RDWR | os.O_CLOEXEC
        try:
            return next(map(io.FileIO, map(os.open, [folder], [flags], [0o600]), ["r+b"]))
        except OSError as error:  # the file system does not support O_TMPFILE
            reraise_of_signal(error)
    path = os.path.join(folder, f"portable_gpu-{secrets.token_hex(16)}")  # noqa: PTH118
    try:
        file = io.FileIO(path, "x+b", opener=partial(os.open, mode=0o600))
    except OSError:
        raise
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise
    os.unlink(path)
    return file
