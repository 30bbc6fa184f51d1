"""Assignments to arrays, copies of them, and conversions to other dtypes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import shown
from portable_gpu.dtypes import element
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    IntegerRangeError,
    OverlapError,
)
from portable_gpu.ops.elementwise import evaluate
from portable_gpu.runtime.array import DEVICE_KINDS, Array
from portable_gpu.runtime.broadcast import check_broadcast
from portable_gpu.runtime.layout import Layout, spread
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.registry import state_for
from portable_gpu.runtime.transfer import asarray
from portable_gpu.runtime.views import as_array, new_array, overlap

try:
    from numpy.exceptions import ComplexWarning
except ImportError:  # NumPy before 1.25
    from numpy import ComplexWarning  # type: ignore[attr-defined, no-redef]


def assign(
    target: Array,
    value: Any,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> None:
    """Set all elements of an array to a number, or to those of an array that broadcasts to it.

    Raises:
        ShapeError: It does not.
        DTypeError: The value is of no supported dtype, or complex where the array is real.
        IntegerRangeError: A Python integer does not fit the dtype.
    """
    for event in events_of(wait_for):
        target.add_event(event)
    if isinstance(value, (list, tuple, np.ndarray)) and np.shape(value):
        value = _uploaded(target, value, queue)
    if not isinstance(value, DEVICE_KINDS):
        number = _number(value, target.dtype)
        if target.size:
            evaluate("y", {"x": target, "y": number}, compute=target.dtype, dtype=target.dtype,
                     out=target, queue=queue)  # fmt: skip
        return
    source = value if isinstance(value, Array) else Array.of(value)
    source = _spread(source, target.shape)
    if source.dtype.kind == "c" and target.dtype.kind not in "cb":
        _warn_of_parts()
        source = source.real
    if not target.size:
        return
    try:
        _copied(source, target.dtype, queue, target)
    except OverlapError:
        if not overlap(target, [source]):  # it overlaps itself
            raise
        _copied(converted(source, source.dtype, queue), target.dtype, queue, target)


def converted(array: Any, dtype: np.dtype[Any], queue: cl.CommandQueue | None = None) -> Any:
    """A C-ordered copy of an array on the device in a dtype.

    Raises:
        DTypeError: The dtype is not supported.
        UnsupportedError: It needs double precision, which the device lacks.
    """
    element(dtype)
    source = array if isinstance(array, Array) else Array.of(array)
    if source.dtype.kind == "c" and dtype.kind not in "cb":
        _warn_of_parts()
        source = source.real
    return _copied(source, dtype, queue)


def full(like: Any, value: Any, dtype: np.dtype[Any] | None = None) -> Any:
    """A new array of another's shape, on its queue, whose elements are all one number."""
    state = state_for([like], None, None)
    queue = like.queue or state.engine.queue
    made = new_array(state, queue, like.shape, like.dtype if dtype is None else dtype)
    assign(made, value)
    return made


def _copied(source: Array, dtype: np.dtype[Any], queue: Any, out: Any = None) -> Any:
    compute = dtype if dtype.kind == "c" else source.dtype
    return evaluate("x", {"x": source}, compute=compute, dtype=dtype, out=out, queue=queue)


def _warn_of_parts() -> None:
    warnings.warn(
        "complex numbers are converted to real ones: the imaginary parts are dropped",
        ComplexWarning, stacklevel=4,
    )  # fmt: skip


def _spread(source: Array, shape: tuple[int, ...]) -> Array:
    """An array broadcast to a shape; further axes in front may have extent 1, as in NumPy."""
    place = source._place()
    while len(place.shape) > len(shape) and place.shape[0] == 1:
        place = Layout(place.offset, place.shape[1:], place.strides[1:])
    if place.shape == shape:
        return source if place.shape == source.shape else source._at(place)
    check_broadcast(place.shape, shape, "the value")
    return source._at(spread(place, shape))


def _uploaded(target: Array, value: Any, queue: cl.CommandQueue | None) -> Array:
    """Values of NumPy on the device, in the array's dtype."""
    values = as_array(value, "the value")
    if values.dtype != target.dtype:
        if values.dtype.kind == "c" and target.dtype.kind not in "cb":
            _warn_of_parts()
            values = values.real
        with np.errstate(all="ignore"):
            values = values.astype(target.dtype)
    state = state_for([target], None, queue)
    return asarray(values, engine=state.engine, queue=queue or target.queue or state.engine.queue)


def _number(value: Any, dtype: np.dtype[Any]) -> Any:
    """A number as NumPy assigns it to an array of a dtype.

    Raises:
        ArgumentTypeError: It is not a number.
        DTypeError: It cannot be converted.
        IntegerRangeError: A Python integer does not fit.
        ArgumentError: It is NaN or infinite, and the dtype holds integers.
    """
    if isinstance(value, np.ndarray):
        value = value[()]
    if not isinstance(value, (bool, int, float, complex, np.generic)):
        raise ArgumentTypeError(f"the value is {shown(value)}; expected a number or an array")
    if isinstance(value, np.generic):
        element(value.dtype)
    converted_value = np.empty((), dtype)
    try:
        with np.errstate(all="ignore"):
            converted_value[()] = value
    except OverflowError as error:
        raise IntegerRangeError(f"the value is {shown(value)}: {error}") from None
    except TypeError as error:
        raise DTypeError(f"the value is {shown(value)}, the array is of {dtype}: {error}") from None
    except ValueError as error:
        raise ArgumentError(
            f"the value is {shown(value)}, the array is of {dtype}: {error}"
        ) from None
    return converted_value[()]
