"""Factorisations and solves on a CPU by one launch: how, and bound to a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.caches import L1_BYTES, L2_BYTES
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.gemm.operands import extents, offsets, strides
from portable_gpu.ops.gemm.packed.policy import registers
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy, Range

_LINE_BYTES = 64
#: Work-items for each compute unit, so that all end at about the same time.
_ITEMS = 4
#: Strips that a work-item solves once it has brought a triangle, which takes as long as one does.
_STRIPS = 16


@dataclass(frozen=True)
class CpuPolicy(Policy):
    """Rows of a factor or a solution, made from those above; see ``cl_kernels/factor/_rows``.

    Attributes:
        vector: Lanes of a vector.
        rows: Rows that are made together.
        vectors: Of a row, vectors that are made together.
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

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """See :meth:`Policy.search_space`."""
        return {"rows": (3, 4, 6, 8, 12), "vectors": (1, 2, 3), "block": (64, 128, 256)}

    def strip(self, elem: Element) -> int:
        """Elements of a row that are made together."""
        return self.vectors * self.vector // elem.components

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        sums = self.rows * self.vectors * elem.components
        return {
            "vector is 2, 4, 8 or 16": self.vector in (2, 4, 8, 16),
            f"a square of {self.rows} is part of a strip": self.rows <= self.strip(elem),
            f"{sums} sums fit {registers(target)} vector registers": sums < 2 * registers(target),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`Policy.edges`."""
        return self.rows, self.vectors * self.vector, self.rows


class CpuCholeskyPlan(OneLaunch):
    """A factorisation of small matrices, some by each work-item.

    Operands: a, L and the report; L and the report alone where L replaces A.  The scalar is the
    first column's number.
    """

    _scalars = (0,)

    def __init__(self, engine: Engine, problem: CholeskyProblem, policy: CpuPolicy) -> None:
        """Build the kernel."""
        p = problem
        self.flop, self.bytes = p.flop, p.bytes
        line, size = cholesky_scratch(p.n, policy, p.elem)
        run = -(-p.count // (_ITEMS * engine.target.compute_units))
        items = -(-p.count // run)
        self.workspace_bytes = items * size * p.elem.itemsize
        operands = {"l": p.l} if p.in_place else {"a": p.a, "l": p.l}
        self._launch = engine.programs.launch(
            cholesky_text(p, policy, engine.target),
            "cholesky",
            {
                "n": p.n, "size": size, "ld": line, "run": run, "count": p.count,
                **strides(operands), **extents(p.batch),
            },
            ["scratch", *operands, "report"],
            ["first", *offsets([*operands, "report"])],
            (items,),
            (1,),
        )  # fmt: skip


class CpuLanesPlan(OneLaunch):
    """A factorisation of many small matrices, each in a lane of every vector.

    Operands and scalar: as of :class:`CpuCholeskyPlan`.
    """

    _scalars = (0,)

    def __init__(self, engine: Engine, problem: CholeskyProblem, policy: CpuPolicy) -> None:
        """Build the kernel."""
        p = problem
        self.flop, self.bytes = p.flop, p.bytes
        together = policy.vector // p.elem.components
        blocks = -(-p.count // together)
        run = -(-blocks // (_ITEMS * engine.target.compute_units))
        items = -(-blocks // run)
        size = p.n * p.n * together
        self.workspace_bytes = items * size * p.elem.itemsize
        operands = {"l": p.l} if p.in_place else {"a": p.a, "l": p.l}
        self._launch = engine.programs.launch(
            lanes_text(p, policy, engine.target),
            "cholesky",
            {
                "n": p.n, "size": size, "run": run, "count": p.count,
                **strides(operands), **extents(p.batch),
            },
            ["scratch", *operands, "report"],
            ["first", *offsets([*operands, "report"])],
            (items,),
            (1,),
        )  # fmt: skip


class CpuSolvePlan(OneLaunch):
    """A solve with small triangles, some by each work-item, or some columns of one.

    Operands: L, B where X is not to be in its place, and X.
    """

    def __init__(
        self,
        engine: Engine,
        problem: SolveProblem,
        policy: CpuPolicy,
        source: Operand | None = None,
    ) -> None:
        """Build the kernel.

        Args:
            engine: Whose device.
            problem: What is computed; its triangles have at most ``policy.block`` columns.
            policy: How.
            source: B, if that is elsewhere.
        """
        p = problem
        self.flop, self.bytes = p.flop, p.bytes
        strip = policy.strip(p.elem)
        line, size = solve_scratch(p.n, policy, p.elem)
        run = -(-p.count // (_ITEMS * engine.target.compute_units))
        groups = shares(p.m, p.count, strip, engine.target)
        columns = -(-p.m // (groups * strip)) * strip
        groups = -(-p.m // columns)
        items = -(-p.count // run) * groups
        self.workspace_bytes = items * size * p.elem.itemsize
        operands = {"l": p.l, "b": p.b} if source is None else {"l": p.l, "from": source, "b": p.b}
        self._launch = engine.programs.launch(
            solve_text(p, policy, engine.target, source),
            "solve",
            {
                "n": p.n, "m": p.m, "size": size, "ld": line, "run": run, "count": p.count,
                "groups": groups, "columns": columns,
                **strides(operands), **extents(p.batch),
            },
            ["scratch", *operands],
            offsets(operands),
            (items,),
            (1,),
        )  # fmt: skip


def cholesky_text(
    problem: CholeskyProblem, policy: CpuPolicy, target: Target, ragged: bool = False
) -> Specialization:
    """The kernel of small factorisations; ``ragged``: of sizes and places out of a table."""
    policy.check(target, problem.elem)
    return specialize(
        "factor/cpu_cholesky",
        target,
        problem=problem,
        policy=policy,
        in_place=problem.in_place,
        ragged=ragged,
    )


def by_lanes(problem: CholeskyProblem, policy: CpuPolicy) -> bool:
    """Whether matrices of a stack are best made side by side: a block of them fits L1."""
    p = problem
    together = policy.vector // p.elem.components
    fits = p.n * p.n * together * p.elem.itemsize <= L1_BYTES
    return fits and len(p.batch) == 1 and p.count >= together


def lanes_text(problem: CholeskyProblem, policy: CpuPolicy, target: Target) -> Specialization:
    """The kernel of factorisations side by side."""
    policy.check(target, problem.elem)
    return specialize(
        "factor/cpu_cholesky_lanes",
        target,
        problem=problem,
        policy=policy,
        in_place=problem.in_place,
    )


def solve_text(
    problem: SolveProblem,
    policy: CpuPolicy,
    target: Target,
    source: Operand | None = None,
    ragged: bool = False,
) -> Specialization:
    """The kernel of solves with small triangles; ``ragged``: of sizes and places out of a table."""
    policy.check(target, problem.elem)
    return specialize(
        "factor/cpu_solve", target, problem=problem, policy=policy, source=source, ragged=ragged
    )


def workers(count: int, target: Target) -> int:
    """Work-items that share so many matrices."""
    return min(count, _ITEMS * target.compute_units)


def shares(m: int, count: int, strip: int, target: Target) -> int:
    """Work-items for each of so many pairs: each has some of the m columns."""
    units = target.compute_units
    items = max(units, min(_ITEMS * units, m // (_STRIPS * strip)))
    return max(1, min(items // count, -(-m // (2 * strip))))


def cholesky_scratch(n: int, policy: CpuPolicy, elem: Element) -> tuple[int, int]:
    """Of a work-item that factorises n columns: elements from row to row, and of it all."""
    line = _line(n + policy.strip(elem), elem)
    return line, _whole_lines((n + policy.rows) * (line + 1), elem)


def solve_scratch(n: int, policy: CpuPolicy, elem: Element) -> tuple[int, int]:
    """Likewise of one that solves with n columns."""
    line = _line(n + policy.rows, elem)
    return line, _whole_lines((n + policy.rows) * (line + policy.strip(elem) + 1), elem)


def _line(n: int, elem: Element) -> int:
    """Elements from a row of scratch to the next: an odd number of cache lines.

    The rows of a strip then lie in different sets of the cache.
    """
    return (-(-n * elem.itemsize // _LINE_BYTES) | 1) * _LINE_BYTES // elem.itemsize


def _whole_lines(n: int, elem: Element) -> int:
    return -(-n * elem.itemsize // _LINE_BYTES) * _LINE_BYTES // elem.itemsize
