"""What is particular to PoCL: how it is opened, its drivers, and the linker that it needs.

PoCL links each kernel by running ``ld`` with ``-lgcc -lgcc_s -lc``, and aborts the process where
that fails.  So before an engine builds anything on it, :func:`provide_linker` looks for ``ld`` and
the files that these options stand for, which belong to gcc and to the C library's development
package.  Where they are missing, the linker LLD of the package ``ziglang`` takes their place
(``linker/ld``); where that is missing too, there is an error in place of the abort.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyopencl as cl

from portable_gpu.errors import UnsupportedError
from portable_gpu.runtime.pocl_cache import cache_variable, warn_of_no_folder

_VERSION = re.compile(r"PoCL (\d+)")
_LINKER = Path(__file__).parent / "linker"
_FOLDERS = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64")
_LIBRARIES = ("libgcc.a", "libgcc_s.so", "libc.so")


def drivers(platform: cl.Platform) -> tuple[str, str] | None:
    """What PoCL calls its drivers with worker threads, and without; ``None`` for others."""
    version = _VERSION.search(platform.version)
    if platform.name != "Portable Computing Language" or version is None:
        return None
    return ("pthread", "basic") if int(version[1]) < 4 else ("cpu", "cpu-minimal")


def devices_of(platform: cl.Platform, asked: bool) -> list[cl.Device]:
    """The devices of a platform, without those that exist only because we asked for them.

    There are none where PoCL has no folder that it can write.

    Args:
        platform: Of PoCL, or another.
        asked: What :func:`opening` gives.
    """
    names = drivers(platform)
    if names is None:
        return platform.get_devices()
    if cache_variable() is None:
        warn_of_no_folder()
        return []
    found = platform.get_devices()
    if not asked:
        return found
    return [device for device in found if not device.name.startswith(f"{names[1]}-")]


@contextlib.contextmanager
def opening() -> Iterator[bool]:
    """Set the variables that PoCL reads when its devices are listed for the first time.

    A loader that knows several platforms does that when it is asked for them, to have those with
    more devices first.  POCL_DEVICES names the driver that runs kernels on the calling thread,
    by a name that all versions know; POCL_AFFINITY binds each worker thread to a processor; and
    where PoCL cannot write its cache, it is given a folder that it can.  What the user has set
    stays.

    Yields:
        Whether POCL_DEVICES is ours.
    """
    wanted = {"POCL_DEVICES": "pthread basic"}
    if _may_use_all_processors():
        wanted["POCL_AFFINITY"] = "1"
    ours = {name: value for name, value in wanted.items() if name not in os.environ}
    ours |= cache_variable() or {}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield "POCL_DEVICES" in ours
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def calling_thread_device(device: cl.Device) -> cl.Device | None:
    """The device that runs the kernels of a CPU device on the thread that enqueues them.

    PoCL's worker threads take some 25 us to wake and to report; kernels on the calling thread
    start and end within 2 us.  ``None`` where there is no such device, or no need for one.
    """
    names = drivers(device.platform)
    if names is None or not device.name.startswith(f"{names[0]}-"):
        return None
    twin = names[1] + device.name.removeprefix(names[0])
    return next((other for other in device.platform.get_devices() if other.name == twin), None)


def provide_linker(device: cl.Device) -> None:
    """See to it that kernels can be linked, if ``device`` is of the PoCL that pip installs.

    Where the system's linker will not do, COMPILER_PATH names the folder of ours from now on: PoCL
    looks there before it looks in PATH, and links whenever a kernel is built or first launched, on
    threads of its own too.  Of the programs that this process starts, only gcc and clang read it;
    our linker serves them as theirs would.

    Raises:
        UnsupportedError: There is no linker; the message says what to install.
    """
    if drivers(device.platform) is None or not _is_from_pip() or _system_can_link():
        return
    package = find_spec("ziglang")
    if package is None or package.origin is None:
        raise UnsupportedError(
            "PoCL needs a linker, and this system has no ld with the libraries of gcc and libc: "
            "install one with pip install 'portable_gpu[pocl]' (or pip install ziglang), or with "
            "apt-get install gcc libc6-dev"
        )
    os.environ["PORTABLE_GPU_ZIG"] = str(Path(package.origin).with_name("zig"))
    others = os.environ.get("COMPILER_PATH", "").split(":")
    folders = [str(_LINKER), *(folder for folder in others if folder not in ("", str(_LINKER)))]
    os.environ["COMPILER_PATH"] = ":".join(folders)


def _is_from_pip() -> bool:
    """Whether PoCL may be the one of pip; a distribution's packages bring what theirs needs."""
    return sys.platform == "linux" and find_spec("pocl_binary_distribution") is not None


def _system_can_link() -> bool:
    """Whether there are ``ld`` and the libraries, where PoCL's compiler looks for them."""
    if shutil.which("ld") is None:
        return False
    gcc = _gcc_folder()
    folders = [Path(folder) for folder in _FOLDERS] + ([] if gcc is None else [gcc])
    return all(any((folder / name).exists() for folder in folders) for name in _LIBRARIES)


def _gcc_folder() -> Path | None:
    """Where the latest gcc keeps its libraries, which is the one that PoCL's compiler takes."""
    found = [file.parent for file in Path("/usr").glob("lib*/gcc/x86_64-*linux*/*/crtbegin.o")]
    return max(found, key=lambda folder: _numbers(folder.name), default=None)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _may_use_all_processors() -> bool:
    """Whether worker n may be bound to processor n, as PoCL does it (it aborts where it may not).

    Free workers that wake together often start on one processor and stay there for milliseconds.
    """
    allowed = getattr(os, "sched_getaffinity", lambda _: set[int]())(0)
    return allowed == set(range(os.cpu_count() or 0))
