"""The places of a kernel's arguments, found by the names of its parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_gpu.codegen.parameters import PADDING
from portable_gpu.codegen.specialization import Specialization

_NULL = np.uintp(0)


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
    spec: Specialization,
    kernel: str,
    constants: Mapping[str, Any],
    buffers: Sequence[str],
    scalars: Sequence[str],
    as_bits: Collection[str] = (),
    bound: Mapping[str, Any] | None = None,
) -> Arguments:
    """Find the places of a kernel's arguments by the names of its parameters.

    Args:
        spec, kernel: The text, and the name of one of its kernels.
        constants: The scalars that are the same in all launches; ``None`` for a buffer that the
            kernel does not use.
        buffers, scalars: The names of the arguments that each launch passes, in order.
        as_bits: The scalars that a launch passes as unsigned integers of the same bits.
        bound: The buffers that are the same in all launches.

    Raises:
        LookupError: The text declares no such kernel; a parameter has no argument, or an argument
            no parameter of its kind.
    """
    declared = spec.parameters(kernel)
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
