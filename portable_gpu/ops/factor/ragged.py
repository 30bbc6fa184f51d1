"""Matrices of different sizes in one buffer: one launch for each class of sizes, others by halves.

On a GPU sizes are sorted into the classes :data:`CLASSES`, so that a small matrix does not wait for
a large one.  On a CPU one launch computes all matrices whose triangle fits scratch memory, and
distributes these by their sizes.  A kernel reads n, offset and strides of its matrices from a table
in device memory, which is a part of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.factor import cpu
from portable_gpu.ops.factor.cpu import CpuPolicy
from portable_gpu.ops.factor.kernels import update_parameters
from portable_gpu.ops.factor.packed import ZEROS_GROUP, aligned, zeros_spec
from portable_gpu.ops.factor.plan import cholesky_spec, solve_spec
from portable_gpu.ops.factor.policy import CholeskyPolicy, SolvePolicy
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.factor.recursive import SubPlans
from portable_gpu.ops.gemm.operands import strides
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Part, Step
from portable_gpu.targets import Target

#: The largest sizes of classes on a GPU.
CLASSES = (8, 16, 32, 64, 128)
_UPDATERS = 64
_Table = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class RaggedMatrices:
    """Matrices by rows in one buffer.

    Attributes:
        elem: The element type.
        rows, columns: The extents of each matrix.
        offsets: The first element of each, relative to the view of the buffer.
        leading: Elements from one row to the next, of each matrix.
        start: The alignment of the view, in bytes.
    """

    elem: Element
    rows: _Table
    columns: _Table
    offsets: _Table
    leading: _Table
    start: int

    def operand(self, which: int, transposed: bool = False, conj: bool = False) -> Operand:
        """Return the operand of one matrix."""
        ld = int(self.leading[which])
        row, col = (1, ld) if transposed else (ld, 1)
        operand = Operand(self.elem, row, col, conj=conj and self.elem.complex)
        start = np.gcd(self.start, int(self.offsets[which]) * self.elem.itemsize)
        return aligned(operand, int(start))


@dataclass(frozen=True)
class _TableKernel:
    """A kernel that reads a table, and its launch.

    Attributes:
        spec, name: The specialization, and the name of the kernel.
        constants: The constant arguments.
        groups, size: Work-groups, and work-items of each.
        scratch: Bytes of workspace for each group.
    """

    spec: Specialization
    name: str
    constants: dict[str, Any]
    groups: int
    size: int
    scratch: int = 0


def _table_plan(
    engine: Engine,
    kernel: _TableKernel,
    table: _Table,
    names: Sequence[str],
    scalars: Mapping[str, int] | None = None,
    flop: int = 0,
) -> OneLaunch:
    """Return the plan of a kernel that reads a table; ``scalars``: those that calls may pass."""
    return OneLaunch(
        engine, kernel.spec, kernel.name, kernel.constants, names, (kernel.groups * kernel.size,),
        (kernel.size,), scalars=scalars, tables={"table": table},
        workspaces={"scratch": kernel.groups * kernel.scratch}, flop=flop,
    )  # fmt: skip


def ragged_cholesky(
    engine: Engine, parts: SubPlans, block: int, a: RaggedMatrices, lower: bool, precision: str
) -> list[Step]:
    """The steps of factorisations in place; operands: the buffer and the report.

    A work-group factorises one matrix of up to ``block`` columns, on a CPU several.
    """
    target, elem = engine.target, a.elem
    steps: list[Step] = []

    def small(which: _Table, most: int) -> None:
        matrix = Operand(elem, *((most + 1, 1) if lower else (1, most + 1)))
        p = CholeskyProblem(most, (), matrix, matrix, in_place=True, precision=precision)
        kernel = (_cholesky_on_cpu if target.is_cpu else _cholesky)(p, len(which), target)
        flop = int((a.rows[which].astype(float) ** 3).sum() / 3) * elem.components**2
        table = _matrices(a, which, not lower)
        plan = _table_plan(engine, kernel, table, ["l", "report"], {"first": 0}, flop)
        steps.append(Step(plan, (0, 1)))

    def large(which: int) -> None:
        matrix = a.operand(which, transposed=not lower)
        p = CholeskyProblem(
            int(a.rows[which]), (), matrix, matrix, True, precision, not engine.maps_host_memory
        )
        places = (Part(0, int(a.offsets[which])), Part(1, 2 * which))
        steps.append(Step(parts.cholesky(p), places))

    _by_class(a.rows, np.arange(len(a.rows)), _classes(target, block), small, large)
    return steps


def _cholesky(p: CholeskyProblem, count: int, target: Target) -> _TableKernel:
    """Return the kernel with a work-group for one matrix or several."""
    policy = CholeskyPolicy.for_size(p.n, target, p.elem)
    constants = {"max_n": p.n, "count": count, **strides({"l": p.l})}
    groups = -(-count // policy.together)
    spec = cholesky_spec(p, policy, target, ragged=True)
    return _TableKernel(spec, "cholesky", constants, groups, policy.group_size)


def _cholesky_on_cpu(p: CholeskyProblem, count: int, target: Target) -> _TableKernel:
    """Return the kernel in which matrices are distributed over work-items in turn."""
    policy = CpuPolicy.default(target, p.elem)
    _, size = cpu.cholesky_scratch(p.n, policy, p.elem)
    constants = {"count": count, "size": size, **strides({"l": p.l})}
    groups = cpu.workers(count, target)
    spec = cpu.cholesky_spec(p, policy, target, ragged=True)
    return _TableKernel(spec, "cholesky", constants, groups, 1, size * p.elem.itemsize)


def ragged_zeros(engine: Engine, a: RaggedMatrices) -> Step:
    """The step that checks diagonals for zeros; operands: the triangles, ..., and the report."""
    count, size = len(a.rows), 1 if engine.target.is_cpu else ZEROS_GROUP
    matrix = Operand(a.elem, 1, 1)
    spec = zeros_spec((), matrix, engine.target, "table")
    constants = {"count": count, **strides({"triangle": matrix})}
    kernel = _TableKernel(spec, "zeros", constants, count, size)
    table = _matrices(a, np.arange(count), False)
    return Step(_table_plan(engine, kernel, table, ["triangle", "report"]), (0, 2))


def ragged_solve(
    engine: Engine,
    parts: SubPlans,
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

    A work-group has one triangle of up to ``block`` columns, on a CPU several.
    """
    target, elem = engine.target, a.elem
    steps: list[Step] = []
    forwards = lower != transposed

    def problem(which: _Table, n: int, most: int) -> SolveProblem:
        """Return the solve with n rows of triangles of at most ``most`` rows."""
        m = int(b.columns[which].max())
        row, col = (1, most + 1) if transposed else (most + 1, 1)
        forward, _, _ = SolveProblem(
            n=n, m=m, batch=(), l=Operand(elem, row, col, conj=conj and elem.complex),
            b=Operand(elem, m + 1, 1), lower=forwards, unit=unit, precision=precision,
        ).forwards()  # fmt: skip
        return forward

    def small(which: _Table, most: int) -> None:
        products = a.rows[which].astype(float) ** 2 * b.columns[which]
        flop = int(products.sum()) * elem.components**2
        for first in range(0, most, block):
            which = which[a.rows[which] > first]
            rows = first, first + block
            p = problem(which, min(most - first, block), most)
            if first:
                table = _pairs(a, b, which, transposed, forwards, rows, left=True)
                kernel = _update(p, len(which), target, first, not transposed)
                steps.append(Step(_table_plan(engine, kernel, table, ["l", "b"]), (0, 1)))
            table = _pairs(a, b, which, transposed, forwards, rows)
            kernel = (_solve_on_cpu if target.is_cpu else _solve)(p, len(which), target)
            steps.append(Step(_table_plan(engine, kernel, table, ["l", "b"], flop=flop), (0, 1)))
            flop = 0

    def large(which: int) -> None:
        p = SolveProblem(
            n=int(a.rows[which]), m=int(b.columns[which]), batch=(),
            l=a.operand(which, transposed, conj), b=b.operand(which), lower=forwards, unit=unit,
            precision=precision, aligned=not engine.maps_host_memory,
        )  # fmt: skip
        places = (Part(0, int(a.offsets[which])), Part(1, int(b.offsets[which])))
        steps.append(Step(parts.solve(p), places))

    nonempty = np.flatnonzero((a.rows > 0) & (b.columns > 0))
    largest = block if target.is_cpu else max(block, CLASSES[-1])
    _by_class(a.rows, nonempty, _classes(target, largest), small, large)
    return steps


