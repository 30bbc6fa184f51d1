"""Tiles of operands in local memory, for matrix units."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Literal

from portable_gpu.dtypes import Element
from portable_gpu.ops.gemm.matrix.format import OperandLayout, Side, strides
from portable_gpu.ops.gemm.matrix.policy import LINE
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.gemm.reader import Gather


@dataclass(frozen=True)
class Lines:
    """How a tile is copied to local memory (``gemm/_lines``, ``_boxes`` or ``_chunks``).

    Attributes:
        name: ``a`` or ``b``.
        elem: The element in memory.
        extent: Rows of A (columns of B) of the tile.
        across: See :class:`OperandLayout`.
        copiers: The number of work-items that copy the tile, unless the copy engine does.
        offset_type: A C type that holds byte offsets inside a tile.
        gathered: See :class:`OperandLayout`.
        reader: The reader of the operand; ``None`` if it has two strides.
    """

    name: Side
    elem: Element
    extent: int
    across: bool
    copiers: int
    offset_type: Literal["uint", "long"]
    gathered: bool
    reader: Gather | None = None

    @classmethod
    def of(
        cls, name: Side, operand: Operand, extent: int, layout: OperandLayout, copiers: int
    ) -> Lines:
        """Return the lines of an operand that is copied as it is stored."""
        steps, itemsize = strides(operand, name), operand.elem.itemsize
        near = max(steps) * max(extent, LINE // itemsize) * itemsize < 1 << 31
        offset_type: Literal["uint", "long"] = "uint" if near and min(steps) >= 0 else "long"
        return cls(
            name=name, elem=operand.elem, extent=extent, across=layout.across, copiers=copiers,
            offset_type=offset_type, gathered=layout.gathered, reader=operand.reader,
        )  # fmt: skip

    @property
    def type(self) -> str:
        """C type of an element."""
        return f"{self.elem.name}_t"

    @property
    def width(self) -> int:
        """Elements of a chunk of 16 bytes."""
        return 16 // self.elem.itemsize

    @property
    def depth(self) -> int:
        """Steps of k in a tile."""
        return LINE // self.elem.itemsize

    @property
    def by_registers(self) -> bool:
        """Whether elements are too small for asynchronous copies, which need at least 4 bytes."""
        return self.gathered and self.elem.itemsize < 4

    @property
    def bytes(self) -> int:
        """Local memory of a tile."""
        return LINE * self.extent

    @property
    def copies(self) -> int:
        """The number of chunks that a work-item copies."""
        return self.extent // self.step

    @property
    def step(self) -> int:
        """The distance of a work-item's chunks, in lines, each of which has 8 chunks."""
        return self.copiers // 8

    @property
    def boxes(self) -> int:
        """The number of boxes of a tile, if the copy engine copies it."""
        return self.extent // self.depth if self.across else 1

    @property
    def box_lines(self) -> int:
        """Lines of a box."""
        return self.depth if self.across else self.extent

    @property
    def block(self) -> int:
        """The number of adjacent rows of A (columns of B) that one load reads.

        More than one only if k runs across the lines.
        """
        return gcd(self.width, self.copies) if self.across else 1

    @property
    def steps(self) -> int:
        """The number of loads that fill the chunks of a block: one for each step of k."""
        return self.width if self.across else 1

    @property
    def s_stride(self) -> str:
        """The suffix of the kernel argument that is the stride between rows of A (columns of B)."""
        return "row" if self.name == "a" else "col"

    @property
    def k_stride(self) -> str:
        """The suffix of the kernel argument that is the stride along k."""
        return "col" if self.name == "a" else "row"
