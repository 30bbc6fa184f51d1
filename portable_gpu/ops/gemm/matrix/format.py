"""The formats of elements in matrix units, and how operands are copied to local memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from portable_gpu.dtypes import BF16, Element, element
from portable_gpu.ops.gemm.matrix.instruction import MatrixInstruction, instruction_of
from portable_gpu.ops.gemm.matrix.policy import LINE
from portable_gpu.ops.gemm.problem import GemmProblem, Operand, step
from portable_gpu.targets import Target

Side: TypeAlias = Literal["a", "b"]
SIDES: tuple[Side, Side] = ("a", "b")
MatrixKernel: TypeAlias = Literal["wgmma", "mma", "mfma"]
F32, F64 = element(np.float32), element(np.float64)
#: See :attr:`MatrixFormat.products`.  The largest of the six products of bf16x6 is added last,
#: because the matrix unit truncates relative to the sum so far.
PRODUCTS = {
    "tf32": (((0, 0),),),
    "tf32x3": (((0, 0),), ((0, 1), (1, 0))),
    "bf16x3": (((0, 0),), ((0, 1), (1, 0))),
    "bf16x6": ((), ((1, 1), (0, 1), (1, 0)), ((0, 2), (2, 0), (0, 0))),
}


@dataclass(frozen=True)
class OperandLayout:
    """How an operand is copied to local memory.

    Local memory has lines of 128 bytes.

    Attributes:
        across: True: k runs across the lines, and a line has adjacent rows of A (columns of B).
            False: k runs along the lines.
        repacked: Whether a first pass writes the operand in the order in which it is copied.
        gathered: Whether it is copied element by element, because its chunks of 16 bytes are not
            aligned.
    """

    across: bool
    repacked: bool = False
    gathered: bool = False


@dataclass(frozen=True)
class MatrixFormat:
    """The format in which the matrix unit multiplies, and its main loop.

    Attributes:
        kernel: The main loop.
        kind: The name of the element type in the matrix instruction.
        elem: The element in memory.
        products: Each value is the sum of ``len(products)`` pieces.  Piece 0 is the value rounded
            to ``elem``, piece 1 is the rounded remainder, and so on.  ``products[i]`` lists the
            pairs (piece of A, piece of B) that are multiplied once the pieces 0 ... i have arrived.
        instruction: The instruction of the main loop ``mfma``; None for the others.
    """

    kernel: MatrixKernel
    kind: Literal["f16", "bf16", "f32", "tf32", "f64"]
    elem: Element
    products: tuple[tuple[tuple[int, int], ...], ...] = (((0, 0),),)
    instruction: MatrixInstruction | None = None

    @property
    def parts(self) -> int:
        """The number of pieces of each value."""
        return len(self.products)

    @property
    def work(self) -> int:
        """The number of products of pieces for each product of values."""
        return sum(len(pairs) for pairs in self.products)

    @property
    def width(self) -> int:
        """Elements of a chunk of 16 bytes."""
        return 16 // self.elem.itemsize

    @property
    def depth(self) -> int:
        """Elements of a line."""
        return LINE // self.elem.itemsize

    def copied_across(self, operand: Operand, side: Side, extent: int, k: int) -> bool | None:
        """Return :attr:`OperandLayout.across` if an operand is copied in chunks as it is stored.

        ``None`` means that this is not possible.  Each chunk has 16 aligned bytes, all of them
        inside the matrix.  The instruction for tf32 needs k along the lines.  If k runs across
        them, A can be read through registers; B cannot.
        """
        along_extent, along_k = strides(operand, side)
        if operand.elem != self.elem or operand.aligned_bytes < 16 or self.parts > 1:
            return None
        if along_k == 1 and k % self.width == 0:
            return False
        fits = along_extent == 1 and extent % self.width == 0
        return True if fits and (self.kind != "tf32" or side == "a") else None

    def supports_readers(self, problem: GemmProblem) -> bool:
        """Whether copies in chunks support the readers of A and B, and stores that of C.

        C is stored along its rows; or along its columns, if its chunks of 8 bytes are adjacent.

        If the format has pieces, readers must read pieces: a first pass reads no operand by a
        reader.
        """
        read = [x for x in (problem.a, problem.b) if x.reader is not None]
        written = problem.c.reader
        in_pieces = self.parts > 1
        if self.kernel != "wgmma" or self.kind == "tf32" or in_pieces != problem.in_pieces:
            return False
        if written is not None and (
            written.side != "row" or (problem.c.col != 1 and not column_chunks(problem))
        ):
            return False
        return all(
            x.reader.width % self.width == 0 and x.aligned_bytes >= 16
            for x in read
            if x.reader is not None
        )

    def supports_parts(self, problem: GemmProblem, bulk: bool) -> bool:
        """Whether copies end where the parts of k do.

        Args:
            problem: The problem.
            bulk: Whether the copy engine copies whole steps; otherwise chunks are copied.
        """
        unit = self.depth if bulk else self.width
        whole = all(length % unit == 0 for length in problem.k_parts[:-1])
        return whole and (self.kernel == "wgmma" or not problem.k_parts)

    def gathered_across(self, operand: Operand, side: Side) -> bool | None:
        """Return :attr:`OperandLayout.across` if an operand is copied element by element.

        ``None`` means that this is not possible: no elements are adjacent, values are split into
        pieces, the main loop is ``mfma``, or the format is tf32, which was not measured.
        """
        along_extent, along_k = strides(operand, side)
        if operand.elem != self.elem or self.kind not in ("f16", "bf16", "f64"):
            return None
        if self.parts > 1 or self.kernel == "mfma" or 1 not in (along_extent, along_k):
            return None
        return along_k != 1

    def layout(
        self, problem: GemmProblem, side: Side, bulk: bool = False, gather: bool = False
    ) -> OperandLayout:
        """Return how an operand is copied.

        An operand that cannot be copied as it is stored is repacked by a first pass.  A first pass
        also pays if each element is used in many products, and copies would be slow: copies of
        lines that are not aligned have half the rate, unless the copy engine makes them.  The
        registers for B of the double-precision instruction hold elements that are adjacent along
        k, so if k runs across the lines of B, values are moved between registers.

        Args:
            problem: The problem.
            side: The operand.
            bulk: Whether the copy engine copies aligned operands.
            gather: Whether operands that are not aligned are copied element by element, if that is
                possible.
        """
        operand, extent, uses = (
            (problem.a, problem.m, problem.n) if side == "a" else (problem.b, problem.n, problem.m)
        )
        if operand.reader is not None:
            return OperandLayout(operand.reader.along == "s")
        stored = self.copied_across(operand, side, extent, problem.k)
        if stored is None and gather:
            gathered = self.gathered_across(operand, side)
            if gathered is not None:
                return OperandLayout(gathered, gathered=True)
        if self.kernel == "mfma":
            return OperandLayout(bool(stored), repacked=stored is None)
        if self.kernel == "mma":
            across = side == "a" if stored is None else stored and (side == "a" or uses < 4096)
            return OperandLayout(across, repacked=stored != across)
        along_extent, along_k = strides(operand, side)
        pitch, lines = (along_k, problem.k) if stored else (along_extent, extent)
        if stored is None or (
            bulk and lines > 1 and pitch < 1
        ):  # tensor maps need positive strides
            return OperandLayout(False, repacked=True)
        ragged = pitch * self.elem.itemsize % LINE != 0
        return OperandLayout(stored, repacked=ragged and uses >= 2048 and not bulk)

    def transposes(self, p: GemmProblem, narrow: bool = False) -> bool:
        """Whether the transposed product ``C' = B' A'`` is computed.

        For narrow tiles (:func:`requires_k_along_b`) it is, if C has fewer rows than columns: the
        shorter extent then has the columns of tiles.  Otherwise the rows of the computed product
        are the direction in which C is contiguous.  But ``mma``, and ``wgmma`` of tf32, read an A
        with k across its lines faster than such a B: if only one of the two products has such an A,
        it is computed.
        """
        if p.has_readers:  # rows of C are stored
            return False
        if narrow:
            return p.m < p.n
        sideways = step(p.c.col, p.n) > step(p.c.row, p.m)
        if self.kernel != "mma" and self.kind != "tf32":
            return sideways
        transposed = p.transpose()
        a, b = (bool(self.copied_across(item.a, "a", item.m, p.k)) for item in (p, transposed))
        return (b and not a) or (sideways and a == b)

    def through_registers(
        self, problem: GemmProblem, bulk: bool = False, gather: bool = False
    ) -> bool:
        """Whether A is read from local memory to registers, and multiplied from there."""
        return self.kind == "tf32" and self.layout(problem, "a", bulk, gather).across


def column_chunks(problem: GemmProblem) -> bool:
    """Whether the columns of C are aligned chunks of 8 bytes, of adjacent rows.

    A reader must have these chunks along its last axis.
    """
    c = problem.c
    adjacent = c.reader.extents[-1] if c.reader else problem.m
    return c.row == 1 and c.aligned_bytes >= 8 and adjacent * c.elem.itemsize % 8 == 0


def strides(operand: Operand, side: Side) -> tuple[int, int]:
    """Return the stride from one row of A (column of B) to the next, and that along k."""
    return (operand.row, operand.col) if side == "a" else (operand.col, operand.row)


def format_of(problem: GemmProblem, target: Target) -> MatrixFormat | None:
    """Return the format in which a target's matrix units compute a problem in its precision.

    ``None``: they cannot.  Matrix units that multiply float32 values without splitting them are
    used for every precision.
    """
    pair = problem.a.elem, problem.b.elem
    if problem.compute == F64 and pair[0].real == pair[1].real == "double":
        return _of_kind("f64", F64, target)
    if problem.compute != F32:
        return None
    if pair[0] == pair[1] and pair[0].itemsize == 2:
        form = _of_kind("f16" if pair[0].name == "f16" else "bf16", pair[0], target)
        if form is None or not problem.in_pieces:
            return form
        return replace(form, products=PRODUCTS[problem.precision])
    if target.matrix_units == "mfma":
        return _of_kind("f32", F32, target)
    if problem.precision == "ieee":
        return None
    split_to_bf16 = problem.precision.startswith("bf16")
    form = _of_kind("bf16", BF16, target) if split_to_bf16 else _of_kind("tf32", F32, target)
    return None if form is None else replace(form, products=PRODUCTS[problem.precision])


def _of_kind(
    kind: Literal["f16", "bf16", "f32", "tf32", "f64"], elem: Element, target: Target
) -> MatrixFormat | None:
    """Return the format of values that are not split, with the target's main loop for them."""
    if target.matrix_units == "mfma":
        instruction = instruction_of(kind, target)
        return (
            None
            if instruction is None
            else MatrixFormat("mfma", kind, elem, (((0, 0),),), instruction)
        )
    if kind == "f64" and target.matrix_units:
        return MatrixFormat("mma", kind, elem)
    return MatrixFormat("wgmma", kind, elem) if target.matrix_units == "wgmma" else None
