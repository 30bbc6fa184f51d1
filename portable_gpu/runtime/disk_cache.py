"""Program binaries on disk, one file a program, each checked before it is used."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import time
from pathlib import Path

from portable_gpu import folders
from portable_gpu.errors import reraise_of_signal

CACHE_VARIABLE = "PORTABLE_GPU_CACHE"
#: The largest program that is kept; programs have about 0.1 MB today.
LARGEST = 64 << 20
#: The most bytes of a folder; the least recently read programs are removed first.
CAPACITY = 1 << 30

_MAGIC = b"portable_gpu program 2\n"
_NEW = ".new-"
_PROGRAM = re.compile("[0-9a-f]{64}")  # other files may be in the folder too
_ABANDONED = 3600.0  # seconds after which a temporary file is taken to be of a dead process


class DiskCache:
    """Program binaries in one folder.

    A file is a magic line, a line with the SHA-256 of key and payload, and the payload.  A file
    that fails the check is treated as absent.  Files are written by rename, so several processes
    may share the folder, and may be killed at any moment.  A folder or file that other users own or
    may write is not used, because programs run as the user.  If nothing can be kept, there is one
    warning.
    """

    def __init__(self, folder: Path | None) -> None:
        """``folder=None`` keeps nothing."""
        self.folder = folder
        self._unswept: int | None = None  # bytes written since the last sweep of the folder

    @classmethod
    def default(cls) -> DiskCache:
        """``$PORTABLE_GPU_CACHE`` (``off`` for none), or the user's cache folder."""
        variable = os.environ.get(CACHE_VARIABLE)
        if variable == "off":
            return cls(None)
        if variable:
            return cls(Path(variable))
        user_folder = folders.cache_folder()
        if user_folder is None:
            _warn("", "this user has no home folder")
            return cls(None)
        return cls(user_folder / "programs")

    def read(self, key: str) -> bytes | None:
        """The payload stored under ``key``, if it is there and intact."""
        if self.folder is None:
            return None
        path = self.folder / key
        try:
            if not self.folder.is_dir():
                return None
            folders.open_folder(self.folder)
        except folders.UntrustedError as error:
            _warn(str(self.folder), str(error))
            return None
        except OSError as error:
            reraise_of_signal(error)
            return None
        try:
            content = folders.read_own(path, LARGEST)
        except OSError as error:  # absent, or not trusted: the next write replaces it
            reraise_of_signal(error)
            return None
        magic, digest, payload = _parts(content)
        if magic != _MAGIC or digest != _digest(key, payload):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return payload

    def write(self, key: str, payload: bytes) -> None:
        """Store ``payload``; a folder that cannot be written causes one warning."""
        if self.folder is None or len(payload) > LARGEST - 1024:
            return
        try:
            folders.open_folder(self.folder)
            handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=_NEW)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + _digest(key, payload) + b"\n" + payload)
                os.replace(temporary, self.folder / key)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):  # it has been renamed already
                    os.unlink(temporary)
                raise
        except OSError as error:
            reraise_of_signal(error)
            _warn(str(self.folder), str(error))
            return
        self._unswept = None if self._unswept is None else self._unswept + len(payload)
        if self._unswept is None or self._unswept > CAPACITY // 8:
            self._unswept = 0
            _sweep(self.folder)


def _parts(content: bytes) -> tuple[bytes, bytes, bytes]:
    digest, _, payload = content[len(_MAGIC) :].partition(b"\n")
    return content[: len(_MAGIC)], digest, payload


def _digest(key: str, payload: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + payload).hexdigest().encode()


def _sweep(folder: Path) -> None:
    """Remove files of killed processes, and the least recently read programs over the capacity."""
    programs: list[tuple[float, int, str]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if _PROGRAM.fullmatch(entry.name):
                    programs.append((status.st_mtime, status.st_size, entry.path))
                elif entry.name.startswith(_NEW) and status.st_mtime < time.time() - _ABANDONED:
                    os.unlink(entry.path)
    total = sum(size for _, size, _ in programs)
    if total <= CAPACITY:
        return
    for _, size, path in sorted(programs):
        with contextlib.suppress(OSError):
            os.unlink(path)
            total -= size
        if total <= CAPACITY * 3 // 4:
            return


def _warn(topic: str, why: str) -> None:
    folders.warn_once(
        f"programs {topic}",
        f"{why}; compiled programs are not kept there, so each process compiles anew. "
        f"{CACHE_VARIABLE}=FOLDER names another folder, {CACHE_VARIABLE}=off asks for none",
    )
