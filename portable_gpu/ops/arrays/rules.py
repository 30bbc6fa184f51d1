"""The expression of each operator, and its dtypes, which are those of NumPy 2."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from portable_gpu.dtypes import is_float16_like
from portable_gpu.errors import DTypeError
from portable_gpu.runtime.broadcast import common_dtype

DType = np.dtype[Any]
_BOOL, _INT8 = np.dtype(np.bool_), np.dtype(np.int8)
_DOUBLE, _UINT64 = np.dtype(np.float64), np.dtype(np.uint64)

#: The signs of Python's operators, by the names of NumPy's functions.
SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "true_divide": "/", "floor_divide": "//",
    "remainder": "%", "power": "**", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    "left_shift": "<<", "right_shift": ">>", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=", "equal": "==", "not_equal": "!=", "negative": "-", "positive": "+",
    "invert": "~", "absolute": "abs", "conjugate": "conj",
}  # fmt: skip
COMPARISONS = frozenset(
    ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
)  # fmt: skip
#: Kinds of dtypes that an operator takes; all others take all.
_KINDS = {
    "bitwise_and": "biu", "bitwise_or": "biu", "bitwise_xor": "biu", "left_shift": "biu",
    "right_shift": "biu", "invert": "biu", "floor_divide": "biuf", "remainder": "biuf",
    "subtract": "iufc", "negative": "iufc", "positive": "iufc",
}  # fmt: skip
#: Operators whose result of two bools is an integer.
_COUNTING = frozenset(("floor_divide", "remainder", "power", "left_shift", "right_shift"))
#: A comparison of a signed integer x with an unsigned y, both seen as uint64.
_SIGNED_LEFT = {
    "less": "x >> 63 != 0 || x < y",
    "less_equal": "x >> 63 != 0 || x <= y",
    "greater": "x >> 63 == 0 && x > y",
    "greater_equal": "x >> 63 == 0 && x >= y",
    "equal": "x >> 63 == 0 && x == y",
    "not_equal": "x >> 63 != 0 || x != y",
}
#: The comparison with its sides exchanged.
_MIRRORED = {
    "less": "greater", "less_equal": "greater_equal", "greater": "less",
    "greater_equal": "less_equal", "equal": "equal", "not_equal": "not_equal",
}  # fmt: skip


class Rule(NamedTuple):
    """The computation of an operator.

    Attributes:
        expression: An expression of :mod:`portable_gpu.codegen.expression`, of ``x``, and ``y``.
        compute: The dtype to which both operands are converted.
        result: The result's dtype.
    """

    expression: str
    compute: DType
    result: DType


def kind(dtype: DType) -> str:
    """The dtype's kind, in which bfloat16 is a float."""
    return "f" if is_float16_like(dtype) else dtype.kind


@lru_cache(maxsize=4096)
def binary(name: str, left: Any, right: Any) -> Rule:
    """The rule of an operator with two operands.

    Args:
        name: NumPy's name of it.
        left, right: An array's or NumPy scalar's dtype, or the type of a Python number.

    Raises:
        DTypeError: It does not take them, or they have no common dtype.
    """
    common = common_dtype({"the left operand": left, "the right operand": right})
    if name in COMPARISONS:
        kinds = (
            kind(left) if isinstance(left, np.dtype) else "",
            (kind(right) if isinstance(right, np.dtype) else ""),
        )
        if kinds == ("i", "u"):
            return Rule(_SIGNED_LEFT[name], _UINT64, _BOOL)
        if kinds == ("u", "i"):
            exchanged = _SIGNED_LEFT[_MIRRORED[name]].translate({120: "y", 121: "x"})
            return Rule(exchanged, _UINT64, _BOOL)
        return Rule(f"x {SIGNS[name]} y", common, _BOOL)
    if kind(common) not in _KINDS.get(name, "biufc"):
        shown = [getattr(item, "__name__", item) for item in (left, right)]
        raise DTypeError(
            f"{shown[0]} {SIGNS[name]} {shown[1]}: the operator does not take {common}; "
            "convert the operands by astype"
        )
    if name == "true_divide" and kind(common) in "biu":
        common = _DOUBLE
    elif name in _COUNTING and common == _BOOL:
        common = _INT8
    return Rule(f"x {SIGNS[name]} y", common, common)


@lru_cache(maxsize=1024, typed=True)
def power_of(dtype: DType, exponent: Any) -> Rule | None:
    """The rule of some powers by Python's numbers, as NumPy has it; ``None`` else."""
    if dtype.kind == "b" and exponent == 2 and type(exponent) is int:
        # NumPy computes b ** 2 by np.square, in int8, but other powers of booleans in int64.
        return Rule("x", np.dtype(np.int8), np.dtype(np.int8))
    if kind(dtype) not in "fc":
        return None
    inverse = "reciprocal(x)" if dtype.kind == "c" else "1 / x"
    text = {2: "x * x", 1: "x", -1: inverse, 0.5: "sqrt(x)"}.get(exponent)
    return None if text is None else Rule(text, dtype, dtype)


@lru_cache(maxsize=1024)
def unary(name: str, dtype: DType) -> Rule:
    """The rule of an operator with one operand.

    Raises:
        DTypeError: It does not take the dtype.
    """
    if kind(dtype) not in _KINDS.get(name, "biufc"):
        raise DTypeError(f"{SIGNS[name]} does not take {dtype}; convert the array by astype")
    if name == "conjugate":
        return Rule("conj(x)", dtype, dtype)
    if name == "absolute":
        result = dtype
        if dtype.kind == "c":
            result = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
        return Rule("abs(x)", dtype, result)
    return Rule("x" if name == "positive" else f"{SIGNS[name]}x", dtype, dtype)
