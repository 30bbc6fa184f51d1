"""``out=`` of functions that are made of several operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.ops.elementwise import elementwise
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import Shape, check_output


def check_out(out: Any, shape: Shape, dtype: np.dtype[Any], *arrays: Any) -> None:
    """Check the caller's array for a result, before any work.

    Args:
        out: The array, or ``None``.
        shape, dtype: Those of the result.
        arrays: The inputs: the result is on the device if one of them is.

    Raises:
        ArgumentTypeError, ArgumentError, ShapeError, DTypeError, ReadOnlyError, OverlapError: It
            does not fit.
    """
    if out is not None:
        on_host = not any(isinstance(array, DEVICE_KINDS) for array in arrays)
        check_output(out, shape, dtype, "out", on_host)


def stored(result: Any, out: Any, engine: Engine | None, queue: cl.CommandQueue | None) -> Any:
    """Copy a finished or enqueued result to the caller's array, if there is one, and return it."""
    if out is None:
        return result
    if isinstance(out, DEVICE_KINDS):
        return elementwise("x", x=result, dtype=out.dtype, out=out, engine=engine, queue=queue)
    out[...] = result
    return out
