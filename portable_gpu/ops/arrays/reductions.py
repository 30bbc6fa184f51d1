"""The reductions that arrays have as methods."""

from __future__ import annotations

from typing import Any

from portable_gpu.ops import reduce
from portable_gpu.runtime.array import Array


def reduced(name: str, array: Array, **options: Any) -> Any:
    """Reduce an array by the function of :mod:`portable_gpu.ops.reduce` with the given name."""
    return getattr(reduce, name)(array, **options)


Array._reduced = reduced
