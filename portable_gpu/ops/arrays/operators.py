"""The operators of arrays, computed by expressions of their elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.arguments import shown
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    IntegerRangeError,
    OverlapError,
)
from portable_gpu.ops import reduce
from portable_gpu.ops.arrays import rules
from portable_gpu.ops.arrays.assignment import assign, converted, full
from portable_gpu.ops.arrays.rules import COMPARISONS, SIGNS, Rule
from portable_gpu.ops.elementwise import evaluate
from portable_gpu.runtime.array import DEVICE_KINDS, TO_ONE_SIDE, Array
from portable_gpu.runtime.broadcast import NUMBERS, check_broadcast
from portable_gpu.runtime.views import overlap

_BOOL, _INT64 = np.dtype(np.bool_), np.dtype(np.int64)


def binary(name: str, left: Any, right: Any) -> Any:
    """Return ``left <operator> right`` as a new array; one operand at least is a device array.

    Raises:
        ArgumentTypeError: An operand is an array of NumPy.
        DTypeError: An operand is of a dtype that the operator does not take.
        ShapeError: The shapes do not broadcast.
        IntegerRangeError: A Python integer does not fit the array's dtype.
        UnsupportedError: The result is of double precision, which the device lacks.
    """
    if type(left) is Array and type(right) is Array:  # only numbers need the checks below
        expression, compute, dtype = rules.binary(name, left.dtype, right.dtype)
        return evaluate(expression, {"x": left, "y": right}, compute=compute, dtype=dtype)
    x, y = _operand(left), _operand(right)
    if x is NotImplemented or y is NotImplemented:
        return NotImplemented
    kinds = _kind(x), _kind(y)
    if name in COMPARISONS:
        known = _outside(name, x, y, kinds)
        if known is not None:
            return full(x if type(x) in DEVICE_KINDS else y, known, _BOOL)
        rule = rules.binary(name, *kinds)
        x, y = _exact(x, rule.compute), _exact(y, rule.compute)
    else:
        rule = _rule(name, x, y, kinds)
    return _computed(rule, x, y)


def in_place(name: str, left: Array, right: Any) -> Any:
    """Compute ``left <operator>= right``, and return ``left``.

    Raises:
        DTypeError, ShapeError, IntegerRangeError, UnsupportedError: As in :func:`binary`; the
            result's dtype cannot be cast to the array's, or its shape is another.
    """
    y = _operand(right)
    if y is NotImplemented:
        return NotImplemented
    rule = _rule(name, left, y, (left.dtype, _kind(y)))
    if rule.result != left.dtype and not np.can_cast(rule.result, left.dtype, "same_kind"):
        raise DTypeError(
            f"{SIGNS[name]}= gives {rule.result}, which is not cast to the array's {left.dtype}; "
            f"write x = x {SIGNS[name]} y, or convert by astype"
        )
    if getattr(y, "shape", ()) not in ((), left.shape):
        check_broadcast(y.shape, left.shape, "the right operand")
    try:
        _computed(rule, left, y, left)
    except OverlapError:
        if not overlap(left, [y]):  # it overlaps itself
            raise
        _computed(rule, left, converted(y, y.dtype), left)
    return left


def unary(name: str, x: Array) -> Any:
    """Return ``<operator> x`` as a new array.

    Raises:
        DTypeError: The operator does not take the dtype.
    """
    rule = rules.unary(name, x.dtype)
    return evaluate(rule.expression, {"x": x}, compute=rule.compute, dtype=rule.result)


def _computed(rule: Rule, x: Any, y: Any, out: Any = None) -> Any:
    inputs = {"x": x, "y": y} if "y" in rule.expression else {"x": x}
    dtype = rule.result if out is None else out.dtype
    return evaluate(rule.expression, inputs, compute=rule.compute, dtype=dtype, out=out)


def _operand(value: Any) -> Any:
    """Return an operand: a device array, or a number (that of a NumPy array without axes).

    Raises:
        ArgumentTypeError: It is an array of NumPy, or a list.
    """
    kind = type(value)
    if kind in DEVICE_KINDS or kind in NUMBERS or isinstance(value, (*DEVICE_KINDS, *NUMBERS)):
        return value
    if isinstance(value, np.ndarray):
        if value.shape:
            raise ArgumentTypeError(
                f"an operand is an array of NumPy, the other is not; {TO_ONE_SIDE}"
            )
        value = value[()]
    if isinstance(value, (list, tuple)):
        raise ArgumentTypeError(f"an operand is {shown(value)}; {TO_ONE_SIDE}")
    if isinstance(value, np.generic):
        return value
    return NotImplemented


def _kind(value: Any) -> Any:
    """Return the dtype of an operand, or the type of a Python number."""
    kind = type(value)
    if kind in NUMBERS:
        return kind
    dtype = getattr(value, "dtype", None)
    return dtype if dtype is not None else next(k for k in NUMBERS if isinstance(value, k))


def _rule(name: str, x: Any, y: Any, kinds: tuple[Any, Any]) -> Rule:
    """Return the rule of an operator that is not a comparison, and check its numbers.

    Raises:
        DTypeError: It does not take the operands.
        IntegerRangeError: A Python integer does not fit.
        ArgumentError: An array of integers that is not empty has a negative exponent.
    """
    rule = rules.binary(name, *kinds)
    for value, kind in ((x, kinds[0]), (y, kinds[1])):
        if kind is int:
            _check_range(value, rule.compute)
    if name == "power" and type(y) not in DEVICE_KINDS and not isinstance(y, DEVICE_KINDS):
        if rule.compute.kind in "iu" and y < 0 and x.size:
            raise ArgumentError(f"the exponent is {y!r}; integers have no negative powers")
        if type(y) in (int, float) and kinds[0] in (rule.compute, np.bool_):
            return rules.power_of(kinds[0], y) or rule
    return rule


def _check_range(value: int, dtype: np.dtype[Any]) -> None:
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if not info.min <= value <= info.max:
            raise IntegerRangeError(
                f"an operand is {value}; {dtype} holds integers from {info.min} to {info.max}"
            )
    else:
        try:
            float(value)
        except OverflowError:
            raise IntegerRangeError(
                f"an operand is an integer of {value.bit_length()} bits, beyond {dtype}"
            ) from None


def _outside(name: str, x: Any, y: Any, kinds: tuple[Any, Any]) -> bool | None:
    """Return the result of a comparison with an integer outside the range of the array's dtype.

    It is the same for all elements.  Return ``None`` if the integer is in the range.
    """
    mirrored = not isinstance(x, DEVICE_KINDS)
    array, number = (y, x) if mirrored else (x, y)
    kind = kinds[0] if mirrored else kinds[1]
    is_integer = kind is int or (isinstance(number, np.integer) and array.dtype.kind in "iu")
    if not is_integer:
        return None
    if array.dtype.kind not in "iu":
        if kind is int:
            _check_range(number, _INT64 if array.dtype.kind == "b" else array.dtype)
        return None
    info = np.iinfo(array.dtype)
    if info.min <= number <= info.max:
        return None
    is_less = (number > info.max) != mirrored  # whether the left one is less
    return name == "not_equal" or name in (
        ("less", "less_equal") if is_less else ("greater", "greater_equal")
    )


def _exact(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a NumPy integer as a Python integer if integers are compared."""
    is_integer = isinstance(value, np.integer) and dtype.kind in "iu"
    return int(value) if is_integer else value


Array._binary = binary
Array._in_place = in_place
Array._unary = unary
Array._assign = assign
Array._converted = converted
Array._full = full


def reduced(name: str, array: Array, **options: Any) -> Any:
    """Reduce an array by the function of :mod:`portable_gpu.ops.reduce` with the given name."""
    return getattr(reduce, name)(array, **options)


Array._reduced = reduced
