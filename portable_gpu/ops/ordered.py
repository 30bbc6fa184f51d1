"""Calls whose fresh results have the order of axes of an input: no element is transposed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.errors import ArraysError, ShapeError
from portable_gpu.ops.elementwise.api import evaluate
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import View, as_array, inverse, order_of_axes, permuted

_Axes = tuple[int, ...]
_ARRAYS = (np.ndarray, *DEVICE_KINDS)


class OrderedOperation:
    """An operation whose first result, if it is fresh, has the order of axes of one of the inputs.

    The result has the shape of that input.  Channels-last arrays have channels-last results: during
    the call, the axes of this input, and of others of its shape, are ordered by its strides.
    """

    def __init__(
        self, name: str, normalise: Callable[[CallArguments], Invocation], like: int = 0
    ) -> None:
        """Declare it.

        Args:
            name, normalise: See :class:`Operation`.  The inputs of an invocation are the arguments
                at the same indices.
            like: The index of the input.
        """
        self._like = like
        self._call = Operation(name, _in_order_of_axes(normalise)).call

    def call(
        self,
        inputs: tuple[Any, ...],
        options: tuple[Any, ...],
        out: Any = None,
        scalars: tuple[Any, ...] = (),
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Call it; the arguments are those of :meth:`Operation.call`."""
        out_of_first = out[0] if isinstance(out, tuple) and out else out
        order = None
        if out_of_first is None and len(inputs) > self._like:
            order = order_of_axes(inputs[self._like])
        if order is None:
            return self._call(inputs, (*options, None), out, scalars, engine, queue, wait_for)
        shape = inputs[self._like].shape
        indices = tuple(
            [k for k, x in enumerate(inputs) if isinstance(x, _ARRAYS) and x.shape == shape]
        )
        result = self._call(
            _transposed(inputs, indices, order),
            (*options, (order, indices)), out, scalars, engine, queue, wait_for,
        )  # fmt: skip
        back = inverse(order)
        if isinstance(result, tuple):
            return (permuted(result[0], back), *result[1:])
        return permuted(result, back)


def _in_order_of_axes(
    normalise: Callable[[CallArguments], Invocation],
) -> Callable[[CallArguments], Invocation]:
    """Return the function ``normalise`` for arguments whose axes are in another order.

    The last option of a call is a pair of that order and the indices of the inputs that have it, or
    ``None``.
    """

    def ordered(arguments: CallArguments) -> Invocation:
        *options, ordering = arguments.options
        if ordering is None:
            return normalise(arguments._replace(options=tuple(options)))
        order, indices = ordering
        back = inverse(order)
        inputs = _transposed(arguments.inputs, indices, back)
        invocation = normalise(arguments._replace(inputs=inputs, options=tuple(options)))
        plan_of = invocation.plan
        result = len(invocation.inputs)  # the index of its view

        def plan(engine: Engine, views: Sequence[View]) -> Plan:
            logical = list(views)
            for index in (*indices, result):
                view = views[index]
                logical[index] = replace(
                    view,
                    shape=tuple([view.shape[axis] for axis in back]),
                    strides=tuple([view.strides[axis] for axis in back]),
                )
            return plan_of(engine, logical)

        invocation.inputs = _transposed(invocation.inputs, indices, order)
        invocation.shape = tuple([invocation.shape[axis] for axis in order])
        invocation.plan = plan
        return invocation

    return ordered


def elementwise_like(
    expression: str,
    arrays: Mapping[str, Any],
    numbers: Mapping[str, Any],
    out: Any,
    dtype: np.dtype[Any] | None = None,
    *,
    names: Mapping[str, str] | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute an expression; a fresh result has the shape and the order of axes of the first array.

    Other arrays broadcast to that shape, and have as many axes or none.  Errors have the ``names``
    of arrays, by those in the expression.

    Raises:
        ShapeError: ``out`` has another shape.
    """
    first, order = next(iter(arrays.values())), None
    if out is None:
        order = order_of_axes(first)
    elif (shape := as_array(out, "out").shape) != first.shape:
        raise ShapeError(f"out has shape {shape}; expected {first.shape}")
    if order is not None:
        axes = len(order)
        arrays = {n: permuted(x, order) if x.ndim == axes else x for n, x in arrays.items()}
    inputs = {**arrays, **numbers} if numbers else arrays
    try:
        result = evaluate(
            expression, inputs, dtype=dtype, out=out, engine=engine, queue=queue, wait_for=wait_for
        )
    except ArraysError as error:
        raise error.renamed(names or {}) from None
    return result if order is None else permuted(result, inverse(order))


def _transposed(
    arrays: Sequence[Any], indices: Sequence[int], order: tuple[int, ...]
) -> tuple[Any, ...]:
    """Return the arrays, with permuted axes of those at some indices."""
    return tuple([permuted(x, order) if k in indices else x for k, x in enumerate(arrays)])
