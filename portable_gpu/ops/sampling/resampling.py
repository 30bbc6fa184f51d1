"""Interpolation of arrays, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Any

import pyopencl as cl

from portable_gpu.arguments import MAX_INT, finite, flag, hashable, one_of, shown, whole
from portable_gpu.errors import ArgumentError, ShapeError
from portable_gpu.ops.factors import plain_number
from portable_gpu.ops.operation import CallArguments, Invocation
from portable_gpu.ops.sampling.call import (
    SamplingOperation,
    bits,
    check_result,
    floating,
    invocation,
    logical,
    shape_of,
    summed_back,
)
from portable_gpu.ops.sampling.rules import AdaptiveWindow, AxisRule, Resize
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import AnyArray, Shape, as_array
from portable_gpu.typing import of_one

#: The kind of each mode, and the number of spatial axes that it takes; 0 stands for one to three.
MODES = {
    "nearest": ("nearest", 0), "nearest-exact": ("nearest", 0), "area": ("area", 0),
    "linear": ("linear", 1), "bilinear": ("linear", 2), "trilinear": ("linear", 3),
    "bicubic": ("cubic", 2),
}  # fmt: skip
COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
    "half_pixel_symmetric",
)  # fmt: skip
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@of_one
def interpolate(
    input: AnyArray,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    coordinates: str | None = None,
    rounding: str | None = None,
    roi: Sequence[float] | None = None,
    cubic_coefficient: float | None = None,
    exclude_outside: bool = False,
    out: AnyArray | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Change the resolution of images, as torch's function of this name and ONNX's Resize do.

    Args:
        input: Shape (batch, channels, spatial axes), with one to three of these; any strides.
            Floating-point numbers; of any dtype for ``nearest``.
        size: The extents of the result: an integer, or one for each spatial axis.
        scale_factor: Instead of ``size``: the ratio of the extents of the result to those of the
            input, one for all axes or one for each.  The extents of the result are rounded down.
        mode: ``nearest``, ``nearest-exact``, ``area`` (the means of
            :func:`adaptive_avg_pool2d`), ``linear`` (one spatial axis), ``bilinear``,
            ``bicubic`` (two) or ``trilinear`` (three).
        align_corners: Whether the centers of the corner elements stay at the corners; not for
            ``nearest`` and ``area``.
        recompute_scale_factor: Whether coordinates take the quotient of the extents instead of
            ``scale_factor``.
        antialias: Whether each element of a smaller result has weights for proportionally more
            elements; for ``bilinear`` and ``bicubic`` only.
        coordinates: The rule, by ONNX's name, that maps coordinates of the result to those of the
            input, instead of torch's rule: ``half_pixel``, ``pytorch_half_pixel``,
            ``align_corners``, ``asymmetric``, ``tf_crop_and_resize`` or ``half_pixel_symmetric``.
        rounding: With ``coordinates`` and mode ``nearest``: ``round_prefer_floor`` (the default),
            ``round_prefer_ceil``, ``floor`` or ``ceil``.
        roi: With ``tf_crop_and_resize``, the part of the input: the starts on all spatial axes,
            then the ends, where 1 is the last element.  Results beyond the input are 0.
        cubic_coefficient: The coefficient of cubic weights; -0.75 by default, and -0.5 with
            ``antialias`` without ``coordinates``.
        exclude_outside: Whether weights of places outside of the input count as 0, and the others
            add up to 1; else they are those of the first and last element.  With ``antialias`` and
            without ``coordinates`` they always count as 0, as torch has it.
        out, engine, queue, wait_for: See :func:`portable_gpu.nn.pad`.

    Returns:
        ``out``, or a fresh array with the dtype and the order of axes of ``input``.

    Raises:
        ShapeError: ``input`` has another number of axes than ``mode`` takes, or an empty spatial
            axis.
        ArgumentError: Both or none of ``size`` and ``scale_factor`` are given; the result
            has no elements; a word is unknown, or an option excludes another one.
        DTypeError: ``input`` is not of floating-point numbers.
        ArgumentTypeError: ``input`` is not an array.
        OverlapError: ``out`` shares memory with ``input``.
        ReadOnlyError: ``out`` cannot be written.

    Cost: each input element is read from memory once, and for its other uses from caches; the
        result is written once.  One launch; tables of 4 bytes for each place that an output reads
        along an axis, and weights of 4 or 8.
    Accuracy: ``|error| <= (k + 5) * eps * sum |weight * x|`` of k elements; 16-bit floats are
        computed in float32 and rounded once.  Coordinates and weights are computed in float64
        (torch's are float32 of float32 arrays); ``nearest`` with a ``size`` has no rounding errors.
    """
    options = (
        hashable(size), hashable(scale_factor), mode, align_corners, recompute_scale_factor,
        antialias, coordinates, rounding, hashable(roi), cubic_coefficient, exclude_outside,
    )  # fmt: skip
    return _INTERPOLATE.call((input,), options, out, engine, queue, wait_for)


