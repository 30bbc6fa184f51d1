"""Padding of arrays, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.arguments import hashable, one_of, shown, whole
from portable_gpu.errors import ArgumentError, ArgumentTypeError, ShapeError
from portable_gpu.ops.factors import plain_number
from portable_gpu.ops.operation import CallArguments, Invocation
from portable_gpu.ops.sampling.call import (
    SamplingOperation,
    bits,
    floating,
    invocation,
    logical,
    unless_trivial,
)
from portable_gpu.ops.sampling.rules import AxisRule, Padding, TransposedRule
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import AnyArray, as_array
from portable_gpu.typing import of_one

MODES = ("constant", "reflect", "replicate", "circular")


@of_one
def pad(
    input: AnyArray,
    pad: Sequence[int],
    mode: str = "constant",
    value: complex | None = None,
    *,
    out: AnyArray | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Add elements before and after axes of an array, or remove some.

    Args:
        input: An array of one axis or more, of any dtype and strides.
        pad: Pairs of numbers of elements before and after an axis, the last axis first: ``(left,
            right, top, bottom)``.  Negative numbers remove elements.  Every mode takes any number
            of axes.
        mode: ``constant``; ``reflect``, without a repetition of the edge; ``replicate``, the
            edge; or ``circular``, the elements of the other end, without those that negative
            numbers remove.
        value: The value of new elements in mode ``constant``; 0 by default.
        out: Where to put the result.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        ``out`` or a fresh array, with the dtype of ``input``: a NumPy array for NumPy arrays
        (done), ``portable_gpu.Array`` for device arrays (enqueued).

    Raises:
        ShapeError: An axis would have fewer than 0 elements; an axis has too few elements for
            its mode: ``reflect`` adds fewer elements than the axis has, ``circular`` at most as
            many, and ``replicate`` needs at least one.
        ArgumentError: ``pad`` has an odd number of integers, or more than two for each axis; the
            mode is unknown; a value that the dtype cannot hold, or one with another mode.
        ArgumentTypeError, DTypeError: ``input`` is not an array, or its dtype is not supported.
        OverlapError: ``out`` shares memory with ``input``.
        ReadOnlyError: ``out`` cannot be written.

    Cost: each element of the result is written once, and each read once; tables of 4 bytes for
        each place of a padded axis.
    Accuracy: exact.
    """
    number = None if value is None else plain_number(value, "value")
    options = hashable(pad), mode, number, repr(number)  # which tells -0.0 from 0.0
    return _PAD.call((input,), options, out, engine, queue, wait_for)


@of_one
def pad_backward(
    grad_output: AnyArray,
    pad: Sequence[int],
    mode: str = "constant",
    *,
    out: AnyArray | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Return the gradient of :func:`pad` with respect to its input.

    Args:
        grad_output: The gradient of the result, of its shape; floating or complex numbers.
        pad, mode: As in the forward call.
        out, engine, queue, wait_for: As in :func:`pad`.

    Returns:
        The gradient, of the shape that the input had.

    Raises: As :func:`pad`.

    Each element of the input adds up the elements of ``grad_output`` that are copies of it, in
    their order: results repeat bit by bit.
    Accuracy: ``|error| <= (copies + 2) * eps * sum |grad_output|`` for each element.
    """
    options = hashable(pad), mode
    return _BACKWARD.call((grad_output,), options, out, engine, queue, wait_for)


def _pairs(pad: Any, shape: Sequence[int], name: str) -> list[tuple[int, int]]:
    """The numbers of elements before and after each axis of an array, the first axis first."""
    ndim = len(shape)
    if not isinstance(pad, (tuple, list)):
        raise ArgumentTypeError(f"pad is {shown(pad)}; expected a sequence of integers")
    numbers = [whole(number, "pad") for number in pad]
    if len(numbers) % 2 or len(numbers) > 2 * ndim:
        raise ArgumentError(
            f"pad has {len(numbers)} integers; expected pairs for at most the {ndim} axes of "
            f"{name}, whose shape is {tuple(shape)}"
        )
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


def _rules(
    extents: Sequence[int], pairs: Sequence[tuple[int, int]], mode: str, says: str = "input has"
) -> list[Padding]:
    """The rules of all axes, whose extents are those of the input, as the array ``says``."""
    for axis, (size, (before, after)) in enumerate(zip(extents, pairs, strict=True)):
        remaining = size + min(before, 0) + min(after, 0)
        max_pad = {"reflect": size - 1, "circular": remaining}.get(mode)
        place = f"pad is ({before}, {after}) on axis {axis}, where {says} {size} elements"
        if size + before + after < 0 or (mode != "constant" and remaining < 0):
            raise ShapeError(f"{place}: fewer than 0 would be left")
        if max_pad is not None and max(before, after) > max(max_pad, 0):
            raise ShapeError(f"{place}: {mode} takes at most {max(max_pad, 0)}")
        if mode != "constant" and remaining < 1 and size + before + after > 0:
            raise ShapeError(f"{place}: none of them is left to {mode}")
    return [
        Padding(size, size + before + after, before, mode)
        for size, (before, after) in zip(extents, pairs, strict=True)
    ]


def padding_rules(extents: Sequence[int], pad: Any, mode: str) -> list[AxisRule | None]:
    """The rules of all axes of an input.

    Raises: As :func:`pad`.
    """
    pairs = _pairs(pad, extents, "input")
    return _changed(_rules(extents, pairs, mode), pairs)


def _changed(rules: Sequence[AxisRule], pairs: Sequence[tuple[int, int]]) -> list[AxisRule | None]:
    return unless_trivial(rules, [pair == (0, 0) for pair in pairs])


def _with_axes(array: Any, name: str) -> Any:
    if not array.ndim:
        raise ShapeError(f"{name} has no axes; expected one axis or more")
    return array


def _normalise(arguments: CallArguments) -> Invocation:
    pad, mode, value, _, order = arguments.options
    x = _with_axes(logical(as_array(arguments.inputs[0], "input"), order), "input")
    one_of(mode, MODES, "mode")
    if value is not None and mode != "constant":
        raise ArgumentError(f"value is {shown(value)}, which mode {mode!r} does not take")
    rules = padding_rules(x.shape, pad, mode)
    fill = bits(0 if value is None else value, "value", x.dtype)
    return invocation("copy", [(x, "input")], rules, arguments, fill)


def _normalise_backward(arguments: CallArguments) -> Invocation:
    pad, mode, order = arguments.options
    grad = _with_axes(logical(as_array(arguments.inputs[0], "grad_output"), order), "grad_output")
    one_of(mode, MODES, "mode")
    floating(grad, "grad_output", complex_too=True)
    pairs = _pairs(pad, grad.shape, "grad_output")
    extents = [n - before - after for n, (before, after) in zip(grad.shape, pairs, strict=True)]
    if min(extents) < 0:
        raise ShapeError(f"pad is {shown(pad)}, more than grad_output of shape {grad.shape} has")
    rules = _rules(extents, pairs, mode, "grad_output leaves input")
    if mode == "constant":  # the gradient is padded by the negative numbers
        back: list[AxisRule] = [
            Padding(rule.outputs, rule.size, -rule.before, "constant") for rule in rules
        ]
        fill = bits(0, "value", grad.dtype)
        return invocation("copy", [(grad, "grad_output")], _changed(back, pairs), arguments, fill)
    transposed = _changed([TransposedRule.of(rule) for rule in rules], pairs)
    return invocation("sum", [(grad, "grad_output")], transposed, arguments)


_PAD = SamplingOperation("pad", _normalise)
_BACKWARD = SamplingOperation("pad_backward", _normalise_backward)
