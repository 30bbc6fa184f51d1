"""Whether the operands of a product are one array."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.runtime.array import DEVICE_KINDS


def same_memory(a: Any, b: Any) -> bool:
    """Whether two arrays begin at the same element of the same memory, as ``x`` and ``x.T`` do.

    It takes little time if they do not, because each repeated call does it.
    """
    if a is b:
        return isinstance(a, (np.ndarray, *DEVICE_KINDS))
    if type(a) is np.ndarray and type(b) is np.ndarray:
        base_a, base_b = a.base, b.base
        related = (a if base_a is None else base_a) is (b if base_b is None else base_b)
        return related and a.dtype == b.dtype and a.ctypes.data == b.ctypes.data
    if isinstance(a, DEVICE_KINDS) and isinstance(b, DEVICE_KINDS):
        memory = a.base_data
        return memory is not None and memory is b.base_data and a.offset == b.offset
    return False
