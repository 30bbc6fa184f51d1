"""Conversions of arrays to other dtypes, by the kernels of sums over no axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.ops.reduce.call import run, sum_like
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.engine import Engine

#: NumPy converts an array of at most this many bytes faster than a kernel on the calling thread,
_CONVERTED_BY_NUMPY = 1 << 21
#: but from and to float16, which it converts one by one, only so many.
_HALVES_BY_NUMPY = 1 << 14


def converted(
    x: Any,
    dtype: np.dtype[Any],
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Return a C-ordered copy of an array in another dtype.

    The copy is a sum over no axes, so each element is a sum of one element.  NumPy itself converts
    its small floating-point arrays, so that a first call builds one program less.
    """
    limit = _HALVES_BY_NUMPY if np.float16 in (x.dtype, dtype) else _CONVERTED_BY_NUMPY
    is_small = isinstance(x, np.ndarray) and x.nbytes <= limit and not wait_for
    if is_small and x.dtype.kind in "fc" and np.can_cast(x.dtype, dtype, "same_kind"):
        with np.errstate(all="ignore"):
            return x.astype(dtype, order="C", subok=False)
    request = sum_like("sum", dtype)
    return run("sum", (x,), ("x",), request, (), False, None, engine, queue, wait_for)


def in_dtype(
    array: Any,
    dtype: np.dtype[Any],
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Return ``array`` itself, or a copy of it in another dtype.

    The method ``astype`` of pyopencl supports neither bool nor views with gaps.
    """
    if array.dtype == dtype:
        return array
    if isinstance(array, np.ndarray):
        return array.astype(dtype)
    return converted(array, dtype, engine, queue, wait_for)


def converter(dtype: np.dtype[Any]) -> Callable[[Any, Call], Any]:
    """Return the function that converts the inputs of an :class:`Invocation` to a dtype."""

    def convert(array: Any, call: Call) -> Any:
        copy = in_dtype(array, dtype, call.engine, call.state.queue, call.wait_for)
        if copy is not array and isinstance(copy, Array):
            call.wait_for = [*(call.wait_for or ()), *call.state.outside(copy.events)] or None
        return copy

    return convert
