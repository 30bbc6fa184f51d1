"""Program binaries that both of PoCL's CPU drivers load.

PoCL compiles the same text to the same machine code for the driver with worker threads and for the
driver without.  It refuses a binary of the other driver, because the header of a binary has a hash
of the driver's name and the processor's.  So binaries are kept without that hash, and it is added
again for the driver that loads one.

A binary is shared only if its header is of the known form: eight bytes of magic, then the hash
that is expected for the driver which made it (FNV-1, 64 bits, little-endian).  The hash is of the
processor's name in the device's version, also where :mod:`~portable_gpu.runtime.pocl_processor`
lets PoCL compile for a processor of another name, by which binaries are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyopencl as cl

from portable_gpu.runtime.pocl import drivers
from portable_gpu.runtime.pocl_processor import version

_MAGIC = b"poclbin\0"
_END = len(_MAGIC) + 8
_NO_HASH = bytes(8)
_HASHED = re.compile(r"PoCL HSTR: (\S+)$")


@dataclass(frozen=True)
class Driver:
    """One of PoCL's CPU drivers, on one processor.

    Attributes:
        device: The device's name and version without the driver's name.
        hash: The hash of the driver and the processor, as in the header of a binary.
    """

    device: tuple[str, str]
    hash: bytes

    @classmethod
    def of(cls, device: cl.Device) -> Driver | None:
        """The driver of a device; ``None`` if it is not one of the two."""
        hashed, compiled = (_HASHED.search(text) for text in (device.version, version(device)))
        if hashed is None or compiled is None:
            return None
        for driver in sorted(drivers(device.platform) or (), key=len, reverse=True):
            if device.name.startswith(f"{driver}-") and compiled[1].startswith(driver):
                named = device.name.removeprefix(driver), compiled[1].removeprefix(driver)
                return cls(named, _fnv(hashed[1].encode()))
        return None

    def without_hash(self, binary: bytes) -> bytes | None:
        """A binary that this driver made, to be kept; ``None`` if its header has another form."""
        if not binary.startswith(_MAGIC + self.hash):
            return None
        return _MAGIC + _NO_HASH + binary[_END:]

    def with_hash(self, kept: bytes) -> bytes | None:
        """A kept binary, for this driver to load; ``None`` if its header has another form."""
        if not kept.startswith(_MAGIC + _NO_HASH):
            return None
        return _MAGIC + self.hash + kept[_END:]


def _fnv(text: bytes) -> bytes:
    value = 0xCBF29CE484222325
    for byte in text:
        value = (value * 0x100000001B3) % (1 << 64) ^ byte
    return value.to_bytes(8, "little")
