"""Damaged entries of PoCL's own cache.

PoCL keeps each program in a folder: LLVM bitcode, and a shared library for each kernel and size of
group.  A loss of power or a full disk leaves files that are cut, empty or zero.  PoCL does not
check them: it finds no kernel in the program, or aborts the process when a kernel is launched or
when the process ends.  So entries are checked before PoCL reads them, and a damaged one is removed;
PoCL then builds it again.

The header of a binary names its entry.  The entry of a text is not known before it is built, and
PoCL reads its files then.  So a process checks entries before it builds its first text.  After each
start of the machine all are checked once, at 80 us an entry.  Later checks read the entries that
changed after the last check or in the hour before it; the others take 15 us.  The hour is needed
because a file may still be written, and because a loss of power takes what is not on the disk yet.
A mark in PoCL's folder has the time of the last check, and of the machine's start.  Two kinds of
damage are not found: a library that is overwritten in place more than an hour after PoCL made it,
while the machine runs, which PoCL itself never does; and changed bytes in a file that keeps its
structure.  If a program then lacks a kernel, its entry is removed, and the program is built again.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Literal

from portable_gpu.errors import reraise_of_signal
from portable_gpu.runtime.pocl_cache import folder

_NAMED = re.compile(rb"\b([A-P]{2}/[A-P]{37})\0")
_HEADER = 256  # bytes of a binary, the first of which name the entry
_BITCODE = b"BC\xc0\xde"
_ELF = b"\x7fELF\2\1"  # 64 bits, little-endian
_ENTER_BLOCK = 1  # LLVM's abbreviation
_STRING_TABLE = 3  # the type of a section
_NAMES = b".shstrtab\0"  # of the section of names
_MARK = "portable_gpu.checked"
_SETTLED = 3600.0  # seconds after which a file is written, and is on the disk
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_ACCESSED = "last_accessed"  # PoCL's own mark in an entry
_lock = threading.RLock()
_state: Literal["", "checking", "checked"] = ""


def discard_if_damaged(binary: bytes) -> None:
    """Remove the entry of a binary if a file of it is damaged."""
    entry = entry_of(binary)
    if entry is not None:
        _discard_if_damaged(str(entry))


def discard(binary: bytes) -> None:
    """Remove the entry of a binary."""
    entry = entry_of(binary)
    if entry is not None:
        shutil.rmtree(entry, ignore_errors=True)


def entry_of(binary: bytes) -> Path | None:
    """The folder of the entry that a binary names, which need not exist."""
    root, named = folder(), _NAMED.search(binary, 0, _HEADER)
    return None if root is None or named is None else root / named[1].decode()


def discard_damaged() -> None:
    """Remove every entry with a damaged file, once in a process; see the module.

    One thread checks, while others that want to build wait.  A signal handler on that thread does
    not.
    """
    global _state
    if _state == "checked":
        return
    with _lock:
        if _state:  # another thread has checked, or this one is in the middle of it
            return
        try:
            _state = "checking"
            _discard_all_damaged()
            _state = "checked"
        finally:
            if _state == "checking":  # a signal ended it: the next build checks again
                _state = ""


def _discard_all_damaged() -> None:
    root = folder()
    if root is None:
        return
    boot, mark, new = _boot(), root / _MARK, root / f"{_MARK}.{os.getpid()}"
    since = _last_check(mark, boot) - _SETTLED
    try:
        with suppress(OSError):
            new.write_text(boot)  # at the start: files may change during the check
        for entry in root.glob("[A-P][A-P]/*"):
            if _has_changed(str(entry), since):
                _discard_if_damaged(str(entry))
        with suppress(OSError):
            new.replace(mark)
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def _boot() -> str:
    """The name of the machine's last start; empty where the system has none."""
    try:
        return _BOOT_ID.read_text()
    except OSError as error:
        reraise_of_signal(error)
        return ""


def _last_check(mark: Path, boot: str) -> float:
    """When all entries were intact, by the clock of the file system; 0 if that is not known."""
    try:
        is_of_this_boot = boot != "" and mark.read_text() == boot
        checked = mark.stat().st_mtime
    except (OSError, ValueError) as error:
        reraise_of_signal(error)
        return 0.0
    return checked if is_of_this_boot and checked <= time.time() else 0.0


def _has_changed(entry: str, since: float) -> bool:
    """Whether bitcode or a kernel's folder of an entry has been written after a time.

    A new library is in a new folder within the kernel's.
    """
    try:
        with os.scandir(entry) as found:
            return any(
                item.stat(follow_symlinks=False).st_ctime >= since
                for item in found
                if item.name != _ACCESSED
            )
    except OSError as error:  # another process is removing it, or it is no folder
        reraise_of_signal(error)
        return True


def hint() -> str:
    """Advice for a build that fails without a line in the compiler's log."""
    return f"if files of PoCL's cache are damaged, delete its folder: {folder()}"


def _discard_if_damaged(entry: str) -> None:
    if not all(_is_intact(path) for path in _files(entry)):
        shutil.rmtree(entry, ignore_errors=True)


def _files(folder: str) -> Iterator[str]:
    """Yield the paths of bitcode and libraries in a folder and in those within it."""
    try:
        with os.scandir(folder) as found:
            entries = list(found)
    except OSError as error:
        reraise_of_signal(error)
        return
    for entry in entries:
        if entry.name.endswith((".bc", ".so")):
            yield entry.path
        if entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path)


def _is_intact(path: str) -> bool:
    """Whether a file is whole, or is not there."""
    try:
        with FileIO(path) as file:
            return (_is_bitcode if path.endswith(".bc") else _is_library)(file)
    except FileNotFoundError:
        return True
    except OSError as error:
        reraise_of_signal(error)
        return False


def _is_bitcode(file: FileIO) -> bool:
    """Whether blocks of LLVM's bitcode, each of which states its length, fill the file."""
    size = os.fstat(file.fileno()).st_size
    if file.read(4) != _BITCODE:
        return False
    at = 4
    while at < size:
        file.seek(at)
        head = file.read(8)
        if len(head) < 8 or head[0] & 3 != _ENTER_BLOCK:
            return False
        at += 8 + 4 * int.from_bytes(head[4:], "little")
    return at == size


def _is_library(file: FileIO) -> bool:
    """Whether an ELF file has its section headers and their names, one of which ends the file.

    GNU's linker and LLD write the headers at the end, the Tiny C Compiler the names.
    """
    size = os.fstat(file.fileno()).st_size
    head = file.read(64)
    if len(head) < 64 or not head.startswith(_ELF):
        return False
    (table,) = struct.unpack_from("<Q", head, 40)
    width, count, names = struct.unpack_from("<3H", head, 58)
    file.seek(table + width * names)
    header = file.read(64)
    if len(header) < 64 or table + width * count > size:
        return False
    name, kind = struct.unpack_from("<2I", header)
    place, length = struct.unpack_from("<2Q", header, 24)
    if kind != _STRING_TABLE or place + length > size:
        return False
    file.seek(place + name)
    return file.read(len(_NAMES)) == _NAMES
