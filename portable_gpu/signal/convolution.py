"""Convolutions and correlations, by transforms and by sums."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import log2, prod
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import one_of
from portable_gpu.errors import DTypeError, ShapeError
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.fft.convolve import Kept, convolved, window
from portable_gpu.ops.reduce.run import in_dtype
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.transfer import asarray
from portable_gpu.runtime.views import Shape, as_array
from portable_gpu.signal.shapes import check_valid, what_is_kept

METHODS = ("auto", "direct", "fft")
#: Sums are taken up to this many products for each result, for each bit of a transform's length:
#: on a CPU of two cores, from times of float32, sums of 10^6 results take as long as transforms at
#: 112 products each (31 take 7 ms, transforms 26), and of 1024 x 1024 results at some 200.
_TAPS = 5
#: Integers up to here are exact in float64, whose transforms have errors below 1/2.
_EXACT = 2.0**51


def fftconvolve(
    in1: Any,
    in2: Any,
    mode: str = "full",
    axes: int | Sequence[int] | None = None,
    *,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The convolution of two arrays by transforms: y[i] = sum_j in1[i - j] in2[j].

    Args:
        in1, in2: Arrays of as many axes, of any strides: float32, float64, complex64, complex128;
            float16 is computed as float32, integers and bool as float64.
        mode: ``"full"``: all results, n + m - 1 along an axis; ``"same"``: those in the middle, as
            many as ``in1`` has; ``"valid"``: those to which all of the shorter one contributes.
        axes: The convolved axes; others broadcast.  Default: all.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        Array of NumPy (done) for NumPy's arrays, on the device (enqueued) for the device's, in the
        inputs' common dtype; empty if one of them is.

    Raises:
        ShapeError: Different numbers of axes; other axes do not broadcast; with ``"valid"``, none
            is at least as large as the other along all axes.
        ArgumentError: Unknown ``mode``; ``axes`` is empty or names one twice.
        AxisError: An axis is out of range.
        DTypeError: An input holds no numbers, or long doubles.
        UnsupportedError: Double precision on a device without it.
        DeviceMemoryError: There is no room for the transforms.

    Cost: the transforms of both inputs and back, along all axes, of lengths that are products of 2,
        3 and 5 and leave room for the results that are kept: a mode that keeps less costs less.
        Padding, product and cropping are parts of these passes.  Transforms of real inputs are of
        half the size.
    Accuracy: relative error in the 2-norm of about 0.3 eps log2 of the padded size; small results
        beside large ones have the large ones' errors.
    Order: the same bits for one target, policy, shape and alignment.
    """
    a, b = _pair(in1, in2)
    if a.ndim and b.ndim and not (a.size and b.size) and a.ndim == b.ndim:
        return _nothing(a, b, engine, queue)
    kept = what_is_kept(a.shape, b.shape, mode, axes if a.ndim else None)
    place = {"engine": engine, "queue": queue, "wait_for": events_of(wait_for)}
    if not kept.axes:
        dtype = np.result_type(a, b)
        return _by_sums(a, b, kept, dtype, False, place)
    return _by_transforms(a, b, kept, False, None, place)


