"""The calls of pooling functions: their checks, their rules, and functions of several calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, shown, whole
from portable_gpu.dtypes import is_float16_like
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.factors import plain_number
from portable_gpu.ops.operation import CallArguments, Invocation, Result
from portable_gpu.ops.reduce import mean
from portable_gpu.ops.sampling.call import (
    SamplingOperation,
    floating,
    hashable,
    integers,
    invocation,
    logical,
    spatial,
    unless_trivial,
)
from portable_gpu.ops.sampling.rules import AdaptiveWindow, AxisRule, PoolingWindow, TransposedRule
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import Shape, as_array

_MAX_INT = (1 << 31) - 1


def window_rules(
    shape: Shape, axes: int, window: tuple[Any, ...], mean: str = ""
) -> list[AxisRule | None]:
    """The rules of all axes of an input of some shape.

    Args:
        shape: The shape of the input.
        axes: The number of spatial axes.
        window: What :func:`window_of` returns.
        mean: See :class:`PoolingWindow`.

    Raises: As :func:`max_pool2d`.
    """
    kernel_size, stride, padding, dilation, ceil_mode = window
    kernels = integers(kernel_size, "kernel_size", axes, 1)
    strides = kernels if stride in (None, ()) else integers(stride, "stride", axes, 1)
    dilations = integers(dilation, "dilation", axes, 1)
    pairs, is_paired = _paddings(padding, axes)
    rules: list[AxisRule | None] = [None] * (len(shape) - axes)
    each = zip(shape[len(shape) - axes :], kernels, strides, dilations, pairs, strict=True)
    for size, kernel, step, apart, (before, after) in each:
        span = (kernel - 1) * apart + 1
        most = span - 1 if is_paired else span // 2
        if not 0 <= min(before, after) <= max(before, after) <= most:
            raise ArgumentError(
                f"padding is {shown(padding)} for windows of {span} places; from 0 to {most} would "
                "do"
            )
        if size < 1 or size + before + after < span:
            raise ShapeError(
                f"input has shape {shape} and kernel_size is {shown(kernel_size)}: windows of "
                f"{span} places are larger than an axis of {size} with {before} and {after} more"
            )
        if max(size, span, step) > _MAX_INT:
            raise ArgumentError(f"kernel_size or stride is above {_MAX_INT}")
        room = size + before + after - span
        outputs = (-(-room // step) if ceil_mode else room // step) + 1
        if ceil_mode and (outputs - 1) * step >= size + before:
            outputs -= 1
        rules.append(PoolingWindow(size, outputs, kernel, step, before, after, apart, mean))
    return rules


def window_of(kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any) -> Any:
    """The options of windows, hashable."""
    pads = hashable(padding)
    if isinstance(pads, tuple):
        pads = tuple([hashable(one) for one in pads])
    numbers = hashable(kernel_size), hashable(stride), pads, hashable(dilation)
    return *numbers, flag(ceil_mode, "ceil_mode")


def _paddings(padding: Any, axes: int) -> tuple[list[tuple[int, int]], bool]:
    """The places before and after each axis, and whether they were given as pairs."""
    if isinstance(padding, tuple) and any(isinstance(one, tuple) for one in padding):
        if len(padding) != axes:
            raise ArgumentError(f"padding is {shown(padding)}; {axes} pairs would do")
        pairs = [integers(one, "padding", 2) for one in padding]
        return [(before, after) for before, after in pairs], True
    return [(one, one) for one in integers(padding, "padding", axes)], False


def adaptive_rules(shape: Shape, axes: int, output_size: Any, mean: bool) -> list[AxisRule | None]:
    """The rules of all axes of an input, for the extents of the result."""
    sizes = output_size if isinstance(output_size, tuple) else (output_size,) * axes
    if len(sizes) != axes:
        raise ArgumentError(f"output_size is {shown(output_size)}; an integer, or {axes}, would do")
    own = shape[len(shape) - axes :]
    given = [n if m is None else whole(m, "output_size") for n, m in zip(own, sizes, strict=True)]
    if min(given) < 1:
        raise ArgumentError(f"output_size is {shown(output_size)}; integers from 1 on would do")
    if min(own) < 1:
        raise ShapeError(f"input has shape {shape}; spatial axes must not be empty")
    rules = [AdaptiveWindow(n, m, mean) for n, m in zip(own, given, strict=True)]
    return [*[None] * (len(shape) - axes), *rules]


def _comparable(x: Any, name: str) -> Any:
    """An array of real numbers.

    Raises:
        DTypeError: It is bool or complex.
    """
    if x.dtype.kind in "iuf" or is_float16_like(x.dtype):
        return x
    raise DTypeError(f"{name} is {x.dtype}; real numbers would do")


def _given(arguments: CallArguments, axes: int, name: str = "input") -> Any:
    """The first input of a call, with its axes in the caller's order."""
    x = as_array(arguments.inputs[0], name)
    return spatial(logical(x, arguments.options[-1]), name, axes)


