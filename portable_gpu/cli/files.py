"""Files that commands write: each appears whole, by rename, or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from portable_gpu.errors import ArgumentError, PortableGPUError


def check_writable(path: Path) -> None:
    """Refuse a path where no file can be made.

    Raises:
        ArgumentError: It is a folder, there is no folder for it, or that one cannot be written.
    """
    if path.is_dir():
        raise ArgumentError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ArgumentError(f"there is no folder {path.parent}; make it, or name another one")
    try:
        if _is_special(path):
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        else:
            tempfile.TemporaryFile(dir=path.resolve().parent).close()
    except OSError as error:
        raise ArgumentError(f"{path} cannot be written: {error.strerror}") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to; what was written there takes the place of ``path`` at the end.

    After an exception, Ctrl-C included, ``path`` is as it was.

    Raises:
        PortableGPUError: The disk is full, or the like.
    """
    path = path.resolve()
    file = path if _is_special(path) else path.with_name(f".{os.getpid()}-{path.name}")
    try:
        yield file
        if file != path:
            file.replace(path)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise PortableGPUError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        if file != path:
            with suppress(OSError):
                file.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write values as JSON."""
    text = json.dumps(content, indent=1) + "\n"
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")


def _is_special(path: Path) -> bool:
    """Whether it is a pipe or a device, which no file may take the place of."""
    return path.exists() and not path.is_file()
