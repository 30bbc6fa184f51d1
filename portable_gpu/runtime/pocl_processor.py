"""The name of the processor, where PoCL does not know it.

PoCL asks LLVM what the processor is, and passes the name to clang.  LLVM calls a processor that is
newer than itself ``generic``, which clang refuses on x86-64: every build fails with "unknown target
CPU 'generic'" (PoCL's issue 1049).  The PoCL that pip installs has LLVM 14, of 2022, which does not
know the newest ones.

PoCL 3 reads no variable for the name, and refuses ``-mcpu``, ``-march`` and ``-target-cpu`` among
the options of a build and in POCL_EXTRA_BUILD_FLAGS.  So the name is changed where PoCL keeps it: a
string that the device's structure points to.  No new name is longer than the old.  An engine does
it when it is made, before anything is built on its device, by this library or by another.
"""

from __future__ import annotations

import ctypes
import os
import re
from functools import lru_cache
from pathlib import Path

import pyopencl as cl

from portable_gpu.errors import reraise_of_signal

_UNKNOWN = "generic"
_OF_UNKNOWN = re.compile(rf"(PoCL HSTR: (?:pthread|basic)-x86_64-\S*-){_UNKNOWN}$")
#: Names that LLVM knows, and what the processor must have for each.
_NAMES = {
    "skx": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "bmi2", "fma"},
    "haswell": {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"},
    "x86-64": set[str](),
}
_STRUCTURE = 1024  # bytes of PoCL's device
_POINTER = ctypes.sizeof(ctypes.c_void_p)


def version(device: cl.Device) -> str:
    """``device.version``, which ends in the processor's name, by :func:`name_processor`."""
    return _OF_UNKNOWN.sub(rf"\g<1>{_name()}", device.version)


def name_processor(device: cl.Device) -> None:
    """Let PoCL compile for a processor that it does not know; other devices stay as they are."""
    if _OF_UNKNOWN.search(device.version):
        rename(device.int_ptr, _name())


def rename(structure: int, name: str) -> None:
    """Change the string ``generic``, to which a pointer in the structure points, if there is one.

    The memory is read through the kernel: what looks like a pointer may be none.
    """
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        for at in range(structure, structure + _STRUCTURE, _POINTER):
            place = int.from_bytes(_read(memory, at, _POINTER), "little")
            if _read(memory, place, len(_UNKNOWN) + 1) == f"{_UNKNOWN}\0".encode():
                ctypes.memmove(place, f"{name}\0".encode(), len(name) + 1)
                return
    finally:
        os.close(memory)


def _read(memory: int, place: int, count: int) -> bytes:
    """Bytes of this process; none where it has no memory."""
    try:
        return os.pread(memory, count, place)
    except (OSError, OverflowError) as error:
        reraise_of_signal(error)
        return b""


@lru_cache
def _name() -> str:
    """The first name of the table whose instructions the processor has."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError as error:
        reraise_of_signal(error)
        lines = []
    flags = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    return next(name for name, needed in _NAMES.items() if needed <= flags)
