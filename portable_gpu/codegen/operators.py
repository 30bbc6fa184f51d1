"""The operators of reductions, and their accumulators, as OpenCL C.

An :class:`Accumulator` is a C struct with the state of a fold.  The same definition gives scalars
and vectors: for a kernel that folds ``V`` columns at a time, ``width=V`` makes each field a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from portable_gpu.codegen.expression import check_expression, check_identifier

#: Bytes of C's scalar types.
SCALAR_BYTES = {
    "char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "float": 4,
    "long": 8, "ulong": 8, "double": 8,
}  # fmt: skip


@dataclass(frozen=True)
class BinaryOp:
    """A user's own fold for :func:`portable_gpu.reduce`.

    The fold must be associative and commutative.  Its order is fixed for one device and policy, but
    it is not left to right.

    Attributes:
        name: Any C identifier; kernels add a prefix.
        identity: C expression of the neutral element (``"0"``, ``"-INFINITY"``).
        combine: C expression of ``a`` and ``b`` (``"a * b"``, ``"max(a, b)"``).

    Raises:
        ArgumentTypeError, ArgumentError: One of them is not text, or not of the form above.
    """

    name: str
    identity: str
    combine: str

    def __post_init__(self) -> None:
        check_identifier(self.name, "name")
        check_expression(self.identity, "identity")
        check_expression(self.combine, "combine")


@dataclass(frozen=True)
class Map:
    """A function that is applied to each element before the fold.

    Attributes:
        expression: A C expression of ``x``, such as ``"x * x"``.
    """

    expression: str = "x"

    def __post_init__(self) -> None:
        check_expression(self.expression, "the expression of map")


@dataclass(frozen=True)
class Field:
    """One member of an accumulator: a scalar type of 32 or 64 bits and its neutral element."""

    name: str
    ctype: str
    identity: str

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return SCALAR_BYTES[self.ctype]

    def type(self, width: int) -> str:
        """The C type of ``width`` lanes of this field."""
        return vector(self.ctype, width)

    def mask_type(self, width: int) -> str:
        """The C type of a comparison of ``width`` lanes of this field."""
        return vector("long" if self.bytes == 8 and width > 1 else "int", width)

    def mask(self, condition: str, width: int) -> str:
        """``condition`` (a comparison of any field) as a mask that selects this field.

        The comparison with 0 is for rusticl of Mesa 22.3, which assumes that the sign of an int
        converted to long is always clear (docs/experiments/runtime.md).
        """
        if width == 1:
            return f"({condition})"
        return f"(CONVERT({self.mask_type(width)}, {condition}) != 0)"


@dataclass(frozen=True)
class Accumulator:
    """The state of a fold.

    Attributes:
        name: The C type's name; with ``width`` lanes, ``name`` followed by the width.
        fields: Its members.
        combine: Gives, for a width, the C statements that fold accumulator ``b`` into ``a``.
        gather: Gives statements that fold ``b`` into ``a`` in fewer dependent steps, and that are
            accurate for up to 1024 folds; ``None`` if ``combine`` is as fast.
    """

    name: str
    fields: tuple[Field, ...]
    combine: Callable[[int], str]
    gather: Callable[[int], str] | None = None

    def type(self, width: int) -> str:
        """The C type of a vector of ``width`` accumulators."""
        return self.name if width == 1 else f"{self.name}{width}"

    @property
    def bytes(self) -> int:
        """Size of one accumulator, as 32-bit words without padding."""
        return sum(field.bytes for field in self.fields)

    def words(self) -> Iterator[tuple[int, Field]]:
        """Each field with its offset in 32-bit words."""
        offset = 0
        for field in self.fields:
            yield offset, field
            offset += field.bytes // 4


def sum_accumulator(ctype: str, is_complex: bool = False) -> Accumulator:
    """A plain sum of real (field ``re``) or complex (``re``, ``im``) values."""
    fields = [Field("re", ctype, "0")]
    if is_complex:
        fields.append(Field("im", ctype, "0"))
    text = " ".join(f"a.{f.name} += b.{f.name};" for f in fields)
    return Accumulator("acc_t", tuple(fields), lambda width: text)


@dataclass(frozen=True)
class Sums:
    """The sums that a work-item stores for other groups; see ``gemm/_split_k.cl.mako``.

    Attributes:
        names: The C names of its sums, which are real numbers.
        real: Their C type.
        plus: The operator that adds two of them.
    """

    names: Sequence[str]
    real: str
    plus: Literal["+", "|"] = "+"

    @property
    def words_each(self) -> int:
        """32-bit words of one sum."""
        return max(1, SCALAR_BYTES[self.real] // 4)

    @property
    def words(self) -> int:
        """32-bit words of all sums."""
        return self.words_each * len(self.names)


def vector(ctype: str, width: int) -> str:
    """``float, 4 -> float4``; ``float, 1 -> float``."""
    return ctype if width == 1 else f"{ctype}{width}"


def component(width: int, j: int) -> str:
    """The suffix that selects component ``j`` of a vector (``.s3``); empty for a scalar."""
    return "" if width == 1 else f".s{j:x}"
