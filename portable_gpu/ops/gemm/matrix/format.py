"""The formats in which matrix units take a product's elements, and the operands to repack."""

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
#: Of each precision: the pieces of A and B (0 leads) that are multiplied when a piece has arrived.
#: The largest of six products is the last: the matrix unit truncates by the size of the sum so far.
_PRODUCTS = {
    "tf32": (((0, 0),),),
    "tf32x3": (((0, 0),), ((0, 1), (1, 0))),
    "bf16x3": (((0, 0),), ((0, 1), (1, 0))),
    "bf16x6": ((), ((1, 1), (0, 1), (1, 0)), ((0, 2), (2, 0), (0, 0))),
}


@dataclass(frozen=True)
class OperandLayout:
    """How an operand is copied to local memory.

    Attributes:
        across: Whether k runs across the lines there, not along them.
        repacked: Whether a first pass brings it into the order of the copies.
        gathered: Whether it is copied element by element, for it does not lie on the grid of 16
            bytes.
    """

    across: bool
    repacked: bool = False
    gathered: bool = False


@dataclass(frozen=True)
class MatrixFormat:
    """The format in which the matrix unit multiplies, and its main loop.

    Attributes:
        kernel: The main loop.
        kind: The instruction's name of the elements.
        elem: The element in memory.
        products: Which pieces of A's and B's values are multiplied, once one, two ... of the
            pieces have arrived; 0 is the value itself, rounded to the element, 1 what that
            leaves, and so on.
        instruction: Of the main loop ``mfma``.
    """

    kernel: MatrixKernel
    kind: Literal["f16", "bf16", "f32", "tf32", "f64"]
    elem: Element
    products: tuple[tuple[tuple[int, int], ...], ...] = (((0, 0),),)
    instruction: MatrixInstruction | None = None

    @property
    def parts(self) -> int:
        """Pieces of each value."""
        return len(self.products)

    @property
    def work(self) -> int:
        """Products of pieces for each product of values."""
        return sum(len(pairs) for pairs in self.products)

    @property
    def width(self) -> int:
        """Elements of a copy of 16 bytes."""
        return 16 // self.elem.itemsize

    @property
    def depth(self) -> int:
        """Elements of a line."""
        return LINE // self.elem.itemsize

    def across(self, operand: Operand, side: Side, extent: int, k: int) -> bool | None:
        """Whether k runs across an operand's lines as it is stored; ``None``: it has none.

        A copy takes 16 aligned bytes, all of them inside the matrix.  The instruction for tf32
        takes k along the lines; across them A's fragments are read to registers first, which B's
        cannot be.
        """
        along_extent, along_k = strides(operand, side)
        if operand.elem != self.elem or operand.aligned_bytes < 16 or self.parts > 1:
            return None
        if along_k == 1 and k % self.width == 0:
            return False
        fits = along_extent == 1 and extent % self.width == 0
        return True if fits and (self.kind != "tf32" or side == "a") else None

    def reads(self, problem: GemmProblem) -> bool:
        """Whether copies of 16 bytes serve the readers of a problem, and stores of rows C's."""
        read = [x for x in (problem.a, problem.b) if x.reader is not None]
        written = problem.c.reader
        if self.kernel != "wgmma" or self.kind == "tf32" or self.parts > 1:
            return False
        if written is not None and (written.side != "row" or problem.c.col != 1):
            return False
        return all(
            x.reader.width % self.width == 0 and x.aligned_bytes >= 16
            for x in read
            if x.reader is not None
        )

    def gathers(self, operand: Operand, side: Side) -> bool | None:
        """As :meth:`across`, for copies of single elements: ``None`` if no elements are adjacent.

        Values in pieces, and wavefronts' tiles, are not copied so.  Nor is tf32, which was not
        measured.
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
        """How an operand is to be read.

        Beyond what has to be, a first pass pays for operands of which each element is used in
        many products.  Lines that are not aligned cost half the rate, unless the copy engine brings
        them (``bulk``).  Of the
        registers of the double-precision instruction, those of B hold what is adjacent along k:
        across, they are moved about.

        Args:
            problem: Whose operand.
            side: Which one.
            bulk: Whether the copy engine brings what lies on its grid.
            gather: Whether what does not is copied by elements, where it can be.
        """
        operand, extent, uses = (
            (problem.a, problem.m, problem.n) if side == "a" else (problem.b, problem.n, problem.m)
        )
        if operand.reader is not None:
            return OperandLayout(operand.reader.along == "s")
        lies = self.across(operand, side, extent, problem.k)
        if lies is None and gather:
            by_elements = self.gathers(operand, side)
            if by_elements is not None:
                return OperandLayout(by_elements, gathered=True)
        if self.kernel == "mfma":
            return OperandLayout(bool(lies), repacked=lies is None)
        if self.kernel == "mma":
            wanted = side == "a" if lies is None else lies and (side == "a" or uses < 4096)
            return OperandLayout(wanted, repacked=lies != wanted)
        along_extent, along_k = strides(operand, side)
        pitch, lines = (along_k, problem.k) if lies else (along_extent, extent)
        if lies is None or (bulk and lines > 1 and pitch < 1):  # the engine knows no way back
            return OperandLayout(False, repacked=True)
        ragged = pitch * self.elem.itemsize % LINE != 0
        return OperandLayout(lies, repacked=ragged and uses >= 2048 and not bulk)

    def transposes(self, p: GemmProblem, narrow: bool = False) -> bool:
        """Whether the transposed product is computed: as C lies, unless operands lie better.

        Narrow tiles have the shorter extent for their columns.

        ``mma``, and ``wgmma`` of tf32, take A with k across its lines and B along them, or both
        along.
        """
        if p.has_readers:  # rows of C are stored
            return False
        if narrow:
            return p.m < p.n
        sideways = step(p.c.col, p.n) > step(p.c.row, p.m)
        if self.kernel != "mma" and self.kind != "tf32":
            return sideways
        transposed = p.transpose()
        a, b = (bool(self.across(item.a, "a", item.m, p.k)) for item in (p, transposed))
        return (b and not a) or (sideways and a == b)

    def through_registers(
        self, problem: GemmProblem, bulk: bool = False, gather: bool = False
    ) -> bool:
        """Whether A goes from local memory to the matrix unit through registers."""
        return self.kind == "tf32" and self.layout(problem, "a", bulk, gather).across


def strides(operand: Operand, side: Side) -> tuple[int, int]:
    """An operand's strides along the rows of A (columns of B), and along k."""
    return (operand.row, operand.col) if side == "a" else (operand.col, operand.row)


def format_of(problem: GemmProblem, target: Target) -> MatrixFormat | None:
    """The format in which a target's matrix units compute a problem to its precision, if any can.

    Where they multiply float32 itself, that serves every precision.
    """
    pair = problem.a.elem, problem.b.elem
    if problem.compute == F64 and pair[0].real == pair[1].real == "double":
        return _of_kind("f64", F64, target)
    if problem.compute != F32:
        return None
    if pair[0] == pair[1] and pair[0].itemsize == 2:
        return _of_kind("f16" if pair[0].name == "f16" else "bf16", pair[0], target)
    if target.matrix_units == "mfma":
        return _of_kind("f32", F32, target)
    if problem.precision == "ieee":
        return None
    split_to_bf16 = problem.precision.startswith("bf16")
    form = _of_kind("bf16", BF16, target) if split_to_bf16 else _of_kind("tf32", F32, target)
    return None if form is None else replace(form, products=_PRODUCTS[problem.precision])


def _of_kind(
    kind: Literal["f16", "bf16", "f32", "tf32", "f64"], elem: Element, target: Target
) -> MatrixFormat | None:
    """The format of values as they are, by the main loop that the target has for them."""
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
