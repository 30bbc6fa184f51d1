"""Checks of arguments that are not arrays: each returns the value, or raises and names it.

They work for any object: an array in place of a word is refused, not compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from operator import index
from typing import Any, TypeVar

import numpy as np

from portable_gpu.errors import ArgumentError, ArgumentTypeError, reraise_of_signal

T = TypeVar("T")


def of_kind(value: Any, kind: type[T] | tuple[type[T], ...], name: str, expected: str = "") -> T:
    """``value``, if it is an instance of ``kind``, or of one of several.

    Raises:
        ArgumentTypeError: It is not; ``wanted`` says what is accepted, or the classes' names do.
    """
    if isinstance(value, kind):
        return value
    if not expected:
        kinds = kind if isinstance(kind, tuple) else (kind,)
        expected = " or ".join([f"a {one.__name__}" for one in kinds])
    raise ArgumentTypeError(f"{name} is {shown(value)}; expected {expected}")


def one_of(value: Any, known: Iterable[str], name: str) -> str:
    """``value``, if it is one of the known words.

    Raises:
        ArgumentTypeError: It is not a word.
        ArgumentError: It is not known.
    """
    words = tuple(known)
    if isinstance(value, str) and value in words:
        return value
    error = ArgumentError if isinstance(value, str) else ArgumentTypeError
    raise error(f"{name} is {shown(value)}; known are {', '.join(words)}")


def only_one(value: T | None, name: str, alias: T | None, alias_name: str) -> T | None:
    """Return the value of an argument that has two names.

    Raises:
        ArgumentError: It is given by both.
    """
    if alias is None:
        return value
    if value is None:
        return alias
    raise ArgumentError(f"{name} and {alias_name} are two names of one argument; give one of them")


def whole(value: Any, name: str) -> int:
    """``value`` as an int, if it is an integer of any kind (``__index__``).

    Raises:
        ArgumentTypeError: It is not.
    """
    try:
        return index(value)
    except Exception as error:  # methods of the value may raise any exception
        reraise_of_signal(error)
        raise ArgumentTypeError(f"{name} is {shown(value)}; expected an integer") from None


#: The largest integer of an axis, which kernels and tables have as an int.
MAX_INT = (1 << 31) - 1


def integers(value: Any, name: str, count: int, least: int | None = None) -> tuple[int, ...]:
    """An integer for each of some axes, from one integer for all or a sequence of them.

    Raises:
        ArgumentTypeError: ``value`` is neither.
        ArgumentError: There are not ``count`` of them, or one is less than ``least``,
            or above :data:`MAX_INT`.
    """
    if isinstance(value, (tuple, list)):
        numbers = tuple([whole(number, name) for number in value])
        if len(numbers) == 1:
            numbers *= count
        if len(numbers) != count:
            raise ArgumentError(f"{name} is {shown(value)}; expected an integer, or {count}")
    else:
        numbers = (whole(value, name),) * count
    if least is not None and min(numbers) < least:
        raise ArgumentError(f"{name} is {shown(value)}; expected integers of at least {least}")
    if max(numbers) > MAX_INT:
        raise ArgumentError(f"{name} is {shown(value)}; expected integers to {MAX_INT}")
    return numbers


def hashable(value: Any) -> Any:
    """A list of numbers as a tuple, so that a repeated call is recognised."""
    return tuple(value) if type(value) is list else value


def real_number(value: Any, name: str) -> float:
    """``value`` as a float, which may be infinite.

    Raises:
        ArgumentTypeError: It is not a real number.
        ArgumentError: It is NaN, or no float can hold it.
    """
    if type(value) is float and value == value:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(f"{name} is {shown(value)}; expected a real number")
    try:
        number = float(value)
    except OverflowError:
        raise ArgumentError(f"{name} is {shown(value)}, which no float can hold") from None
    if number != number:
        raise ArgumentError(f"{name} is NaN; expected a number")
    return number


def finite(value: Any, name: str) -> float:
    """``value`` as a finite float.

    Raises:
        ArgumentTypeError: It is not a real number.
        ArgumentError: It is not finite.
    """
    number = real_number(value, name)
    if not isfinite(number):
        raise ArgumentError(f"{name} is {number}; expected a finite number")
    return number


def flag(value: Any, name: str) -> bool:
    """``value`` as a bool: True, False, or an integer.

    Raises:
        ArgumentTypeError: It is something else, such as an array or a string.
    """
    return value if isinstance(value, bool) else bool(_truth(value, name))


def _truth(value: Any, name: str) -> Any:
    if getattr(value, "dtype", None) == "bool" and getattr(value, "shape", None) == ():
        return value  # NumPy's bool has no __index__
    try:
        return index(value)
    except Exception as error:  # methods of the value may raise any exception
        reraise_of_signal(error)
        raise ArgumentTypeError(f"{name} is {shown(value)}; expected True or False") from None


def shown(value: Any) -> str:
    """``value`` for a message: its ``repr`` if that is short, otherwise its type."""
    kind = type(value).__name__
    if not isinstance(value, (str, bytes, int, float, complex, tuple, list, type(None))):
        return f"of type {kind}"
    try:
        text = repr(value)
    except Exception as error:  # raised by the ``repr`` of an element
        reraise_of_signal(error)
        return f"of type {kind}"
    return text if len(text) <= 60 else f"a long {kind}"