def oaconvolve(
    in1: Any,
    in2: Any,
    mode: str = "full",
    axes: int | Sequence[int] | None = None,
    *,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The convolution of a long array with a short one: the long one goes in blocks.

    Blocks are windows that overlap (overlap-save), where SciPy adds what overlaps.  They are cut
    along the axis along which the inputs' lengths differ most, if one is at least four times the
    other there; else this is :func:`fftconvolve`.

    Arguments, result, errors: see :func:`fftconvolve`.

    Cost: transforms of a few times the shorter length stay in caches, and a line is read and
        written once there and once back; the workspace is that of all blocks.
    Accuracy: that of transforms of a window's length.
    """
    a, b = _pair(in1, in2)
    if a.ndim and b.ndim and not (a.size and b.size) and a.ndim == b.ndim:
        return _nothing(a, b, engine, queue)
    kept = what_is_kept(a.shape, b.shape, mode, axes if a.ndim else None)
    place = {"engine": engine, "queue": queue, "wait_for": events_of(wait_for)}
    if not kept.axes:
        return _by_sums(a, b, kept, np.result_type(a, b), False, place)
    axis = max(kept.axes, key=lambda k: _ratio(a.shape[k], b.shape[k]))
    n, m = a.shape[axis], b.shape[axis]
    if _ratio(n, m) < 4 or window(max(n, m), min(n, m)) >= max(n, m):
        return _by_transforms(a, b, kept, False, None, place)
    if m > n:
        a, b = b, a
    return _by_transforms(a, b, kept, False, axis, place)


def convolve(
    in1: Any,
    in2: Any,
    mode: str = "full",
    method: str = "auto",
    *,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The convolution of two arrays along all axes: y[i] = sum_j in1[i - j] in2[j].

    Args:
        in1, in2: Arrays of as many axes, of any strides and dtypes.
        mode: See :func:`fftconvolve`.
        method: ``"direct"``: by sums, of integers exactly; ``"fft"``: by transforms, rounded for
            integers; ``"auto"``: sums for few numbers, transforms for many; transforms of integers
            only where they are exact.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        See :func:`fftconvolve`; in the inputs' common dtype.

    Raises:
        ArgumentError: Unknown ``mode`` or ``method``.
        ShapeError, DTypeError, UnsupportedError, DeviceMemoryError: See :func:`fftconvolve`.

    Cost: by sums one product for each number of the smaller input and each result; by transforms
        see :func:`fftconvolve`.
    Accuracy: of sums, one rounding for each product; float16 is summed in float32.
    Order: the same bits for one target, policy, shape and alignment.
    """
    return _of_method(in1, in2, mode, method, False, engine, queue, wait_for)


def correlate(
    in1: Any,
    in2: Any,
    mode: str = "full",
    method: str = "auto",
    *,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The correlation of two arrays along all axes: y[i] = sum_j in1[j + i - m + 1] conj(in2[j]).

    It is the convolution with ``in2`` taken from its end and conjugated, m being its length.

    Arguments, result, errors, cost and accuracy: see :func:`convolve`.
    """
    return _of_method(in1, in2, mode, method, True, engine, queue, wait_for)


def _of_method(
    in1: Any,
    in2: Any,
    mode: str,
    method: str,
    correlated: bool,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    one_of(method, METHODS, "method")
    a, b = _pair(in1, in2)
    kept = what_is_kept(a.shape, b.shape, mode, None)
    if mode == "valid":
        check_valid(a.shape, b.shape, range(a.ndim))
    dtype = np.result_type(a, b)
    place = {"engine": engine, "queue": queue, "wait_for": events_of(wait_for)}
    if not (a.size and b.size):
        return _nothing(a, b, engine, queue, dtype)
    # Where one input has one number along an axis, SciPy's full and same results are products.
    by_sums = not kept.axes or method == "direct"
    if method == "auto" and not by_sums:
        by_sums = _sums_are_better(a, b, kept, dtype)
    if by_sums:
        return _by_sums(a, b, kept, dtype, correlated, place)
    found = _by_transforms(a, b, kept, correlated, None, place)
    if isinstance(found, np.ndarray) and not np.isfinite(found.flat[0]):
        warnings.warn(
            "Use of fft convolution spreads NaN and infinities of the input over all results; "
            "method='direct' would not",
            RuntimeWarning,
            stacklevel=3,
        )
    if dtype.kind in "iub":
        return _rounded(found, dtype, engine, queue)
    return in_dtype(found, dtype, engine, queue)


def _sums_are_better(a: Any, b: Any, kept: Kept, dtype: np.dtype[Any]) -> bool:
    taps = prod(min(a.shape[k], b.shape[k]) for k in kept.axes)
    points = prod(a.shape[k] + b.shape[k] - 1 for k in kept.axes)
    if dtype.kind == "b" or taps <= _TAPS * log2(points):
        return True
    return dtype.kind in "iu" and taps * _largest(a) * _largest(b) >= _EXACT


def _largest(array: Any) -> float:
    """No value is larger in magnitude; on a device the dtype says so, for nothing waits there."""
    if isinstance(array, np.ndarray):
        return max(abs(float(array.max())), abs(float(array.min())))
    return (
        1.0
        if array.dtype.kind == "b"
        else float(-np.iinfo(array.dtype).min or np.iinfo(array.dtype).max)
    )


def _by_sums(
    a: Any, b: Any, kept: Kept, dtype: np.dtype[Any], correlated: bool, place: dict[str, Any]
) -> Any:
    computed = dtype
    if dtype.kind == "b":
        computed = np.dtype(np.int32)
    elif dtype.kind == "f" and dtype.itemsize == 2:
        computed = np.dtype(np.float32)
    where = place["engine"], place["queue"]
    a, b = (in_dtype(one, computed, **place) for one in (a, b))
    if prod(a.shape) < prod(b.shape) and not correlated:
        a, b = b, a
    found = convolved(a, b, kept, direct=True, correlated=correlated, **place)
    found = in_dtype(found, dtype, *where)
    return found[()] if isinstance(found, np.ndarray) and not found.ndim else found


def _by_transforms(
    a: Any, b: Any, kept: Kept, correlated: bool, block_axis: int | None, place: dict[str, Any]
) -> Any:
    dtypes = [_transformed(one.dtype) for one in (a, b)]
    real = np.result_type(*dtypes)
    if real.kind == "c":
        real = np.dtype(f"f{real.itemsize // 2}")
    a, b = (
        in_dtype(one, np.result_type(real, "c8") if dtype.kind == "c" else real, **place)
        for one, dtype in zip((a, b), dtypes, strict=True)
    )
    lines = [prod(n for k, n in enumerate(one.shape) if k not in kept.axes) for one in (a, b)]
    if lines[0] < lines[1] and not correlated and block_axis is None:
        a, b = b, a
    return convolved(a, b, kept, correlated=correlated, block_axis=block_axis, **place)


def _transformed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of which transforms are."""
    if dtype.kind in "fc" and dtype.itemsize >= 4:
        return dtype
    return np.dtype(np.float32 if dtype.kind == "f" else np.float64)


def _rounded(found: Any, dtype: np.dtype[Any], engine: Any, queue: Any) -> Any:
    """The integers next to floats; they wrap around in the dtype, as integer sums do."""
    wide = np.dtype(np.uint64 if dtype.kind == "u" and dtype.itemsize == 8 else np.int64)
    if isinstance(found, np.ndarray):
        return np.round(found).astype(wide).astype(dtype)
    if dtype.kind == "b" or dtype.itemsize == 8:
        return elementwise("rint(x)", x=found, dtype=dtype, engine=engine, queue=queue)
    wrapped = "rint(x) - period * floor((rint(x) - least) / period)"
    period, least = 2.0 ** (8 * dtype.itemsize), float(np.iinfo(dtype).min)
    return elementwise(
        wrapped, x=found, period=period, least=least, dtype=dtype, engine=engine, queue=queue
    )


def _pair(in1: Any, in2: Any) -> tuple[Any, Any]:
    """The inputs as arrays.

    Raises:
        DTypeError: One holds no numbers.
        ShapeError: They have different numbers of axes.
    """
    pair = as_array(in1, "in1"), as_array(in2, "in2")
    for name, one in zip(("in1", "in2"), pair, strict=True):
        if one.dtype.kind not in "biufc":
            raise DTypeError(f"{name} is {one.dtype}; convolutions take numbers")
    if pair[0].ndim != pair[1].ndim:
        raise ShapeError(
            "in1 and in2 should have the same dimensionality: "
            f"in1 has shape {pair[0].shape}, in2 {pair[1].shape}"
        )
    return pair


def _nothing(a: Any, b: Any, engine: Any, queue: Any, dtype: Any = np.float64) -> Any:
    """SciPy's result for empty inputs: no numbers along one axis."""
    shape: Shape = (0,)
    empty = np.empty(shape, dtype)
    device = [one for one in (a, b) if isinstance(one, DEVICE_KINDS)]
    if not device:
        return empty
    return asarray(empty, engine=engine, queue=queue or device[0].queue)


def _ratio(n: int, m: int) -> float:
    return max(n, m) / min(n, m)
