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
        across: Whether k runs across the lines, not along them.
        copiers: Work-items that copy it (not boxes): 16 bytes at a time, or element by element.
        offset_type: C type that byte offsets inside a tile fit.
        gathered: Whether it is copied by elements, for it does not lie on the grid of 16 bytes.
        reader: What reads the operand instead of two strides.
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
        """The lines of an operand that is read as it lies."""
        steps, itemsize = strides(operand, name), operand.elem.itemsize
        near = max(steps) * max(extent, LINE // itemsize) * itemsize < 1 << 31
        offset_type: Literal["uint", "long"] = "uint" if near and min(steps) >= 0 else "long"
        return cls(
            name, operand.elem, extent, layout.across, copiers, offset_type, layout.gathered,
            operand.reader,
        )  # fmt: skip

    @property
    def type(self) -> str:
        """C type of an element."""
        return f"{self.elem.name}_t"

    @property
    def width(self) -> int:
        """Elements of one copy."""
        return 16 // self.elem.itemsize

    @property
    def depth(self) -> int:
        """Steps of k in a tile."""
        return LINE // self.elem.itemsize

    @property
    def by_registers(self) -> bool:
        """Whether its elements are too small for asynchronous copies, of 4 bytes and more."""
        return self.gathered and self.elem.itemsize < 4

    @property
    def bytes(self) -> int:
        """Local memory of a tile."""
        return LINE * self.extent

    @property
    def copies(self) -> int:
        """Copies of a work-item."""
        return self.extent // self.step

    @property
    def step(self) -> int:
        """Lines from one copy of a work-item to its next."""
        return self.copiers // 8

    @property
    def boxes(self) -> int:
        """Boxes of a tile, as the copy engine brings it: ``depth`` elements of each line."""
        return self.extent // self.depth if self.across else 1

    @property
    def box_lines(self) -> int:
        """Lines of a box."""
        return self.depth if self.across else self.extent

    @property
    def block(self) -> int:
        """Rows of A (columns of B) of one load: adjacent ones, where k runs across the lines."""
        return gcd(self.width, self.copies) if self.across else 1

    @property
    def steps(self) -> int:
        """Loads, one for each step of k, that the chunks of a block are put together from."""
        return self.width if self.across else 1

    @property
    def s_stride(self) -> str:
        """The stride from one row of A (column of B) on, by its kernel argument's suffix."""
        return "row" if self.name == "a" else "col"

    @property
    def k_stride(self) -> str:
        """The stride from one step of k on."""
        return "col" if self.name == "a" else "row"
