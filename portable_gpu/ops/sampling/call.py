"""From the arguments of a sampling function to its invocation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from portable_gpu.arguments import integers, shown
from portable_gpu.dtypes import element, is_float16_like
from portable_gpu.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from portable_gpu.ops.factors import plain_number
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.ops.sampling.plan import make_plan, multiply_adds_of
from portable_gpu.ops.sampling.problem import SamplingProblem
from portable_gpu.ops.sampling.rules import AxisRule, transposed
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import Shape, View, inverse, order_of_axes, permuted

#: Elements of these sizes are copied as unsigned integers, whatever they mean.
_COPIED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
#: Estimated operations for each tap, by which small calls stay on the calling thread.
_OPERATIONS = 4
#: Longer axes are not counted tap by tap: their calls are not small in any case.
_MOST_COUNTED = 1 << 16


class SamplingOperation:
    """An operation whose results have the order of axes of its first input.

    Channels-last arrays have channels-last results: the axes are ordered by the strides of the
    first input during the call, so that fresh results are, too.
    """

    def __init__(self, name: str, normalise: Callable[[CallArguments], Invocation]) -> None:
        """Declare it; the last of its options is the order of axes, or ``None``."""
        self._operation = Operation(name, normalise)

    def call(self, inputs: tuple[Any, ...], options: tuple[Any, ...], out: Any, *place: Any) -> Any:
        """Call it.

        Args:
            inputs, options: See :class:`CallArguments`; the inputs have the same axes.
            out: The caller's array, or a tuple with one for each result.
            place: The engine, the queue and the events to wait for.
        """
        order = order_of_axes(inputs[0])
        if order is None:
            return self._operation.call(inputs, (*options, None), out, (), *place)
        arrays = tuple([_permuted(x, order) for x in inputs])
        permuted_out: Any = _permuted(out, order)
        if isinstance(out, tuple):
            permuted_out = tuple([_permuted(x, order) for x in out])
        result = self._operation.call(arrays, (*options, order), permuted_out, (), *place)
        back = inverse(order)
        if not isinstance(result, tuple):
            return permuted(result, back) if out is None else out
        return tuple(
            [
                permuted(array, back) if own is None else own
                for array, own in zip(result, out or (None,) * len(result), strict=True)
            ]
        )


def _permuted(x: Any, order: tuple[int, ...]) -> Any:
    """An array with permuted axes; any other object is refused later."""
    is_array = isinstance(x, (np.ndarray, *DEVICE_KINDS)) and x.ndim == len(order)
    return permuted(x, order) if is_array else x


def logical(x: Any, order: tuple[int, ...] | None) -> Any:
    """An input with its axes in the caller's order."""
    return x if order is None or x.ndim != len(order) else permuted(x, inverse(order))


def invocation(
    kind: str,
    arrays: Sequence[tuple[Any, str]],
    rules: Sequence[AxisRule | None],
    arguments: CallArguments,
    fill: Any = 0,
    power: int = 1,
) -> Invocation:
    """The invocation of an operation on checked arrays.

    Args:
        kind: See :class:`portable_gpu.ops.sampling.problem.SamplingProblem`.
        arrays: The sources and their names, their axes in the caller's order; the first has the
            dtype of the result.
        rules: The rule of each axis of the result, in the caller's order.
        arguments: Those of the call.
        fill: The value of copied outputs that read nothing, as :func:`bits` gives it.
        power: See :class:`portable_gpu.ops.sampling.problem.SamplingProblem`.
    """
    x, permutation = arrays[0][0], arguments.options[-1]
    shape = result_shape(x.shape, rules)
    order = tuple(range(len(shape))) if permutation is None else permutation
    back = inverse(order)
    elem = element(x.dtype)
    if kind == "copy":
        elem = element(np.dtype(f"u{elem.itemsize}")) if elem.itemsize in _COPIED else elem

    reads_one = kind == "copy" or max(shape, default=0) > _MOST_COUNTED
    taps = prod(shape) if reads_one else multiply_adds_of(shape, rules)

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        strides = tuple([tuple([view.strides[axis] for axis in back]) for view in views])
        aligned = 1 if engine.target.is_cpu else min(16, *(view.alignment for view in views))
        problem = SamplingProblem(kind, elem, tuple(rules), shape, strides, aligned, power)
        return make_plan(engine, problem)

    return Invocation(
        inputs=tuple([x if permutation is None else permuted(x, order) for x, _ in arrays]),
        names=tuple(name for _, name in arrays),
        shape=tuple([shape[axis] for axis in order]),
        dtype=x.dtype,
        plan=plan,
        flop=max(2 * x.size, _OPERATIONS * taps),
        scalars=fill if kind == "copy" else (),
        out=arguments.out,
    )


