"""Tell NumPy's errors about the memory of arrays from exceptions of signal handlers.

A signal handler may raise any exception in the middle of a call of a function in C.  A block that
expects an error of that function must not swallow the exception of the handler.  Only the handler
adds a frame to the traceback: a function in C has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.errors import DeviceMemoryError
from portable_gpu.runtime.layout import Shape

#: Raised for the address of a read-only array: NumPy's error, or a warning that is an error.
READ_ONLY = (ValueError, DeprecationWarning, FutureWarning)


def is_of_python(error: BaseException) -> bool:
    """Return whether a function in Python raised an exception, for instance a signal handler.

    Args:
        error: The exception, in the function whose block caught it.  The block calls functions in
            C only.
    """
    traceback = error.__traceback__
    return traceback is None or traceback.tb_next is not None


def no_memory(shape: Shape, error: Exception) -> DeviceMemoryError:
    """Return the error of a result for which NumPy has no memory."""
    return DeviceMemoryError(f"no memory for a result of shape {shape}: {error}")


def new_host_array(shape: Shape, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return an array of NumPy, not filled.

    Raises:
        DeviceMemoryError: There is not enough memory.
    """
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as error:  # or more elements than NumPy can count
        if is_of_python(error):
            raise
        raise no_memory(shape, error) from error
