"""Input arrays of the checks: the same values on every machine, in NumPy or on the device."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pyopencl.array as cla

from portable_gpu.checking.operands import Array
from portable_gpu.dtypes import bfloat16, is_float16_like
from portable_gpu.runtime.engine import Engine

View = Literal[
    "numpy", "device", "fortran", "reversed", "stepped", "broadcast", "nan", "ties", "huge"
]


@dataclass(frozen=True)
class Input:
    """One argument.

    Attributes:
        dtype, shape: The dtype and the shape of the array.
        view: ``numpy`` and ``device`` are C-ordered arrays there; ``fortran``, ``reversed``,
            ``stepped`` (every other element, from an offset) and ``broadcast`` (stride 0) are
            views in NumPy; ``nan``, ``ties`` and ``huge`` name the kind of values.
        seed: Distinguishes inputs that are otherwise equal.
        near_one: Whether values are near 1, for products.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    view: View = "numpy"
    seed: int = 0
    near_one: bool = False

    def __str__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        return f"{self.dtype} {shape}{'' if self.view == 'numpy' else f', {self.view}'}"

    def host(self) -> Array:
        """The values as a NumPy array, in the layout of the view."""
        return _view(_values(self), self.view)

    def array(self, engine: Engine) -> Any:
        """The operation's argument: the same values, on the device if the view is ``device``."""
        host = self.host()
        return cla.to_device(engine.queue, host) if self.view == "device" else host


@lru_cache(maxsize=8)
def _values(which: Input) -> Array:
    """Random values; for ``stepped`` an axis of n has 2 n + 1."""
    random = np.random.default_rng(zlib.crc32(f"{which} {which.seed}".encode()))
    shape = which.shape
    if which.view == "stepped":
        shape = tuple(2 * n + 1 for n in shape)
    if which.view == "broadcast":
        shape = (1, *shape[1:])
    dtype = which.dtype
    if dtype.kind == "b":
        return random.random(shape) < 0.9
    if dtype.kind in "iu":
        low, high = (-100, 100) if dtype.kind == "i" else (0, 200)
        return random.integers(low, high, shape).astype(dtype)
    values = random.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * random.standard_normal(shape)
    if which.near_one:
        values = 1 + values / 1000
    if is_float16_like(dtype):
        values = values.astype(np.float32)
    values = values.astype(dtype)
    if which.view == "broadcast":
        return np.broadcast_to(values, which.shape)
    if which.view == "nan":
        values[[values.size // 3, values.size // 2]] = np.nan
    if which.view == "ties":
        values = np.round(values).astype(dtype)
    if which.view == "huge":
        values = values * (np.finfo(dtype).max / 100)
    return values


def _view(values: Array, view: str) -> Array:
    if view == "fortran":
        return np.asfortranarray(values)
    if view == "reversed":
        return values[(slice(None, None, -1),) * values.ndim]
    if view == "stepped":
        return values[(slice(1, None, 2),) * values.ndim]
    return values


def dtypes(fp64: bool) -> list[np.dtype[Any]]:
    """The dtypes that a device supports."""
    names = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
    names += ["float16", "float32", "complex64"]
    if fp64:
        names += ["float64", "complex128"]
    result = [np.dtype(name) for name in names]
    brain = bfloat16()
    return result if brain is None else [*result, brain]
