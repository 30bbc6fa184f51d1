"""The parameters of a kernel, which are read from its text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from portable_gpu.codegen.integers import PADDING

#: The NumPy type of each C type.
SCALARS: dict[str, Any] = {
    "char": np.int8,
    "uchar": np.uint8,
    "short": np.int16,
    "ushort": np.uint16,
    "int": np.int32,
    "uint": np.uint32,
    "long": np.int64,
    "ulong": np.uint64,
    "float": np.float32,
    "double": np.float64,
    "float2": np.complex64,
    "double2": np.complex128,
}
_BITS = {4: np.uint32, 8: np.uint64}
_NULL = np.uintp(0)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        name: The parameter's name in the text.
        scalar: The NumPy type of a scalar; ``None`` for a buffer.
        field: Whether it is a field of the struct of integers instead of a separate parameter.
    """

    name: str
    scalar: Any
    field: bool = False

    @property
    def bits(self) -> Any:
        """The unsigned type of a scalar's size."""
        return _BITS[np.dtype(self.scalar).itemsize]


@dataclass(frozen=True)
class Arguments:
    """The places of a kernel's arguments.

    A place is the index of a parameter, or the name of a field of the struct of integers.

    Attributes:
        constants: The place and the value of each argument that is the same in all launches.
        buffers: The places of the buffers that each launch passes, in their order.
        scalars: The place and the type of each scalar that a launch passes.
        bound: The place of each buffer that is the same in all launches, and the buffer.
        integers: The place and the type of the struct of integers, if there is one.
    """

    constants: tuple[tuple[int | str, Any], ...]
    buffers: tuple[int, ...]
    scalars: tuple[tuple[int | str, Any], ...]
    bound: tuple[tuple[int, Any], ...] = ()
    integers: tuple[int, np.dtype[Any]] | None = None

    def passed(self, scalars: Sequence[Any] = ()) -> dict[int, Any]:
        """The value of each parameter that is not a buffer, for a launch with these scalars."""
        values = dict[int | str, Any](self.constants)
        for (place, kind), value in zip(self.scalars, scalars, strict=True):
            values[place] = kind(value)
        if self.integers is not None:
            struct_place, dtype = self.integers
            struct = np.zeros((), dtype)
            for name in dtype.names or ():
                struct[name] = values.pop(name, 0)
            values[struct_place] = struct
        return {place: value for place, value in values.items() if isinstance(place, int)}


def arguments(
    text: str,
    kernel: str,
    constants: Mapping[str, Any],
    buffers: Sequence[str],
    scalars: Sequence[str],
    as_bits: Collection[str] = (),
    bound: Mapping[str, Any] | None = None,
) -> Arguments:
    """Find the places of a kernel's arguments by the names of its parameters.

    Args:
        text, kernel: See :func:`parameters`.
        constants: The scalars that are the same in all launches; ``None`` for a buffer that the
            kernel does not use.
        buffers, scalars: The names of the arguments that each launch passes, in order.
        as_bits: The scalars that a launch passes as unsigned integers of the same bits.
        bound: The buffers that are the same in all launches.

    Raises:
        LookupError: A parameter has no argument, or an argument no parameter of its kind.
    """
    declared = parameters(text, kernel)
    fields = [parameter for parameter in declared if parameter.field]
    separate = [parameter for parameter in declared if not parameter.field]
    places: dict[str, int | str] = {
        parameter.name: place for place, parameter in enumerate(separate)
    }
    places |= {parameter.name: parameter.name for parameter in fields}
    are_buffers = sorted(p.name for p in declared if p.scalar is None)
    scalar_names, bound = [*constants, *scalars], bound or {}
    scalar_names += [parameter.name for parameter in fields if parameter.name.startswith(PADDING)]
    no_buffers = [name for name, value in constants.items() if value is None]
    every_buffer = sorted([*buffers, *bound, *no_buffers])
    if sorted([*scalar_names, *buffers, *bound]) != sorted(places) or every_buffer != are_buffers:
        raise LookupError(
            f"kernel {kernel} takes {', '.join(places)}; given were "
            f"{', '.join([*buffers, *bound])} as buffers and {', '.join(scalar_names)}"
        )

    by_name = {parameter.name: parameter for parameter in declared}

    def place_and_type(name: str) -> tuple[int | str, Any]:
        parameter = by_name[name]
        return places[name], parameter.bits if name in as_bits else parameter.scalar

    def of_buffer(name: str) -> int:
        place = places[name]
        assert isinstance(place, int)
        return place

    fixed = [(value, *place_and_type(name)) for name, value in constants.items()]
    # The bits of a negative number are beyond a signed field of the same size.
    struct = np.dtype(
        [
            (parameter.name, parameter.bits if parameter.name in as_bits else parameter.scalar)
            for parameter in fields
        ],
        align=True,
    )
    return Arguments(
        tuple((at, _NULL if value is None else kind(value)) for value, at, kind in fixed),
        tuple(of_buffer(name) for name in buffers),
        tuple(place_and_type(name) for name in scalars),
        tuple((of_buffer(name), buffer) for name, buffer in bound.items()),
        (len(separate), struct) if fields else None,
    )


@lru_cache(maxsize=256)
def parameters(text: str, kernel: str) -> tuple[Parameter, ...]:
    """The parameters of a kernel, in order; the fields of its struct of integers are last.

    Args:
        text: The rendered text, without ``#include``.
        kernel: The kernel's name.

    Raises:
        LookupError: The text has no such kernel, or a scalar of a type that no host passes.
    """
    head = re.search(rf"\bvoid\s+{kernel}\s*\(([^()]*)\)", text)
    if head is None:
        raise LookupError(f"the text declares no kernel {kernel}")
    declared = head[1].split(",")
    struct = re.search(rf"\btypedef struct {{([^}}]*)}} {kernel}_integers_t;", text)
    if struct is None:
        return tuple(_parse_parameter(one, text, kernel) for one in declared)
    assert declared.pop().split() == ["const", f"{kernel}_integers_t", "integers"]
    fields = [_parse_parameter(one, text, kernel) for one in struct[1].split(";") if one.strip()]
    return (
        *(_parse_parameter(one, text, kernel) for one in declared),
        *(replace(one, field=True) for one in fields),
    )


def _parse_parameter(declared: str, text: str, kernel: str) -> Parameter:
    *words, name = re.findall(r"\w+|\*", declared)
    if "*" in words:
        return Parameter(name, None)
    ctype = words[-1]
    if ctype not in SCALARS:
        alias = re.search(rf"\btypedef\s+(\w+)\s+{ctype}\b", text)
        ctype = alias[1] if alias else ctype
    if ctype not in SCALARS:
        raise LookupError(f"{kernel} takes {declared.strip()}, a type that no host passes")
    return Parameter(name, SCALARS[ctype])