def _max(arguments: CallArguments) -> Invocation:
    axes, *window, _ = arguments.options
    x = _comparable(_given(arguments, axes), "input")
    rules = window_rules(x.shape, axes, tuple(window))
    return invocation("max", [(x, "input")], rules, arguments)


def _max_indices(arguments: CallArguments) -> Invocation:
    axes, *window, _ = arguments.options
    x = _comparable(_given(arguments, axes), "input")
    return _with_indices(x, window_rules(x.shape, axes, tuple(window)), arguments)


def _with_indices(x: Any, rules: list[AxisRule | None], arguments: CallArguments) -> Invocation:
    result = invocation("argmax", [(x, "input")], rules, arguments)
    result.more = (Result(result.shape, np.dtype(np.int64), "the array for indices"),)
    return result


def _max_backward(arguments: CallArguments) -> Invocation:
    axes, shape, *window, _ = arguments.options
    return _routed(arguments, axes, window_rules(shape, axes, tuple(window)), shape)


def _routed(
    arguments: CallArguments, axes: int, rules: Sequence[AxisRule | None], shape: Shape
) -> Invocation:
    """The gradient of a choice of elements by indices."""
    grad = floating(_given(arguments, axes, "grad_output"), "grad_output")
    indices = logical(as_array(arguments.inputs[1], "indices"), arguments.options[-1])
    _fits(grad, "grad_output", rules, shape)
    _fits(indices, "indices", rules, shape)
    if indices.dtype != np.int64:
        raise DTypeError(f"indices is {indices.dtype}; int64 would do")
    back = [None if rule is None else TransposedRule.of(rule) for rule in rules]
    return invocation("routed", [(grad, "grad_output"), (indices, "indices")], back, arguments)


def _fits(x: Any, name: str, rules: Sequence[AxisRule | None], shape: Shape) -> None:
    """Check that an array has the shape of a result.

    Raises:
        ShapeError: It has another shape.
    """
    extents = zip(shape, rules, strict=True)
    result = tuple([n if rule is None else rule.outputs for n, rule in extents])
    if tuple(x.shape) != result:
        raise ShapeError(f"{name} has shape {x.shape}; the result of the forward call has {result}")


def avg_rules(
    shape: Shape, axes: int, window: tuple[Any, ...], include: bool, divisor: Any
) -> list[AxisRule | None]:
    """The rules of means of windows; a divisor of one's own is a factor of the first axis."""
    if divisor is None:
        return _changing(window_rules(shape, axes, window, "padded" if include else "valid"))
    number = whole(divisor, "divisor_override")
    if not number:
        raise ArgumentError("divisor_override is 0; another integer would do")
    rules = window_rules(shape, axes, window)
    first = rules[len(shape) - axes]
    assert isinstance(first, PoolingWindow)
    rules[len(shape) - axes] = replace(first, divisor=number)
    return rules