@of_one
def interpolate_backward(
    grad_output: AnyArray,
    input: Any,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    coordinates: str | None = None,
    rounding: str | None = None,
    roi: Sequence[float] | None = None,
    cubic_coefficient: float | None = None,
    exclude_outside: bool = False,
    out: AnyArray | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Return the gradient of :func:`interpolate` with respect to its input.

    Args:
        grad_output: The gradient of the result; floating-point numbers.
        input: The input of the forward call, or its shape: nothing else of it is read.
        size, scale_factor, mode, align_corners, recompute_scale_factor, antialias: As in the
            forward call.
        coordinates, rounding, roi, cubic_coefficient, exclude_outside: Likewise.
        out, engine, queue, wait_for: See :func:`portable_gpu.nn.pad`.

    Returns:
        The gradient, with the shape of the input and the order of axes of ``grad_output``.  Each
        element adds up the weighted gradients of the outputs that read it, in their order.

    Raises: As :func:`interpolate`; ``grad_output`` of another shape is a ShapeError.

    Cost, Accuracy: As :func:`interpolate`; k is the number of outputs that read an element.
    """
    options = (
        shape_of(input, "input"), hashable(size), hashable(scale_factor), mode, align_corners,
        recompute_scale_factor, antialias, coordinates, rounding, hashable(roi), cubic_coefficient,
        exclude_outside,
    )  # fmt: skip
    return _BACKWARD.call((grad_output,), options, out, engine, queue, wait_for)


def resize_rules(
    shape: Shape,
    size: Any = None,
    scale_factor: Any = None,
    mode: Any = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: Any = False,
    coordinates: Any = None,
    rounding: Any = None,
    roi: Any = None,
    cubic_coefficient: Any = None,
    exclude_outside: Any = False,
) -> tuple[str, list[AxisRule | None]]:
    """Return the kind of a mode, and the rules of all axes; ``None`` for batch and channels.

    Args:
        shape: The shape of the input.
        size, scale_factor, mode, align_corners, recompute_scale_factor, antialias, coordinates,
            rounding, roi, cubic_coefficient, exclude_outside: As :func:`interpolate` takes them.

    Raises: As :func:`interpolate`.
    """
    kind, spatial = MODES[one_of(mode, MODES, "mode")]
    axes = len(shape) - 2
    if axes != spatial if spatial else axes not in (1, 2, 3):
        expected = f"{spatial + 2} axes" if spatial else "3 to 5 axes"
        raise ShapeError(f"input has shape {shape}; mode {mode!r} takes {expected}")
    extents = shape[2:]
    if min(extents) < 1:
        raise ShapeError(f"input has shape {shape}; spatial axes must not be empty")
    recompute = recompute_scale_factor is not None and flag(
        recompute_scale_factor, "recompute_scale_factor"
    )
    sizes, scales = _sizes(extents, size, scale_factor, recompute)
    widens = flag(antialias, "antialias")
    if widens and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(f"antialias is True, and mode {mode!r}; expected bilinear or bicubic")
    aligned = align_corners is not None and flag(align_corners, "align_corners")
    if align_corners is not None and (kind in ("nearest", "area") or coordinates is not None):
        raise ArgumentError(
            f"align_corners is {aligned}, which mode {mode!r} with coordinates {coordinates!r} "
            "does not take"
        )
    if kind == "area":
        if coordinates is not None:
            raise ArgumentError(f"coordinates is {coordinates!r}, which mode 'area' does not take")
        means = [AdaptiveWindow(n, m, True) for n, m in zip(extents, sizes, strict=True)]
        return kind, [None, None, *means]
    system, nearest = _coordinates(mode, aligned, coordinates, rounding)
    if widens and coordinates not in (None, "half_pixel"):
        raise ArgumentError(f"antialias is True, and coordinates {system!r}; expected half_pixel")
    regions = _region(roi, system, axes)
    by_torch = coordinates is None
    cubic = _real(-0.5 if widens and by_torch else -0.75, cubic_coefficient, "cubic_coefficient")
    inside = flag(exclude_outside, "exclude_outside") or (widens and by_torch)
    rules = [
        Resize(
            extent, result_extent, mode=kind, coordinates=system, scale=scale, rounding=nearest,
            antialias=widens, start=start, end=end, cubic=cubic,
            inside=inside and (widens or kind == "cubic"),
        )
        for extent, result_extent, scale, (start, end) in zip(
            extents, sizes, scales, regions, strict=True
        )
    ]  # fmt: skip
    return kind, [None, None, *rules]


def _coordinates(mode: str, aligned: bool, given: Any, rounding: Any) -> tuple[str, str]:
    """Return the name of the rule of coordinates, and how ``nearest`` rounds places."""
    if given is None:
        if rounding is not None:
            raise ArgumentError(f"rounding is {shown(rounding)}; it takes coordinates, too")
        if mode == "nearest":
            return "asymmetric", "floor"
        return "align_corners" if aligned else "half_pixel", "round_prefer_ceil"
    nearest = "round_prefer_floor" if rounding is None else one_of(rounding, ROUNDINGS, "rounding")
    return one_of(given, COORDINATES, "coordinates"), nearest


def _region(roi: Any, system: str, axes: int) -> list[tuple[float, float]]:
    """Return the start and the end of the part of the input along each axis."""
    if roi is None:
        return [(0.0, 1.0)] * axes
    if system != "tf_crop_and_resize":
        raise ArgumentError(f"roi is {shown(roi)}; it takes coordinates 'tf_crop_and_resize'")
    if not isinstance(roi, tuple) or len(roi) != 2 * axes:
        raise ArgumentError(f"roi is {shown(roi)}; expected {axes} starts and {axes} ends")
    numbers = [_real(0.0, number, "roi") for number in roi]
    return list(zip(numbers[:axes], numbers[axes:], strict=True))


def _real(default: float, value: Any, name: str) -> float:
    """Return a finite real number as a float; ``None`` stands for the default."""
    return finite(plain_number(default if value is None else value, name), name)


def _sizes(
    extents: Shape, size: Any, scale_factor: Any, recompute: bool
) -> tuple[list[int], list[float]]:
    """Return the extents of the result, and the scales that rules of coordinates take."""
    if (size is None) == (scale_factor is None):
        raise ArgumentError(
            f"size is {shown(size)} and scale_factor {shown(scale_factor)}; expected one of them"
        )
    value, name = (size, "size") if scale_factor is None else (scale_factor, "scale_factor")
    values = value if isinstance(value, tuple) else (value,) * len(extents)
    if len(values) != len(extents):
        raise ArgumentError(f"{name} is {shown(value)}; expected a number, or {len(extents)}")
    if scale_factor is None:
        if recompute:
            raise ArgumentError("recompute_scale_factor is True; it takes scale_factor, not size")
        sizes = [whole(number, "size") for number in values]
        factors = [m / n for m, n in zip(sizes, extents, strict=True)]
    else:
        factors = [_real(0.0, number, name) for number in values]
        products = [n * factor for n, factor in zip(extents, factors, strict=True)]
        if not all(1 <= extent <= MAX_INT for extent in products):
            raise ArgumentError(
                f"scale_factor is {shown(scale_factor)} of extents {extents}; "
                f"expected extents of the result from 1 to {MAX_INT}"
            )
        sizes = [floor(extent) for extent in products]
        if recompute:
            factors = [m / n for m, n in zip(sizes, extents, strict=True)]
    if not 1 <= min(sizes) <= max(sizes) <= MAX_INT:
        raise ArgumentError(f"size is {shown(size)}; expected integers from 1 to {MAX_INT}")
    return sizes, factors


def _interpolate(arguments: CallArguments) -> Invocation:
    *options, order = arguments.options
    x = logical(as_array(arguments.inputs[0], "input"), order)
    kind, rules = resize_rules(tuple(x.shape), *options)
    if kind == "nearest":
        fill = bits(0, "value", x.dtype)
        return invocation("copy", [(x, "input")], rules, arguments, fill)
    return invocation("sum", [(floating(x, "input"), "input")], rules, arguments)


def _interpolate_backward(arguments: CallArguments) -> Invocation:
    shape, *options, order = arguments.options
    grad = floating(logical(as_array(arguments.inputs[0], "grad_output"), order), "grad_output")
    _, rules = resize_rules(shape, *options)
    check_result(grad, "grad_output", rules, shape, "size, scale_factor and mode")
    return summed_back(grad, rules, arguments)


_INTERPOLATE = SamplingOperation("interpolate", _interpolate)
_BACKWARD = SamplingOperation("interpolate_backward", _interpolate_backward)
