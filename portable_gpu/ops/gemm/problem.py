"""A matrix product, independent of how a path computes it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from portable_gpu.codegen.epilogue import Stage
from portable_gpu.dtypes import Element
from portable_gpu.ops.gemm.reader import Gather
from portable_gpu.tuning.costs import DeviceCosts


@dataclass(frozen=True)
class Operand:
    """A stack of matrices in memory.  Strides count elements; any sign, zero too.

    Attributes:
        elem: Element type in memory.
        row: Stride from a row to the next of the *logical* matrix (after transposition).
        col: Stride from a column to the next.
        batch: Strides of the problem's batch axes (0 where the operand is broadcast).
        conj: Whether elements are conjugated on the way in.
        aligned_bytes: A power of two, at most 16, that divides the byte offset (from the start
            of its buffer) of the first element and of every row, or column, along which
            elements are adjacent.
        reader: The reader in place of the strides ``row`` and ``col``; for a result, in place of
            one of them.
    """

    elem: Element
    row: int
    col: int
    batch: tuple[int, ...] = ()
    conj: bool = False
    aligned_bytes: int = 1
    reader: Gather | None = None

    def nbytes(self, elements: int) -> int:
        """The bytes in memory of a matrix with ``elements`` elements."""
        if self.reader is not None and self.reader.elements is not None:
            elements = min(elements, self.reader.elements)
        return elements * self.elem.itemsize

    def transpose(self) -> Operand:
        """The transposed matrices."""
        reader = None if self.reader is None else self.reader.transpose()
        return replace(self, row=self.col, col=self.row, reader=reader)


@dataclass(frozen=True)
class GemmProblem:
    """``C = epilogue(alpha * A @ B + beta * C)`` for a stack of matrices.

    The scalars ``alpha`` and ``beta`` are arguments of a launch; the problem says only whether
    ``C`` is read (``beta != 0``).  Where ``alpha == 0``, ``k`` is 0: A and B are not read.

    Attributes:
        m, n, k: A is (m, k), B is (k, n), C is (m, n); m and n are at least 1.
        batch: Extents of the batch axes, adjacent ones merged; ``()`` for a single product.
        a, b, c: The operands.
        compute: Element of products and sums (float32 for 16-bit floats); A's and B's elements
            are converted to it on the way in, which makes mixed dtypes cost no pass of their own.
        reads_c: Whether ``beta * C`` is added.
        epilogue: The stages that each element of the result passes.
        extras: The array of each stage that reads one, in order; strides by C's own rows and
            columns, also where the problem is transposed.
        precision: The precision of the products and sums: ``ieee``, or a split that is at least as
            coarse.
        transposed: Whether this is the transpose of the call's product: its rows are C's columns.
        aligned: Whether buffers start at multiples of 16 bytes, which ``aligned_bytes`` rests on.
        triangle: ``lower`` or ``upper``: the part of C, with the diagonal, that is computed; the
            rest is neither read nor written, and m is n.  Empty: all of C.
        fills: The values of the rest of C where a triangle is computed: ``zeros``, or the
            triangle's ``mirror`` image.  Empty: the rest is not written.
        symmetric: Whether B is A's transpose, in the same memory.
        k_parts: The number of elements of k of each product of the batch, if the products have
            consecutive parts of k.  Empty: each product has all of k.
    """

    m: int
    n: int
    k: int
    batch: tuple[int, ...]
    a: Operand
    b: Operand
    c: Operand
    compute: Element
    reads_c: bool = False
    epilogue: tuple[Stage, ...] = ()
    extras: tuple[Operand, ...] = ()
    precision: str = "ieee"
    transposed: bool = False
    aligned: bool = True
    triangle: str = ""
    fills: str = ""
    symmetric: bool = False
    k_parts: tuple[int, ...] = ()

    def transpose(self) -> GemmProblem:
        """Return the problem ``C' = B' A'``, which exchanges the roles of rows and columns."""
        return self._transpose

    @cached_property
    def _transpose(self) -> GemmProblem:
        a, b, c = (operand.transpose() for operand in (self.a, self.b, self.c))
        return replace(
            self, m=self.n, n=self.m, a=b, b=a, c=c, transposed=not self.transposed,
            triangle=_TRANSPOSED[self.triangle],
        )  # fmt: skip

    @property
    def area(self) -> int:
        """Elements of C that one product computes."""
        return self.m * (self.m + 1) // 2 if self.triangle else self.m * self.n

    @cached_property
    def has_readers(self) -> bool:
        """Whether an operand or the result is not at two strides."""
        return not (self.a.reader is self.b.reader is self.c.reader is None)

    @cached_property
    def in_pieces(self) -> bool:
        """Whether the values of both operands are stored in the pieces that ``precision`` takes."""
        readers = self.a.reader, self.b.reader
        return all(reader is not None and reader.piece is not None for reader in readers)

    def tiles(self, tile_m: int, tile_n: int) -> int:
        """Tiles of one product with elements to compute (``_triangle.cl.mako`` numbers them)."""
        rows, cols = -(-self.m // tile_m), -(-self.n // tile_n)
        if not self.triangle:
            return rows * cols
        if self.triangle == "lower":
            return sum(min(cols, -(-(i + 1) * tile_m // tile_n)) for i in range(rows))
        return sum(cols - i * tile_m // tile_n for i in range(rows))

    @cached_property
    def batch_size(self) -> int:
        """Number of products."""
        size = 1
        for extent in self.batch:
            size *= extent
        return size

    @property
    def elements(self) -> tuple[Element, ...]:
        """The distinct element types in memory, whose loads and stores a kernel defines."""
        operands = (self.a, self.b, self.c, *self.extras)
        return tuple(dict.fromkeys(operand.elem for operand in operands))

    @property
    def flop(self) -> int:
        """Floating-point operations (a complex multiply-add counts 8)."""
        per_step = 8 if self.compute.complex else 2
        return per_step * (1 if self.k_parts else self.batch_size) * self.area * self.k

    @property
    def bytes(self) -> int:
        """The least global traffic: every element in memory moved once."""
        once = self.a.nbytes(self.m * self.k) + self.b.nbytes(self.k * self.n)
        c = self.area * self.c.elem.itemsize * (2 if self.reads_c else 1)
        return once + self.batch_size * c if self.k_parts else self.batch_size * (once + c)

    def moving(self, costs: DeviceCosts, units: int, stores: float = 1.0) -> float:
        """Seconds in which every matrix is moved once, estimated.

        Args:
            costs, units: The costs of the device, and the number of its compute units.
            stores: The time to write an element of C, divided by the time to read an element.
        """
        written = self.batch_size * self.area * self.c.elem.itemsize
        return (self.bytes + (stores - 1) * written) / (costs.bandwidth * units)


#: For each triangle of C the same triangle of C's transpose.
_TRANSPOSED = {"": "", "lower": "upper", "upper": "lower"}


def step(stride: int, extent: int) -> float:
    """Return the distance of neighbours along an axis; infinity if the axis has one element."""
    return abs(stride) if extent > 1 else math.inf
