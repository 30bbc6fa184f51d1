"""From arrays and axes to a cached plan and its launch: what all reductions share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, whole
from portable_gpu.errors import ArgumentTypeError, AxisError, ShapeError
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.ops.reduce.problem import Problem
from portable_gpu.ops.reduce.rules import Maker, sum_like
from portable_gpu.ops.reduce.variants import make_plan
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.broadcast import broadcast, spread
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import View, as_array

Axes = int | tuple[int, ...] | None

# Operations for an element, of which a thread of a CPU does 50 in a nanosecond; others take 6.
_OPERATIONS = {"argmax": 10, "argmin": 10, "nrm2": 10, "std": 20, "var": 20}
#: The bytes of an array that NumPy copies in less time than a kernel is launched for.
_COPIED_BY_NUMPY = 1 << 18


def run(
    name: str,
    inputs: tuple[Any, ...],
    names: tuple[str, ...],
    request: Maker,
    axis: Any,
    keepdims: Any,
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Do one reduction.

    Args:
        name: The name of the reduction, for messages.
        inputs: One input, or several that broadcast.
        names: The names of the inputs in messages.
        request: Given the inputs' dtypes, the Request and the dtype of the result; hashable.
        axis, keepdims, out, engine, queue, wait_for: As the public functions take them.
    """
    if type(axis) is not int and axis is not None:
        axis = as_axes(axis)  # also True, which as a key equals 1
    if type(keepdims) is not bool:
        keepdims = flag(keepdims, "keepdims")
    options = name, names, request, axis, keepdims
    return _REDUCTION.call(inputs, options, out, (), engine, queue, wait_for)


def _normalise(arguments: CallArguments) -> Invocation:
    out = arguments.out
    name, names, request, axis, keepdims = arguments.options
    arrays = tuple([as_array(a, n) for a, n in zip(arguments.inputs, names, strict=True)])
    x_shape = arrays[0].shape
    if any(array.shape != x_shape for array in arrays):
        x_shape = broadcast({n: a.shape for a, n in zip(arrays, names, strict=True)})
    reduced = normalise_axes(axis, len(x_shape))
    what, dtype = request(*[array.dtype for array in arrays])
    axes = [a for a in range(len(x_shape)) if keepdims or a not in reduced]
    if what.name in ("min", "max", "argmin", "argmax") and 0 in [x_shape[a] for a in reduced]:
        raise ShapeError(f"{name} of no elements has no value: x has shape {x_shape}")

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        *sources, result = views
        strides = zip(axes, result.strides, strict=True)
        problem = Problem(
            what,
            x_shape,
            tuple(spread(view, x_shape) for view in sources),
            reduced,
            tuple(s for a, s in strides if a not in reduced),
            1 if engine.target.is_cpu else min(view.alignment for view in sources),
        )
        return engine.plan(problem, lambda: make_plan(engine, problem))

    return Invocation(
        inputs=arrays,
        names=names,
        shape=tuple(1 if a in reduced else x_shape[a] for a in axes),
        dtype=dtype,
        plan=plan,
        flop=_OPERATIONS.get(name, 6) * math.prod(x_shape),
        out=out,
    )


_REDUCTION = Operation("reduction", _normalise)


def converted(
    x: Any,
    dtype: np.dtype[Any],
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Return a C-ordered copy of an array in another dtype: each element is a sum by itself.

    NumPy copies its own small floating-point arrays, which saves a first call one program.
    """
    is_small = isinstance(x, np.ndarray) and x.nbytes <= _COPIED_BY_NUMPY and not wait_for
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

    The method ``astype`` of pyopencl knows neither bool nor views with gaps.
    """
    if array.dtype == dtype:
        return array
    if isinstance(array, np.ndarray):
        return array.astype(dtype)
    return converted(array, dtype, engine, queue, wait_for)


def converter(dtype: np.dtype[Any]) -> Callable[[Any, Call], Any]:
    """Return what converts the inputs of an :class:`Invocation` to a dtype."""

    def convert(array: Any, call: Call) -> Any:
        copy = in_dtype(array, dtype, call.engine, call.state.queue, call.wait_for)
        if copy is not array and isinstance(copy, Array):
            call.wait_for = [*(call.wait_for or ()), *call.state.outside(copy.events)] or None
        return copy

    return convert


def one_axis(axis: Any) -> int:
    """An axis given as any integer but a bool, as in NumPy.

    Raises:
        ArgumentTypeError: It is none.
    """
    if isinstance(axis, bool):
        raise ArgumentTypeError(f"axis is {axis}; an integer would do")
    return whole(axis, "axis")


def as_axes(axis: Any) -> Axes:
    """``axis=`` in ints.

    Raises:
        ArgumentTypeError: It is not an integer, a tuple of integers, or None.
    """
    if axis is None:
        return None
    return tuple([one_axis(item) for item in axis]) if isinstance(axis, tuple) else one_axis(axis)


def normalise_axes(axis: Axes, ndim: int) -> frozenset[int]:
    """The set of axes that ``axis`` means for an array of ``ndim`` axes.

    Raises:
        AxisError: An axis is out of range.
        ShapeError: An axis is named twice.
        ArgumentTypeError: As :func:`as_axes`.
    """
    wanted = as_axes(axis)
    if wanted is None:
        return frozenset(range(ndim))
    if ndim == 0 and wanted in (0, -1):  # of a scalar, as in NumPy
        return frozenset()
    result = []
    for one in wanted if isinstance(wanted, tuple) else (wanted,):
        if not -ndim <= one < ndim:
            raise AxisError(f"axis {one} is out of range; x has {ndim} axes")
        result.append(one % ndim)
    if len(set(result)) != len(result):
        raise ShapeError(f"axis={axis} names an axis twice")
    return frozenset(result)
