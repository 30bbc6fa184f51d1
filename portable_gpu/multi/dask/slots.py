"""Numbers that processes of one host get, each another one, by locks on files.

The operating system releases the lock when its process ends, also by SIGKILL, so the process that
replaces it gets the same number.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import IO

from portable_gpu import folders
from portable_gpu.errors import UnsupportedError


class Slot:
    """One number of a group, held until :meth:`release` or the end of the process.

    Attributes:
        number: The number, from 0.
    """

    def __init__(self, number: int, file: IO[bytes]) -> None:
        self.number = number
        self._file = file

    def release(self) -> None:
        """Let another process take the number."""
        self._file.close()


def take_slot(group: str, count: int) -> Slot | None:
    """Take the lowest free number of a group, or return ``None`` if all are taken.

    Args:
        group: The name of the group; groups of different users are different.
        count: The numbers are 0 to ``count - 1``.

    Raises:
        UnsupportedError: The system has no file locks, or no folder for the files.
    """
    folder = _folder()
    name = re.sub(r"[^\w.-]+", "_", group)
    for number in range(count):
        file = (folder / f"{name}.{number}").open("ab")
        if _lock(file):
            return Slot(number, file)
        file.close()
    return None


def _folder() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    folder = Path(tempfile.gettempdir()) / f"portable_gpu-slots-{user}"
    try:
        folders.open_folder(folder)
    except OSError as error:
        raise UnsupportedError(
            f"workers choose the devices of a host by files in {folder}, which cannot be used: "
            f"{error}"
        ) from error
    return folder


def _lock(file: IO[bytes]) -> bool:
    """Lock a file, and return whether it was free."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
