"""Sizes around the edges of a tile, and guards around a result that detect stray writes.

Every check takes sizes of 1, a tile less one, a tile, a tile and one, and a prime, in each extent.
All combinations would be thousands; an orthogonal array of strength 2 (Rao, 1947) selects 25 of
these, in which every pair of levels of every two factors occurs.  The factors are extents,
transposes and layouts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyopencl.array as cla

from portable_gpu.checking.inputs import View
from portable_gpu.checking.operands import Array
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine

_LEVELS = 5
_GUARD = 64  # elements before and after a result
_MARK = 77  # their value: any dtype has it, and a kernel does not write it by mistake
#: One view for each level.
VIEWS: tuple[View, ...] = ("numpy", "device", "stepped", "reversed", "fortran")


def around(tile: int, prime: int) -> tuple[int, ...]:
    """1, and the sizes around a tile; a prime."""
    return 1, max(1, tile - 1), tile, tile + 1, prime


def levels(factors: int) -> Iterator[tuple[int, ...]]:
    """The orthogonal array: levels of up to six factors, 25 rows."""
    for i in range(_LEVELS):
        for j in range(_LEVELS):
            yield (i, *((j + i * slope) % _LEVELS for slope in range(factors - 1)))


class Guarded:
    """Memory for a result with guards on both sides.

    It is filled with given values or, by default, with NaN (integers: the value of the guards).

    Attributes:
        array: What to pass as the output.
    """

    def __init__(
        self,
        engine: Engine,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        on_device: bool,
        values: Array | None = None,
    ) -> None:
        size = int(np.prod(shape))
        self._guard = np.full(_GUARD, _MARK, dtype)
        if values is None:
            values = np.full(size, _MARK if dtype.kind in "biu" else np.nan, dtype)
        self._shape, self._inside = shape, slice(_GUARD, _GUARD + size)
        memory = np.concatenate((self._guard, values.reshape(-1), self._guard))
        self._memory: Any = cla.to_device(engine.queue, memory) if on_device else memory
        self.array: Any = self._memory[self._inside].reshape(shape)

    def checked(self) -> Array:
        """Return the result, after a check that the guards are unchanged."""
        if isinstance(self._memory, DEVICE_KINDS):
            memory = np.asarray(self._memory.get())
        else:
            memory = self._memory
        for guard in (memory[: self._inside.start], memory[self._inside.stop :]):
            if guard.tobytes() != self._guard.tobytes():
                raise AssertionError("memory outside the result was written to")
        return np.asarray(memory[self._inside].reshape(self._shape))
