"""Writing table files: rows replace those of the same key, and a file appears whole or not."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from portable_gpu.errors import TuningFileError
from portable_gpu.tuning.table import FORMAT, RowKey, read_rows


def store(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Put rows into a table file, atomically; its other rows stay.

    A file that cannot be read as a table is kept beside it, as ``<name>.bad``, with a warning.
    """
    merged = {RowKey.of(row): row for row in _kept(path)}
    merged.update((RowKey.of(row), row) for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, "rows": list(merged.values())}, file, indent=1)
            file.write("\n")
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _kept(path: Path) -> list[Mapping[str, Any]]:
    if not path.exists():
        return []
    try:
        return read_rows(path)
    except TuningFileError as error:
        aside = path.with_name(f"{path.name}.bad")
        os.replace(path, aside)
        warnings.warn(f"tuning file {path} ignored and kept as {aside}: {error}", stacklevel=3)
        return []
