"""Convolutions and correlations, by FFTs and by direct sums."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from math import log2, prod
from operator import index
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import one_of, shown
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    DTypeError,
    ShapeError,
    reraise_of_signal,
)
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.fft.convolve import OutputRegion, convolved, window
from portable_gpu.ops.reduce.conversion import in_dtype
from portable_gpu.ops.result import check_out, stored
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.transfer import asarray
from portable_gpu.runtime.views import Shape, as_array
from portable_gpu.typing import of_two

METHODS = ("auto", "direct", "fft")
#: Direct sums are chosen up to this number of products per result, times log2 of the length of the
#: transform.  On a CPU of two cores, in float32, both take the same time at 112 products for each
#: of 10^6 results, and at about 200 for each of 1024 x 1024 results.
_TAPS = 5
#: Integers up to here are exact in float64, whose transforms have errors below 1/2.
_EXACT = 2.0**51


@of_two
def fftconvolve(
    in1: Any,
    in2: Any,
    mode: str = "full",
    axes: int | Sequence[int] | None = None,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The convolution of two arrays by FFTs: y[i] = sum_j in1[i - j] in2[j].

    Args:
        in1, in2: Arrays with the same number of axes and any strides: float32, float64, complex64,
            complex128; float16 is computed as float32, integers and bool as float64.
        mode: ``"full"``: all results, n + m - 1 along an axis; ``"same"``: the centre of these, of
            the shape of ``in1``; ``"valid"``: the results that depend on no padding.
        axes: The convolved axes; the others broadcast.  Default: all.
        out: The array for the result; it may share memory with the inputs.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        ``out``, or a fresh array in the common dtype of the inputs: a NumPy array (finished) for
        NumPy inputs, a device array (enqueued) for device arrays; empty if an input is empty.

    Raises:
        ShapeError: The arrays have different numbers of axes; other axes do not broadcast; with
            ``"valid"``, neither input is at least as large as the other along all axes.
        ArgumentError: ``mode`` is unknown; ``axes`` is empty or names one twice.
        AxisError: An axis is out of range.
        DTypeError: The elements of an input are not numbers, or are long doubles.
        UnsupportedError: The call needs double precision, which the device lacks.
        DeviceMemoryError: The transforms cannot be allocated.

    Cost: two forward transforms and an inverse one along all axes, of lengths that are products of
        2, 3 and 5, just long enough that the returned results are free of wrap-around; modes that
        return fewer results cost less.  Padding, product and cropping are parts of these passes.
        Transforms of real inputs have half the size.
    Accuracy: relative error in the 2-norm of about 0.3 eps log2 of the padded size; small results
        among large ones have the absolute errors of the large ones.
    Order: the same bits for one target, policy, shape and alignment.
    """
    a, b = _pair(in1, in2)
    if a.ndim and b.ndim and not (a.size and b.size) and a.ndim == b.ndim:
        return _nothing(a, b, out, engine, queue)
    region = output_region(a.shape, b.shape, mode, axes if a.ndim else None)
    place = {"engine": engine, "queue": queue, "wait_for": events_of(wait_for)}
    if not region.axes:
        return _products(a, b, region, out, place)
    check_out(out, region.shape, _common_transformed(a, b), a, b)
    return stored(_by_transforms(a, b, region, False, None, place), out, engine, queue)


