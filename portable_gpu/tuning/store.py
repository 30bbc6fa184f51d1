"""Write table files: rows replace those of the same key, and files are replaced atomically.

Processes that store at the same time take turns.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from portable_gpu.errors import TuningFileError
from portable_gpu.folders import make_private
from portable_gpu.tuning.table import FORMAT, RowKey, read_rows


def store(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows into a table file atomically; its other rows stay.

    A file that is not a table is renamed to ``<name>.bad``, with a warning.

    Raises:
        TuningFileError: The file cannot be read, or other users may write it; it stays unchanged.
    """
    make_private(path.parent)
    with _locked(path):
        merged = {RowKey.of(row): row for row in _present_rows(path)}
        merged.update((RowKey.of(row), row) for row in rows)
        replace_json(path, {"format": FORMAT, "rows": list(merged.values())})


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a table's folder; the system releases it if the process dies."""
    if sys.platform == "win32":  # folders cannot be locked there
        import msvcrt

        with path.with_name(f".{path.name}.lock").open("a") as file:
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            yield
    else:
        import fcntl

        folder = os.open(path.parent, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def replace_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file atomically: readers see the old content or the new one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.write("\n")
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):  # it has been renamed already
            os.unlink(temporary)
        raise


def _present_rows(path: Path) -> list[Mapping[str, Any]]:
    if not path.exists():
        return []
    try:
        return read_rows(path)
    except TuningFileError as error:
        if isinstance(error.__cause__, OSError):
            raise
        aside = path.with_name(f"{path.name}.bad")
        os.replace(path, aside)
        warnings.warn(f"tuning file {path} ignored and kept as {aside}: {error}", stacklevel=3)
        return []
