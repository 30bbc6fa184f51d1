"""Packed triangles: their layout, and copies of rectangles to dense memory and back.

A triangle of n rows takes n (n + 1) / 2 elements, in block rows of :data:`BLOCK` rows::

    +--+.               block row I starts with row r0 = 128 I, at element r0 (r0 + 1) / 2:
    +--+--+.            first a rectangle of rows x r0, by rows, an operand of products;
    +-----+--+.         then the diagonal block's lower triangle, its row k at k (k + 1) / 2
    +--------+--+.

Up to 128 rows this is LAPACK's packed storage.  An upper triangle is stored as its transpose.

Source: Gustavson, Wasniewski, Dongarra & Langou, Rectangular full packed format, TOMS 37(2), 2010,
for the aim; block rows as Andersen, Gunnels, Gustavson, Reid & Wasniewski, TOMS 31(2), 2005.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import pyopencl as cl

from portable_gpu.arguments import whole
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.factor.kernels import pack_parameters, zeros_parameters
from portable_gpu.ops.gemm.operands import extents, strides
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.powers_of_two import ceil_power_of_two
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target

#: Rows of a block row: part of the layout, on every device.
BLOCK = 128
_LINE, _LINES = 64, 8
#: Work-items of a group that checks diagonals for zeros.
ZEROS_GROUP = 64


def packed_size(n: int) -> int:
    """Return the number of elements of a packed triangle of n rows.

    Raises:
        ArgumentTypeError: ``n`` is not an integer.
        ArgumentError: The number is negative.
    """
    rows = whole(n, "n")
    if rows < 0:
        raise ArgumentError(f"n is {rows}; expected 0 or more rows")
    return rows * (rows + 1) // 2


def rows_of(size: int) -> int | None:
    """Return the rows of a packed triangle of ``size`` elements; ``None`` if there is none."""
    n = (math.isqrt(8 * size + 1) - 1) // 2
    return n if packed_size(n) == size else None


def block_rows(n: int, first: int = 0) -> list[tuple[int, int]]:
    """Return the first row and end of each block row from row ``first`` on."""
    return [(r, min(r + BLOCK, n)) for r in range(first, n, BLOCK)]


def dense(elem: Element, shape: tuple[int, int], batch: Sequence[int]) -> Operand:
    """Return the operand of a contiguous stack of matrices by rows, as in a temporary."""
    rows, columns = shape
    return aligned(Operand(elem, columns, 1, batch_steps(rows * columns, batch)))


def batch_steps(size: int, batch: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous stack of matrices of ``size`` elements."""
    steps: list[int] = []
    for extent in reversed(batch):
        steps.append(size)
        size *= extent
    return tuple(reversed(steps))


def aligned(operand: Operand, start: int = 16) -> Operand:
    """Return the operand with its alignment; its first byte is at a multiple of ``start``."""
    across = operand.row if abs(operand.col) == 1 else operand.col
    size = operand.elem.itemsize
    nbytes = math.gcd(start, 16, *(abs(step) * size for step in (across, *operand.batch)))
    return replace(operand, aligned_bytes=nbytes & -nbytes)


def rectangle(packed: Operand, r0: int, col: int = 0) -> tuple[Operand, int]:
    """Return the rectangle of the block row of row r0, and the offset of its column ``col``."""
    operand = replace(packed, row=r0, col=1)
    return aligned(operand, packed.aligned_bytes), packed_size(r0) + col


@dataclass(frozen=True)
class PackProblem:
    """A copy between a part of a stack of packed triangles and dense matrices.

    Attributes:
        n: Rows of the triangles.
        batch: Extents of the batch axes.
        packed: The triangles; only the strides of its batch axes are used.
        dense: The dense rectangles.
        rows, cols: The first and the end of the triangle's rows and columns; with ``diagonal``,
            columns are counted from the first column of the diagonal block.
        what: ``unpack`` (dense = packed), ``pack`` (packed = dense) or ``add`` (packed = dense +
            beta packed).
        diagonal: Whether the diagonal blocks are copied, which are stacked in ``dense``.
        above: The elements that ``unpack`` writes above the diagonal: ``zero``, or ``conj``, the
            conjugates of the elements below it.
    """

    n: int
    batch: tuple[int, ...]
    packed: Operand
    dense: Operand
    rows: tuple[int, int]
    cols: tuple[int, int]
    operation: str
    diagonal: bool = False
    above: str = "zero"

    @property
    def count(self) -> int:
        """The number of matrices."""
        return prod(self.batch)

    @property
    def bytes(self) -> int:
        """Bytes that are read and written, counted for whole rectangles."""
        area = (self.rows[1] - self.rows[0]) * (self.cols[1] - self.cols[0])
        return 2 * self.count * area * self.packed.elem.itemsize


