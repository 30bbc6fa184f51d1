"""Calls of reductions: the dtypes and axes of each, its problem and its plan.

Each reduction has a *rule*, a function of the dtypes of the inputs.  It returns the
:class:`~portable_gpu.codegen.reductions.Request`, which says what a kernel computes, and the dtype
of the result; it raises DTypeError if the dtypes do not fit.  :func:`minimum` is a rule, and
:func:`sum_like` makes one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, whole
from portable_gpu.codegen.operators import BinaryOp, Map
from portable_gpu.codegen.reductions import Request
from portable_gpu.dtypes import element, is_float16_like
from portable_gpu.errors import (
    ArgumentTypeError,
    AxisError,
    DTypeError,
    ShapeError,
    UnsupportedError,
)
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.ops.reduce.problem import Problem
from portable_gpu.ops.reduce.variants import make_plan
from portable_gpu.runtime.broadcast import broadcast, common_dtype, spread
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import EngineGroup
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import View, as_array

Axes = int | tuple[int, ...] | None
DType = np.dtype[Any]
Rule = Callable[..., tuple[Request, DType]]
_BOOL, _INT64, _FLOAT64 = np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.float64)

#: Estimated operations for each element, by which the host decides where a small call runs
#: (:attr:`Invocation.flop`).  The unit is such that a thread of a CPU does 30 in a nanosecond.
_OPERATIONS = {"argmax": 10, "argmin": 10, "nrm2": 10, "std": 20, "var": 20}
_OTHER_OPERATIONS = 2


def run(
    name: str,
    inputs: tuple[Any, ...],
    names: tuple[str, ...],
    rule: Rule,
    axis: Any,
    keepdims: Any,
    out: Any,
    engine: Engine | EngineGroup | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Compute a reduction.

    Args:
        name: The name of the reduction, for messages.
        inputs: One input, or several that broadcast.
        names: The names of the inputs in messages.
        rule: The rule of the reduction, a hashable object.
        axis, keepdims, out, engine, queue, wait_for: As the public functions take them.
    """
    if type(axis) is not int and axis is not None:
        axis = as_axes(axis)  # also True, which as a key equals 1
    if type(keepdims) is not bool:
        keepdims = flag(keepdims, "keepdims")
    if engine is not None and isinstance(engine, EngineGroup):
        return engine.compute("reduction", locals())
    options = name, names, rule, axis, keepdims
    return _REDUCTION.call(inputs, options, out, (), engine, queue, wait_for)


def _normalise(arguments: CallArguments) -> Invocation:
    out = arguments.out
    name, names, rule, axis, keepdims = arguments.options
    arrays = tuple([as_array(a, n) for a, n in zip(arguments.inputs, names, strict=True)])
    x_shape = arrays[0].shape
    if any(array.shape != x_shape for array in arrays):
        x_shape = broadcast({n: a.shape for a, n in zip(arrays, names, strict=True)})
    reduced = normalise_axes(axis, len(x_shape))
    request, dtype = rule(*[array.dtype for array in arrays])
    result_axes = [a for a in range(len(x_shape)) if keepdims or a not in reduced]
    if request.name in ("min", "max", "argmin", "argmax") and 0 in [x_shape[a] for a in reduced]:
        raise ShapeError(f"{name} of no elements has no value: x has shape {x_shape}")

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        *sources, result = views
        strides = zip(result_axes, result.strides, strict=True)
        problem = Problem(
            request,
            x_shape,
            tuple(spread(view, x_shape) for view in sources),
            reduced,
            tuple(s for a, s in strides if a not in reduced),
            1 if engine.target.is_cpu else min(view.alignment for view in sources),
        )
        return engine.plan(problem, lambda: make_plan(engine, problem))

    return Invocation(
        inputs=arrays,
        names=names,
        shape=tuple(1 if a in reduced else x_shape[a] for a in result_axes),
        dtype=dtype,
        plan=plan,
        flop=_OPERATIONS.get(name, _OTHER_OPERATIONS) * math.prod(x_shape),
        out=out,
    )


_REDUCTION = Operation("reduction", _normalise)


def one_axis(axis: Any) -> int:
    """Return an axis, given as any integer but a bool, as an int.

    Raises:
        ArgumentTypeError: It is not an integer.
    """
    if isinstance(axis, bool):
        raise ArgumentTypeError(f"axis is {axis}; expected an integer")
    return whole(axis, "axis")


def as_axes(axis: Any) -> Axes:
    """Return the value of a parameter ``axis`` with ints for its integers.

    Raises:
        ArgumentTypeError: It is not an integer, a tuple of integers, or None.
    """
    if axis is None:
        return None
    return tuple([one_axis(item) for item in axis]) if isinstance(axis, tuple) else one_axis(axis)


def normalise_axes(axis: Axes, ndim: int) -> frozenset[int]:
    """Return the axes from 0 to ``ndim - 1`` that ``axis`` names; ``None`` names all.

    Raises:
        AxisError: An axis is out of range.
        ShapeError: An axis is named twice.
        ArgumentTypeError: As :func:`as_axes`.
    """
    axes = as_axes(axis)
    if axes is None:
        return frozenset(range(ndim))
    if ndim == 0 and axes in (0, -1):  # allowed for a scalar, as in NumPy
        return frozenset()
    result = []
    for item in axes if isinstance(axes, tuple) else (axes,):
        if not -ndim <= item < ndim:
            raise AxisError(f"axis {item} is out of range; x has {ndim} axes")
        result.append(item % ndim)
    if len(set(result)) != len(result):
        raise ShapeError(f"axis={axis} names an axis twice")
    return frozenset(result)


