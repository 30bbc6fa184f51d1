"""Problems of factorisations and triangular solves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from portable_gpu.dtypes import Element
from portable_gpu.ops.gemm.problem import Operand


@dataclass(frozen=True)
class CholeskyProblem:
    """``A = L L^H`` for a stack of matrices; the lower triangle of A is read.

    An upper factor is the same problem on transposed strides: ``A^T = U^T conj(U)``.

    Attributes:
        n: Rows and columns of a matrix, at least 1.
        batch: Extents of the batch axes; ``()`` for a single matrix.
        a: A; the same as ``l`` if L replaces A.
        l: L: the lower triangle, with zeros above it unless L replaces A.
        in_place: Whether L replaces A.
        precision: The precision of products of float32.
        aligned: Whether buffers start at multiples of 16 bytes.
    """

    n: int
    batch: tuple[int, ...]
    a: Operand
    l: Operand  # noqa: E741  # the factor's name in every text
    in_place: bool = False
    precision: str = "ieee"
    aligned: bool = True

    @property
    def elem(self) -> Element:
        """The element type."""
        return self.l.elem

    @property
    def count(self) -> int:
        """The number of matrices."""
        return prod(self.batch)

    @property
    def flop(self) -> int:
        """Floating-point operations: n^3 / 3 for each matrix, four times that if complex."""
        n = self.n
        flop = n * (n + 1) * (2 * n + 1) // 6
        return self.count * flop * (4 if self.elem.complex else 1)

    @property
    def bytes(self) -> int:
        """The least global traffic: the triangle of A, and L."""
        triangle = self.n * (self.n + 1) // 2
        written = triangle if self.in_place else self.n * self.n
        return self.count * (triangle + written) * self.elem.itemsize


_REVERSED = {"": "", "forwards": "backwards", "backwards": "forwards"}


@dataclass(frozen=True)
class SolveProblem:
    """``X = L^-1 B`` in place of B, for a stack of triangles L.

    A transposed solve is this problem with exchanged strides of L, and ``X = B L^-1`` is the
    transposed solve with the transposed B.

    Attributes:
        n: Rows of L and B, at least 1.
        m: Columns of B, at least 1.
        batch: Extents of the batch axes; ``()`` for a single pair.
        l: The triangle; elements on the other side of its diagonal are not read.
        b: B, overwritten by X.
        lower: Whether it is the lower triangle.
        unit: Whether the diagonal of L is assumed to be ones, and not read.
        reports: ``forwards`` or ``backwards``: the column of a zero on the diagonal is reported, in
            one more operand, counted from the first or from the last column; empty: none is.
        precision, aligned: See :class:`CholeskyProblem`.
    """

    n: int
    m: int
    batch: tuple[int, ...]
    l: Operand  # noqa: E741
    b: Operand
    lower: bool = True
    unit: bool = False
    reports: str = ""
    precision: str = "ieee"
    aligned: bool = True

    @property
    def elem(self) -> Element:
        """The element type."""
        return self.b.elem

    def forwards(self) -> tuple[SolveProblem, int, int]:
        """Rewrite with a lower triangle; return the problem, and the offsets of L and B.

        An upper triangle is a lower one with rows and columns in reverse order.
        """
        if self.lower:
            return self, 0, 0
        last = self.n - 1
        triangle, b = self.l, self.b
        reversed_ = replace(
            self,
            l=replace(triangle, row=-triangle.row, col=-triangle.col),
            b=replace(b, row=-b.row),
            lower=True,
            reports=_REVERSED[self.reports],
        )
        return reversed_, last * (triangle.row + triangle.col), last * b.row

    @property
    def count(self) -> int:
        """The number of pairs of matrices."""
        return prod(self.batch)

    @property
    def flop(self) -> int:
        """Floating-point operations: n^2 for each column, four times that if complex."""
        return self.count * self.n * self.n * self.m * (4 if self.elem.complex else 1)

    @property
    def bytes(self) -> int:
        """The least global traffic: L read once, B read and written."""
        triangle = self.n * (self.n + 1) // 2
        return self.count * (triangle + 2 * self.n * self.m) * self.elem.itemsize
