"""The user's folders and files: their paths, and checks that other users may not write them.

Their content acts with the user's rights: programs are executed, and rows of the tuning table set
the sizes of kernels.  So a file is read only if it belongs to the user or to root, and if only they
may write it.
"""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_cache_path, user_config_path

from portable_gpu.errors import reraise_of_signal

_NAME = "portable_gpu"
_SHARED_MEMORY = Path("/dev/shm")  # writable in many containers that are otherwise read-only
_MIN_FREE_BYTES = 1 << 20  # a folder in which no file of this size fits is treated as read-only
_NONBLOCK = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_warned: set[str] = set()


class UntrustedError(OSError):
    """A file or folder is not read; the message says why."""


def cache_folder() -> Path | None:
    """The user's cache folder for this library; ``None`` for a user without a home."""
    return _absolute(user_cache_path)


def config_folder() -> Path | None:
    """The user's configuration folder for this library; ``None`` for a user without a home."""
    return _absolute(user_config_path)


def _absolute(find: Callable[[str], Path]) -> Path | None:
    try:
        folder = find(_NAME)
    except (RuntimeError, KeyError):  # neither HOME nor an entry in the password database
        return None
    return folder if folder.is_absolute() else None


def warn_once(topic: str, message: str) -> None:
    """Warn once in this process for each ``topic``."""
    if topic not in _warned:
        _warned.add(topic)
        warnings.warn(message, stacklevel=3)


def read_own(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most ``max_bytes`` bytes.

    Links are followed, and the file that they refer to is checked.  The call does not block on
    pipes and other special files.

    Raises:
        FileNotFoundError: There is no such file.
        UntrustedError: It is not a regular file, too large, or other users may write it.
        OSError: It cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | _NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UntrustedError(f"{path} is not a regular file")
        if status.st_size > max_bytes:
            raise UntrustedError(f"{path} has {status.st_size} bytes, more than {max_bytes}")
        check_owner(path, status)
        return file.read(max_bytes)


def check_owner(path: Path, status: os.stat_result) -> None:
    """Raise UntrustedError if other users own or may write the file of ``status``."""
    if not hasattr(os, "geteuid"):  # Windows: other users have no access to a user's folders
        return
    if status.st_uid not in (0, os.geteuid()):
        raise UntrustedError(f"{path} belongs to another user (number {status.st_uid})")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UntrustedError(
            f"{path} may be written by other users; remove these rights (chmod go-w)"
        )


def open_folder(folder: Path) -> None:
    """Create ``folder`` for the user alone if it is missing, and check it if it exists.

    If the user's group may write the library's own cache folder, which older versions created under
    umask 002, that permission is removed.

    Raises:
        UntrustedError: It is not a folder, or other users may write it.
        OSError: It cannot be created or read.
    """
    make_private(folder)
    status = folder.stat()
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) == stat.S_IWGRP and _is_ours(folder, status):
        folder.chmod(0o700)
        status = folder.stat()
    check_owner(folder, status)


def _is_ours(folder: Path, status: os.stat_result) -> bool:
    our_folder = cache_folder()
    belongs_to_user = hasattr(os, "geteuid") and status.st_uid == os.geteuid()
    return belongs_to_user and our_folder is not None and folder.is_relative_to(our_folder)


def make_private(folder: Path) -> None:
    """Create a folder, and missing folders above it, for the user alone."""
    if not folder.is_dir():
        if folder != folder.parent:
            make_private(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


def has_room(folder: Path) -> bool:
    """Whether files can be written in a folder; it is created if necessary."""
    try:
        make_private(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_MIN_FREE_BYTES))
    except OSError as error:
        reraise_of_signal(error)
        return False
    return True


def temporary_folder() -> Path | None:
    """Create a private folder in which files can be written; ``None`` if none can be created."""
    for parent in (None, _SHARED_MEMORY):
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"{_NAME}-", dir=parent))
        except OSError as error:
            reraise_of_signal(error)
            continue
        if has_room(folder):
            return folder
        folder.rmdir()
    return None
