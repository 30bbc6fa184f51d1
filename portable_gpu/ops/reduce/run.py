"""From arrays and axes to a cached plan and its launch: what all reductions share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.reductions import Request, reduction
from portable_gpu.dtypes import Element, element
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.ops.reduce.geometry import analyse
from portable_gpu.ops.reduce.plan import ReducePlan
from portable_gpu.runtime.engine import Engine, QueueState
from portable_gpu.runtime.views import (
    Call,
    Shape,
    View,
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
    fold = reduction(problem.request)
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
        self._centre = View(None, 0, kept, dense, centre)
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

    def __call__(
        self,
        state: QueueState,
        inputs: Sequence[View],
        out: View,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event:
        """Enqueue both passes; returns the event of the second."""
        centre = self._centre
        nbytes = max(1, centre.size * centre.dtype.itemsize)
        centre = replace(centre, buffer=state.workspace(nbytes))
        first = self._mean(state, inputs, centre, wait_for)
        return self._moment(state, (*inputs, centre), out, None if state.in_order else [first])


def run(
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
    flatten: bool = False,
) -> Any:
    """Do one reduction.

    Args:
        name: The operation, for messages and keys.
        arrays: One input, or two of one shape.
        names: How messages call them.
        request: Given the inputs' dtypes, the Request and the dtype of the result; hashable.
        axis, keepdims, out, engine, queue, wait_for: As the public functions take them.
        flatten: Whether all axes count as one in C order (``vdot``).
    """
    arrays = [as_array(a, n) for a, n in zip(arrays, names, strict=True)]
    call = Call([*arrays, out], engine, queue, wait_for)
    views = [call.input(a, n) for a, n in zip(arrays, names, strict=True)]
    shape = views[0].shape
    key = (
        name,
        request,
        shape,
        tuple(view.strides for view in views),
        tuple(view.dtype for view in views),
        axis,
        keepdims,
        None if out is None else out.strides,
        1 if call.engine.target.is_cpu else min(_alignment(view) for view in views),
    )
    known = call.engine.plan(key, lambda: _prepare(call.engine, key, views, out))
    if out is not None:
        check_no_overlap(out, "out", list(zip(arrays, names, strict=True)))
    result = call.output(known.shape, known.dtype, out)
    if result.size:
        call.event(known.plan(call.state, views, result, call.wait_for))
    value = call.finish()
    return value[()] if call.host and out is None and not known.shape else value


@dataclass(frozen=True)
class Prepared:
    """A plan, and what its result looks like."""

    plan: Any
    shape: Shape
    dtype: np.dtype[Any]
    problem: Problem


def _prepare(engine: Engine, key: tuple[Any, ...], views: Sequence[View], out: Any) -> Prepared:
    name, request, shape, strides, dtypes, axis, keepdims, out_strides, alignment = key
    reduced = normalise_axes(axis, len(shape))
    what, dtype = request(*dtypes)
    shape_out = tuple(
        1 if a in reduced else n for a, n in enumerate(shape) if keepdims or a not in reduced
    )
    kept = tuple(n for a, n in enumerate(shape) if a not in reduced)
    if what.name in ("min", "max", "argmin", "argmax") and 0 not in kept and 0 in shape:
        raise ShapeError(f"{name} of an empty axis has no value: x has shape {shape}, axis={axis}")
    if out_strides is None:
        dense = contiguous_strides(kept)
    else:
        itemsize = dtype.itemsize
        steps = tuple(s // itemsize for s in out_strides)
        if len(steps) != len(shape_out):
            raise ShapeError(f"out has {len(steps)} axes, the result has shape {shape_out}")
        dense = tuple(
            s for a, s in zip(_axes_of(shape, reduced, keepdims), steps, strict=True)
            if a not in reduced
        )
    problem = Problem(what, shape, strides, reduced, dense, alignment)
    if what.name == "moment":
        plan: Any = VariancePlan(engine, problem, _centre_dtype(what.acc))
    elif 0 in kept:
        plan = None
    else:
        plan = make_plan(engine, problem)
    return Prepared(plan, shape_out, dtype, problem)


def _centre_dtype(acc: Element) -> np.dtype[Any]:
    names = {
        ("float", False): np.float32,
        ("double", False): np.float64,
        ("float", True): np.complex64,
        ("double", True): np.complex128,
    }
    return np.dtype(names[acc.real, acc.complex])


def _axes_of(shape: Shape, reduced: frozenset[int], keepdims: bool) -> list[int]:
    return [a for a in range(len(shape)) if keepdims or a not in reduced]


def _alignment(view: View) -> int:
    byte = view.offset * view.dtype.itemsize | 128
    return byte & -byte


def normalise_axes(axis: Axes, ndim: int) -> frozenset[int]:
    """The set of axes that ``axis`` means for an array of ``ndim`` axes.

    Raises:
        ShapeError: An axis is out of range, or named twice.
        ArgumentError: ``axis`` is not an int, a tuple of ints, or None.
    """
    if axis is None:
        return frozenset(range(ndim))
    wanted = axis if isinstance(axis, tuple) else (axis,)
    found = []
    for one in wanted:
        if not isinstance(one, (int, np.integer)) or isinstance(one, bool):
            raise ArgumentError(f"axis is {axis!r}; an int, a tuple of ints or None would do")
        if not -ndim <= one < ndim:
            raise ShapeError(f"axis {one} is out of range for an array of {ndim} axes")
        found.append(int(one) % ndim)
    if len(set(found)) != len(found):
        raise ShapeError(f"axis={axis} names an axis twice")
    return frozenset(found)


def check_real(dtype: np.dtype[Any], name: str) -> None:
    """Raise DTypeError for a complex dtype."""
    if dtype.kind == "c":
        raise DTypeError(f"{name} takes no complex arrays; x has dtype {dtype}")
