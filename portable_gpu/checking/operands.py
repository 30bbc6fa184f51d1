"""Random operands of any shape and dtype."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from portable_gpu.dtypes import element

Array: TypeAlias = np.ndarray[Any, Any]
Operands: TypeAlias = tuple[Array, ...]


def uniform(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return random values in [-1, 1); complex numbers have both parts in this range."""
    elem = element(dtype)
    real = np.float64 if elem.needs_fp64 else np.float32
    values = rng.random((*shape, elem.components), real)
    values *= 2
    values -= 1
    if elem.complex:
        return values.view(dtype)[..., 0]
    return values[..., 0].astype(dtype, copy=False)
