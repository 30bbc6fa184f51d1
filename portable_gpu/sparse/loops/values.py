"""Types and values of loops.

An integer is an ``i64`` of LLVM, a float a ``double``, and a truth value an ``i1``.  A value of
several parts, an array or a tuple, has no object in LLVM: it is the sequence of its parts.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

#: For each dtype of arrays, LLVM's type of an element in memory.
ELEMENTS = {"bool": "i8", "int8": "i8", "int32": "i32", "int64": "i64", "float64": "double"}
#: The names of these dtypes.
NAMES = {np.dtype(name): name for name in ELEMENTS}


@dataclass(frozen=True)
class ScalarType:
    """The type of a number or truth value, by its name in LLVM."""

    name: str


@dataclass(frozen=True)
class ArrayType:
    """The type of a contiguous array; its parts are the address, and the extents."""

    dtype: str
    dimensions: int


@dataclass(frozen=True)
class TupleType:
    """The type of a tuple; its parts are those of the items.

    Attributes:
        kind: The class of a named tuple, or None for a tuple.
        types: The types of the items.
    """

    kind: Any
    types: tuple[Type, ...]


Type = ScalarType | ArrayType | TupleType
INTEGER, FLOAT, TRUTH = ScalarType("i64"), ScalarType("double"), ScalarType("i1")
#: The type of None.
NOTHING = TupleType(None, ())


class Value(NamedTuple):
    """A typed value; `parts` are its operands in LLVM, or their addresses for a variable."""

    type: Type
    parts: tuple[str, ...]


def parts_of(kind: Type) -> tuple[str, ...]:
    """Return LLVM's types of the parts of a value."""
    if isinstance(kind, ScalarType):
        return (kind.name,)
    if isinstance(kind, ArrayType):
        return ("ptr",) + ("i64",) * kind.dimensions
    return tuple(part for item in kind.types for part in parts_of(item))


def addresses_in(kind: Type) -> list[int]:
    """Return the indices of the addresses of arrays among the parts of a value."""
    return [k for k, part in enumerate(parts_of(kind)) if part == "ptr"]


def tuple_of(kind: Any, values: Sequence[Value]) -> Value:
    """Make a tuple, or a named tuple of the class `kind`."""
    return Value(
        TupleType(kind, tuple(value.type for value in values)),
        tuple(part for value in values for part in value.parts),
    )


def items_of(types: Sequence[Type], parts: Sequence[str]) -> Iterator[Value]:
    """Yield the items of a tuple."""
    begin = 0
    for kind in types:
        end = begin + len(parts_of(kind))
        yield Value(kind, tuple(parts[begin:end]))
        begin = end


def key_and_words(arguments: Sequence[Any]) -> tuple[tuple[Any, ...], list[int | float]]:
    """Return what the types of arguments depend on, and their parts.

    Raises:
        TypeError: An array is not contiguous, or not aligned.
    """
    key: list[Any] = []
    words: list[int | float] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            flags = argument.flags
            if not (flags.c_contiguous and flags.aligned):
                raise _wrong(argument)
            key += [argument.dtype, argument.ndim]
            words.append(_address(argument, flags.writeable))
            words += argument.shape
        elif isinstance(argument, tuple):
            inner_key, inner_words = key_and_words(argument)
            key += [type(argument), inner_key]
            words += inner_words
        else:
            key.append(type(argument))
            words.append(bool(argument) if isinstance(argument, np.bool_) else argument)
    return tuple(key), words


def _address(array: Any, is_writeable: bool) -> int:
    if is_writeable and array.size:  # the quick way
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    address: int = array.__array_interface__["data"][0]
    return address


def type_of(argument: Any) -> Type:
    """Return the type of an argument of a loop.

    Raises:
        TypeError: A loop has no arguments of such a type.
    """
    if isinstance(argument, np.ndarray):
        dtype = NAMES.get(argument.dtype)
        if dtype and argument.ndim in (1, 2):
            return ArrayType(dtype, argument.ndim)
    elif isinstance(argument, tuple):
        kind = None if type(argument) is tuple else type(argument)
        return TupleType(kind, tuple(map(type_of, argument)))
    elif isinstance(argument, (bool, np.bool_)):
        return TRUTH
    elif isinstance(argument, (int, np.integer)):
        return INTEGER
    elif isinstance(argument, (float, np.floating)):
        return FLOAT
    raise _wrong(argument)


def _wrong(argument: Any) -> TypeError:
    return TypeError(
        f"an argument of a loop is {type(argument).__name__} {getattr(argument, 'dtype', '')}; "
        "expected a number, a contiguous and aligned array, or a tuple of them"
    )
