"""Checks of the reductions: NumPy's values, and the largest error of each result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import Check, Expected, gamma, rounding, unit, wide
from portable_gpu.checking.edges import VIEWS, Guarded, around, levels
from portable_gpu.checking.inputs import Input
from portable_gpu.checking.operands import Array
from portable_gpu.codegen.operators import BinaryOp
from portable_gpu.dtypes import element, is_float16_like
from portable_gpu.ops.reduce import api
from portable_gpu.runtime.engine import Engine

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


Axis = int | None
_EXACT: dict[str, Callable[..., Any]] = {
    "min": np.min,
    "max": np.max,
    "argmin": np.argmin,
    "argmax": np.argmax,
    "any": lambda x, axis: np.any(x != 0, axis),
    "all": lambda x, axis: np.all(x != 0, axis),
    "count_nonzero": lambda x, axis: np.asarray(np.count_nonzero(x != 0, axis)).astype(np.int64),
}


def reduction(operation: str, x: Input, axis: Axis = None, keepdims: bool = False) -> Check:
    """A check of one reduction of one array."""
    function = getattr(api, operation)
    options: dict[str, Any] = {"keepdims": True} if keepdims else {}
    place = "" if axis is None else f", axis {axis}"
    return Check(
        operation,
        f"{x}{place}{', keepdims' if keepdims else ''}",
        lambda engine: function(x.array(engine), axis, **options, engine=engine),
        lambda: _expected(operation, x.host(), axis, keepdims),
    )


def inner(operation: str, a: Input, b: Input) -> Check:
    """A check of ``dot`` or ``vdot``."""
    function = getattr(api, operation)

    def expected() -> Expected:
        x, y = a.host(), b.host()
        if x.dtype.kind in "iu":
            return Expected(np.multiply(x, y).sum(dtype=x.dtype), None, x.dtype)
        left, right = wide(x), wide(y)
        value = np.sum((left.conj() if operation == "vdot" else left) * right)
        size = np.sum(np.abs(left) * np.abs(right))
        bound = 16 * unit(x.dtype) * size + rounding(x.dtype) * abs(value)
        return Expected(value, bound, x.dtype)

    return Check(
        operation,
        str(a),
        lambda engine: function(a.array(engine), b.array(engine), engine=engine),
        expected,
    )


def own_operator(x: Input, axis: Axis) -> Check:
    """A check of ``reduce``: the largest magnitude."""
    largest = BinaryOp("largest", "0", "a > b ? a : b")
    return Check(
        "reduce",
        f"{x}, axis {axis}, largest |x|",
        lambda engine: api.reduce(x.array(engine), largest, "fabs(x)", axis, engine=engine),
        lambda: Expected(np.max(np.abs(x.host()), axis), None, x.dtype),
    )


def _expected(operation: str, x: Array, axis: Axis, keepdims: bool) -> Expected:
    value, bound, dtype = _values(operation, x, axis)
    if keepdims:
        value = np.expand_dims(value, tuple(range(x.ndim)) if axis is None else axis)
        bound = None if bound is None else np.reshape(bound, np.shape(value))
    return Expected(value, bound, dtype)


def _values(operation: str, x: Array, axis: Axis) -> tuple[Any, Any, np.dtype[Any]]:
    if operation in _EXACT:
        if is_float16_like(x.dtype):  # NumPy converts them to float32, which is exact
            value = _EXACT[operation](x.astype(np.float32), axis)
            picks = operation in ("min", "max")
            return value, None, x.dtype if picks else np.asarray(value).dtype
        value = _EXACT[operation](x, axis)
        return value, None, np.asarray(value).dtype
    integer = x.dtype.kind in "biu"
    if integer and operation in ("sum", "prod", "asum"):
        total = np.abs(x.astype(np.int64)).sum(axis) if operation == "asum" else None
        value = getattr(np, operation)(x, axis) if total is None else total
        return value, None, np.asarray(value).dtype
    dtype = np.dtype(np.float64) if integer else x.dtype
    exact = wide(x.astype(dtype) if integer else x)
    value, bound = _ROUNDED[operation](exact, axis, unit(dtype))
    if operation in ("var", "std", "asum", "nrm2"):
        dtype = np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype
    return value, bound + rounding(dtype) * np.abs(value), dtype


def _prod(x: Array, axis: Axis, u: float) -> tuple[Any, Any]:
    count = x.size if axis is None else x.shape[axis]
    value = x.prod(axis)
    return value, gamma((4 if x.dtype.kind == "c" else 1) * count, u) * np.abs(value)


def _asum(x: Array, axis: Axis, u: float) -> tuple[Any, Any]:
    total = (np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)).sum(axis)
    return _within(20 * u, total)


def _within(relative: float, value: Any) -> tuple[Any, Any]:
    """Return a value that is not negative, and the bound of its error."""
    return value, relative * value


#: Value and bound in the wide type, before the result is rounded (docs/accuracy.md).
_ROUNDED: dict[str, Callable[[Array, Axis, float], tuple[Any, Any]]] = {
    "sum": lambda x, axis, u: (x.sum(axis), 20 * u * np.abs(x).sum(axis)),
    "prod": _prod,
    "mean": lambda x, axis, u: (x.mean(axis), 20 * u * np.abs(x).mean(axis)),
    "asum": _asum,
    "nrm2": lambda x, axis, u: _within(12 * u, np.sqrt((np.abs(x) ** 2).sum(axis))),
    "var": lambda x, axis, u: _within(20 * u, x.var(axis)),
    "std": lambda x, axis, u: _within(20 * u, x.std(axis)),
}


def checks(dtypes: Sequence[np.dtype[Any]]) -> Iterator[Check]:
    """Every dtype summed and compared; every operation on float32; a choice of the rest.

    Each distinct kernel takes a build, so sizes and views vary where the kernel's text does not.
    """
    single = np.dtype(np.float32)
    for dtype in dtypes:
        for shape in ((100_003,), (1001,)):
            yield reduction("sum", Input(dtype, shape))
        yield reduction("max", Input(dtype, (130, 257)), 0)
        yield reduction("argmin", Input(dtype, (130, 257), view="device"), 1)
    for operation in ("prod", "min", "max", "argmin", "any", "all", "count_nonzero"):
        yield reduction(operation, Input(single, (10_007,), near_one=operation == "prod"))
    for operation in ("any", "all", "count_nonzero"):
        yield reduction(operation, Input(np.dtype(np.bool_), (100, 101)), 1)
    for operation in ("mean", "var", "std", "asum", "nrm2"):
        yield reduction(operation, Input(single, (300, 333)))
    for size in (0, 1, 31, 32, 33, 64, 65, 1 << 20):
        yield reduction("sum", Input(single, (size,)))
    for view in ("device", "fortran", "reversed", "stepped", "broadcast"):
        for axis in (None, 0, 1):
            yield reduction("sum", Input(single, (130, 257), view=view), axis)
    for operation in ("min", "argmax", "var", "nrm2"):
        for axis in (0, 1):
            yield reduction(operation, Input(single, (130, 257), view="device"), axis)
    yield reduction("mean", Input(single, (5, 7, 11, 13)), 2, keepdims=True)
    yield reduction("max", Input(single, (1000,), view="nan"))
    yield reduction("argmin", Input(single, (1000,), view="nan"))
    yield reduction("argmax", Input(single, (1000,), view="ties"))
    yield reduction("nrm2", Input(single, (1000,), view="huge"))
    yield own_operator(Input(single, (100, 33)), 0)
    for dtype in dtypes:
        if dtype in (np.int32, np.complex64, np.float64, np.float16):
            yield inner("dot", Input(dtype, (10_007,)), Input(dtype, (10_007,), seed=1))
        if dtype in (np.float64, np.complex64):
            yield reduction("min", Input(dtype, (1 << 20,)))
            yield reduction("prod", Input(dtype, (101,), near_one=True))
            yield reduction("var", Input(dtype, (130, 257)), 1)
            yield reduction("nrm2", Input(dtype, (1001,)))
            yield reduction("mean", Input(dtype, (130, 257), view="device"), 0)
        if dtype == np.int16 and np.dtype(np.float64) in dtypes:
            yield reduction("mean", Input(dtype, (10_007,)))
    yield inner("dot", Input(single, (100_003,)), Input(single, (100_003,), seed=1))
    yield inner(
        "vdot", Input(np.dtype(np.complex64), (999,)), Input(np.dtype("c8"), (999,), seed=1)
    )


def edge_checks(
    tile: tuple[int, int, int], dtype: np.dtype[Any], _cases: Sequence[Case]
) -> Iterator[Check]:
    """A row of the table serves every reduction: sums at all edges, the others at some."""
    rows, cols = around(tile[0], 211), around(tile[1], 223)
    for m, n, axis, view in levels(4):
        where = (None, 0, 1, 0, 1)[axis]
        yield _guarded_sum("sum", Input(dtype, (rows[m], cols[n]), VIEWS[view]), where)
    for size in (*rows, 100_003, 1 << 20):
        yield _guarded_sum("sum", Input(dtype, (size,)), None)
    others = ["prod", "mean", "var", "nrm2", "asum", "count_nonzero"]
    others += [] if element(dtype).complex else ["max", "argmin"]
    for operation in others:
        for shape, where in (((10_007,), None), ((130, 257), 0), ((130, 257), 1)):
            x = Input(dtype, shape, near_one=operation == "prod")
            yield _guarded_sum(operation, x, where)
    yield inner("dot", Input(dtype, (10_007,)), Input(dtype, (10_007,), seed=1))


def _guarded_sum(operation: str, x: Input, axis: int | None) -> Check:
    plain = reduction(operation, x, axis, keepdims=True)
    if operation != "sum":
        return plain
    shape = tuple(1 if axis in (None, i) else extent for i, extent in enumerate(x.shape))

    def run(engine: Engine) -> Any:
        result = Guarded(engine, shape, x.dtype, x.view == "device")
        api.sum(x.array(engine), axis, out=result.array, keepdims=True, engine=engine)
        return result.checked()

    return Check(operation, plain.case, run, plain.expected)
