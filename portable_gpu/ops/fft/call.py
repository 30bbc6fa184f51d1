"""The common part of all public transforms: checks of arguments, dtypes and plans."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from operator import index
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, one_of, shown
from portable_gpu.dtypes import element, is_bfloat16
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    DTypeError,
    ShapeError,
    reraise_of_signal,
)
from portable_gpu.ops.fft.problem import FftProblem, TransformKind
from portable_gpu.ops.fft.variants import make_plan
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.ops.reduce.conversion import converter
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import EngineGroup, Planning
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import View, as_array, may_overlap_itself

NORMS = ("backward", "ortho", "forward")
LONGEST = 1 << 50  # a line of this length exceeds any memory


def transform(
    kind: TransformKind,
    x: Any,
    s: Any,
    axes: Any,
    norm: str | None,
    *,
    inverse: bool = False,
    overwrite_x: bool = False,
    out: Any = None,
    engine: Engine | EngineGroup | Planning | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Transform ``x`` along ``axes``, to lengths ``s``.

    Args:
        kind: ``c2c``, ``r2c`` (from real numbers to half of their spectrum) or ``c2r``.
        x: The array.
        s: The length along each axis, or -1 for the extent of ``x``; ``None`` for all extents.
        axes: The axes; ``None`` for the last ``len(s)``, or all.
        norm: One of :data:`NORMS`; ``None`` for the first.
        inverse: Whether exponents are positive, and the scale is that of an inverse.
        overwrite_x: Whether the result may be stored in ``x``.
        out: The array for the result.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Raises:
        ArgumentError: ``norm`` is unknown, or a length is below 1.
        AxisError, ShapeError: ``axes`` or ``s`` do not fit ``x``.
        DTypeError: The dtype of ``x`` is not supported.
    """
    if engine is not None and isinstance(engine, EngineGroup):
        return engine.compute("transform", locals())
    requested_lengths, requested_axes = whole_numbers(s, "s"), whole_numbers(axes, "axes")
    mode = one_of("backward" if norm is None else norm, NORMS, "norm")
    in_place = flag(overwrite_x, "overwrite_x")
    options = kind, inverse, requested_lengths, requested_axes, mode, in_place
    return _FFT.call((x,), options, out, (), engine, queue, wait_for)


def _normalise(arguments: CallArguments) -> Invocation:
    kind, inverse, requested_lengths, requested_axes, mode, in_place = arguments.options
    array = as_array(arguments.inputs[0], "x")
    input_dtype = dtype_of_transforms(array.dtype, kind)
    places, lengths = axes_and_lengths(array, requested_lengths, requested_axes, kind)
    scale = _scale(mode, lengths, inverse)
    real = np.dtype(np.float64 if input_dtype.itemsize >> (input_dtype.kind == "c") == 8 else "f4")
    shape = list(array.shape)
    for axis, n in zip(places, lengths, strict=True):
        shape[axis] = n
    if kind == "r2c":
        shape[places[-1]] = lengths[-1] // 2 + 1
    dtype = real if kind == "c2r" else np.result_type(real, np.complex64)
    of_real = kind == "c2c" and input_dtype.kind != "c"

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        view, result = views
        problem = FftProblem(
            kind=kind, from_real=of_real, inverse=inverse, real=element(real), axes=places,
            lengths=lengths, shape_in=view.shape, shape_out=result.shape, strides_in=view.strides,
            strides_out=result.strides, scaled=scale != 1,
        )  # fmt: skip
        return engine.plan(problem, lambda: make_plan(engine, problem))

    out, out_name, overwritten = placed(arguments, array, tuple(shape), dtype, in_place)
    return Invocation(
        inputs=(array,),
        names=("x",),
        shape=tuple(shape),
        dtype=dtype,
        plan=plan,
        flop=3 * prod(shape) * max(1, prod(lengths).bit_length()),
        scalars=(scale,),
        out=out,
        out_name=out_name,
        reads_out=overwritten,
        in_place=overwritten,
        convert=None if array.dtype == input_dtype else converter(input_dtype),
    )


_FFT = Operation("fft", _normalise)


