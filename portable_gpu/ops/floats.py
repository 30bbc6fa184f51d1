"""Arrays of real floating numbers, and the dtype of sums of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.errors import DTypeError
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.views import as_array

_ARRAYS = frozenset((np.ndarray, Array))
_FLOATS = frozenset(map(np.dtype, (np.float16, np.float32, np.float64)))


def floating(value: Any, name: str) -> Any:
    """Return ``value`` as an array of real floating numbers.

    Raises:
        ArgumentTypeError: It is not an array.
        DTypeError: Its elements are not real floating numbers.
    """
    if type(value) in _ARRAYS and value.dtype in _FLOATS:
        return value
    array = as_array(value, name)
    if array.dtype.kind in "iubc":
        raise DTypeError(f"{name} is {array.dtype}; expected float16, bfloat16, float32 or float64")
    return array


def statistics_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of statistics: float32 for 16-bit floats, else that of the input."""
    return np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)
