"""Gathering of a matrix's lower triangle on the device, with checks.

While the values are copied, the host compares the indices with those of the analysis.  If anything
is wrong, the device reports only that; the host then finds the reason in :meth:`Pattern.values`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.dtypes import element
from portable_gpu.errors import DeviceMemoryError
from portable_gpu.ops.fronts.lower import table_bytes
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.transfer import asarray, asnumpy
from portable_gpu.side_by_side import NoThreadError, Task, cores, tasks_running
from portable_gpu.sparse.numeric import Numeric

#: With fewer stored values the host is as fast as a kernel: it needs at most a millisecond.
_MIN_STORED = 1 << 17
#: Indices that a thread compares at a time: two pieces of 1 MiB stay in the L2 cache.
_INDICES = 1 << 18
#: Four threads use the whole memory bandwidth of a socket.
_MAX_THREADS = 4

_Pairs = Sequence[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


def lower_on_device(
    numeric: Numeric, queue: cl.CommandQueue, matrix: Any, triangle: str | None
) -> Any | None:
    """Gather the values of the lower triangle on the device.

    Args:
        numeric: The plans of the pattern.
        queue: The queue of the copy and of the kernel.
        matrix, triangle: As for ``Factor.refactorize``.

    Returns:
        The values, or None if the host must do the work: the pattern may differ, a value may be
        refused, there are few values, or the device or the system lacks memory or threads.

    Raises:
        ShapeError, DTypeError, ArgumentError: As :meth:`Pattern.values`, except for elements.
    """
    pattern = numeric.symbolic.pattern
    if pattern.stored < _MIN_STORED or pattern.order is not None or not pattern.nnz:
        return None
    data, pairs = pattern.stored_in(matrix)
    complex_for_real = data.dtype.kind == "c" and numeric.dtype.kind != "c"
    if pairs is None or complex_for_real or not _is_possible(numeric, data.dtype):
        return None
    if any(first.shape != second.shape for first, second in pairs):
        return None
    try:
        return _checked(numeric, queue, data, pairs, triangle)
    except (NoThreadError, DeviceMemoryError):
        return None


def _checked(
    numeric: Numeric, queue: cl.CommandQueue, data: Any, pairs: _Pairs, triangle: str | None
) -> Any | None:
    differ: list[bool] = []  # not empty once a thread finds a difference
    with tasks_running(_comparisons(pairs, differ), min(cores(), _MAX_THREADS)):
        stored = asarray(data, queue=queue)
        flag = asarray(np.zeros(1, np.int32), queue=queue)
    if differ:
        return None
    plan, pattern = numeric.checked(data.dtype, triangle), numeric.symbolic.pattern
    call = Call([stored, flag], None, queue)
    lower, result = call.additional_output((pattern.nnz,), data.dtype)
    flag_out = call.output((1,), flag.dtype, flag, "flag", read=True)
    call.run(plan, (call.input(stored, "values"), lower, flag_out))
    return None if asnumpy(flag)[0] else result


def _is_possible(numeric: Numeric, dtype: np.dtype[Any]) -> bool:
    """Return whether the device supports the dtype and has memory for the values and tables."""
    pattern, memory = numeric.symbolic.pattern, numeric.memory
    elem, compares = element(dtype), pattern.mirror is not None
    if elem.needs_fp64 and not numeric.engine.target.fp64:
        return False
    values = pattern.stored * elem.itemsize
    tables = table_bytes(pattern.n, pattern.nnz, pattern.stored, compares)
    total = memory.total + values + tables
    return values <= memory.largest_available and total <= memory.available


def _comparisons(pairs: _Pairs, differ: list[bool]) -> list[Task]:
    """Compare arrays piece by piece, until a thread finds a difference."""

    def compare(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> Iterable[Task]:
        if not differ and not np.array_equal(first, second):
            differ.append(True)
        return ()

    return [
        partial(compare, first[k : k + _INDICES], second[k : k + _INDICES])
        for first, second in pairs
        for k in range(0, len(first), _INDICES)
    ]
