"""A kernel's parameters, read from its text: the one place that declares them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from portable_gpu.codegen.integers import PADDING

#: NumPy's scalar types of C's.
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
        name: As the text has it.
        scalar: NumPy's type of what is passed; ``None`` for a buffer.
        field: Whether it is a field of the struct of integers, and no parameter of its own.
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
    """The places of a kernel's arguments: numbers, or names of fields of the struct of integers.

    Attributes:
        constants: Of what stays, and that.
        buffers: Of the buffers that calls give, in their order.
        scalars: The same of scalars, and their types.
        kept: Of the buffers that stay, and those.
        integers: The place of the struct, and its type, if there is one.
    """

    constants: tuple[tuple[int | str, Any], ...]
    buffers: tuple[int, ...]
    scalars: tuple[tuple[int | str, Any], ...]
    kept: tuple[tuple[int, Any], ...] = ()
    integers: tuple[int, np.dtype[Any]] | None = None

    def passed(self, scalars: Sequence[Any] = ()) -> dict[int, Any]:
        """What each parameter is given that is no buffer, where calls give these scalars."""
        found = dict[int | str, Any](self.constants)
        for (place, kind), value in zip(self.scalars, scalars, strict=True):
            found[place] = kind(value)
        if self.integers is not None:
            at, dtype = self.integers
            struct = np.zeros((), dtype)
            for name in dtype.names or ():
                struct[name] = found.pop(name, 0)
            found[at] = struct
        return {place: value for place, value in found.items() if isinstance(place, int)}


def arguments(
    text: str,
    kernel: str,
    constants: Mapping[str, Any],
    buffers: Sequence[str],
    scalars: Sequence[str],
    as_bits: Collection[str] = (),
    kept: Mapping[str, Any] | None = None,
) -> Arguments:
    """The places of arguments that go by the names of the text's parameters.

    Args:
        text, kernel: As :func:`parameters` takes them.
        constants: The scalars that stay; ``None`` of a buffer that the kernel leaves alone.
        buffers, scalars: The names of what each call gives, in the order in which it does.
        as_bits: Scalars that calls give as unsigned numbers of the same bits.
        kept: The buffers that stay.

    Raises:
        LookupError: A parameter has no argument, or an argument no parameter of its kind.
    """
    declared = parameters(text, kernel)
    fields = [parameter for parameter in declared if parameter.field]
    alone = [parameter for parameter in declared if not parameter.field]
    places: dict[str, int | str] = {one.name: place for place, one in enumerate(alone)}
    places |= {one.name: one.name for one in fields}
    are_buffers = sorted(p.name for p in declared if p.scalar is None)
    given, kept = [*constants, *scalars], kept or {}
    given += [one.name for one in fields if one.name.startswith(PADDING)]
    no_buffers = [name for name, value in constants.items() if value is None]
    every_buffer = sorted([*buffers, *kept, *no_buffers])
    if sorted([*given, *buffers, *kept]) != sorted(places) or every_buffer != are_buffers:
        raise LookupError(
            f"kernel {kernel} takes {', '.join(places)}; given were "
            f"{', '.join([*buffers, *kept])} as buffers and {', '.join(given)}"
        )

    by_name = {parameter.name: parameter for parameter in declared}

    def typed(name: str) -> tuple[int | str, Any]:
        parameter = by_name[name]
        return places[name], parameter.bits if name in as_bits else parameter.scalar

    def of_buffer(name: str) -> int:
        place = places[name]
        assert isinstance(place, int)
        return place

    fixed = [(value, *typed(name)) for name, value in constants.items()]
    # The bits of a negative number are beyond a signed field of the same size.
    struct = np.dtype(
        [(one.name, one.bits if one.name in as_bits else one.scalar) for one in fields], align=True
    )
    return Arguments(
        tuple((at, _NULL if value is None else kind(value)) for value, at, kind in fixed),
        tuple(of_buffer(name) for name in buffers),
        tuple(typed(name) for name in scalars),
        tuple((of_buffer(name), buffer) for name, buffer in kept.items()),
        (len(alone), struct) if fields else None,
    )


@lru_cache(maxsize=256)
def parameters(text: str, kernel: str) -> tuple[Parameter, ...]:
    """The parameters of a kernel, in order; the fields of its struct of integers are last.

    Args:
        text: The text, whose includes and templates are resolved.
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
        return tuple(_parameter(one, text, kernel) for one in declared)
    assert declared.pop().split() == ["const", f"{kernel}_integers_t", "integers"]
    fields = [_parameter(one, text, kernel) for one in struct[1].split(";") if one.strip()]
    return (
        *(_parameter(one, text, kernel) for one in declared),
        *(replace(one, field=True) for one in fields),
    )


def _parameter(declared: str, text: str, kernel: str) -> Parameter:
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
