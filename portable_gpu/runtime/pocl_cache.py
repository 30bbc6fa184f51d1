"""A cache folder for PoCL, which aborts without one."""

from __future__ import annotations

import atexit
import os
import shutil
from functools import cache
from pathlib import Path

from portable_gpu import folders

_VARIABLE = "POCL_CACHE_DIR"


@cache
def cache_variable() -> dict[str, str] | None:
    """The variable to set before PoCL lists its devices, so that it has a folder that it can write.

    Empty if PoCL's own folder can be used.  Otherwise it names a private folder, which is removed
    when the process ends; this library keeps programs itself.  ``None`` if no place is writable.
    """
    default = _own_folder()
    if default is not None and folders.has_room(default) and _is_safe(default):
        return {}
    instead = folders.temporary_folder()
    if instead is None:
        return None
    atexit.register(_remove, instead, os.getpid())
    return {_VARIABLE: str(instead)}


def folder() -> Path | None:
    """PoCL's cache folder; ``None`` if there is none."""
    variable = cache_variable()
    if variable is None:
        return None
    return Path(variable[_VARIABLE]) if variable else _own_folder()


def warn_of_no_folder() -> None:
    """Warn that PoCL has no folder."""
    folders.warn_once(
        "pocl",
        "PoCL is not used: it needs a folder of its own with some room, and neither its cache "
        f"folder ({_own_folder()}) nor one for temporary files can be written.  {_VARIABLE}=FOLDER "
        "or TMPDIR=FOLDER names one that can",
    )


def _own_folder() -> Path | None:
    """PoCL's own choice; ``None`` if that is /tmp/pocl, which any user may have created."""
    environ = os.environ
    if environ.get(_VARIABLE):
        return Path(environ[_VARIABLE])
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"], "pocl", "kcache")
    if environ.get("HOME"):
        return Path(environ["HOME"], ".cache", "pocl", "kcache")
    return None


def _is_safe(folder: Path) -> bool:
    """Whether it belongs to the user or to root: its files are executed."""
    status = folder.stat()
    return not hasattr(os, "geteuid") or status.st_uid in (0, os.geteuid())


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)