def _changing(rules: list[AxisRule | None]) -> list[AxisRule | None]:
    """The rules without windows of single elements, which are means of themselves."""
    kept = [rule for rule in rules if rule is not None]
    trivial = [
        isinstance(rule, PoolingWindow) and (rule.kernel, rule.stride) == (1, 1)
        and rule.outputs == rule.size
        for rule in kept
    ]  # fmt: skip
    return [*[None] * (len(rules) - len(kept)), *unless_trivial(kept, trivial)]


def _avg(arguments: CallArguments) -> Invocation:
    axes, *window, include, divisor, _ = arguments.options
    x = floating(_given(arguments, axes), "input")
    rules = avg_rules(x.shape, axes, tuple(window), include, divisor)
    return invocation("sum", [(x, "input")], rules, arguments)


def _avg_backward(arguments: CallArguments) -> Invocation:
    axes, shape, *window, include, divisor, _ = arguments.options
    rules = avg_rules(shape, axes, tuple(window), include, divisor)
    return _summed_back(arguments, axes, rules, shape)


def _summed_back(
    arguments: CallArguments, axes: int, rules: Sequence[AxisRule | None], shape: Shape
) -> Invocation:
    """The gradient of weighted sums."""
    grad = floating(_given(arguments, axes, "grad_output"), "grad_output")
    _fits(grad, "grad_output", rules, shape)
    back = [None if rule is None else TransposedRule.of(rule) for rule in rules]
    return invocation("sum", [(grad, "grad_output")], back, arguments)


def _adaptive_avg(arguments: CallArguments) -> Invocation:
    axes, output_size, _ = arguments.options
    x = floating(_given(arguments, axes), "input")
    rules = adaptive_rules(x.shape, axes, output_size, True)
    return invocation("sum", [(x, "input")], rules, arguments)


def _adaptive_avg_backward(arguments: CallArguments) -> Invocation:
    axes, shape, _ = arguments.options
    grad = _given(arguments, axes, "grad_output")
    rules = adaptive_rules(shape, axes, tuple(grad.shape[grad.ndim - axes :]), True)
    if len(shape) != grad.ndim:
        raise ShapeError(f"grad_output has shape {grad.shape} and the input {shape}")
    return _summed_back(arguments, axes, rules, shape)


def _adaptive_max(arguments: CallArguments) -> Invocation:
    axes, output_size, _ = arguments.options
    x = _comparable(_given(arguments, axes), "input")
    rules = adaptive_rules(x.shape, axes, output_size, False)
    return invocation("max", [(x, "input")], rules, arguments)


def _adaptive_indices(arguments: CallArguments) -> Invocation:
    axes, output_size, _ = arguments.options
    x = _comparable(_given(arguments, axes), "input")
    return _with_indices(x, adaptive_rules(x.shape, axes, output_size, False), arguments)


def _adaptive_max_backward(arguments: CallArguments) -> Invocation:
    axes, shape, _ = arguments.options
    grad = _given(arguments, axes, "grad_output")
    if len(shape) != grad.ndim:
        raise ShapeError(f"grad_output has shape {grad.shape} and the input {shape}")
    rules = adaptive_rules(shape, axes, tuple(grad.shape[grad.ndim - axes :]), False)
    return _routed(arguments, axes, rules, shape)


def adaptive(
    operation: SamplingOperation,
    reduction: Any,
    input: Any,
    axes: int,
    output_size: Any,
    out: Any,
    *place: Any,
) -> Any:
    """Adaptive pooling; of one window for all it is a reduction."""
    sizes = hashable(output_size)
    alone = sizes if isinstance(sizes, tuple) else (sizes,)
    if not all(type(one) is int and one == 1 for one in alone) or len(alone) not in (1, axes):
        return operation.call((input,), (axes, sizes), out, *place)
    x = spatial(as_array(input, "input"), "input", axes)
    _ = floating(x, "input") if reduction is mean else _comparable(x, "input")
    adaptive_rules(x.shape, axes, sizes, True)
    names = "engine", "queue", "wait_for"
    options = dict(zip(names, place, strict=True))
    return reduction(x, axis=tuple(range(-axes, 0)), keepdims=True, out=out, **options)


