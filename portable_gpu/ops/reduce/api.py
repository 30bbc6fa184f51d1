"""The public reductions, with NumPy's semantics; docstrings describe the differences."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import of_kind, shown
from portable_gpu.codegen.expression import check_name
from portable_gpu.codegen.operators import BinaryOp, Map
from portable_gpu.dtypes import as_dtype
from portable_gpu.errors import ArgumentError, ArgumentTypeError, ShapeError, reraise_of_signal
from portable_gpu.ops.reduce import call
from portable_gpu.ops.reduce.call import Axes, one_axis, run
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.broadcast import common_dtype, is_number
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import EngineGroup
from portable_gpu.runtime.views import as_array
from portable_gpu.typing import inner_product, reduction

_X, _A_B = ("x",), ("a", "b")
_ARRAYS = (np.ndarray, *DEVICE_KINDS)
# The requests of calls without a dtype, for which NumPy's rules give it; they are made once.
_SUM, _PROD = call.sum_like("sum", None), call.sum_like("prod", None)
_MEAN = call.mean(None)
_VAR, _STD = call.moment(None, 0.0, False), call.moment(None, 0.0, True)


@reduction
def sum(  # noqa: A001  # NumPy's name
    x: Any,
    axis: Axes = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Sum over all axes, or over ``axis``.

    Args:
        x: Any shape and strides; any supported dtype.
        axis: An axis, a tuple of axes, or ``None`` for all.
        dtype: The dtype in which elements are added, and that of the result
            (16-bit floats: added as float32, and the result rounded once).  Default: that of
            ``x``; integers shorter than 64 bits become 64-bit ones, as in NumPy.
        out: The array for the result; it must have its shape and dtype.
        keepdims: Whether folded axes stay with extent 1.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        NumPy array or scalar for NumPy input; ``portable_gpu.Array`` for device input, enqueued
        and not waited for.

    Raises:
        AxisError: An axis is out of range.
        ShapeError: An axis is named twice; ``out`` has another shape.
        DTypeError: A dtype is not supported; ``out`` has another dtype; complex numbers would
            become real.
        UnsupportedError: The call needs double precision, which the device lacks.

    Cost: ``x.size`` additions; ``x.nbytes`` read once, in one launch.
    Accuracy: floats |error| <= 16 u sum|x| for any size, where u is the unit roundoff of ``dtype``
        (16-bit floats are added as float32 and rounded once); NumPy's pairwise sum has about (16 +
        log2 n) u.
    Order: fixed for one target and policy; may differ between targets.
    """
    rule = _SUM if dtype is None else call.sum_like("sum", as_dtype(dtype))
    return run("sum", (x,), _X, rule, axis, keepdims, out, engine, queue, wait_for)