@of_two
def oaconvolve(
    in1: Any,
    in2: Any,
    mode: str = "full",
    axes: int | Sequence[int] | None = None,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The convolution of a long array with a short one, by blocks of the long one.

    The blocks are overlapping windows (overlap-save; SciPy uses overlap-add).  They are cut along
    the axis along which the lengths of the inputs differ most, if one is at least four times the
    other there; else this is :func:`fftconvolve`.

    Arguments, result, errors: see :func:`fftconvolve`.

    Cost: the transforms have a few times the shorter length, which caches hold: each line is read
        and written once by the forward transform and once by the inverse.  The workspace holds the
        transforms of all blocks.
    Accuracy: that of transforms of the length of a window.
    """
    a, b = _pair(in1, in2)
    if a.ndim and b.ndim and not (a.size and b.size) and a.ndim == b.ndim:
        return _nothing(a, b, out, engine, queue)
    region = output_region(a.shape, b.shape, mode, axes if a.ndim else None)
    place = {"engine": engine, "queue": queue, "wait_for": events_of(wait_for)}
    if not region.axes:
        return _products(a, b, region, out, place)
    check_out(out, region.shape, _common_transformed(a, b), a, b)
    axis = max(region.axes, key=lambda k: _ratio(a.shape[k], b.shape[k]))
    n, m = a.shape[axis], b.shape[axis]
    if _ratio(n, m) < 4 or window(max(n, m), min(n, m)) >= max(n, m):
        return stored(_by_transforms(a, b, region, False, None, place), out, engine, queue)
    if m > n:
        a, b = b, a
    return stored(_by_transforms(a, b, region, False, axis, place), out, engine, queue)


@of_two
def convolve(
    in1: Any,
    in2: Any,
    mode: str = "full",
    method: str = "auto",
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The convolution of two arrays along all axes: y[i] = sum_j in1[i - j] in2[j].

    Args:
        in1, in2: Arrays with the same number of axes and any strides and dtypes.
        mode: See :func:`fftconvolve`.
        method: ``"direct"``: by sums, exact for integers; ``"fft"``: by FFTs, rounded for
            integers; ``"auto"``: sums for small inputs, FFTs for large ones; FFTs of integers
            only if they are exact after rounding.
        out, engine, queue, wait_for: See :func:`fftconvolve`.

    Returns:
        See :func:`fftconvolve`; in the inputs' common dtype.

    Raises:
        ArgumentError: ``mode`` or ``method`` is unknown.
        ShapeError, DTypeError, UnsupportedError, DeviceMemoryError: See :func:`fftconvolve`.

    Cost: by sums, one product for each pair of a result and an element of the smaller input; by
        FFTs, see :func:`fftconvolve`.
    Accuracy: by sums, one rounding for each product; float16 is summed in float32.
    Order: the same bits for one target, policy, shape and alignment.
    """
    return _of_method(in1, in2, mode, method, False, out, engine, queue, wait_for)


@of_two
def correlate(
    in1: Any,
    in2: Any,
    mode: str = "full",
    method: str = "auto",
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The correlation of two arrays along all axes: y[i] = sum_j in1[j + i - m + 1] conj(in2[j]).

    It is the convolution with ``in2`` reversed along all axes and conjugated; m is its length.

    Arguments, result, errors, cost and accuracy: see :func:`convolve`.
    """
    return _of_method(in1, in2, mode, method, True, out, engine, queue, wait_for)


def _of_method(
    in1: Any,
    in2: Any,
    mode: str,
    method: str,
    correlated: bool,
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    one_of(method, METHODS, "method")
    a, b = _pair(in1, in2)
    region = output_region(a.shape, b.shape, mode, None)
    if mode == "valid":
        check_valid(a.shape, b.shape, range(a.ndim))
    dtype = np.result_type(a, b)
    place = {"engine": engine, "queue": queue, "wait_for": events_of(wait_for)}
    if not (a.size and b.size):
        return _nothing(a, b, out, engine, queue, dtype)
    check_out(out, region.shape, dtype, a, b)
    # If an input has extent 1 along an axis, SciPy's full and same results are products.
    by_sums = not region.axes or method == "direct"
    if method == "auto" and not by_sums:
        by_sums = _sums_are_better(a, b, region, dtype)
    if by_sums:
        return stored(_by_sums(a, b, region, dtype, correlated, place), out, engine, queue)
    result = _by_transforms(a, b, region, correlated, None, place)
    if isinstance(result, np.ndarray) and not np.isfinite(result.flat[0]):
        warnings.warn(
            "Use of fft convolution spreads NaN and infinities of the input over all results; "
            "method='direct' would not",
            RuntimeWarning,
            stacklevel=3,
        )
    if dtype.kind in "iub":
        result = _rounded(result, dtype, engine, queue)
    return stored(in_dtype(result, dtype, engine, queue), out, engine, queue)


def _sums_are_better(a: Any, b: Any, region: OutputRegion, dtype: np.dtype[Any]) -> bool:
    taps = prod(min(a.shape[k], b.shape[k]) for k in region.axes)
    points = prod(a.shape[k] + b.shape[k] - 1 for k in region.axes)
    if dtype.kind == "b" or taps <= _TAPS * log2(points):
        return True
    return dtype.kind in "iu" and taps * _largest(a) * _largest(b) >= _EXACT


def _largest(array: Any) -> float:
    """Return a bound of the magnitudes: for a device array that of the dtype, without waiting."""
    if isinstance(array, np.ndarray):
        return max(abs(float(array.max())), abs(float(array.min())))
    return (
        1.0
        if array.dtype.kind == "b"
        else float(-np.iinfo(array.dtype).min or np.iinfo(array.dtype).max)
    )


def _products(a: Any, b: Any, region: OutputRegion, out: Any, place: dict[str, Any]) -> Any:
    """Return the result along no axes: the product of inputs that broadcast."""
    dtype = np.result_type(a, b)
    check_out(out, region.shape, dtype, a, b)
    result = _by_sums(a, b, region, dtype, False, place)
    return stored(result, out, place["engine"], place["queue"])


def _common_transformed(a: Any, b: Any) -> np.dtype[Any]:
    """Return the dtype of a convolution by transforms."""
    return np.result_type(_transformed(a.dtype), _transformed(b.dtype))


def _by_sums(
    a: Any,
    b: Any,
    region: OutputRegion,
    dtype: np.dtype[Any],
    correlated: bool,
    place: dict[str, Any],
) -> Any:
    computed = dtype
    if dtype.kind == "b":
        computed = np.dtype(np.int32)
    elif dtype.kind == "f" and dtype.itemsize == 2:
        computed = np.dtype(np.float32)
    where = place["engine"], place["queue"]
    a, b = (in_dtype(operand, computed, **place) for operand in (a, b))
    if prod(a.shape) < prod(b.shape) and not correlated:
        a, b = b, a
    result = convolved(a, b, region, direct=True, correlated=correlated, **place)
    result = in_dtype(result, dtype, *where)
    return result[()] if isinstance(result, np.ndarray) and not result.ndim else result


def _by_transforms(
    a: Any,
    b: Any,
    region: OutputRegion,
    correlated: bool,
    block_axis: int | None,
    place: dict[str, Any],
) -> Any:
    dtypes = [_transformed(operand.dtype) for operand in (a, b)]
    real = np.result_type(*dtypes)
    if real.kind == "c":
        real = np.dtype(f"f{real.itemsize // 2}")
    a, b = (
        in_dtype(operand, np.result_type(real, "c8") if dtype.kind == "c" else real, **place)
        for operand, dtype in zip((a, b), dtypes, strict=True)
    )
    lines = [
        prod(n for k, n in enumerate(operand.shape) if k not in region.axes) for operand in (a, b)
    ]
    if lines[0] < lines[1] and not correlated and block_axis is None:
        a, b = b, a
    return convolved(a, b, region, correlated=correlated, block_axis=block_axis, **place)


def _transformed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which an input is transformed."""
    if dtype.kind in "fc" and dtype.itemsize >= 4:
        return dtype
    return np.dtype(np.float32 if dtype.kind == "f" else np.float64)


def _rounded(result: Any, dtype: np.dtype[Any], engine: Any, queue: Any) -> Any:
    """Round floats to integers that wrap around in the dtype, as integer sums do."""
    wide = np.dtype(np.uint64 if dtype.kind == "u" and dtype.itemsize == 8 else np.int64)
    if isinstance(result, np.ndarray):
        return np.round(result).astype(wide).astype(dtype)
    if dtype.kind == "b" or dtype.itemsize == 8:
        return elementwise("rint(x)", x=result, dtype=dtype, engine=engine, queue=queue)
    wrapped = "rint(x) - period * floor((rint(x) - least) / period)"
    period, least = 2.0 ** (8 * dtype.itemsize), float(np.iinfo(dtype).min)
    return elementwise(
        wrapped, x=result, period=period, least=least, dtype=dtype, engine=engine, queue=queue
    )


def _pair(in1: Any, in2: Any) -> tuple[Any, Any]:
    """Return the inputs as arrays.

    Raises:
        DTypeError: The elements of an input are not numbers.
        ShapeError: They have different numbers of axes.
    """
    pair = as_array(in1, "in1"), as_array(in2, "in2")
    for name, operand in zip(("in1", "in2"), pair, strict=True):
        if operand.dtype.kind not in "biufc":
            raise DTypeError(f"{name} is {operand.dtype}; convolutions take numbers")
    if pair[0].ndim != pair[1].ndim:
        raise ShapeError(
            "in1 and in2 should have the same dimensionality: "
            f"in1 has shape {pair[0].shape}, in2 {pair[1].shape}"
        )
    return pair


def _nothing(a: Any, b: Any, out: Any, engine: Any, queue: Any, dtype: Any = np.float64) -> Any:
    """Return SciPy's result for empty inputs: ``out`` or an array, of shape (0,)."""
    shape: Shape = (0,)
    check_out(out, shape, np.dtype(dtype), a, b)
    if out is not None:
        return out
    empty = np.empty(shape, dtype)
    device = [operand for operand in (a, b) if isinstance(operand, DEVICE_KINDS)]
    if not device:
        return empty
    return asarray(empty, engine=engine, queue=queue or device[0].queue)


def _ratio(n: int, m: int) -> float:
    return max(n, m) / min(n, m)


MODES = ("full", "same", "valid")


# -- the region that a mode returns


def output_region(a: Shape, b: Shape, mode: Any, axes: Any) -> OutputRegion:
    """Return the output region of a mode, for arrays of shapes ``a`` and ``b``.

    Axes of extent 1 are not convolved: they broadcast.

    Raises:
        ArgumentError: Unknown ``mode``, no axes, or an axis that is given twice.
        AxisError: An axis is out of range.
        ShapeError: Other axes do not broadcast, or the region of ``"valid"`` is empty.
    """
    one_of(mode, MODES, "mode")
    if len(a) != len(b):
        raise ShapeError(
            f"in1 and in2 should have the same dimensionality: in1 has shape {a}, in2 {b}"
        )
    convolved = [k for k in _axes(axes, len(a)) if a[k] != 1 and b[k] != 1]
    others = [k for k in range(len(a)) if k not in convolved]
    if any(a[k] != b[k] and 1 not in (a[k], b[k]) for k in others):
        raise ShapeError(
            f"incompatible shapes for in1 and in2: {a} and {b} do not broadcast on axes other than "
            f"{tuple(convolved)}"
        )
    if mode == "valid":
        check_valid(a, b, convolved)
    shape, first = [], []
    for k, (n, m) in enumerate(zip(a, b, strict=True)):
        full = n + m - 1 if k in convolved else max(n, m)
        count = full
        if mode == "same":
            count = n
        elif mode == "valid" and k in convolved:
            count = abs(n - m) + 1
        shape.append(count)
        first.append((full - count) // 2)
    return OutputRegion(tuple(convolved), tuple(shape), tuple(first))


def check_valid(a: Shape, b: Shape, axes: Iterable[int]) -> None:
    """Raise ShapeError unless one array is at least as large as the other along all these axes.

    SciPy's ``convolve`` and ``correlate`` compare every axis, ``fftconvolve`` those that it
    convolves.
    """
    pairs = [(a[k], b[k]) for k in axes]
    if not (all(n >= m for n, m in pairs) or all(m >= n for n, m in pairs)):
        raise ShapeError(
            "for mode 'valid' one input must be at least as large as the other along every axis: "
            f"in1 has shape {a}, in2 {b}"
        )


def _axes(axes: Any, ndim: int) -> list[int]:
    if axes is None:
        return list(range(ndim))
    try:
        listed = [index(axes)] if np.ndim(axes) == 0 else [index(axis) for axis in axes]
    except Exception as error:  # the methods of the argument may raise anything
        reraise_of_signal(error)
        raise ArgumentTypeError(f"axes is {shown(axes)}; expected whole numbers") from None
    if not listed:
        raise ArgumentError("when provided, axes cannot be empty")
    for axis in listed:
        if not -ndim <= axis < ndim:
            raise AxisError(f"axes has {axis}, which is out of range for arrays of {ndim} axes")
    result = sorted(axis % ndim for axis in listed)
    if len(set(result)) < len(result):
        raise ArgumentError(f"axes is {shown(axes)}; all axes must be unique")
    return result
