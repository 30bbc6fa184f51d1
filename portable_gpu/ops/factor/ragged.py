"""Matrices of different sizes in one buffer: one launch for each class, the others by halves.

Sizes fall into the classes :data:`CLASSES`, so that a small matrix does not wait for a large one.
A kernel takes n, offset and strides of each of its matrices from a table in device memory, which a
plan makes once: it then serves any values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.factor.launch import OneLaunch
from portable_gpu.ops.factor.packed import SEARCHERS, aligned, zeros_text
from portable_gpu.ops.factor.plan import cholesky_text, solve_text
from portable_gpu.ops.factor.policy import CholeskyPolicy, SolvePolicy
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.factor.recursive import Parts
from portable_gpu.ops.gemm.operands import offsets, strides
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Part, Step
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target

#: The largest sizes of classes.
CLASSES = (8, 16, 32, 64, 128)
_UPDATERS = 64
_Table = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class RaggedMatrices:
    """Matrices by rows in one buffer.

    Attributes:
        elem: The element type.
        rows, columns: Of each.
        offsets: Where each begins, from where the buffer's view does.
        leading: Elements from a row of each to the next.
        start: What the address of the view is a multiple of, in bytes.
    """

    elem: Element
    rows: _Table
    columns: _Table
    offsets: _Table
    leading: _Table
    start: int

    def operand(self, which: int, transposed: bool = False, conj: bool = False) -> Operand:
        """One of them."""
        ld = int(self.leading[which])
        row, col = (1, ld) if transposed else (ld, 1)
        found = Operand(self.elem, row, col, conj=conj and self.elem.complex)
        start = np.gcd(self.start, int(self.offsets[which]) * self.elem.itemsize)
        return aligned(found, int(start))


class _TablePlan(OneLaunch):
    """A launch whose kernel reads a table, which the plan keeps on the device."""

    def __init__(
        self,
        engine: Engine,
        text: Specialization,
        kernel: str,
        table: _Table,
        constants: dict[str, Any],
        names: Sequence[str],
        scalars: Sequence[str],
        sizes: tuple[int, int],
    ) -> None:
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        self._table = cl.Buffer(engine.context, flags, hostbuf=np.ascontiguousarray(table))
        self._scalars = (0,) * len(scalars)
        self._launch = engine.programs.launch(
            text, kernel, constants, ["table", *names], [*scalars, *offsets(names)],
            (sizes[0] * sizes[1],), (sizes[1],),
        )  # fmt: skip

    def _buffers(self, state: QueueState, operands: Sequence[Any]) -> Sequence[Any]:
        return self._table, *operands


def ragged_cholesky(
    engine: Engine, parts: Parts, block: int, a: RaggedMatrices, lower: bool, precision: str
) -> list[Step]:
    """The steps of factorisations in place; operands: the buffer and the report.

    Up to ``block`` columns a work-group factorises a matrix.
    """
    target, elem = engine.target, a.elem
    steps: list[Step] = []

    def small(which: _Table, most: int) -> None:
        matrix = Operand(elem, *((most + 1, 1) if lower else (1, most + 1)))
        p = CholeskyProblem(most, (), matrix, matrix, in_place=True, precision=precision)
        policy = CholeskyPolicy.for_size(most, target, elem)
        constants: dict[str, Any] = strides({"l": matrix})
        groups, size = len(which), 1
        if not target.is_cpu:
            constants |= {"most": most, "count": len(which)}
            groups, size = -(-len(which) // policy.together), policy.group_size
        table = _matrices(a, which, not lower)
        text = cholesky_text(p, policy, target, ragged=True)
        plan = _TablePlan(
            engine, text, "cholesky", table, constants, ["l", "report"], ["first"], (groups, size)
        )
        n = a.rows[which].astype(float)
        plan.flop = int((n**3).sum() / 3) * elem.components**2
        steps.append(Step(plan, (0, 1)))

    def large(which: int) -> None:
        matrix = a.operand(which, transposed=not lower)
        p = CholeskyProblem(
            int(a.rows[which]), (), matrix, matrix, True, precision, not engine.maps_host_memory
        )
        places = (Part(0, int(a.offsets[which])), Part(1, 2 * which))
        steps.append(Step(parts.cholesky(p), places))

    _by_class(a.rows, np.arange(len(a.rows)), block, small, large)
    return steps


def ragged_zeros(engine: Engine, a: RaggedMatrices) -> Step:
    """The step that looks for zeros on diagonals; operands: the triangles, ..., and the report."""
    count, size = len(a.rows), 1 if engine.target.is_cpu else SEARCHERS
    matrix = Operand(a.elem, 1, 1)
    text = zeros_text((), matrix, engine.target, "table")
    plan = _TablePlan(
        engine, text, "zeros", _matrices(a, np.arange(count), False), strides({"triangle": matrix}),
        ["triangle", "report"], [], (count, size),
    )  # fmt: skip
    return Step(plan, (0, 2))


def ragged_solve(
    engine: Engine,
    parts: Parts,
    block: int,
    a: RaggedMatrices,
    b: RaggedMatrices,
    lower: bool,
    transposed: bool,
    conj: bool,
    unit: bool,
    precision: str,
) -> list[Step]:
    """The steps of solves in place of B; operands: the triangles and B.

    Up to ``block`` columns a work-group has a triangle.
    """
    target, elem = engine.target, a.elem
    steps: list[Step] = []
    forwards = lower != transposed

    def launch(
        kernel: str, which: _Table, rows: tuple[int, int], most: int, table: _Table
    ) -> _TablePlan:
        """``solve`` of these rows of the triangles, or ``update`` of them by those above."""
        n, m = min(most - rows[0], rows[1] - rows[0]), int(b.columns[which].max())
        row, col = (1, most + 1) if transposed else (most + 1, 1)
        problem = SolveProblem(
            n=n, m=m, batch=(), l=Operand(elem, row, col, conj=conj and elem.complex),
            b=Operand(elem, m + 1, 1), lower=forwards, unit=unit,
            precision=precision,
        )  # fmt: skip
        p, _, _ = problem.forwards()
        policy = SolvePolicy.for_size(n, m, target, elem)
        constants = strides({"l": p.l, "b": p.b})
        count, size = len(which), 1
        if kernel == "solve":
            text, across = solve_text(p, policy, target, ragged=True), policy.columns
            if not target.is_cpu:
                constants |= {"count": count, "most": n}
                count, size = -(-count // policy.together), policy.group_size
        else:
            text, across = update_text(p, target, along_rows=not transposed), _UPDATERS
            constants["k"], size = rows[0], _UPDATERS
        groups = -(-m // across)
        constants["groups"] = groups
        grid = groups * count, size
        return _TablePlan(engine, text, kernel, table, constants, ["l", "b"], [], grid)

    def small(which: _Table, most: int) -> None:
        products = a.rows[which].astype(float) ** 2 * b.columns[which]
        for first in range(0, most, block):
            which = which[a.rows[which] > first]
            rows = first, first + block
            if first:
                table = _pairs(a, b, which, transposed, forwards, rows, left=True)
                steps.append(Step(launch("update", which, rows, most, table), (0, 1)))
            table = _pairs(a, b, which, transposed, forwards, rows)
            steps.append(Step(launch("solve", which, rows, most, table), (0, 1)))
        steps[-1].plan.flop = int(products.sum()) * elem.components**2

    def large(which: int) -> None:
        p = SolveProblem(
            n=int(a.rows[which]), m=int(b.columns[which]), batch=(),
            l=a.operand(which, transposed, conj), b=b.operand(which), lower=forwards, unit=unit,
            precision=precision, aligned=not engine.maps_host_memory,
        )  # fmt: skip
        places = (Part(0, int(a.offsets[which])), Part(1, int(b.offsets[which])))
        steps.append(Step(parts.solve(p), places))

    some = np.flatnonzero((a.rows > 0) & (b.columns > 0))
    _by_class(a.rows, some, block if target.is_cpu else max(block, CLASSES[-1]), small, large)
    return steps


def _by_class(
    sizes: _Table,
    which: _Table,
    block: int,
    small: Callable[[_Table, int], None],
    large: Callable[[int], None],
) -> None:
    """Call ``small`` for the matrices of each class that has any, and ``large`` for each other."""
    least = -1
    for most in CLASSES:
        most = min(most, block)
        found = which[(sizes[which] > least) & (sizes[which] <= most)]
        if found.size:
            small(found, max(1, int(sizes[found].max())))
        least = most
    for one in which[sizes[which] > least]:
        large(int(one))


def _matrices(a: RaggedMatrices, which: _Table, transposed: bool) -> _Table:
    """Rows of a table: n, offset, row, col, number."""
    ones, ld = np.ones(len(which), np.int64), a.leading[which]
    row, col = (ones, ld) if transposed else (ld, ones)
    return np.stack([a.rows[which], a.offsets[which], row, col, which], axis=1).astype(np.int64)


def _pairs(
    a: RaggedMatrices,
    b: RaggedMatrices,
    which: _Table,
    transposed: bool,
    forwards: bool,
    rows: tuple[int, int],
    left: bool = False,
) -> _Table:
    """Rows of a table: n, m, and offset, row, col of L and of B; of upper ones from the end on.

    Args:
        a, b, which, transposed, forwards: Which triangles, and how they are taken.
        rows: Of the triangles, the first and the end.
        left: Whether what is left of their diagonal block is meant, and B from its first row on.
    """
    _, start, row, col, _ = _matrices(a, which, transposed).T
    n, m, begin, ld = a.rows[which], b.columns[which], b.offsets[which], b.leading[which]
    if not forwards:
        start, row, col = start + (n - 1) * (row + col), -row, -col
        begin, ld = begin + (n - 1) * ld, -ld
    start = start + rows[0] * (row if left else row + col)
    begin = begin if left else begin + rows[0] * ld
    n = np.minimum(n, rows[1]) - rows[0]
    return np.stack([n, m, start, row, col, begin, ld, np.ones_like(n)], axis=1).astype(np.int64)


def update_text(problem: SolveProblem, target: Target, along_rows: bool) -> Specialization:
    """The kernel that subtracts the product of what is left of a diagonal block."""
    return specialize(
        "factor/update", target, problem=problem, lanes=_UPDATERS, conj=problem.l.conj,
        along_rows=along_rows,
    )  # fmt: skip


def typical_texts(target: Target, elem: Element) -> list[Specialization]:
    """Kernels of each kind, with no device at hand."""
    matrix = Operand(elem, 1024, 1)
    n, m = 16, 64
    policy = SolvePolicy.for_size(n, m, target, elem)
    factor = CholeskyProblem(n, (), matrix, matrix, in_place=True)
    solve = SolveProblem(n, m, (), matrix, matrix)
    by = CholeskyPolicy.for_size(n, target, elem)
    return [
        cholesky_text(factor, by, target, ragged=True),
        solve_text(solve, policy, target, ragged=True),
        update_text(solve, target, along_rows=True),
        zeros_text((), matrix, target, "table"),
    ]
