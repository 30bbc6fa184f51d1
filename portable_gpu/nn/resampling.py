"""Changes of resolution: interpolation, and shuffles of pixels between channels and space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.arguments import whole
from portable_gpu.errors import ArgumentError, ArraysError, ShapeError
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.result import check_out
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import AnyArray, as_array
from portable_gpu.typing import of_one


@of_one
def pixel_shuffle(
    input: AnyArray,
    upscale_factor: int,
    *,
    out: AnyArray | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Move channels to pixels: (..., C r r, H, W) becomes (..., C, H r, W r).

    Args:
        input: An array of three axes or more, of any dtype and strides.
        upscale_factor: r, at least 1.
        out: Where to put the result.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        ``out``, or a fresh array of the dtype of ``input``, which is channels-last if ``input`` is.

    Raises:
        ShapeError: Fewer than three axes, or r r does not divide the channels.
        ArgumentError: ``upscale_factor`` is less than 1.
        ArgumentTypeError, DTypeError: ``input`` is not an array, or its dtype is not supported.
        OverlapError: ``out`` shares memory with ``input``.
        ReadOnlyError: ``out`` cannot be written.

    Cost: each element is read once and written once.
    """
    return _shuffled(
        (input, "input"), (upscale_factor, "upscale_factor"), out, engine, queue, wait_for
    )


@of_one
def pixel_unshuffle(
    input: AnyArray,
    downscale_factor: int,
    *,
    out: AnyArray | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Move pixels to channels: (..., C, H r, W r) becomes (..., C r r, H, W).

    Args:
        input: As in :func:`pixel_shuffle`, whose inverse this is.
        downscale_factor: r, at least 1.
        out, engine, queue, wait_for: As in :func:`pixel_shuffle`.

    Returns, Cost: As :func:`pixel_shuffle`.

    Raises:
        ShapeError: Fewer than three axes, or r does not divide the last two extents.
        ArgumentError: ``downscale_factor`` is less than 1.
        ArgumentTypeError, DTypeError: ``input`` is not an array, or its dtype is not supported.
        OverlapError: ``out`` shares memory with ``input``.
        ReadOnlyError: ``out`` cannot be written.
    """
    return _unshuffled(
        (input, "input"), (downscale_factor, "downscale_factor"), out, engine, queue, wait_for
    )


@of_one
def pixel_shuffle_backward(
    grad_output: AnyArray,
    upscale_factor: int,
    *,
    out: AnyArray | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Return the gradient of :func:`pixel_shuffle` with respect to its input.

    It is :func:`pixel_unshuffle` of the gradient of the result.

    Args:
        grad_output: The gradient of the result.
        upscale_factor, out, engine, queue, wait_for: As in :func:`pixel_shuffle`.

    Returns, Raises, Cost: As :func:`pixel_unshuffle`.
    """
    array, factor = (grad_output, "grad_output"), (upscale_factor, "upscale_factor")
    return _unshuffled(array, factor, out, engine, queue, wait_for)


@of_one
def pixel_unshuffle_backward(
    grad_output: AnyArray,
    downscale_factor: int,
    *,
    out: AnyArray | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Return the gradient of :func:`pixel_unshuffle` with respect to its input.

    It is :func:`pixel_shuffle` of the gradient of the result.

    Args:
        grad_output: The gradient of the result.
        downscale_factor, out, engine, queue, wait_for: As in :func:`pixel_unshuffle`.

    Returns, Raises, Cost: As :func:`pixel_shuffle`.
    """
    array, factor = (grad_output, "grad_output"), (downscale_factor, "downscale_factor")
    return _shuffled(array, factor, out, engine, queue, wait_for)


def _shuffled(
    array: tuple[Any, str],
    factor: tuple[Any, str],
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Move channels to pixels; the array and the factor are pairs of a value and its name."""
    x, r = _checked(*array, *factor)
    *batch, channels, height, width = x.shape
    if channels % (r * r):
        raise ShapeError(
            f"{array[1]} has shape {x.shape}: {r} x {r} ({factor[1]} {r}) does not divide its "
            f"{channels} channels"
        )
    out_channels = channels // (r * r)
    source = x.reshape((*batch, out_channels, r, r, height, width))
    n = len(batch)
    moved = source.transpose((*range(n), n, n + 3, n + 1, n + 4, n + 2))
    shape = (*batch, out_channels, height * r, width * r)
    return _copied((x, array[1]), moved, shape, (1, 2, 2), out, engine, queue, wait_for)


def _unshuffled(
    array: tuple[Any, str],
    factor: tuple[Any, str],
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Move pixels to channels; the array and the factor are pairs of a value and its name."""
    x, r = _checked(*array, *factor)
    *batch, channels, height, width = x.shape
    if height % r or width % r:
        raise ShapeError(
            f"{array[1]} has shape {x.shape}: {factor[1]} {r} does not divide its last two extents"
        )
    source = x.reshape((*batch, channels, height // r, r, width // r, r))
    n = len(batch)
    moved = source.transpose((*range(n), n, n + 2, n + 4, n + 1, n + 3))
    shape = (*batch, channels * r * r, height // r, width // r)
    return _copied((x, array[1]), moved, shape, (3, 1, 1), out, engine, queue, wait_for)


def _checked(value: Any, name: str, factor: Any, factor_name: str) -> tuple[Any, int]:
    """Return the input as an array whose views do not copy, and the factor as an integer."""
    x = as_array(value, name)
    r = whole(factor, factor_name)
    if x.ndim < 3:
        raise ShapeError(f"{name} has shape {x.shape}; expected (..., channels, height, width)")
    if r < 1:
        raise ArgumentError(f"{factor_name} is {r}; expected an integer of at least 1")
    return x, r


def _copied(
    array: tuple[Any, str],
    moved: Any,
    shape: tuple[int, ...],
    split: tuple[int, int, int],
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Copy a view to a result of another shape.

    Args:
        array: The input and its name; the result has the same order of axes in memory.
        moved: A view of the input.  Its axes, some of them joined, are those of the result.
        shape: The shape of the result.
        split: The numbers of axes of the view that are joined to each of the last three axes of the
            result.
        out, engine, queue, wait_for: As in the public functions.
    """
    x, name = array
    check_out(out, shape, x.dtype, x)
    parts = [1] * (len(shape) - 3) + list(split)
    starts = [sum(parts[:axis]) for axis in range(len(parts))]
    order = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))
    axes = [starts[axis] + k for axis in order for k in range(parts[axis])]
    place: dict[str, Any] = {"engine": engine, "queue": queue, "wait_for": wait_for}
    try:
        if out is not None:
            elementwise("x", x=moved, out=out.reshape(moved.shape), **place)
            return out
        copy = elementwise("x", x=moved.transpose(axes), **place)
    except ArraysError as error:
        raise error.renamed({"x": name}) from None
    back = sorted(range(x.ndim), key=order.__getitem__)
    return copy.reshape([shape[axis] for axis in order]).transpose(back)