def _window_sums(arguments: CallArguments) -> Invocation:
    axes, *window, _ = arguments.options
    x = floating(_given(arguments, axes), "input")
    return invocation("sum", [(x, "input")], window_rules(x.shape, axes, tuple(window)), arguments)


def _window_sums_backward(arguments: CallArguments) -> Invocation:
    axes, shape, *window, _ = arguments.options
    return _summed_back(arguments, axes, window_rules(shape, axes, tuple(window)), shape)


def _norm_type(value: Any) -> float:
    number = plain_number(value, "norm_type")
    if isinstance(number, complex) or not 0 < number < np.inf:
        raise ArgumentError(f"norm_type is {shown(value)}; a finite number above 0 would do")
    return float(number)


def lp_norms(
    input: Any,
    norm_type: Any,
    options: tuple[Any, ...],
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Powers, their sums, and roots; ``options`` are the spatial axes and :func:`window_of`."""
    p = _norm_type(norm_type)
    x = floating(spatial(as_array(input, "input"), "input", options[0]), "input")
    window_rules(x.shape, options[0], options[1:])
    place: dict[str, Any] = {"engine": engine, "queue": queue}
    power: dict[str, Any] = {} if p == 2 else {"p": p}
    text = "x * x" if p == 2 else "pow(fabs(x), p)"
    powers = elementwise(text, x=x, wait_for=wait_for, **power, **place)
    sums = _WINDOW_SUMS.call((powers,), options, None, engine, queue, None)
    root: dict[str, Any] = {} if p == 2 else {"q": 1 / p}
    return elementwise("sqrt(x)" if p == 2 else "pow(x, q)", x=sums, out=out, **root, **place)


def lp_norms_backward(
    arrays: tuple[Any, Any, Any],
    norm_type: Any,
    options: tuple[Any, ...],
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """The gradient of :func:`lp_norms`, of its gradient, its input and its result."""
    p, names = _norm_type(norm_type), ("grad_output", "input", "output")
    each = zip(arrays, names, strict=True)
    g, x, y = (floating(spatial(as_array(a, name), name, options[0]), name) for a, name in each)
    rules = window_rules(x.shape, options[0], options[1:])
    _fits(g, "grad_output", rules, x.shape)
    _fits(y, "output", rules, x.shape)
    place: dict[str, Any] = {"engine": engine, "queue": queue, "wait_for": wait_for}
    scaled = elementwise("y == 0 ? 0 : g * pow(y, q)", g=g, y=y, q=1 - p, **place)
    sums = _WINDOW_SUMS_BACKWARD.call(
        (scaled,), (options[0], tuple(x.shape), *options[1:]), None, engine, queue, None
    )
    return elementwise(
        "x == 0 ? 0 : s * copysign(pow(fabs(x), r), x)", s=sums, x=x, r=p - 1, out=out, **place
    )


def _unpooled(shape: Shape, axes: int, options: tuple[Any, ...]) -> list[AxisRule | None]:
    """The rules of the windows of a result of unpooling, of the shape of its input."""
    kernel_size, stride, padding, output_size = options
    kernels = integers(kernel_size, "kernel_size", axes, 1)
    strides = kernels if stride in (None, ()) else integers(stride, "stride", axes, 1)
    pads = integers(padding, "padding", axes, 0)
    own = shape[len(shape) - axes :]
    each = zip(own, kernels, strides, pads, strict=True)
    sizes = [(n - 1) * s - 2 * p + k for n, k, s, p in each]
    if output_size is not None:
        given = output_size if isinstance(output_size, tuple) else (output_size,)
        if len(given) not in (axes, axes + 1, axes + 2):
            raise ArgumentError(f"output_size is {shown(output_size)}; {axes} integers would do")
        wanted = [whole(one, "output_size") for one in given[len(given) - axes :]]
        near = zip(wanted, sizes, strides, strict=True)
        if not all(abs(m - size) < step for m, size, step in near):
            raise ArgumentError(
                f"output_size is {shown(output_size)}; less than a stride from {tuple(sizes)} "
                "would do"
            )
        sizes = wanted
    if min(sizes) < 1 or min(own) < 1:
        raise ShapeError(f"input has shape {shape}: the result would have the extents {sizes}")
    rules = [
        PoolingWindow(m, n, k, s, p, 0)
        for m, n, k, s, p in zip(sizes, own, kernels, strides, pads, strict=True)
    ]
    return [*[None] * (len(shape) - axes), *rules]


def _indices_like(x: Any, arguments: CallArguments) -> Any:
    """The indices of a call, of the shape of an array."""
    indices = logical(as_array(arguments.inputs[-1], "indices"), arguments.options[-1])
    if indices.shape != x.shape:
        raise ShapeError(f"indices has shape {indices.shape} and the input {x.shape}")
    if indices.dtype != np.int64:
        raise DTypeError(f"indices is {indices.dtype}; int64 would do")
    return indices


def _unpool(arguments: CallArguments) -> Invocation:
    axes, *options, _ = arguments.options
    x = _comparable(_given(arguments, axes), "input")
    indices = _indices_like(x, arguments)
    rules = _unpooled(tuple(x.shape), axes, tuple(options))
    back = [None if rule is None else TransposedRule.of(rule) for rule in rules]
    return invocation("placed", [(x, "input"), (indices, "indices")], back, arguments)


def _unpool_backward(arguments: CallArguments) -> Invocation:
    axes, *options, _ = arguments.options
    grad = floating(_given(arguments, axes, "grad_output"), "grad_output")
    indices = logical(as_array(arguments.inputs[1], "indices"), arguments.options[-1])
    if indices.dtype != np.int64:
        raise DTypeError(f"indices is {indices.dtype}; int64 would do")
    spatial(indices, "indices", axes)
    sizes = tuple(grad.shape[grad.ndim - axes :])
    rules = _unpooled(tuple(indices.shape), axes, (*options, sizes))
    _fits(grad, "grad_output", [None if r is None else TransposedRule.of(r) for r in rules],
          tuple(indices.shape))  # fmt: skip
    return invocation("picked", [(grad, "grad_output"), (indices, "indices")], rules, arguments)


UNPOOL = SamplingOperation("max_unpool", _unpool)
UNPOOL_BACKWARD = SamplingOperation("max_unpool_backward", _unpool_backward)
MAX = SamplingOperation("max_pool", _max)
MAX_INDICES = SamplingOperation("max_pool_with_indices", _max_indices)
MAX_BACKWARD = SamplingOperation("max_pool_backward", _max_backward)
AVG = SamplingOperation("avg_pool", _avg)
AVG_BACKWARD = SamplingOperation("avg_pool_backward", _avg_backward)
ADAPTIVE_AVG = SamplingOperation("adaptive_avg_pool", _adaptive_avg)
ADAPTIVE_AVG_BACKWARD = SamplingOperation("adaptive_avg_pool_backward", _adaptive_avg_backward)
ADAPTIVE_MAX = SamplingOperation("adaptive_max_pool", _adaptive_max)
ADAPTIVE_INDICES = SamplingOperation("adaptive_max_pool_with_indices", _adaptive_indices)
ADAPTIVE_MAX_BACKWARD = SamplingOperation("adaptive_max_pool_backward", _adaptive_max_backward)
_WINDOW_SUMS = SamplingOperation("window_sums", _window_sums)
_WINDOW_SUMS_BACKWARD = SamplingOperation("window_sums_backward", _window_sums_backward)