def _solve(p: SolveProblem, count: int, target: Target) -> _TableKernel:
    """Return the kernel with a work-group for some columns of one pair or of several."""
    policy = SolvePolicy.for_size(p.n, p.m, target, p.elem)
    across = -(-p.m // policy.columns)
    constants = {"max_n": p.n, "count": count, "groups": across, **strides({"l": p.l, "b": p.b})}
    groups = across * -(-count // policy.together)
    spec = solve_spec(p, policy, target, ragged=True)
    return _TableKernel(spec, "solve", constants, groups, policy.group_size)


def _solve_on_cpu(p: SolveProblem, count: int, target: Target) -> _TableKernel:
    """Return the kernel in which pairs, and perhaps their columns, are distributed in turn."""
    policy = CpuPolicy.default(target, p.elem)
    _, size = cpu.solve_scratch(p.n, policy, p.elem)
    across = cpu.shares(p.m, count, policy.strip(p.elem), target)
    constants = {"size": size, "count": count, "groups": across, **strides({"l": p.l, "b": p.b})}
    groups = across * cpu.workers(count, target)
    spec = cpu.solve_spec(p, policy, target, ragged=True)
    return _TableKernel(spec, "solve", constants, groups, 1, size * p.elem.itemsize)


def _update(p: SolveProblem, count: int, target: Target, k: int, along_rows: bool) -> _TableKernel:
    """Return the kernel that subtracts the product of the k columns left of a diagonal block."""
    across = -(-p.m // _UPDATERS)
    constants = {"k": k, "groups": across, **strides({"l": p.l, "b": p.b})}
    spec = update_spec(p, target, along_rows)
    return _TableKernel(spec, "update", constants, across * count, _UPDATERS)


def _classes(target: Target, block: int) -> list[int]:
    """The largest sizes of classes, up to ``block``."""
    return [block] if target.is_cpu else [min(most, block) for most in CLASSES]


def _by_class(
    sizes: _Table,
    which: _Table,
    classes: Sequence[int],
    small: Callable[[_Table, int], None],
    large: Callable[[int], None],
) -> None:
    """Call ``small`` for the matrices of each nonempty class, and ``large`` for each larger one.

    The matrices of a class are in descending order of size.
    """
    which = which[np.argsort(-sizes[which], kind="stable")]
    lower = -1
    for upper in classes:
        members = which[(sizes[which] > lower) & (sizes[which] <= upper)]
        if members.size:
            small(members, max(1, int(sizes[members].max())))
        lower = upper
    for index in which[sizes[which] > lower]:
        large(int(index))


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
    """Rows of a table: n, m, and offset, row, col of L and of B; upper triangles are reversed.

    Args:
        a, b, which, transposed, forwards: The triangles, and their orientation.
        rows: The first and the end of the triangles' rows.
        left: Whether L is the rectangle left of the diagonal block, and B starts at its first row.
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


def update_spec(problem: SolveProblem, target: Target, along_rows: bool) -> Specialization:
    """Render the kernel that subtracts the product of the columns left of a diagonal block."""
    return specialize(
        "factor/update", target, {"update": update_parameters(problem.elem)}, problem=problem,
        lanes=_UPDATERS, conj=problem.l.conj, along_rows=along_rows,
    )  # fmt: skip


def typical_texts(target: Target, elem: Element) -> list[Specialization]:
    """Render a kernel of each kind without a device."""
    matrix = Operand(elem, 1024, 1)
    n, m = 16, 64
    factor = CholeskyProblem(n, (), matrix, matrix, in_place=True)
    solve = SolveProblem(n, m, (), matrix, matrix)
    zeros = zeros_spec((), matrix, target, "table")
    if target.is_cpu:
        return [
            _cholesky_on_cpu(factor, 1, target).spec,
            _solve_on_cpu(solve, 1, target).spec,
            zeros,
        ]
    return [
        _cholesky(factor, 1, target).spec,
        _solve(solve, 1, target).spec,
        update_spec(solve, target, along_rows=True),
        zeros,
    ]