def pack_plan(engine: Engine, problem: PackProblem) -> OneLaunch:
    """Return the plan of a copy; operands: packed triangles and dense matrices, the target last.

    The scalar of ``add`` is beta.
    """
    p = problem
    (row, end), (col, right) = p.rows, p.cols
    operands = {"packed": p.packed, "dense": p.dense}
    if p.operation != "unpack":
        operands = dict(reversed(operands.items()))
    pieces, bands, size = -(-(right - col) // _LINE), -(-(end - row) // _LINES), _LINE
    if engine.target.is_cpu:
        pieces, size = 1, 1
    constants = {
        "n": p.n, "row0": row, "col0": col, "rows": end - row, "cols": right - col,
        "pieces": pieces, "bands": bands, **strides(operands), **extents(p.batch),
    }  # fmt: skip
    return OneLaunch(
        engine, pack_spec(p, engine.target), "pack", constants, list(operands),
        (pieces * bands * p.count * size,), (size,),
        scalars={"beta": 1.0} if p.operation == "add" else None,
        nbytes=p.bytes,
    )  # fmt: skip


class WithoutBeta(Plan):
    """A product that does not read C, as a step of a plan whose scalars are alpha and beta."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.flop, self.bytes, self.workspace_bytes = plan.flop, plan.bytes, plan.workspace_bytes

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`."""
        return self._plan.enqueue(state, buffers, offsets, (scalars[0], 0.0), wait_for)


def zeros_plan(
    engine: Engine, n: int, batch: tuple[int, ...], triangle: Operand, layout: str = "packed"
) -> OneLaunch:
    """Return the plan of a check of diagonals for zeros; operands: the triangles and the report.

    Args:
        engine: The engine.
        n, batch: The order of the triangles, and the extents of their batch.
        triangle: The triangles.
        layout: ``packed`` or ``dense``.
    """
    size, count = 1 if engine.target.is_cpu else ZEROS_GROUP, prod(batch)
    items = lanes(n, engine.target) if layout == "dense" else size
    return OneLaunch(
        engine, zeros_spec(batch, triangle, engine.target, layout, items), "zeros",
        {"n": n, "count": count, **strides({"triangle": triangle}), **extents(batch)},
        ["triangle", "report"], (-(-count * items // size) * size,), (size,),
        nbytes=count * n * triangle.elem.itemsize,
    )  # fmt: skip


def pack_spec(problem: PackProblem, target: Target) -> Specialization:
    """Render the kernel of copies between packed and dense storage."""
    return specialize(
        "factor/pack",
        target,
        {"pack": pack_parameters(problem.packed.elem, len(problem.batch), problem.operation)},
        problem=problem,
        unit=problem.dense.col == 1,
        block=BLOCK,
        size=1 if target.is_cpu else _LINE,
        lines=_LINES,
    )


def lanes(n: int, target: Target) -> int:
    """Work-items that check a diagonal of n elements; a group has several small diagonals."""
    return 1 if target.is_cpu else min(ZEROS_GROUP, ceil_power_of_two(n))


def zeros_spec(
    batch: tuple[int, ...], triangle: Operand, target: Target, layout: str, items: int = 0
) -> Specialization:
    """Render the kernel that checks diagonals for zeros.

    Args:
        batch, triangle, target: The triangles, and the device.
        layout: ``dense``, ``packed`` or ``table``.
        items: Work-items of a triangle; 0: a whole group.
    """
    size = 1 if target.is_cpu else ZEROS_GROUP
    return specialize(
        "factor/zeros",
        target,
        {"zeros": zeros_parameters(triangle.elem, len(batch), layout == "table")},
        triangle=triangle,
        rank=len(batch),
        layout=layout,
        block=BLOCK,
        size=size,
        lanes=items or size,
    )


def typical_texts(target: Target, elem: Element) -> list[Specialization]:
    """Render a kernel of each kind without a device."""
    line, matrix = Operand(elem, 0, 1), Operand(elem, 1024, 1)
    whole = (0, 1024)
    moves = [
        PackProblem(1024, (), line, matrix, whole, whole, operation)
        for operation in ("unpack", "pack", "add")
    ]
    zeros = [
        zeros_spec((), line, target, "packed"),
        zeros_spec((), matrix, target, "dense"),
    ]
    return [*(pack_spec(move, target) for move in moves), *zeros]
