"""The functions of Python and NumPy that loops call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from portable_gpu.sparse.loops.instructions import Instructions, NotTranslatedError
from portable_gpu.sparse.loops.values import FLOAT, INTEGER, TRUTH, ArrayType, Value


def _length(_: Instructions, array: Value) -> Value:
    if not isinstance(array.type, ArrayType):
        raise NotTranslatedError(f"the length of {array.type}")
    return Value(INTEGER, (array.parts[1],))


def _integer(code: Instructions, value: Value) -> Value:
    if value.type == FLOAT:
        return Value(INTEGER, (code.let(f"fptosi double {value.parts[0]} to i64"),))
    return code.converted(value, INTEGER)


def _float(code: Instructions, value: Value) -> Value:
    return code.converted(value, FLOAT)


def _minimum(code: Instructions, first: Value, second: Value) -> Value:
    kind, (x, y) = code.numbers(first, second)
    if kind == INTEGER:
        return Value(kind, (code.let(f"call i64 @llvm.smin.i64(i64 {x}, i64 {y})"),))
    is_second = code.let(f"fcmp olt double {y}, {x}")
    return Value(kind, (code.let(f"select i1 {is_second}, double {y}, double {x}"),))


def _maximum(code: Instructions, first: Value, second: Value) -> Value:
    kind, (x, y) = code.numbers(first, second)
    if kind == INTEGER:
        return Value(kind, (code.let(f"call i64 @llvm.smax.i64(i64 {x}, i64 {y})"),))
    is_second = code.let(f"fcmp ogt double {y}, {x}")
    return Value(kind, (code.let(f"select i1 {is_second}, double {y}, double {x}"),))


def _absolute(code: Instructions, value: Value) -> Value:
    x = code.part(value, INTEGER)
    return Value(INTEGER, (code.let(f"call i64 @llvm.abs.i64(i64 {x}, i1 false)"),))


def _square_root(code: Instructions, value: Value) -> Value:
    x = code.part(value, FLOAT)
    return Value(FLOAT, (code.let(f"call double @llvm.sqrt.f64(double {x})"),))


#: Functions of Python, and what their calls become.
BUILTINS: dict[Any, Callable[..., Value]] = {
    len: _length,
    int: _integer,
    float: _float,
    min: _minimum,
    max: _maximum,
    abs: _absolute,
    math.sqrt: _square_root,
}


def _full(code: Instructions, dtype: str, count: str, value: Value) -> Value:
    return code.filled(dtype, count, lambda _: value)


def _ones(code: Instructions, dtype: str, count: str) -> Value:
    return code.filled(dtype, count, lambda _: Value(TRUTH, ("true",)))


def _range(code: Instructions, dtype: str, count: str) -> Value:
    length = code.let(f"call i64 @llvm.smax.i64(i64 {count}, i64 0)")
    return code.filled(dtype, length, lambda k: Value(INTEGER, (k,)))


#: Functions of NumPy that allocate an array, by a dtype, the number of elements, and more.
ALLOCATIONS: dict[Any, Callable[..., Value]] = {
    np.empty: Instructions.allocated,
    np.zeros: Instructions.allocated,
    np.full: _full,
    np.ones: _ones,
    np.arange: _range,
}