@lru_cache(maxsize=128)
def sum_like(name: str, dtype: DType | None) -> Rule:
    """Return the rule of ``sum`` or ``prod``, computed in ``dtype``; by default in NumPy's."""

    def make(x: DType) -> tuple[Request, DType]:
        result = _sum_dtype(x) if dtype is None else dtype
        _no_complex_to_real(x, result)
        elem = element(result)
        logical = {"sum": "any", "prod": "all"}[name] if elem.boolean else name
        return Request(logical, element(x), elem, elem), result

    return make


@lru_cache(maxsize=128)
def mean(dtype: DType | None) -> Rule:
    """Return the rule of ``mean``, computed in ``dtype``."""

    def make(x: DType) -> tuple[Request, DType]:
        result = _inexact(x) if dtype is None else dtype
        _need_inexact(result, "mean")
        _no_complex_to_real(x, result)
        elem = element(result)
        return Request("mean", element(x), elem, elem), result

    return make


@lru_cache(maxsize=128)
def moment(dtype: DType | None, ddof: float, root: bool) -> Rule:
    """Return the rule of ``var``, and with ``root`` that of ``std``."""

    def make(x: DType) -> tuple[Request, DType]:
        wide = _inexact(x) if dtype is None else dtype
        _need_inexact(wide, "var")
        _no_complex_to_real(x, wide)
        result = _real(wide) if dtype is None else dtype
        acc = element(wide if x.kind == "c" else _real(wide))
        request = Request("moment", element(x), acc, element(result), ddof=ddof, root=root)
        return request, result

    return make


def deviations(x: DType, centre: DType) -> tuple[Request, DType]:
    """The rule of the sum of squared distances from the mean, and of distances from a centre.

    They are the real and the imaginary part of the result, in the centre's precision.
    """
    wide, result = element(centre), np.result_type(centre, np.complex64)
    return Request("deviations", element(x), wide, element(result), y=wide), result


def minimum(x: DType) -> tuple[Request, DType]:
    """The rule of ``min``."""
    return Request("min", element(x), element(x), element(x)), x


def maximum(x: DType) -> tuple[Request, DType]:
    """The rule of ``max``."""
    return Request("max", element(x), element(x), element(x)), x


def argmin(x: DType) -> tuple[Request, DType]:
    """The rule of ``argmin``."""
    return Request("argmin", element(x), element(x), element(_INT64)), _INT64


def argmax(x: DType) -> tuple[Request, DType]:
    """The rule of ``argmax``."""
    return Request("argmax", element(x), element(x), element(_INT64)), _INT64


def any_(x: DType) -> tuple[Request, DType]:
    """The rule of ``any``."""
    return Request("any", element(x), element(_INT64), element(_BOOL)), _BOOL


def all_(x: DType) -> tuple[Request, DType]:
    """The rule of ``all``."""
    return Request("all", element(x), element(_INT64), element(_BOOL)), _BOOL


def count_nonzero(x: DType) -> tuple[Request, DType]:
    """The rule of ``count_nonzero``."""
    return Request("count_nonzero", element(x), element(_INT64), element(_INT64)), _INT64


def asum(x: DType) -> tuple[Request, DType]:
    """The rule of ``asum``."""
    result = _real(_sum_dtype(x))
    return Request("asum", element(x), element(result), element(result)), result


def nrm2(x: DType) -> tuple[Request, DType]:
    """The rule of ``nrm2``."""
    result = _real(_inexact(x))
    return Request("nrm2", element(x), element(result), element(result)), result


def dot(a: DType, b: DType) -> tuple[Request, DType]:
    """The rule of ``dot``."""
    return _product("dot", a, b)


def vdot(a: DType, b: DType) -> tuple[Request, DType]:
    """The rule of ``vdot``."""
    return _product("vdot", a, b)


def _product(name: str, a: DType, b: DType) -> tuple[Request, DType]:
    try:
        result = np.result_type(a, b)
    except TypeError as error:
        raise DTypeError(f"{name}: a has dtype {a}, b has {b}: {error}") from error
    elem = element(result)
    return Request(name, element(a), elem, elem, y=element(b)), result


@lru_cache(maxsize=128)
def custom(op: BinaryOp, mapping: Map, dtype: DType | None, names: tuple[str, ...] = ()) -> Rule:
    """Return the rule of ``reduce``; ``names`` are those of the inputs after ``x``."""

    def make(x: DType, *others: DType) -> tuple[Request, DType]:
        common = common_dtype(dict(zip(("x", *names), (x, *others), strict=True)))
        result = common if dtype is None else dtype
        if common.kind == "c" or result.kind == "c":
            have = f"x has dtype {x}" if not others else f"the inputs' common dtype is {common}"
            raise UnsupportedError(f"reduce takes real arrays; {have}, dtype is {result}")
        elem = element(result)
        more = tuple(zip(names, map(element, others), strict=True))
        request = Request(
            "reduce", element(x), elem, elem, op=op, map=mapping, others=more,
            compute=element(common),
        )  # fmt: skip
        return request, result

    return make


def _sum_dtype(x: DType) -> DType:
    if x.kind in "bi":
        return _INT64
    return np.dtype(np.uint64) if x.kind == "u" else x


def _inexact(x: DType) -> DType:
    return _FLOAT64 if x.kind in "biu" else x


def _real(x: DType) -> DType:
    return np.empty(0, x).real.dtype if x.kind == "c" else x


def _need_inexact(dtype: DType, name: str) -> None:
    if dtype.kind not in "fc" and not is_float16_like(dtype):
        raise DTypeError(f"{name} is floating and dtype is {dtype}; expected float32 or float64")


def _no_complex_to_real(x: DType, result: DType) -> None:
    if x.kind == "c" and result.kind != "c":
        raise DTypeError(f"x has dtype {x}; dtype={result} would drop the imaginary parts")
