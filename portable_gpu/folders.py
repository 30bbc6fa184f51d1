"""Folders and files of the user's: where they lie, and whether nobody else writes there.

What is read from them runs as the user: programs as they are, rows of the tuning table as sizes of
kernels.  So a file counts only if it belongs to the user or to root, and only they may write it.
"""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_cache_path, user_config_path

_NAME = "portable_gpu"
_SHARED_MEMORY = Path("/dev/shm")  # writable in many containers that are otherwise read-only
_ROOM = 1 << 20  # a folder that has no room for this much is as good as read-only
_NONBLOCK = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_warned: set[str] = set()


class UntrustedError(OSError):
    """A file or folder that is not read, for the reason that the message gives."""


def cache_folder() -> Path | None:
    """The user's cache folder for this library; ``None`` for a user who has no home."""
    return _absolute(user_cache_path)


def config_folder() -> Path | None:
    """The user's configuration folder for this library; ``None`` for a user who has no home."""
    return _absolute(user_config_path)


def _absolute(find: Callable[[str], Path]) -> Path | None:
    try:
        folder = find(_NAME)
    except (RuntimeError, KeyError):  # neither HOME nor an entry in the password database
        return None
    return folder if folder.is_absolute() else None


def warn_once(topic: str, message: str) -> None:
    """Warn, once in this process for each ``topic``."""
    if topic not in _warned:
        _warned.add(topic)
        warnings.warn(message, stacklevel=3)


def read_own(path: Path, most: int) -> bytes:
    """What a regular file of at most ``most`` bytes holds.

    Links are followed: what counts is the file at their end.  No other kind of file is waited for.

    Raises:
        FileNotFoundError: It is not there.
        UntrustedError: It is of another kind, too large, or somebody else may write it.
        OSError: It cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | _NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UntrustedError(f"{path} is no regular file")
        if status.st_size > most:
            raise UntrustedError(f"{path} has {status.st_size} bytes, more than {most}")
        check_owner(path, status)
        return file.read(most)


def check_owner(path: Path, status: os.stat_result) -> None:
    """Raise UntrustedError if a third person owns, or may write, what ``status`` is of."""
    if not hasattr(os, "geteuid"):  # Windows: folders of a user's are closed to others
        return
    if status.st_uid not in (0, os.geteuid()):
        raise UntrustedError(f"{path} belongs to another user (number {status.st_uid})")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UntrustedError(f"{path} may be written by other users; chmod go-w would do")


def open_folder(folder: Path) -> None:
    """Make ``folder`` the user's alone if it is not there, and check it if it is.

    Where the user's group may write the library's own cache folder, as an older version made it
    under umask 002, that ends.

    Raises:
        UntrustedError: It is no folder, or somebody else may write it.
        OSError: It cannot be made or looked at.
    """
    make_private(folder)
    status = folder.stat()
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) == stat.S_IWGRP and _is_ours(folder, status):
        folder.chmod(0o700)
        status = folder.stat()
    check_owner(folder, status)


def _is_ours(folder: Path, status: os.stat_result) -> bool:
    own = cache_folder()
    mine = hasattr(os, "geteuid") and status.st_uid == os.geteuid()
    return mine and own is not None and folder.is_relative_to(own)


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for the user's eyes alone."""
    if not folder.is_dir():
        if folder != folder.parent:
            make_private(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


def has_room(folder: Path) -> bool:
    """Whether files can be written in a folder; it is made if need be."""
    try:
        make_private(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_ROOM))
    except OSError:
        return False
    return True


def temporary_folder() -> Path | None:
    """A new private folder with room for files, or ``None`` where there is no such place."""
    for parent in (None, _SHARED_MEMORY):
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"{_NAME}-", dir=parent))
        except OSError:
            continue
        if has_room(folder):
            return folder
        folder.rmdir()
    return None