@reduction
def prod(
    x: Any,
    axis: Axes = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Product over all axes, or over ``axis``.

    Arguments, result, errors, cost and order are those of :func:`sum`.

    Accuracy: floats |error| <= gamma(n) |product|, with the unit roundoff of ``dtype``.
    """
    rule = _PROD if dtype is None else call.sum_like("prod", as_dtype(dtype))
    return run("prod", (x,), _X, rule, axis, keepdims, out, engine, queue, wait_for)


@reduction
def mean(
    x: Any,
    axis: Axes = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Arithmetic mean over all axes, or over ``axis``; NaN where nothing is averaged.

    Arguments, result, errors, cost, accuracy and order are those of :func:`sum`, but integers
    and bool are averaged in float64 unless ``dtype``, floating or complex, says otherwise.
    """
    rule = _MEAN if dtype is None else call.mean(as_dtype(dtype))
    return run("mean", (x,), _X, rule, axis, keepdims, out, engine, queue, wait_for)


@reduction
def var(
    x: Any,
    axis: Axes = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Variance: ``sum |x - mean|^2 / (n - ddof)``, real also for complex ``x``.

    Arguments, result and errors are those of :func:`mean`; ``ddof`` is subtracted from the count; a
    negative count is taken as 0, which gives infinity or NaN.  If ``dtype`` is complex, the result
    has that dtype.

    Cost: two passes over ``x`` (mean, then squares), ``2 x.nbytes`` read; workspace for one mean
        for each result.
    Accuracy: relative error about 16 u; the second pass corrects for the rounding of the mean
        (Chan, Golub and LeVeque, Am. Stat. 37(3), 1983).
    Order: as :func:`sum`.
    """
    rule = _moment(dtype, ddof, False)
    return run("var", (x,), _X, rule, axis, keepdims, out, engine, queue, wait_for)


@reduction
def std(
    x: Any,
    axis: Axes = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Standard deviation: the square root of :func:`var`, with its arguments."""
    rule = _moment(dtype, ddof, True)
    return run("std", (x,), _X, rule, axis, keepdims, out, engine, queue, wait_for)


@reduction
def min(  # noqa: A001  # NumPy's name
    x: Any,
    axis: Axes = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Smallest element; NaN if there is one.  Complex numbers compare by (real, imaginary).

    Arguments, result, cost and order are those of :func:`sum`.  Exact.

    Raises:
        ShapeError: Also where an empty axis is folded.
    """
    return run("min", (x,), _X, call.minimum, axis, keepdims, out, engine, queue, wait_for)


@reduction
def max(  # noqa: A001  # NumPy's name
    x: Any,
    axis: Axes = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Largest element; see :func:`min`."""
    return run("max", (x,), _X, call.maximum, axis, keepdims, out, engine, queue, wait_for)


@reduction
def argmin(
    x: Any,
    axis: int | None = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Index (int64) of the smallest element: the first of equals, the first NaN before all.

    With ``axis=None`` the index is into ``x`` flattened in C order.  Otherwise as :func:`min`.
    """
    item = _single_axis(axis)
    return run("argmin", (x,), _X, call.argmin, item, keepdims, out, engine, queue, wait_for)


@reduction
def argmax(
    x: Any,
    axis: int | None = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Index (int64) of the largest element; see :func:`argmin`."""
    item = _single_axis(axis)
    return run("argmax", (x,), _X, call.argmax, item, keepdims, out, engine, queue, wait_for)


@reduction
def any(  # noqa: A001  # NumPy's name
    x: Any,
    axis: Axes = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Whether any element differs from zero (NaN does); bool.  Otherwise as :func:`sum`."""
    return run("any", (x,), _X, call.any_, axis, keepdims, out, engine, queue, wait_for)


@reduction
def all(  # noqa: A001  # NumPy's name
    x: Any,
    axis: Axes = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Whether all elements differ from zero (NaN does); bool.  Otherwise as :func:`sum`."""
    return run("all", (x,), _X, call.all_, axis, keepdims, out, engine, queue, wait_for)


@reduction
def count_nonzero(
    x: Any,
    axis: Axes = None,
    *,
    out: Any = None,
    keepdims: bool = False,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Number of elements (int64) that differ from zero.  Otherwise as :func:`sum`."""
    rule = call.count_nonzero
    return run("count_nonzero", (x,), _X, rule, axis, keepdims, out, engine, queue, wait_for)


@inner_product
def dot(
    a: Any,
    b: Any,
    out: Any = None,
    *,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Inner product of two vectors; for matrices it is :func:`portable_gpu.matmul`.

    Args:
        a, b: Both 1-D of one length, or of at most two axes each.  Dtypes are promoted as NumPy
            does; integers are multiplied and added in their own type, with its wrap-around.
        out, engine, queue, wait_for: As :func:`sum`.

    Raises:
        ShapeError: Lengths differ, or an array has other than one or two axes.

    Cost: ``2 n`` flop; both vectors read once, in one launch.
    Accuracy: |error| <= 16 u |a||b| for any length, where u is the unit roundoff of the dtype
        (float32 for 16-bit floats).
    Order: as :func:`sum`.
    """
    a, b = _arrays(a, b, engine)
    if a.ndim == b.ndim == 1:
        return _inner("dot", a, b, out, engine, queue, wait_for)
    if not 1 <= a.ndim <= 2 or not 1 <= b.ndim <= 2:
        raise ShapeError(
            f"dot takes arrays of one or two axes; a has shape {a.shape}, b has {b.shape}. "
            "matmul multiplies stacks of matrices"
        )
    from portable_gpu.ops.gemm import matmul

    return matmul(a, b, out=out, engine=engine, queue=queue, wait_for=wait_for)


@inner_product
def vdot(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """``sum(conj(a) * b)`` over two arrays of one shape.

    Otherwise as :func:`dot`.  NumPy flattens arrays of different shapes; here shapes must agree.
    """
    a, b = _arrays(a, b, engine)
    return _inner("vdot", a, b, out, engine, queue, wait_for)


@reduction
def asum(
    x: Any,
    axis: Axes = None,
    *,
    out: Any = None,
    keepdims: bool = False,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """``sum |x|``; of complex numbers ``sum |re| + |im|``, as BLAS's ``asum``.

    The result is real; otherwise as :func:`sum`.
    """
    return run("asum", (x,), _X, call.asum, axis, keepdims, out, engine, queue, wait_for)


@reduction
def nrm2(
    x: Any,
    axis: Axes = None,
    *,
    out: Any = None,
    keepdims: bool = False,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Euclidean norm ``sqrt(sum |x|^2)``, which neither overflows nor underflows on the way.

    The result is real, of the precision of ``x`` (integers give float64).

    Cost: one pass with three sums, one for each range of magnitudes.
    Accuracy: relative error about 12 u.
    Order: as :func:`sum`.
    Source: Blue, TOMS 4(1), 1978; Anderson, TOMS 44(1), 2017.
    """
    return run("nrm2", (x,), _X, call.nrm2, axis, keepdims, out, engine, queue, wait_for)


def reduce(
    x: Any,
    op: BinaryOp,
    map: Map | str | None = None,  # noqa: A002  # the field's word
    axis: Axes = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
    **inputs: Any,
) -> Any:
    """Fold ``map(x)`` with an operator of your own, written in OpenCL C.

    Args:
        x: Real array, of any shape and strides.
        op: A :class:`portable_gpu.BinaryOp`; associative and commutative.
        map: C expression of ``x`` and of ``inputs`` by their names, applied to each element first
            (default: the element itself).
        axis, out, keepdims, engine, queue, wait_for: As :func:`sum`; axes are those of the shape
            that ``x`` and ``inputs`` broadcast to.
        dtype: Dtype that ``map`` yields, ``op`` folds and the result has; default that of ``x``.
            8- and 16-bit integers are folded as 32-bit ones, 16-bit floats as float32.
        inputs: Further real arrays that ``map`` reads, which broadcast with ``x`` as in NumPy, and
            numbers.  All of them are converted to their common dtype, in which ``map`` is computed,
            as in :func:`portable_gpu.elementwise`.  The result has that dtype unless ``dtype`` says
            otherwise.  If arrays are on the device, a number is copied there at each call.

    Example::

        largest = pg.BinaryOp("largest", "0", "a > b ? a : b")
        pg.reduce(x, largest, "fabs(x)", axis=0)
        add = pg.BinaryOp("add", "0", "a + b")
        pg.reduce(x, add, "exp(x - m)", axis=1, m=pg.max(x, axis=1, keepdims=True))

    Raises:
        BuildError: The C text does not compile; the message ends with the text and the compiler's
            errors.
        UnsupportedError: An input is complex.
        ShapeError: The inputs do not broadcast.
        ArgumentError: An input's name means something else in OpenCL C; a Python number that
            the common dtype cannot hold.

    Cost: each input read once, in one launch; what is broadcast is read from caches.
    Accuracy: where ``op`` adds, plain additions by many work-items, then a tree: not as good as
        :func:`sum`, whose error does not grow with the number of elements.
    Order: fixed for one target and policy.
    """
    of_kind(op, BinaryOp, "op", "a portable_gpu.BinaryOp")
    mapping = map if isinstance(map, Map) else Map("x" if map is None else map)
    names = tuple(inputs)
    for name in names:
        if check_name(name, "the name of an input") == "x":
            raise ArgumentError("the name of an input is 'x' already; expected another")
    arrays = [x, *inputs.values()]
    if builtins.any(is_number(value) for value in arrays):
        arrays = _numbers_as_arrays(("x", *names), arrays)
    rule = call.custom(op, mapping, None if dtype is None else as_dtype(dtype), names)
    names = ("x", *names)
    return run("reduce", tuple(arrays), names, rule, axis, keepdims, out, engine, queue, wait_for)


# -- dtype rules: from the inputs' dtypes to a Request and the result's dtype


def _moment(dtype: Any, ddof: Any, root: bool) -> call.Rule:
    if dtype is None and type(ddof) is int and ddof == 0:
        return _STD if root else _VAR
    return call.moment(None if dtype is None else as_dtype(dtype), _number(ddof, "ddof"), root)


def _numbers_as_arrays(names: tuple[str, ...], values: list[Any]) -> list[Any]:
    """The inputs, those that are Python's numbers as arrays of the others' dtype."""
    arrays = [v if is_number(v) else as_array(v, n) for n, v in zip(names, values, strict=True)]
    kinds = {n: type(v) if is_number(v) else v.dtype for n, v in zip(names, arrays, strict=True)}
    dtype = common_dtype(kinds)
    result = []
    for name, value in zip(names, arrays, strict=True):
        try:
            result.append(np.asarray(value, dtype) if is_number(value) else value)
        except (OverflowError, TypeError):
            raise ArgumentError(
                f"{name} is {shown(value)}; "
                f"expected a number that {dtype}, the inputs' common dtype, holds"
            ) from None
    return result


def _number(value: Any, name: str) -> float:
    try:
        number = float("inf") if isinstance(value, int) and abs(value) > 1 << 1000 else float(value)
        is_number = not isinstance(value, (str, bytes, bytearray))  # which float() reads
    except Exception as error:  # raised by the value's own methods, too
        reraise_of_signal(error)
        is_number = False
    if not is_number:
        raise ArgumentTypeError(f"{name} is {shown(value)}; expected a number")
    if not isfinite(number):
        raise ArgumentError(f"{name} is {shown(value)}; expected a finite number")
    return number


def _single_axis(axis: Any) -> int | None:
    return axis if axis is None or type(axis) is int else one_axis(axis)


def _arrays(a: Any, b: Any, engine: Any) -> tuple[Any, Any]:
    """Both as arrays, whose dtypes are checked later; arrays of a group stay as they are."""
    if type(a) in _ARRAYS and type(b) in _ARRAYS:
        return a, b
    if isinstance(engine, EngineGroup):
        first, second = [x if hasattr(x, "ndim") else np.asarray(x) for x in (a, b)]
        return first, second
    return as_array(a, "a"), as_array(b, "b")


def _inner(
    name: str,
    a: Any,
    b: Any,
    out: Any,
    engine: Engine | EngineGroup | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    if a.shape != b.shape:
        raise ShapeError(f"{name}: a has shape {a.shape}, b has {b.shape}; they must agree")
    rule = call.dot if name == "dot" else call.vdot
    return run(name, (a, b), _A_B, rule, None, False, out, engine, queue, wait_for)
