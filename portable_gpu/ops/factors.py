"""The factors alpha and beta of products."""

from __future__ import annotations

from numbers import Complex, Integral, Number, Real
from typing import Any

import numpy as np

from portable_gpu.arguments import shown
from portable_gpu.dtypes import Element
from portable_gpu.errors import ArgumentError, ArgumentTypeError, DTypeError

#: Types of numbers that are kept as they are.
PLAIN = (float, int, complex)


def plain_number(value: Any, name: str) -> Any:
    """Return a number of any kind, or an array of NumPy without axes, as a Python number.

    Raises:
        ArgumentTypeError: It is not a number.
        ArgumentError: It has no value, or one beyond the range of float64.
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if not isinstance(value, Number):
        raise ArgumentTypeError(f"{name} is {shown(value)}; a number is needed")
    try:
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Complex) and not isinstance(value, Real):
            return complex(value)
        return float(value)  # type: ignore[arg-type]  # decimal.Decimal is not a Real, but has it
    except TypeError as error:
        raise ArgumentTypeError(f"{name} is {shown(value)}: {error}") from None
    except (ValueError, OverflowError) as error:
        raise ArgumentError(f"{name} is {shown(value)}: {error}") from None


def factor(value: Any, name: str, elem: Element) -> Any:
    """Return alpha or beta as a number of the product's kind; -0 becomes 0.

    Of integers these are the bits of their 32 or 64, of which a float may hold fewer.

    Raises:
        ArgumentTypeError: It is not a number.
        ArgumentError: It has no value, or one beyond the range of float64.
        DTypeError: It is not a number of that kind.
    """
    value = plain_number(value, name)
    try:
        number = complex(value) + 0.0
    except OverflowError as error:
        raise ArgumentError(f"{name} is {shown(value)}: {error}") from None
    if elem.complex:
        return number
    if number.imag:
        raise DTypeError(f"{name} is {value}, and the product is real")
    if elem.floating:
        return number.real
    if not isinstance(value, int):
        real = number.real
        if not real.is_integer():
            raise DTypeError(f"{name} is {value}, and the product is of integers; pass an integer")
        value = int(real)
    return value & ((1 << 64) - 1 if elem.itemsize == 8 else (1 << 32) - 1)
