"""From arrays and axes to a cached plan and its launch: what all reductions share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, whole
from portable_gpu.errors import AxisError, DTypeError, ShapeError
from portable_gpu.ops.reduce.candidates import make_plan
from portable_gpu.ops.reduce.problem import Problem
from portable_gpu.ops.reduce.rules import sum_like
from portable_gpu.runtime.broadcast import broadcast, spread
from portable_gpu.runtime.call import Call, Planning
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.repeat import Key, again, remember
from portable_gpu.runtime.views import as_array, check_no_overlap

Axes = int | tuple[int, ...] | None

# Operations for an element, of which a thread of a CPU does 50 in a nanosecond; others take 6.
_OPERATIONS = {"argmax": 10, "argmin": 10, "nrm2": 10, "std": 20, "var": 20}


def run(
    name: str,
    arrays: Sequence[Any],
    names: Sequence[str],
    request: Any,
    axis: Any,
    keepdims: Any,
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Do one reduction.

    Args:
        name: The operation, for messages.
        arrays: One input, or several that broadcast.
        names: How messages call them.
        request: Given the inputs' dtypes, the Request and the dtype of the result; hashable.
        axis, keepdims, out, engine, queue, wait_for: As the public functions take them.
    """
    if wait_for is not None:
        wait_for = events_of(wait_for)
    if type(axis) is not int and axis is not None:
        axis = as_axes(axis)  # also True, which as a key equals 1
    if type(keepdims) is not bool:
        keepdims = flag(keepdims, "keepdims")
    plain = queue is None and not wait_for
    result, key = again((request, axis, keepdims), arrays, out, engine) if plain else (None, None)
    if result is not None:
        return result
    return _run_checked(
        name, arrays, names, request, axis, keepdims, out, engine, queue, wait_for, key
    )


def _run_checked(
    name: str,
    arrays: Sequence[Any],
    names: Sequence[str],
    request: Any,
    axis: Axes,
    keepdims: bool,
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
    key: Key | Planning | None,
) -> Any:
    given = arrays
    arrays = [as_array(a, n) for a, n in zip(given, names, strict=True)]
    x_shape = arrays[0].shape
    if any(array.shape != x_shape for array in arrays):
        x_shape = broadcast({n: a.shape for a, n in zip(arrays, names, strict=True)})
    reduced = normalise_axes(axis, len(x_shape))
    flop = _OPERATIONS.get(name, 6) * math.prod(x_shape)
    call = Call([*arrays, out], engine, queue, wait_for, flop=flop)
    views = [call.input(a, n) for a, n in zip(arrays, names, strict=True)]
    what, dtype = request(*[view.dtype for view in views])
    axes = [a for a in range(len(x_shape)) if keepdims or a not in reduced]
    shape = tuple(1 if a in reduced else x_shape[a] for a in axes)
    if what.name in ("min", "max", "argmin", "argmax") and 0 in [x_shape[a] for a in reduced]:
        raise ShapeError(f"{name} of no elements has no value: x has shape {x_shape}")
    if out is not None:
        check_no_overlap(out, "out", list(zip(arrays, names, strict=True)))
    result = call.output(shape, dtype, out)
    problem = Problem(
        what,
        x_shape,
        tuple(spread(view, x_shape) for view in views),
        reduced,
        tuple(s for a, s in zip(axes, result.strides, strict=True) if a not in reduced),
        1 if call.engine.target.is_cpu else min(view.alignment for view in views),
    )
    plan = None
    if result.size:
        plan = call.engine.plan(problem, lambda: make_plan(call.engine, problem))
    views.append(result)
    value = call.run(plan, views)
    remember(key, given, call, views, plan, out=out)
    return value[()] if call.host and out is None and not shape else value


def converted(
    x: Any,
    dtype: np.dtype[Any],
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """A C-ordered copy of an array, in this dtype: each element is a sum by itself."""
    return run("sum", [x], ["x"], sum_like("sum", dtype), (), False, None, engine, queue, wait_for)


def one_axis(axis: Any) -> int:
    """An axis given as any integer but a bool, as in NumPy.

    Raises:
        DTypeError: It is none.
    """
    if isinstance(axis, bool):
        raise DTypeError(f"axis is {axis}; an integer would do")
    return whole(axis, "axis")


def as_axes(axis: Any) -> Axes:
    """``axis=`` in ints.

    Raises:
        DTypeError: It is not an integer, a tuple of integers, or None.
    """
    if axis is None:
        return None
    return tuple([one_axis(one) for one in axis]) if isinstance(axis, tuple) else one_axis(axis)


def normalise_axes(axis: Axes, ndim: int) -> frozenset[int]:
    """The set of axes that ``axis`` means for an array of ``ndim`` axes.

    Raises:
        AxisError: An axis is out of range.
        ShapeError: An axis is named twice.
        DTypeError: As :func:`as_axes`.
    """
    wanted = as_axes(axis)
    if wanted is None:
        return frozenset(range(ndim))
    if ndim == 0 and wanted in (0, -1):  # of a scalar, as in NumPy
        return frozenset()
    found = []
    for one in wanted if isinstance(wanted, tuple) else (wanted,):
        if not -ndim <= one < ndim:
            raise AxisError(f"axis {one} is out of range; x has {ndim} axes")
        found.append(one % ndim)
    if len(set(found)) != len(found):
        raise ShapeError(f"axis={axis} names an axis twice")
    return frozenset(found)
