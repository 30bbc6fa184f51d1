"""Problems of elementwise expressions, without a way to compute them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from portable_gpu.codegen.functions import Function
from portable_gpu.dtypes import Element
from portable_gpu.runtime.views import Shape
from portable_gpu.targets import Target

#: The C type of the kernel parameter that takes a number of a narrow type.
_PASSED = {"char": "int", "short": "int", "uchar": "uint", "ushort": "uint"}


@dataclass(frozen=True)
class ElementwiseProblem:
    """The properties of an elementwise call that its plan depends on; the key of the plan cache.

    Attributes:
        expression: The expression, as the caller wrote it.
        names: The names of the input arrays in the expression, in the order of their buffers.
        inputs: The element types of the input arrays.
        updated: The names of the inputs that are the output array itself.
        scalars: The names of the inputs that are numbers.
        compute: The element type that the expression is computed in.
        result: The element type of the output.
        shape: The shape of the output.
        strides: The strides of each input array, then of the output, in elements; the stride of
            an axis along which an array is broadcast is 0.
        alignment: A power of two that divides each array's first address.
    """

    expression: str
    names: tuple[str, ...]
    inputs: tuple[Element, ...]
    updated: tuple[str, ...]
    scalars: tuple[str, ...]
    compute: Element
    result: Element
    shape: Shape
    strides: tuple[Shape, ...]
    alignment: int

    @property
    def ctype(self) -> str:
        """The C type that the expression is computed in (``int`` for bool)."""
        return "int" if self.compute.boolean else self.compute.value

    @property
    def real(self) -> str:
        """The C type of the kernel's scalar parameters; a complex number takes two of them."""
        real = self.compute.real
        return "int" if self.compute.boolean else _PASSED.get(real, real)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the kernel's scalar parameters."""
        ends = ("_re", "_im") if self.compute.complex else ("",)
        return tuple(f"s{k}{end}" for k in range(len(self.scalars)) for end in ends)

    @property
    def numbers(self) -> tuple[tuple[str, str], ...]:
        """The C type of each scalar, and the kernel's expression for its value."""
        if self.compute.complex:
            pairs = zip(self.parts[::2], self.parts[1::2], strict=True)
            return tuple((self.ctype, f"({self.ctype})({re}, {im})") for re, im in pairs)
        return tuple((self.real, part) for part in self.parts)

    @property
    def complex(self) -> bool:
        """Whether complex numbers are read, computed or written; the kernel has no vectors then."""
        return any(e.complex for e in (*self.inputs, self.compute, self.result))

    @property
    def names_read(self) -> int:
        """The number of names in the expression: arrays, the output itself, and scalars."""
        return len(self.names) + len(self.updated) + len(self.scalars)

    @property
    def needs_fp64(self) -> bool:
        """Whether double precision is read, computed or written."""
        return any(e.needs_fp64 for e in (*self.inputs, self.compute, self.result))

    @property
    def nbytes(self) -> int:
        """The bytes of global memory that any kernel must read and write."""
        read = sum(
            e.itemsize * prod(n for n, s in zip(self.shape, strides, strict=True) if s)
            for e, strides in zip(self.inputs, self.strides, strict=False)
        )
        written = prod(self.shape) * self.result.itemsize
        return read + written * (1 + bool(self.updated))

    def function(self, target: Target) -> Function:
        """The expression as a C function."""
        arrays = [(n, e.value) for n, e in zip(self.names, self.inputs, strict=True)]
        arrays += [(n, self.result.value) for n in self.updated]
        numbers = [(n, ctype) for n, (ctype, _) in zip(self.scalars, self.numbers, strict=True)]
        return Function(
            name="user__function", text=self.expression, parameters=(*arrays, *numbers),
            compute=self.ctype, result=self.result.value, truth=self.result.boolean,
            boolean=self.compute.boolean, by_component=not target.is_cpu,
        )  # fmt: skip
