"""The calls of pooling functions: their checks and the rules of their axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from portable_gpu.arguments import MAX_INT, flag, hashable, integers, shown, whole
from portable_gpu.dtypes import is_float16_like
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.ops.operation import CallArguments, Invocation, Result
from portable_gpu.ops.reduce import mean
from portable_gpu.ops.sampling.call import (
    SamplingOperation,
    check_result,
    floating,
    invocation,
    logical,
    spatial,
    summed_back,
    unless_trivial,
)
from portable_gpu.ops.sampling.rules import AdaptiveWindow, AxisRule, PoolingWindow, transposed
from portable_gpu.runtime.views import Shape, as_array


def window_rules(
    shape: Shape, axes: int, window: tuple[Any, ...], mean: str = ""
) -> list[AxisRule | None]:
    """The rules of all axes of an input of some shape.

    Args:
        shape: The shape of the input.
        axes: The number of spatial axes.
        window: The result of :func:`window_of`.
        mean: See :class:`PoolingWindow`.

    Raises: As :func:`max_pool2d`.
    """
    kernel_size, stride, padding, dilation, ceil_mode = window
    kernels = integers(kernel_size, "kernel_size", axes, 1)
    strides = strides_of(stride, kernels, axes)
    dilations = integers(dilation, "dilation", axes, 1)
    pairs, is_paired = _paddings(padding, axes)
    rules: list[AxisRule | None] = [None] * (len(shape) - axes)
    windows = zip(shape[len(shape) - axes :], kernels, strides, dilations, pairs, strict=True)
    for size, kernel, step, apart, (before, after) in windows:
        span = (kernel - 1) * apart + 1
        max_padding = span - 1 if is_paired else span // 2
        if not 0 <= min(before, after) <= max(before, after) <= max_padding:
            raise ArgumentError(
                f"padding is {shown(padding)} for windows of {span} places; "
                f"expected integers from 0 to {max_padding}"
            )
        last_start = size + before + after - span
        outputs = (-(-last_start // step) if ceil_mode else last_start // step) + 1
        if ceil_mode and (outputs - 1) * step >= size + before:
            outputs -= 1
        if size < 1 or outputs < 1:
            raise ShapeError(
                f"input has shape {shape}, kernel_size is {shown(kernel_size)} and dilation "
                f"{shown(dilation)}: windows of {span} places are larger than an axis of {size} "
                f"with {before} and {after} more"
            )
        if max(size, span) > MAX_INT:
            raise ArgumentError(
                f"kernel_size is {shown(kernel_size)} and dilation {shown(dilation)} on an axis of "
                f"{size}; expected at most {MAX_INT} places"
            )
        rules.append(PoolingWindow(size, outputs, kernel, step, before, after, apart, mean))
    return rules


def strides_of(stride: Any, kernels: tuple[int, ...], axes: int) -> tuple[int, ...]:
    """The strides of windows; those of ``None`` are next to each other."""
    if stride is None or (isinstance(stride, tuple) and not stride):
        return kernels
    return integers(stride, "stride", axes, 1)


def window_of(kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any) -> Any:
    """The options of windows as a hashable tuple."""
    pads = hashable(padding)
    if isinstance(pads, tuple):
        pads = tuple([hashable(pad) for pad in pads])
    numbers = hashable(kernel_size), hashable(stride), pads, hashable(dilation)
    return *numbers, flag(ceil_mode, "ceil_mode")


def _paddings(padding: Any, axes: int) -> tuple[list[tuple[int, int]], bool]:
    """The places before and after each axis, and whether ``padding`` is a tuple of pairs."""
    if isinstance(padding, tuple) and any(isinstance(pad, tuple) for pad in padding):
        if len(padding) != axes:
            raise ArgumentError(f"padding is {shown(padding)}; expected {axes} pairs")
        pairs = [integers(pad, "padding", 2) for pad in padding]
        return [(before, after) for before, after in pairs], True
    return [(pad, pad) for pad in integers(padding, "padding", axes)], False


def avg_rules(
    shape: Shape, axes: int, window: tuple[Any, ...], include: bool, divisor: Any
) -> list[AxisRule | None]:
    """The rules of means of windows; ``divisor_override`` is a factor of the first axis."""
    if divisor is None:
        return _changing(window_rules(shape, axes, window, "padded" if include else "valid"))
    number = whole(divisor, "divisor_override")
    if not number:
        raise ArgumentError("divisor_override is 0; expected another integer")
    rules = window_rules(shape, axes, window)
    first = rules[len(shape) - axes]
    assert isinstance(first, PoolingWindow)
    rules[len(shape) - axes] = replace(first, divisor=number)
    return rules


def _changing(rules: list[AxisRule | None]) -> list[AxisRule | None]:
    """The rules without windows of single elements, which are means of themselves."""
    windows = [rule for rule in rules if rule is not None]
    trivial = [
        isinstance(rule, PoolingWindow) and (rule.kernel, rule.stride) == (1, 1)
        and rule.outputs == rule.size
        for rule in windows
    ]  # fmt: skip
    return [*[None] * (len(rules) - len(windows)), *unless_trivial(windows, trivial)]


def adaptive_rules(
    shape: Shape, axes: int, output_size: Any, mean: bool = False
) -> list[AxisRule | None]:
    """The rules of all axes of an input, for the extents of the result."""
    sizes = output_size if isinstance(output_size, tuple) else (output_size,) * axes
    if len(sizes) != axes:
        raise ArgumentError(f"output_size is {shown(output_size)}; expected an integer, or {axes}")
    extents = shape[len(shape) - axes :]
    pairs = zip(extents, sizes, strict=True)
    outputs = [n if m is None else whole(m, "output_size") for n, m in pairs]
    if not 1 <= min(outputs) <= max(outputs) <= MAX_INT:
        raise ArgumentError(
            f"output_size is {shown(output_size)}; expected integers from 1 to {MAX_INT}"
        )
    _check_extents(shape, axes)
    rules = [AdaptiveWindow(n, m, mean) for n, m in zip(extents, outputs, strict=True)]
    return [*[None] * (len(shape) - axes), *rules]


def _check_extents(shape: Shape, axes: int) -> None:
    """Raise ShapeError if a spatial axis is empty."""
    if 0 in shape[len(shape) - axes :]:
        raise ShapeError(f"input has shape {shape}; spatial axes must not be empty")


def _adaptive_means(shape: Shape, axes: int, output_size: Any) -> list[AxisRule | None]:
    return adaptive_rules(shape, axes, output_size, True)


def comparable(x: Any, name: str) -> Any:
    """An array of real numbers.

    Raises:
        DTypeError: It is bool or complex.
    """
    if x.dtype.kind in "iuf" or is_float16_like(x.dtype):
        return x
    raise DTypeError(f"{name} is {x.dtype}; expected real numbers")


def first_input(arguments: CallArguments, axes: int, name: str = "input") -> Any:
    """The first input of a call, with its axes in the caller's order."""
    x = as_array(arguments.inputs[0], name)
    return spatial(logical(x, arguments.options[-1]), name, axes)


