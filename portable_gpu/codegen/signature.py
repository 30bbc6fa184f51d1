"""A kernel's parameters, read from its text: the one place that declares them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

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
    """

    name: str
    scalar: Any

    @property
    def bits(self) -> Any:
        """The unsigned type of a scalar's size."""
        return _BITS[np.dtype(self.scalar).itemsize]


@dataclass(frozen=True)
class Arguments:
    """The places of a kernel's arguments.

    Attributes:
        constants: Of what stays, and that.
        buffers: Of the buffers that calls give, in their order.
        scalars: The same of scalars, and their types.
        kept: Of the buffers that stay, and those.
    """

    constants: tuple[tuple[int, Any], ...]
    buffers: tuple[int, ...]
    scalars: tuple[tuple[int, Any], ...]
    kept: tuple[tuple[int, Any], ...] = ()


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
    places = {parameter.name: place for place, parameter in enumerate(declared)}
    are_buffers = sorted(p.name for p in declared if p.scalar is None)
    given, kept = [*constants, *scalars], kept or {}
    no_buffers = [name for name, value in constants.items() if value is None]
    every_buffer = sorted([*buffers, *kept, *no_buffers])
    if sorted([*given, *buffers, *kept]) != sorted(places) or every_buffer != are_buffers:
        raise LookupError(
            f"kernel {kernel} takes {', '.join(places)}; given were "
            f"{', '.join([*buffers, *kept])} as buffers and {', '.join(given)}"
        )

    def typed(name: str) -> tuple[int, Any]:
        parameter = declared[places[name]]
        return places[name], parameter.bits if name in as_bits else parameter.scalar

    fixed = [(value, *typed(name)) for name, value in constants.items()]
    return Arguments(
        tuple((at, _NULL if value is None else kind(value)) for value, at, kind in fixed),
        tuple(places[name] for name in buffers),
        tuple(typed(name) for name in scalars),
        tuple((places[name], buffer) for name, buffer in kept.items()),
    )


@lru_cache(maxsize=256)
def parameters(text: str, kernel: str) -> tuple[Parameter, ...]:
    """The parameters of a kernel, in order.

    Args:
        text: The text, whose includes and templates are resolved.
        kernel: The kernel's name.

    Raises:
        LookupError: The text has no such kernel, or a scalar of a type that no host passes.
    """
    head = re.search(rf"\bvoid\s+{kernel}\s*\(([^()]*)\)", text)
    if head is None:
        raise LookupError(f"the text declares no kernel {kernel}")
    return tuple(_parameter(one, text, kernel) for one in head[1].split(","))


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
