"""Global memory: buffers far apart, so that nothing strays from one into another unseen."""

from __future__ import annotations

from typing import Any

import numpy as np

_FAR = 40  # bits of a buffer's part of an address


class Fault(Exception):  # noqa: N818
    """Something that a GPU would answer with an error, or with garbage."""


class Memory:
    """Buffers by address."""

    def __init__(self) -> None:
        self._buffers: dict[int, Any] = {}

    def map(self, buffer: Any) -> int:
        """Make the bytes of an array known; returns their address."""
        for number, known in self._buffers.items():
            if known.ctypes.data == buffer.ctypes.data:
                self._buffers[number] = buffer
                return number << _FAR
        number = len(self._buffers) + 3
        self._buffers[number] = buffer
        return number << _FAR

    def find(self, addresses: Any, size: int) -> tuple[Any, Any]:
        """The bytes that hold ``size`` bytes at each address, and the offsets in them.

        Raises:
            Fault: Not all are inside one buffer, or one is not aligned.
        """
        number = int(addresses.flat[0]) >> _FAR
        buffer = self._buffers.get(number)
        offsets = addresses.astype(np.int64) - (number << _FAR)
        if buffer is None or offsets.min() < 0 or offsets.max() + size > buffer.size:
            raise Fault(f"an access of {size} bytes outside of its buffer")
        if np.any(offsets % size):
            raise Fault(f"an access of {size} bytes is not aligned")
        return buffer, offsets

    def view(self, addresses: Any, dtype: Any) -> tuple[Any, Any]:
        """The buffer that holds addresses, as elements, and the elements' numbers."""
        size = np.dtype(dtype).itemsize
        buffer, offsets = self.find(addresses, size)
        return whole(buffer, dtype), offsets // size

    def load(self, addresses: Any, dtype: Any) -> Any:
        """Elements at addresses."""
        array, index = self.view(addresses, dtype)
        return array[index]

    def store(self, addresses: Any, values: Any) -> None:
        """Put elements at addresses."""
        array, index = self.view(addresses, values.dtype)
        array[index] = values


def whole(buffer: Any, dtype: Any) -> Any:
    """Bytes as the elements that fit."""
    size = np.dtype(dtype).itemsize
    return buffer[: buffer.size // size * size].view(dtype)