def indices_of(arguments: CallArguments) -> Any:
    """The second input of a call, which are indices, with its axes in the caller's order."""
    indices = logical(as_array(arguments.inputs[1], "indices"), arguments.options[-1])
    if indices.dtype != np.int64:
        raise DTypeError(f"indices is {indices.dtype}; expected int64")
    return indices


#: From the shape of the input, the spatial axes and the options of a call to the rules of its axes.
_Rules = Callable[..., Sequence[AxisRule | None]]


def _forward(name: str, kind: str, rules_of: _Rules, power: int = 1) -> SamplingOperation:
    """The operation of a pooling function: options are the spatial axes and those of the rules."""
    check = floating if kind == "sum" else comparable

    def normalise(arguments: CallArguments) -> Invocation:
        axes, *options, _ = arguments.options
        x = check(first_input(arguments, axes), "input")
        rules = rules_of(x.shape, axes, *options)
        result = invocation(kind, [(x, "input")], rules, arguments, power=power)
        if kind == "argmax":
            indices = Result(result.shape, np.dtype(np.int64), "the array for indices")
            result.more = (indices,)
        return result

    return SamplingOperation(name, normalise)


def _backward(name: str, kind: str, rules_of: _Rules) -> SamplingOperation:
    """The operation of a gradient: options are the spatial axes, the shape and the rules' options.

    Adaptive pooling has no further options: the extents of the gradient are its ``output_size``.
    """

    def normalise(arguments: CallArguments) -> Invocation:
        axes, shape, *options, _ = arguments.options
        grad = floating(first_input(arguments, axes, "grad_output"), "grad_output")
        if not options:
            sizes = tuple(grad.shape[grad.ndim - axes :])
            if len(shape) != grad.ndim or min(sizes) < 1:
                raise ShapeError(
                    f"grad_output has shape {grad.shape} and the input {shape}; "
                    "expected as many axes, and spatial axes that are not empty"
                )
            options = [sizes]
        rules = rules_of(shape, axes, *options)
        check_result(grad, "grad_output", rules, shape)
        if kind == "sum":
            return summed_back(grad, rules, arguments)
        indices = indices_of(arguments)
        check_result(indices, "indices", rules, shape)
        arrays = [(grad, "grad_output"), (indices, "indices")]
        return invocation(kind, arrays, transposed(rules), arguments)

    return SamplingOperation(name, normalise)