def dtype_of_transforms(dtype: np.dtype[Any], kind: TransformKind) -> np.dtype[Any]:
    """Return the dtype in which an array is transformed; it is SciPy's.

    Raises:
        DTypeError: Arrays of the dtype are not transformed.
    """
    if dtype.kind == "c" and kind == "r2c":
        raise DTypeError(f"x is {dtype}; a transform of real numbers does not take complex numbers")
    if is_bfloat16(dtype):
        dtype = np.dtype(np.float16)
    if dtype.kind not in "biufc":
        raise DTypeError(f"x is {dtype}; transforms take numbers")
    result = np.dtype(np.float32 if dtype == np.float16 else np.float64)
    if dtype.kind in "fc" and dtype.itemsize >= 4:
        result = dtype
    return np.result_type(result, np.complex64) if kind == "c2r" else result


def axes_and_lengths(
    x: Any, s: tuple[int, ...] | None, axes: tuple[int, ...] | None, kind: TransformKind
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes, counted from 0, and the length of the transform along each."""
    if axes is None:
        count = x.ndim if s is None else len(s)
        if count > x.ndim:
            raise ShapeError(f"s has {count} lengths, and x {x.ndim} axes")
        places = tuple(range(x.ndim - count, x.ndim))
    else:
        for axis in axes:
            if not -x.ndim <= axis < x.ndim:
                raise AxisError(f"axis {axis} is out of range; x has {x.ndim} axes")
        places = tuple(axis % x.ndim for axis in axes)
    if len(set(places)) < len(places):
        raise ArgumentError(f"axes is {axes}; each may be named once")
    if s is not None and len(s) != len(places):
        raise ShapeError(f"s has {len(s)} lengths for {len(places)} axes")
    if not places and kind != "c2c":
        raise ArgumentError(
            f"axes is {axes}, s is {s}, x has {x.ndim} axes; at least one axis is to be transformed"
        )
    requested = (-1,) * len(places) if s is None else s
    lengths = [x.shape[axis] if n == -1 else n for axis, n in zip(places, requested, strict=True)]
    if kind == "c2r" and s is None:
        lengths[-1] = 2 * (lengths[-1] - 1)
    for axis, n in zip(places, lengths, strict=True):
        if n < 1:
            raise ArgumentError(
                f"invalid number of data points ({n}) along axis {axis}: x has shape {x.shape}, "
                f"s is {s}; expected numbers of at least 1"
            )
    return places, tuple(lengths)


def whole_numbers(values: Any, name: str) -> tuple[int, ...] | None:
    """Return one integer or several as a tuple, or ``None``; bools are refused."""
    if values is None:
        return None
    # The usual arguments are checked first, because short calls spend a part of their time here.
    if type(values) is int and abs(values) <= LONGEST:
        return (values,)
    if type(values) is tuple and len(values) == 1:
        (value,) = values
        if type(value) is int and abs(value) <= LONGEST:
            return values
    if isinstance(values, np.ndarray):
        values = values.tolist()
    several = values if isinstance(values, (tuple, list, range)) else (values,)
    try:
        integers = tuple([index(value) for value in several])
    except Exception as error:  # methods of the value may raise any exception
        reraise_of_signal(error)
        integers = None
    if integers is None or any(isinstance(value, bool) for value in several):
        raise ArgumentTypeError(f"{name} is {shown(values)}; expected whole numbers")
    if any(abs(integer) > LONGEST for integer in integers):
        raise ArgumentError(f"{name} is {shown(values)}; the largest is 2^50")
    return integers


def _scale(mode: str, lengths: Sequence[int], inverse: bool) -> float:
    points = prod(lengths)
    if mode == "ortho":
        return 1 / sqrt(points)
    return 1 / points if (mode == "backward") == inverse else 1.0


def placed(
    arguments: CallArguments, x: Any, shape: tuple[int, ...], dtype: np.dtype[Any], overwrite: bool
) -> tuple[Any, str, bool]:
    """Return the array for the result, its name in messages, and whether it is ``x``.

    Args:
        arguments: Those of the call; their input is ``x`` as the caller passed it.
        x, shape, dtype: The input, and the shape and dtype of the result.
        overwrite: Whether ``x`` may be overwritten.
    """
    out = arguments.out
    if out is None:
        overwritten = overwrite and fits(x, shape, dtype)
        return (x if overwritten else None), "x", overwritten
    return out, "out", out is arguments.inputs[0] and fits(x, shape, dtype)


def fits(array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether a result of a shape and dtype can be stored in an array."""
    if array.shape != shape or array.dtype != dtype:
        return False
    if isinstance(array, np.ndarray):
        return bool(array.flags.behaved and array.flags.forc)
    return not may_overlap_itself(array)