def result_shape(shape: Shape, rules: Sequence[AxisRule | None]) -> Shape:
    """The shape of the result of rules, for an input of a shape."""
    extents = zip(shape, rules, strict=True)
    return tuple([n if rule is None else rule.outputs for n, rule in extents])


def check_result(
    x: Any,
    name: str,
    rules: Sequence[AxisRule | None],
    shape: Shape,
    options: str = "windows (kernel_size, stride, padding, dilation, ceil_mode)",
) -> None:
    """Check that an array has the shape of the result of rules, for an input of a shape.

    The rules are made of the named options.

    Raises:
        ShapeError: It has another shape.
    """
    result = result_shape(shape, rules)
    if tuple(x.shape) != result:
        raise ShapeError(
            f"{name} has shape {x.shape}; the result of the forward call has {result} for input "
            f"{shape} and its {options}"
        )


def summed_back(
    grad: Any, rules: Sequence[AxisRule | None], arguments: CallArguments
) -> Invocation:
    """Return the invocation of the gradient of weighted sums by rules.

    Args:
        grad: The gradient of the sums, whose shape was checked.
        rules: The rules of the sums.
        arguments: Those of the call.
    """
    return invocation("sum", [(grad, "grad_output")], transposed(rules), arguments)


def bits(value: Any, name: str, dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return the bits of a value of a dtype, as the scalars of kernels that copy.

    Raises:
        ArgumentTypeError: It is not a number.
        ArgumentError: The dtype cannot hold it.
    """
    number = plain_number(value, name)
    fits = dtype.kind == "c" or not isinstance(number, complex)
    if fits and dtype.kind in "iub":
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        fits = low <= number <= high and number == int(number)
        number = int(number) if fits else number
    if not fits:
        raise ArgumentError(
            f"{name} is {shown(value)}, which {dtype}, the dtype of input, cannot hold"
        )
    with np.errstate(over="ignore"):
        stored = np.array([number]).astype(dtype)
    if dtype.itemsize in _COPIED:
        return (int(stored.view(f"u{dtype.itemsize}")[0]),)
    return tuple(int(part) for part in stored.view("u8"))


def spatial(x: Any, name: str, axes: int) -> Any:
    """Return an array after a check of its axes: a batch or none, channels, the spatial axes.

    Raises:
        ShapeError: It has another number of axes.
    """
    if x.ndim not in (axes + 1, axes + 2):
        raise ShapeError(
            f"{name} has shape {x.shape}; expected {axes + 2} axes, or {axes + 1} without a batch"
        )
    return x


def floating(x: Any, name: str, complex_too: bool = False) -> Any:
    """Return an array after a check that its elements are floating-point numbers.

    Raises:
        DTypeError: Its dtype is another one.
    """
    if x.dtype.kind in ("fc" if complex_too else "f") or is_float16_like(x.dtype):
        return x
    raise DTypeError(f"{name} is {x.dtype}; expected floating-point numbers")


def shape_of(value: Any, name: str, axes: int | None = None) -> Shape:
    """The shape of a gradient: that of the forward call's input, or one given as integers.

    Raises:
        ArgumentTypeError: It is neither.
        ShapeError: Its axes are not a batch or none, channels, and ``axes`` spatial axes.
        ArgumentError: An extent is negative.
    """
    shape = value if isinstance(value, (tuple, list)) else getattr(value, "shape", None)
    if not isinstance(shape, (tuple, list)):
        raise ArgumentTypeError(f"{name} is {shown(value)}; expected an array or its shape")
    if axes is not None and len(shape) not in (axes + 1, axes + 2):
        raise ShapeError(
            f"{name} has shape {shown(shape)}; "
            f"expected {axes + 2} axes, or {axes + 1} without a batch"
        )
    return integers(shape, name, len(shape), 0) if shape else ()


def unless_trivial(
    rules: Sequence[AxisRule | None], trivial: Sequence[bool]
) -> list[AxisRule | None]:
    """Return the rules without those that change nothing.

    If there is no other rule, the last one stays, because every kernel has a rule.
    """
    remaining: list[AxisRule | None] = [
        None if nothing else rule for rule, nothing in zip(rules, trivial, strict=True)
    ]
    if not any(remaining):
        remaining[-1] = rules[-1]
    return remaining