#: The spatial axes, by their number.
_LAST_AXES = {axes: tuple(range(-axes, 0)) for axes in (1, 2, 3)}


def adaptive(
    operation: SamplingOperation,
    reduction: Any,
    input: Any,
    axes: int,
    output_size: Any,
    out: Any,
    *place: Any,
) -> Any:
    """Adaptive pooling; a reduction where one window is the whole input."""
    sizes = hashable(output_size)
    listed = sizes if isinstance(sizes, tuple) else (sizes,)
    if any(type(n) is not int or n != 1 for n in listed) or len(listed) not in (1, axes):
        return operation.call((input,), (axes, sizes), out, *place)
    x = spatial(as_array(input, "input"), "input", axes)
    (floating if reduction is mean else comparable)(x, "input")
    _check_extents(x.shape, axes)
    engine, queue, wait_for = place
    return reduction(
        x, axis=_LAST_AXES[axes], keepdims=True, out=out,
        engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


MAX = _forward("max_pool", "max", window_rules)
MAX_INDICES = _forward("max_pool_with_indices", "argmax", window_rules)
MAX_BACKWARD = _backward("max_pool_backward", "routed", window_rules)
AVG = _forward("avg_pool", "sum", avg_rules)
AVG_BACKWARD = _backward("avg_pool_backward", "sum", avg_rules)
ADAPTIVE_AVG = _forward("adaptive_avg_pool", "sum", _adaptive_means)
ADAPTIVE_AVG_BACKWARD = _backward("adaptive_avg_pool_backward", "sum", _adaptive_means)
ADAPTIVE_MAX = _forward("adaptive_max_pool", "max", adaptive_rules)
ADAPTIVE_INDICES = _forward("adaptive_max_pool_with_indices", "argmax", adaptive_rules)
ADAPTIVE_MAX_BACKWARD = _backward("adaptive_max_pool_backward", "routed", adaptive_rules)
#: Sums of the powers of absolute values; of squares, their roots.
WINDOW_POWERS = {p: _forward(f"window_powers_{p}", "sum", window_rules, p) for p in range(2, 9)}
WINDOW_SUMS = _forward("window_sums", "sum", window_rules)
WINDOW_SUMS_BACKWARD = _backward("window_sums_backward", "sum", window_rules)
