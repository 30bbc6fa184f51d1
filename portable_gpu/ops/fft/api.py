"""What all public transforms share: arguments, dtypes, plans, and calls made again."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from operator import index
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, one_of, shown
from portable_gpu.dtypes import element, is_bfloat16
from portable_gpu.errors import ArgumentError, AxisError, DTypeError, ShapeError, UnsupportedError
from portable_gpu.ops.fft.candidates import make_plan
from portable_gpu.ops.fft.problem import FftProblem, Kind
from portable_gpu.ops.reduce.run import converted
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.call import Call, Planning
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.repeat import Key, again, remember
from portable_gpu.runtime.views import as_array, may_overlap_itself

NORMS = ("backward", "ortho", "forward")
LONGEST = 1 << 50  # a line of so many numbers has more bytes than memory


def transform(
    kind: Kind,
    x: Any,
    s: Any,
    axes: Any,
    norm: str | None,
    *,
    inverse: bool = False,
    overwrite_x: bool = False,
    engine: Engine | Planning | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """A transform of ``x`` along ``axes``, to lengths ``s``.

    Args:
        kind: What it is made from, and what of.
        x: The array.
        s: Length along each axis, or -1 for that of ``x``; ``None`` for those that ``x`` has.
        axes: The axes; ``None`` for the last ``len(s)``, or all.
        norm: One of :data:`NORMS`; ``None`` for the first.
        inverse: Whether exponents are positive, and the scale that of an inverse.
        overwrite_x: Whether the result may take the place of ``x``.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Raises:
        ArgumentError: Unknown ``norm``, a length below 1.
        AxisError, ShapeError: ``axes`` or ``s`` do not fit ``x``.
        DTypeError: ``x`` has no dtype that is transformed.
    """
    if wait_for is not None:
        wait_for = events_of(wait_for)
    asked, named = whole_numbers(s, "s"), whole_numbers(axes, "axes")
    mode = one_of("backward" if norm is None else norm, NORMS, "norm")
    in_place = flag(overwrite_x, "overwrite_x")
    key: Key | Planning | None = None
    if queue is None and not wait_for and not in_place:
        head = ("fft", kind, inverse, asked, named, mode)
        result, key = again(head, (x,), None, engine)
        if result is not None:
            return result
    array = as_array(x, "x")
    wanted = dtype_of_transforms(array.dtype, kind)
    places, lengths = axes_and_lengths(array, asked, named, kind)
    scale = _scale(mode, lengths, inverse)
    if array.dtype != wanted:
        array = in_dtype(array, wanted, engine, queue, wait_for)
    real = np.dtype(np.float64 if array.dtype.itemsize >> (array.dtype.kind == "c") == 8 else "f4")
    shape = list(array.shape)
    for axis, n in zip(places, lengths, strict=True):
        shape[axis] = n
    if kind == "r2c":
        shape[places[-1]] = lengths[-1] // 2 + 1
    dtype = real if kind == "c2r" else np.result_type(real, np.complex64)
    flop = 3 * prod(shape) * max(1, prod(lengths).bit_length())
    call = Call([array], engine, queue, wait_for, flop=flop)
    view = call.input(array, "x")
    out = array if in_place and fits(array, tuple(shape), dtype) else None
    view_out = call.output(tuple(shape), dtype, out, read=out is not None)
    problem = FftProblem(
        kind, kind == "c2c" and array.dtype.kind != "c", inverse, element(real), places, lengths,
        view.shape, view_out.shape, view.strides, view_out.strides, scale != 1,
    )  # fmt: skip
    if problem.real.needs_fp64 and not call.engine.target.fp64:
        raise UnsupportedError(
            f"{call.engine.target.facts.name} has no double precision, and x is {array.dtype}"
        )
    if not view_out.size:
        return call.run()
    plan = call.engine.plan(problem, lambda: make_plan(call.engine, problem))
    result = call.run(plan, [view, view_out], (scale,))
    if array is x:
        remember(key, [x], call, [view, view_out], plan, (scale,))
    return result


def dtype_of_transforms(dtype: np.dtype[Any], kind: Kind) -> np.dtype[Any]:
    """What an array of a dtype is transformed in: SciPy's choice.

    Raises:
        DTypeError: There is none.
    """
    if dtype.kind == "c" and kind == "r2c":
        raise DTypeError(f"x is {dtype}; a transform of real numbers takes no complex ones")
    if is_bfloat16(dtype):
        dtype = np.dtype(np.float16)
    if dtype.kind not in "biufc":
        raise DTypeError(f"x is {dtype}; transforms take numbers")
    wanted = np.dtype(np.float32 if dtype == np.float16 else np.float64)
    if dtype.kind in "fc" and dtype.itemsize >= 4:
        wanted = dtype
    return np.result_type(wanted, np.complex64) if kind == "c2r" else wanted


def in_dtype(array: Any, dtype: np.dtype[Any], engine: Any, queue: Any, wait_for: Any) -> Any:
    """A copy in another dtype; on the device it is made in any case, also of a planned call."""
    if not isinstance(array, DEVICE_KINDS):
        return array.astype(dtype)
    if isinstance(engine, Planning):
        engine, queue = engine.engine, engine.queue
    return converted(array, dtype, engine, queue, wait_for)


def axes_and_lengths(
    x: Any, s: tuple[int, ...] | None, axes: tuple[int, ...] | None, kind: Kind
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes from 0 on, and the length of the transform along each."""
    if axes is None:
        count = x.ndim if s is None else len(s)
        if count > x.ndim:
            raise ShapeError(f"s has {count} lengths, and x {x.ndim} axes")
        places = tuple(range(x.ndim - count, x.ndim))
    else:
        for one in axes:
            if not -x.ndim <= one < x.ndim:
                raise AxisError(f"axis {one} is out of range; x has {x.ndim} axes")
        places = tuple(one % x.ndim for one in axes)
    if len(set(places)) < len(places):
        raise ArgumentError(f"axes is {axes}; each may be named once")
    if s is not None and len(s) != len(places):
        raise ShapeError(f"s has {len(s)} lengths for {len(places)} axes")
    if not places and kind != "c2c":
        raise ArgumentError(
            f"axes is {axes}, s is {s}, x has {x.ndim} axes; at least one axis is to be transformed"
        )
    asked = (-1,) * len(places) if s is None else s
    lengths = [x.shape[axis] if n == -1 else n for axis, n in zip(places, asked, strict=True)]
    if kind == "c2r" and s is None:
        lengths[-1] = 2 * (lengths[-1] - 1)
    for axis, n in zip(places, lengths, strict=True):
        if n < 1:
            raise ArgumentError(
                f"invalid number of data points ({n}) along axis {axis}: x has shape {x.shape}, "
                f"s is {s}; numbers from 1 on would do"
            )
    return places, tuple(lengths)


