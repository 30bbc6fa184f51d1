"""PoCL's machine code of a kernel, compiled once.

When a program's binary is read, PoCL compiles each kernel to a shared library.  Its function runs
any grid, in loops over a group whose size it does not know.  At the first launch PoCL compiles the
kernel once more: for the size of the group, for the offset 0 and for small grids.  For a kernel
that is a wrapper (:mod:`~portable_gpu.runtime.pocl_bodies`) this changes only the few instructions
round the call, and takes as long as the first time.

PoCL looks for the second library in the program's entry of its cache, at
``KERNEL/SIZES-goffs0-smallgrid/KERNEL.so`` or, for large grids, ``KERNEL/SIZES-goffs0/KERNEL.so``.
So for wrappers these names become links to the first one, ``KERNEL/0-0-0/KERNEL.so``.
POCL_WORK_GROUP_SPECIALIZATION=0 would have the same effect, but PoCL reads it at each launch, on
its worker threads too, and kernels of other libraries would lose their specialisation.

The names of these files, and of the functions in them, are the same from PoCL 3.0 to 7.1.  But
links are made only for the version that was tried, and only if the first library exists; otherwise
PoCL compiles at the launch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyopencl as cl

from portable_gpu.runtime import pocl_entries
from portable_gpu.runtime.pocl import NAME
from portable_gpu.runtime.pocl_bodies import wrappers

_VARIABLE = "POCL_WORK_GROUP_SPECIALIZATION"
_TRIED = re.compile(r"PoCL 3\.0\b")
_COMPILED = "0-0-0"
_NAMES = ("1-1-1-goffs0-smallgrid", "1-1-1-goffs0")


def is_tried(platform: cl.Platform) -> bool:
    """Whether it is a PoCL where this module and :mod:`~portable_gpu.runtime.pocl_bodies` work."""
    return platform.name == NAME and _TRIED.search(platform.version) is not None


def _is_wanted() -> bool:
    """Whether the user has not set PoCL's variable for specialisation."""
    return _VARIABLE not in os.environ


def share(binary: bytes, text: Callable[[], str]) -> None:
    """Make the links for a program that has been built, so that launches run its functions.

    Args:
        binary: The binary of the program.
        text: Returns its OpenCL text; it is called only where a kernel has no second library yet.
    """
    entry = pocl_entries.entry_of(binary)
    if entry is None or not _is_wanted() or _is_shared(entry):
        return
    for kernel in wrappers(text()):
        compiled = entry / kernel / _COMPILED / f"{kernel}.so"
        for name in _NAMES:
            folder = entry / kernel / name
            with suppress(OSError):  # it exists, or the file system has no hard links
                folder.mkdir(exist_ok=True)
                os.link(compiled, folder / compiled.name)


def _is_shared(entry: Path) -> bool:
    """Return whether each kernel of a program has a second library."""
    kernels = [compiled.parent for compiled in entry.glob(f"*/{_COMPILED}")]
    return bool(kernels) and all(
        any((kernel / name / f"{kernel.name}.so").exists() for name in _NAMES) for kernel in kernels
    )
