"""Readers: how the indices of an operand's elements become places in memory.

An operand of :class:`~portable_gpu.ops.gemm.problem.GemmProblem` is read by two strides, or by a
:class:`Gather`, for operands that are not stored as matrices, such as the windows of a convolution.
``cl_kernels/gemm/_gather.cl.mako`` is the device's side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from portable_gpu.codegen.parameters import Parameter, buffer, scalars

#: The offset of a step, and its place along each checked axis.
Table = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True)
class Gather:
    """A reader by an index over several axes and a table of steps.

    One index of the operand, ``s``, runs over axes (the last one fastest); the other one, ``k``,
    through a table.  The element at (s, k) is at the offset::

        sum over axes d of s_d * strides[d]  +  table[k % period].offset  +  k // period * repeat

    and it is zero where a place, ``s_d * pitches[d] + table[k % period].place[d]``, is not in
    [0, bounds[d]) for one of the last axes.  A result has no table: ``k`` is read by a stride.
    Values may be stored in pieces (``MatrixFormat.products``); the offset is then that of the
    first piece.

    Attributes:
        side: Whether rows or columns of the operand run over axes.
        extents, strides: The extents and strides of the axes.  Extents of inner axes and strides
            are kernel arguments.
        pitches, bounds: The factors and limits of the places of the last axes.
        table: Makes the table, of shape (period, 1 + places); ``None`` for a result.
        period: The length of the table.
        repeat: The offset from a period to the next, in elements; it may be 0.  ``None`` if there
            is only one period.
        along: The index along which elements are adjacent in memory.
        width: The number of elements along that index that are adjacent, and have the same place.
        elements: The number of elements in memory, if the operand has some of them repeatedly.
        piece: The offset from a piece of a value to its next piece, in elements; ``None`` if values
            are not stored in pieces.
    """

    side: Literal["row", "col"]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    pitches: tuple[int, ...] = ()
    bounds: tuple[int, ...] = ()
    table: Callable[[], Table] | None = field(default=None, compare=False)
    period: int = 0
    repeat: int | None = None
    along: Literal["k", "s"] = "s"
    width: int = 1
    elements: int | None = None
    piece: int | None = None

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.extents)

    @property
    def places(self) -> int:
        """The number of axes that have a place."""
        return len(self.pitches)

    @property
    def wraps(self) -> bool:
        """Whether the table is read more than once."""
        return self.repeat is not None

    @property
    def entry_type(self) -> str:
        """C type of an entry of the table."""
        return ("int", "int2", "int4", "int4")[self.places]

    @cached_property
    def entries(self) -> Table:
        """The table, as the kernel reads it."""
        assert self.table is not None
        table = self.table()
        width = {"int": 1, "int2": 2, "int4": 4}[self.entry_type]
        padded = np.zeros((len(table), width), np.int32)
        padded[:, : table.shape[1]] = table
        return padded

    def transpose(self) -> Gather:
        """The reader of the transposed operand."""
        return replace(self, side="col" if self.side == "row" else "row")

    def constants(self, name: str) -> dict[str, int]:
        """The kernel arguments of operand ``name`` that are numbers."""
        first = self.rank - self.places
        result = {f"{name}_axis{d}": stride for d, stride in enumerate(self.strides)}
        result |= {f"{name}_axis{d}_size": n for d, n in enumerate(self.extents) if d}
        result |= {f"{name}_pitch{first + j}": pitch for j, pitch in enumerate(self.pitches)}
        result |= {f"{name}_bound{first + j}": bound for j, bound in enumerate(self.bounds)}
        if self.repeat is not None:
            result |= {f"{name}_period": self.period, f"{name}_repeat": self.repeat}
        return result if self.piece is None else result | {f"{name}_piece": self.piece}

    def parameters(self, name: str) -> list[Parameter]:
        """The kernel parameters of operand ``name`` that the reader needs instead of strides."""
        first = self.rank - self.places
        result = scalars("int", *(f"{name}_axis{d}_size" for d in range(1, self.rank)))
        result += scalars("long", *(f"{name}_axis{d}" for d in range(self.rank)))
        for d in range(first, self.rank):
            result += scalars("int", f"{name}_pitch{d}", f"{name}_bound{d}")
        if self.table is None:
            return result + scalars("long", f"{name}_{'col' if self.side == 'row' else 'row'}")
        result += [buffer(self.entry_type, f"{name}_steps")]
        if self.wraps:
            result += [*scalars("int", f"{name}_period"), *scalars("long", f"{name}_repeat")]
        return result if self.piece is None else result + scalars("long", f"{name}_piece")