def whole_numbers(values: Any, name: str) -> tuple[int, ...] | None:
    """Integers but bools, or one of them, as a tuple; ``None`` as it is."""
    if values is None:
        return None
    # At once, for short calls are many.
    if type(values) is int and abs(values) <= LONGEST:
        return (values,)
    if type(values) is tuple and len(values) == 1:
        (one,) = values
        if type(one) is int and abs(one) <= LONGEST:
            return values
    if isinstance(values, np.ndarray):
        values = values.tolist()
    several = values if isinstance(values, (tuple, list, range)) else (values,)
    try:
        found = tuple(index(one) for one in several)
    except Exception:  # raised by the value's own methods, too
        found = (LONGEST + 1,)
    if any(isinstance(one, bool) for one in several) or any(abs(n) > LONGEST for n in found):
        raise ArgumentError(f"{name} is {shown(values)}; whole numbers are wanted")
    return found


def _scale(mode: str, lengths: Sequence[int], inverse: bool) -> float:
    points = prod(lengths)
    if mode == "ortho":
        return 1 / sqrt(points)
    return 1 / points if (mode == "backward") == inverse else 1.0


def fits(array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether a result may take an array's place."""
    if array.shape != shape or array.dtype != dtype:
        return False
    if isinstance(array, np.ndarray):
        return bool(array.flags.behaved and array.flags.forc)
    return not may_overlap_itself(array)
