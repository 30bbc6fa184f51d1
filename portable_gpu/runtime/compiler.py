"""The driver's compiler, without pyopencl's own cache, and without warnings.

pyopencl warns of every log that is not empty, and some drivers always write one.  The filters of
:mod:`warnings` belong to the whole process, so they cannot be changed during a build.

The library's own texts cause no warning, which tests check.  A user's expression may, and PoCL then
prints "1 warning generated." on the terminal.  So texts are built with ``-w``.  With ``-Werror`` in
PYOPENCL_BUILD_OPTIONS a :class:`~portable_gpu.errors.BuildError` shows the first warnings instead.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pyopencl as cl

from portable_gpu import folders
from portable_gpu.runtime import inside_pyopencl


class CompilerError(Exception):
    """The driver refused to build; the message is the driver's, with its log."""


def compiled(
    context: cl.Context, device: cl.Device, content: str | bytes, options: Sequence[str] = ()
) -> cl.Program:
    """The program of OpenCL text, or of a binary.

    Raises:
        CompilerError: The driver refused it.
    """
    _spare_pyopencl_its_cache()
    more = os.environ.get("PYOPENCL_BUILD_OPTIONS", "").split()
    if isinstance(content, str) and "-Werror" not in more:
        more.append("-w")
    try:
        program = inside_pyopencl.unbuilt(context, device, content)
    except cl.Error as error:
        raise CompilerError(str(error)) from error
    try:
        return inside_pyopencl.build(program, " ".join([*options, *more]))
    except cl.Error as error:
        log = program.get_build_info(device, cl.program_build_info.LOG)
        raise CompilerError(f"{error}\n{log}") from error


@cache
def _spare_pyopencl_its_cache() -> None:
    """Turn pyopencl's cache of invokers off if it cannot be written: pyopencl would raise."""
    home = os.environ.get("XDG_CACHE_HOME")
    our_cache = folders.cache_folder()
    cache_home = Path(home) if home else our_cache and our_cache.parent
    if cache_home is None or not folders.has_room(cache_home / "pytools"):
        inside_pyopencl.spare_its_cache()
