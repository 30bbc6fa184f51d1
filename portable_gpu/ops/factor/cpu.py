"""Factorisations and solves on a CPU by one launch: policy, texts and plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.caches import L1_BYTES, L2_BYTES
from portable_gpu.ops.factor.kernels import cpu_cholesky_parameters, cpu_solve_parameters
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.gemm.operands import extents, strides
from portable_gpu.ops.gemm.packed.policy import registers
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy, Range

_LINE_BYTES = 64
#: Work-items for each compute unit, so that all units finish at about the same time.
_ITEMS = 4
#: The least number of strips of a work-item: loading a triangle takes as long as solving a strip.
_STRIPS = 16


@dataclass(frozen=True)
class CpuPolicy(Policy):
    """The register block of rows of a factor or a solution; see ``cl_kernels/factor/_rows``.

    Attributes:
        vector: Lanes of a vector.
        rows: Rows of a register block.
        vectors: Vectors of each row of a register block.
        block: Columns of the largest triangle.
    """

    vector: Annotated[int, Range(2, 16)]
    rows: Annotated[int, Range(1, 32)]
    vectors: Annotated[int, Range(1, 8)]
    block: Annotated[int, Range(4, 1024)]

    @classmethod
    def default(cls, target: Target, elem: Element) -> CpuPolicy:
        """Fill the vector registers with sums, and half of L2 with a triangle."""
        vector = min(16, max(2, target.vector_bytes // (elem.itemsize // elem.components)))
        lanes = 2 * vector // elem.components
        rows = min(lanes, (6 if registers(target) == 16 else 12) // elem.components)
        block = 256
        while block * block * elem.itemsize > L2_BYTES // 2:
            block //= 2
        return cls(vector, rows, 2, block)

    def strip(self, elem: Element) -> int:
        """Elements of a row of a register block."""
        return self.vectors * self.vector // elem.components

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        sums = self.rows * self.vectors * elem.components
        return {
            "vector is 2, 4, 8 or 16": self.vector in (2, 4, 8, 16),
            f"a square of {self.rows} is part of a strip": self.rows <= self.strip(elem),
            f"{sums} sums fit {registers(target)} vector registers": sums < 2 * registers(target),
        }


def cpu_cholesky_plan(engine: Engine, problem: CholeskyProblem, policy: CpuPolicy) -> OneLaunch:
    """Return the plan of factorisations of small matrices, several by each work-item.

    The operands are A (unless L overwrites it), L, and the report.  The scalar is the index of the
    first column.
    """
    line, size = cholesky_scratch(problem.n, policy, problem.elem)
    spec = cholesky_spec(problem, policy, engine.target)
    return _cholesky_plan(engine, problem, spec, problem.count, size, ld=line)


def cpu_lanes_plan(engine: Engine, problem: CholeskyProblem, policy: CpuPolicy) -> OneLaunch:
    """Return the plan of factorisations of many small matrices, one in each lane of the vectors.

    Operands and scalar: see :func:`cpu_cholesky_plan`.
    """
    lanes = policy.vector // problem.elem.components
    spec, blocks = lanes_spec(problem, policy, engine.target), -(-problem.count // lanes)
    return _cholesky_plan(engine, problem, spec, blocks, problem.n * problem.n * lanes)


def _cholesky_plan(
    engine: Engine,
    problem: CholeskyProblem,
    spec: Specialization,
    blocks: int,
    size: int,
    **constants: int,
) -> OneLaunch:
    """Return the plan of work-items that factorise blocks one after another.

    Args:
        engine, problem, spec: The engine, the problem, and the specialization of its kernel.
        blocks, size: The number of blocks, and the elements of scratch of each.
        constants: Arguments of this kernel alone.
    """
    p = problem
    run = -(-blocks // (_ITEMS * engine.target.compute_units))
    items = -(-blocks // run)
    operands = {"l": p.l} if p.in_place else {"a": p.a, "l": p.l}
    constants |= {"n": p.n, "size": size, "run": run, "count": p.count}
    return OneLaunch(
        engine, spec, "cholesky", {**constants, **strides(operands), **extents(p.batch)},
        [*operands, "report"], (items,), (1,), scalars={"first": 0},
        workspaces={"scratch": items * size * p.elem.itemsize}, flop=p.flop, nbytes=p.bytes,
    )  # fmt: skip


def cpu_solve_plan(
    engine: Engine, problem: SolveProblem, policy: CpuPolicy, source: Operand | None
) -> OneLaunch:
    """Return the plan of a solve with small triangles.

    A work-item solves with several triangles, or for some of the columns of one.  The operands are
    L, B (unless X overwrites it), and X.

    Args:
        engine: The engine.
        problem: The problem; its triangles have at most ``policy.block`` columns.
        policy: The policy.
        source: B, if it is another array than X.
    """
    p = problem
    strip = policy.strip(p.elem)
    line, size = solve_scratch(p.n, policy, p.elem)
    run = -(-p.count // (_ITEMS * engine.target.compute_units))
    groups = shares(p.m, p.count, strip, engine.target)
    columns = -(-p.m // (groups * strip)) * strip
    groups = -(-p.m // columns)
    items = -(-p.count // run) * groups
    operands = {"l": p.l, "b": p.b} if source is None else {"l": p.l, "from": source, "b": p.b}
    return OneLaunch(
        engine, solve_spec(p, policy, engine.target, source), "solve",
        {
            "n": p.n, "m": p.m, "size": size, "ld": line, "run": run, "count": p.count,
            "groups": groups, "columns": columns, **strides(operands), **extents(p.batch),
        },
        list(operands), (items,), (1,), workspaces={"scratch": items * size * p.elem.itemsize},
        flop=p.flop, nbytes=p.bytes,
    )  # fmt: skip


def cholesky_spec(
    problem: CholeskyProblem, policy: CpuPolicy, target: Target, ragged: bool = False
) -> Specialization:
    """Render the kernel of small factorisations; ``ragged``: a table gives sizes and offsets."""
    policy.check(target, problem.elem)
    return specialize(
        "factor/cpu_cholesky",
        target,
        {"cholesky": cpu_cholesky_parameters(problem, ragged, "ld", "n", "run")},
        problem=problem,
        policy=policy,
        in_place=problem.in_place,
        ragged=ragged,
    )


def by_lanes(problem: CholeskyProblem, policy: CpuPolicy) -> bool:
    """Whether each lane of the vectors factorises a matrix of its own.

    It does if a block of that number of matrices fits the L1 cache, and there are enough matrices.
    """
    p = problem
    lanes = policy.vector // p.elem.components
    fits = p.n * p.n * lanes * p.elem.itemsize <= L1_BYTES
    return fits and len(p.batch) == 1 and p.count >= lanes


def lanes_spec(problem: CholeskyProblem, policy: CpuPolicy, target: Target) -> Specialization:
    """Render the kernel of factorisations with a matrix in each lane."""
    policy.check(target, problem.elem)
    return specialize(
        "factor/cpu_cholesky_lanes",
        target,
        {"cholesky": cpu_cholesky_parameters(problem, False, "n", "run")},
        problem=problem,
        policy=policy,
        in_place=problem.in_place,
    )


def solve_spec(
    problem: SolveProblem,
    policy: CpuPolicy,
    target: Target,
    source: Operand | None = None,
    ragged: bool = False,
) -> Specialization:
    """Render the kernel of solves with small triangles; ``ragged``: a table gives the sizes."""
    policy.check(target, problem.elem)
    return specialize(
        "factor/cpu_solve",
        target,
        {"solve": cpu_solve_parameters(problem, ragged, source is not None)},
        problem=problem,
        policy=policy,
        source=source,
        ragged=ragged,
    )


def workers(count: int, target: Target) -> int:
    """The number of work-items among which ``count`` matrices are distributed."""
    return min(count, _ITEMS * target.compute_units)


def shares(m: int, count: int, strip: int, target: Target) -> int:
    """Return the number of work-items that share the m columns of each of ``count`` solves.

    Each has at least `_STRIPS` strips; while compute units would be idle, about two are enough.
    """
    units = target.compute_units
    items = max(units, min(_ITEMS * units, m // (_STRIPS * strip)))
    return max(1, min(items // count, -(-m // (2 * strip))))


def cholesky_scratch(n: int, policy: CpuPolicy, elem: Element) -> tuple[int, int]:
    """Return the elements of scratch memory for factorising n columns: of each row, and of all.

    All are n + R rows of the triangle, and n + R reciprocals; R is ``policy.rows``.
    """
    line = _line(n + policy.strip(elem), elem)
    return line, _whole_lines((n + policy.rows) * (line + 1), elem)


def solve_scratch(n: int, policy: CpuPolicy, elem: Element) -> tuple[int, int]:
    """Return the elements of scratch memory for solving with n columns: of each row, and of all.

    All are n + R rows of the triangle and of a strip of B, and n + R reciprocals; R is
    ``policy.rows``.
    """
    line = _line(n + policy.rows, elem)
    return line, _whole_lines((n + policy.rows) * (line + policy.strip(elem) + 1), elem)


def _line(n: int, elem: Element) -> int:
    """Return the pitch of rows of scratch memory, in elements: an odd number of cache lines.

    So the rows of a strip are in different sets of the cache.
    """
    return (-(-n * elem.itemsize // _LINE_BYTES) | 1) * _LINE_BYTES // elem.itemsize


def _whole_lines(n: int, elem: Element) -> int:
    return -(-n * elem.itemsize // _LINE_BYTES) * _LINE_BYTES // elem.itemsize
