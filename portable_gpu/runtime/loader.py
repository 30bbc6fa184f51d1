"""Adds the OpenCL implementations that pip has installed in this environment to the loader's list.

A wheel can contain an implementation and an ``.icd`` file that names its library.  But it cannot
write to ``/etc/OpenCL/vendors``, and it does not know where it will be installed, so the path in
the file is a placeholder.  The loader reads its list of libraries once in a process.  So if this
library is the first to ask for the platforms, it adds those libraries to the list.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pyopencl as cl

_VARIABLE = "OCL_ICD_VENDORS"
_SYSTEM = Path("/etc/OpenCL/vendors")
_lock = threading.RLock()
_is_listed = False


def platforms() -> list[cl.Platform]:
    """Every platform, in the order of the loader.

    The system's implementations stay.  OCL_ICD_VENDORS stays too, if the user has set it.
    """
    global _is_listed
    with _lock, contextlib.ExitStack() as stack:
        if not _is_listed:
            with contextlib.suppress(OSError):  # small files cannot be written: keep the list
                stack.enter_context(_list_of_libraries())
        try:
            listed = cl.get_platforms()
        except cl.LogicError:  # PLATFORM_NOT_FOUND_KHR: the loader found no implementation
            listed = []
        _is_listed = True  # only now, because a signal handler may raise an exception before
        return listed


@contextlib.contextmanager
def _list_of_libraries() -> Iterator[None]:
    """Let the loader read a temporary folder with the system's list and the environment's."""
    system = _libraries(_SYSTEM)
    names = {Path(library).name for library in system}
    from_pip = [library for library in _of_environment() if library.name not in names]
    if not from_pip or _VARIABLE in os.environ or not _is_from_pip():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="portable_gpu-") as folder:
        for index, library in enumerate((*system, *from_pip)):
            Path(folder, f"{index:03}.icd").write_text(f"{library}\n")
        os.environ[_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[_VARIABLE]


def _libraries(folder: Path) -> list[str]:
    """The libraries that the ``.icd`` files of a folder name."""
    contents = []
    for file in sorted(folder.glob("*.icd")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            contents.append(file.read_text().strip())
    return [library for library in contents if library]


def _of_environment() -> list[Path]:
    """The paths of the libraries that the ``.icd`` files of this environment name."""
    prefix = Path(sys.prefix)
    named = (Path(library).name for library in _libraries(prefix / "etc" / "OpenCL" / "vendors"))
    return [prefix / "lib" / name for name in named if (prefix / "lib" / name).is_file()]


def _is_from_pip() -> bool:
    """Whether the loader is that of pyopencl's wheel, which reads that folder and variable."""
    package = Path(cl.__file__).parent
    return any(
        any(folder.glob("libOpenCL*"))
        for folder in (package / ".libs", package.with_name("pyopencl.libs"))
    )
