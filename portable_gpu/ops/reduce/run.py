"""From arrays and axes to a cached plan and its launch: what all reductions share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, whole
from portable_gpu.codegen.reductions import Request
from portable_gpu.dtypes import Element, element
from portable_gpu.errors import AxisError, DTypeError, ShapeError
from portable_gpu.ops.reduce.geometry import analyse
from portable_gpu.ops.reduce.plan import ReducePlan, reduction_for
from portable_gpu.ops.reduce.rules import sum_like
from portable_gpu.runtime.broadcast import broadcast, spread
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.repeat import Key, again, remember
from portable_gpu.runtime.views import (
    Call,
    Shape,
    as_array,
    check_no_overlap,
    contiguous_strides,
)

Axes = int | tuple[int, ...] | None


@dataclass(frozen=True)
class Problem:
    """One reduction apart from the arrays' values: the key of its plan.

    Attributes:
        request: What is computed on which elements.
        shape: Of the inputs.
        strides: Of each input, in elements.
        reduced: The folded axes.
        out_strides: Of the result without the folded axes.
        alignment: A power of two that divides each input's first address.
    """

    request: Request
    shape: Shape
    strides: tuple[Shape, ...]
    reduced: frozenset[int]
    out_strides: Shape
    alignment: int

    @property
    def kept_shape(self) -> Shape:
        """Shape of the result without the folded axes."""
        return tuple(n for axis, n in enumerate(self.shape) if axis not in self.reduced)


def make_plan(engine: Engine, problem: Problem) -> ReducePlan:
    """Build the plan of a problem."""
    fold = reduction_for(problem.request, engine.target)
    geometry = analyse(
        problem.shape, problem.reduced, list(problem.strides), problem.out_strides, fold.indexed
    )
    return ReducePlan(engine, fold, geometry, problem.alignment)


class VariancePlan:
    """Two passes: the mean of each row into workspace, then the squares about it."""

    def __init__(self, engine: Engine, problem: Problem, centre: np.dtype[Any]) -> None:
        """``centre`` is the dtype that means are kept in."""
        kept = problem.kept_shape
        dense = contiguous_strides(kept)
        self._centre_bytes = prod(kept) * centre.itemsize
        elem = element(centre)
        request = problem.request
        mean = Request("mean", request.x, elem, elem)
        self._mean = make_plan(engine, replace(problem, request=mean, out_strides=dense))
        along = iter(dense)
        spread = tuple(
            0 if axis in problem.reduced else next(along) for axis in range(len(problem.shape))
        )
        strides = (*problem.strides, spread)
        self._moment = make_plan(
            engine, replace(problem, request=replace(request, y=elem), strides=strides)
        )
        self.flop = self._mean.flop + 3 * self._moment.flop
        self.bytes = self._mean.bytes + self._moment.bytes

    @property
    def layout(self) -> object:
        """The second kernel's form."""
        return self._moment.layout

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """As :meth:`ReducePlan.enqueue`."""
        (x, out), (x_offset, out_offset) = buffers, offsets
        centre = state.workspace(self._centre_bytes)
        first = self._mean.enqueue(state, (x, centre), (x_offset, 0), wait_for)
        return self._moment.enqueue(
            state,
            (x, centre, out),
            (x_offset, 0, out_offset),
            state.after(first),
        )


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
    key: Key | None,
) -> Any:
    given = arrays
    arrays = [as_array(a, n) for a, n in zip(given, names, strict=True)]
    x_shape = arrays[0].shape
    if any(array.shape != x_shape for array in arrays):
        x_shape = broadcast({n: a.shape for a, n in zip(arrays, names, strict=True)})
    reduced = normalise_axes(axis, len(x_shape))
    call = Call([*arrays, out], engine, queue, wait_for, flop=0)
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
    plan = call.engine.plan(problem, lambda: _make_any_plan(call.engine, problem))
    views.append(result)
    value = call.run(plan.enqueue if result.size else None, views)
    remember(key, given, call, views, plan.enqueue, out)
    return value[()] if call.host and out is None and not shape else value


def converted(x: Any, dtype: np.dtype[Any], engine: Engine, queue: cl.CommandQueue) -> Any:
    """A copy of a device array in another dtype: each element is a sum by itself."""
    return run("sum", [x], ["x"], sum_like("sum", dtype), (), False, None, engine, queue, None)


def _make_any_plan(engine: Engine, problem: Problem) -> Any:
    if 0 in problem.kept_shape:
        return EmptyPlan()
    if problem.request.name == "moment":
        return VariancePlan(engine, problem, centre_dtype(problem.request.acc))
    return make_plan(engine, problem)


class EmptyPlan:
    """Nothing to compute: a result of no elements."""

    def enqueue(
        self, state: QueueState, buffers: Sequence[Any], offsets: tuple[int, ...]
    ) -> cl.Event | None:
        """Never called: there is nothing to launch."""
        raise AssertionError("a result of no elements is not launched")


def centre_dtype(acc: Element) -> np.dtype[Any]:
    """The dtype that the means of a variance are kept in."""
    names = {
        ("float", False): np.float32,
        ("double", False): np.float64,
        ("float", True): np.complex64,
        ("double", True): np.complex128,
    }
    return np.dtype(names[acc.real, acc.complex])


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
            raise AxisError(f"axis {one} is out of range for an array of {ndim} axes")
        found.append(one % ndim)
    if len(set(found)) != len(found):
        raise ShapeError(f"axis={axis} names an axis twice")
    return frozenset(found)
