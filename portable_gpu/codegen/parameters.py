"""The parameters of kernels, declared once, with types, for the OpenCL text and for the launch.

A family declares the parameters of a kernel in Python and passes them to
:func:`~portable_gpu.codegen.specialization.specialize`, where the template has the kernel's head::

    __kernel ${group.of_size(G)}
    void ${kernel("reduce_rows")}
    {

Most parameters are sizes, strides and offsets, and each argument makes a launch slower: on PoCL a
launch takes 0.8 us without integers and 2.2 us with 50 of them (``tools/launch_arguments.py``).  A
kernel with several integers therefore takes them as one struct, the largest fields first, and its
body begins with a variable for each field that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from portable_gpu.codegen.c_text import MACRO, end_of_block, words_of

#: The NumPy type of each C type that a launch passes.
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
#: The sizes of C's integer types, in bytes.
BYTES = {
    "char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8,
}  # fmt: skip
#: The prefix of the names of padding fields.
PADDING = "padding_"
#: A kernel with fewer integers than this keeps them as separate parameters.
_SEVERAL = 2
_BITS = {4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        name: The parameter's name in the text.
        scalar: The NumPy type of a scalar; ``None`` for a buffer.
        field: Whether it is a field of the struct of integers instead of a separate parameter.
        ctype: The C type, with the qualifiers and, for a buffer, the asterisk.
    """

    name: str
    scalar: Any
    field: bool = False
    ctype: str = ""

    @property
    def bits(self) -> Any:
        """The unsigned type of a scalar's size."""
        return _BITS[np.dtype(self.scalar).itemsize]

    @property
    def integer(self) -> str:
        """The C type without qualifiers; one of :data:`BYTES` for an integer."""
        return self.ctype.removeprefix("const ")

    def __str__(self) -> str:
        """The declaration of the parameter or of the field."""
        return f"{self.ctype}{'' if self.ctype.endswith('*') else ' '}{self.name}"


#: The parameters of each kernel of a text, in order.
Declared: TypeAlias = Mapping[str, Sequence[Parameter]]


def buffer(
    ctype: str, name: str, *, writes: bool = False, shared: bool = False, restrict: bool = True
) -> Parameter:
    """Declare a buffer in global memory.

    Args:
        ctype: The C type of its elements (``f32_t``).
        name: The parameter's name.
        writes: Whether the kernel writes to it.
        shared: Whether other work-groups change it while the kernel reads it.
        restrict: Whether no other buffer overlaps it.
    """
    volatile, const = "volatile " * shared, "const " * (not writes)
    pointer = "*restrict" if restrict else "*"
    return Parameter(name, None, ctype=f"{volatile}__global {const}{ctype} {pointer}")


def scalars(ctype: str, *names: str, alias: str = "") -> list[Parameter]:
    """Declare scalars of one C type.

    Args:
        ctype: A type of :data:`SCALARS`, which may be ``const``.
        names: The names of the parameters.
        alias: The name of a ``typedef`` of this type, which the text has instead.
    """
    kind = SCALARS[ctype.removeprefix("const ")]
    return [Parameter(name, kind, ctype=alias or ctype) for name in names]


def operand(
    ctype: str, name: str, *strides: str, writes: bool = False, restrict: bool = True
) -> list[Parameter]:
    """Declare an array: a :func:`buffer`, ``name_offset``, and the strides by their names."""
    array = buffer(ctype, name, writes=writes, restrict=restrict)
    return [array, *scalars("long", f"{name}_offset", *strides)]


def laid_out(parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Return the parameters; several integers become fields of a struct, the last parameter.

    Padding fields make the size of the struct a multiple of its largest field.  Without them the
    compiler adds padding, and rusticl refuses a struct of that size.
    """
    return _laid_out(tuple(parameters))


@lru_cache(maxsize=256)
def _laid_out(parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    others = [item for item in parameters if item.integer not in BYTES]
    fields = [
        replace(item, field=True, ctype=item.integer)
        for item in parameters
        if item.integer in BYTES
    ]
    if len(fields) < _SEVERAL:
        return parameters
    sizes = [BYTES[item.ctype] for item in fields]
    rest = -sum(sizes) % max(sizes)
    fields += [
        Parameter(PADDING + ctype, SCALARS[ctype], True, ctype)
        for ctype in ("uint", "ushort", "uchar")
        if rest & BYTES[ctype]
    ]
    fields.sort(key=lambda item: -BYTES[item.ctype])
    return (*others, *fields)


def head(name: str, parameters: Sequence[Parameter]) -> str:
    """Return the head of a kernel in the text, for parameters from :func:`laid_out`."""
    declared = [str(item) for item in parameters if not item.field]
    if len(declared) < len(parameters):
        declared.append(f"const {name}_integers_t integers")
    return f"{name}({', '.join(declared)})"


def with_structs(text: str, kernels: Declared) -> str:
    """Return the text with the struct of integers of each kernel, and variables for its fields.

    A body declares the variables whose names occur in it.  The name may belong to a macro or to
    another variable, so ``(void)`` avoids a warning for an unused variable.

    Args:
        text: A text that has the :func:`head` of each kernel.
        kernels: The kernels, with parameters from :func:`laid_out`.
    """
    macros = {name: words_of(meaning) for name, meaning in MACRO.findall(text)}
    for name, parameters in kernels.items():
        fields = [item for item in parameters if item.field]
        if not fields:
            continue
        place = text.index(head(name, parameters))
        start, body = text.rindex("__kernel", 0, place), text.index("{", place) + 1
        words = words_of(text[body : end_of_block(text, body)])
        read = _with_macros(words, macros)
        struct = "".join(f"    {item};\n" for item in fields)
        variables = [
            f"\n    {item} = integers.{item.name}; (void){item.name};"
            for item in fields
            if item.name in read
        ]
        text = "".join(
            [
                text[:start],
                f"typedef struct {{\n{struct}}} {name}_integers_t;\n\n",
                text[start:body],
                *variables,
                text[body:],
            ]
        )
    return text


def _with_macros(words: set[str], macros: dict[str, set[str]]) -> set[str]:
    """Return the words, and all words in the definitions of macros among them.

    The definitions of a macro in all branches of ``#if`` count, so there may be too many words.
    """
    words_seen, new_words = set[str](), words
    while new_words:
        words_seen |= new_words
        new_words = set().union(*(macros.get(word, ()) for word in new_words)) - words_seen
    return words_seen
