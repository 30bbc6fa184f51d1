"""The plans of factorisations, solves and copies that take one launch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.factor.kernels import (
    cholesky_parameters,
    solve_parameters,
    tiles_parameters,
    vector_parameters,
)
from portable_gpu.ops.factor.policy import (
    TILE,
    CholeskyPolicy,
    SolvePolicy,
    on_matrix_units,
    panels,
    tile_registers,
)
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.gemm.operands import extents, strides
from portable_gpu.ops.gemm.problem import Operand, step
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target


def cholesky_plan(engine: Engine, problem: CholeskyProblem, policy: CholeskyPolicy) -> OneLaunch:
    """Return the plan of factorisations by one work-group for each matrix.

    Operands: A unless L replaces it, L, and the report.  The scalar is the index of the first
    column.  Matrices have at most ``policy.size`` columns.
    """
    p = problem
    operands = {"l": p.l} if p.in_place else {"a": p.a, "l": p.l}
    groups, size = -(-p.count // policy.together), policy.group_size
    return OneLaunch(
        engine, cholesky_spec(p, policy, engine.target), "cholesky",
        {"n": p.n, "count": p.count, **strides(operands), **extents(p.batch)},
        [*operands, "report"], (groups * size,), (size,), scalars={"first": 0}, flop=p.flop,
        nbytes=p.bytes,
    )  # fmt: skip


def solve_plan(
    engine: Engine, problem: SolveProblem, policy: SolvePolicy, source: Operand | None = None
) -> OneLaunch:
    """Return the plan of a solve with triangles of at most ``policy.rows`` columns.

    Operands: L, B unless X overwrites it, X, and the report if there is one.
    """
    p = problem
    groups, stacks = -(-p.m // policy.columns), -(-p.count // policy.together)
    size = policy.group_size
    operands = {"l": p.l} | ({} if source is None else {"c": source}) | {"b": p.b}
    constants = {"n": p.n, "m": p.m, "groups": groups, "count": p.count}
    return OneLaunch(
        engine, solve_spec(p, policy, engine.target, source=source), "solve",
        {**constants, **extents(p.batch), **strides(operands)},
        [*operands, *(["report"] if p.reports else [])], (groups * stacks * size,), (size,),
        flop=p.flop, nbytes=p.bytes,
    )  # fmt: skip


def tiles_plan(engine: Engine, problem: TiledProblem) -> OneLaunch:
    """Return the plan of one launch with a work-group for each tile of a factor or a solution.

    Operands and scalar of a factorisation: see :func:`cholesky_plan`.  Operands of a solve: L, B
    unless X overwrites it, and X; it has no scalar.
    """
    p, whole = problem, problem.whole
    constants = {
        "n": p.n, "m": p.m, "tiles_s": -(-p.n // TILE), "tiles_f": -(-p.m // TILE),
        "count": whole.count, **strides(p.operands), **extents(whole.batch),
    }  # fmt: skip
    return OneLaunch(
        engine, tiles_spec(p, engine.target), "tiles", constants,
        [*p.order, *(["report"] if p.factorises else [])], (p.groups * _TILE_GROUP,),
        (_TILE_GROUP,),
        scalars={"first": 0} if p.factorises else None, counters=2 + p.tiles * whole.count,
        flop=whole.flop, nbytes=whole.bytes,
    )  # fmt: skip


def vector_plan(engine: Engine, problem: TiledProblem) -> OneLaunch:
    """Return the plan of a solve in one launch with a work-group for each 64 rows of each column.

    Operands: see :func:`tiles_plan`.
    """
    p, whole = problem, problem.whole
    blocks = -(-p.n // TILE)
    groups = blocks * p.m * whole.count
    cells = cells_of(groups, whole.elem)
    constants = {"n": p.n, "m": p.m, "blocks": blocks, "groups": groups, "cells": cells}
    return OneLaunch(
        engine, vector_spec(p, engine.target), "vector",
        {**constants, **strides(p.operands), **extents(whole.batch)}, p.order,
        (groups * _TILE_GROUP,), (_TILE_GROUP,),
        counters=2 + 2 * cells,  # ticket, count, and two words for each cell
        flop=whole.flop, nbytes=whole.bytes,
    )  # fmt: skip


def cells_of(blocks: int, elem: Element) -> int:
    """Cells through which groups pass blocks of :data:`TILE` elements: see ``factor/_vector``."""
    return blocks * TILE * elem.itemsize // 4


_TILE_GROUP = 256


@dataclass(frozen=True)
class TiledProblem:
    """A factorisation, or a solve with a lower triangle, by tiles.

    Attributes:
        whole: The problem; in a solve X overwrites ``whole.b``.
        source: B of a solve, if it is another array than X.
    """

    whole: CholeskyProblem | SolveProblem
    source: Operand | None = None

    @property
    def factorises(self) -> bool:
        """Whether it is a factorisation."""
        return isinstance(self.whole, CholeskyProblem)

    @property
    def paired(self) -> bool:
        """Whether one group computes a diagonal tile and the tile to the left of it.

        Not for complex128, for which this would spill registers.
        """
        return self.factorises and self.whole.elem.itemsize <= 8

    @property
    def tiles(self) -> int:
        """Tiles of one matrix."""
        rows, columns = -(-self.n // TILE), -(-self.m // TILE)
        return rows * (rows + 1) // 2 if self.factorises else rows * columns

    @property
    def groups(self) -> int:
        """Work-groups of all matrices."""
        twos = -(-self.n // TILE) - 1 if self.paired else 0
        return (self.tiles - twos) * self.whole.count

    @property
    def separate(self) -> bool:
        """Whether the input is another array than the result."""
        if isinstance(self.whole, CholeskyProblem):
            return not self.whole.in_place
        return self.source is not None

    @property
    def n(self) -> int:
        """Rows of L."""
        return self.whole.n

    @property
    def m(self) -> int:
        """Columns of the result."""
        return self.n if isinstance(self.whole, CholeskyProblem) else self.whole.m

    @property
    def operands(self) -> dict[str, Operand]:
        """The operands by their names in the kernel."""
        p = self.whole
        if isinstance(p, CholeskyProblem):
            return {"l": p.l} if p.in_place else {"c": p.a, "l": p.l}
        return {"l": p.l, "v": p.b} | ({"c": self.source} if self.source else {})

    @property
    def order(self) -> list[str]:
        """The names of the operands in the order of a call."""
        if self.factorises:
            return [*self.operands]
        return ["l", "c", "v"] if self.source else ["l", "v"]


def cholesky_spec(
    problem: CholeskyProblem, policy: CholeskyPolicy, target: Target, ragged: bool = False
) -> Specialization:
    """Render the kernel of small factorisations; ``ragged``: a table has sizes and offsets."""
    policy.check(target, problem.elem)
    return specialize(
        "factor/cholesky",
        target,
        {"cholesky": cholesky_parameters(problem, ragged)},
        problem=problem,
        policy=policy,
        in_place=problem.in_place,
        ragged=ragged,
        by_rows=step(problem.l.col, problem.n) <= step(problem.l.row, problem.n),
    )


def solve_spec(
    problem: SolveProblem,
    policy: SolvePolicy,
    target: Target,
    ragged: bool = False,
    source: Operand | None = None,
) -> Specialization:
    """Render the kernel of solves with small triangles.

    Args:
        problem, policy, target: The problem, its policy, and the device.
        ragged: Whether a table has sizes and offsets.
        source: B, if it is another array than X.
    """
    policy.check(target, problem.elem)
    b = problem.b
    # step() is the distance of neighbours along an axis; of an axis of one element, infinity.
    by_rows = step(b.col, problem.m) <= step(b.row, problem.n)
    return specialize(
        "factor/solve",
        target,
        {"solve": solve_parameters(problem, ragged, source is not None)},
        problem=problem,
        policy=policy,
        by_rows=by_rows,
        ragged=ragged,
        source=source,
    )


def tiles_spec(problem: TiledProblem, target: Target) -> Specialization:
    """Render the kernel of factorisations and solves by tiles in one launch."""
    p = problem.whole
    # P has rows s of L, and Q rows f of V, which is L, or X with its axes exchanged: *_along says
    # whether neighbouring work-items read along k.
    v = p.l if isinstance(p, CholeskyProblem) else replace(p.b, row=p.b.col, col=p.b.row)
    parameters = tiles_parameters(p.elem, len(p.batch), problem.factorises, problem.separate)
    spec = specialize(
        "factor/tiles",
        target,
        {"tiles": parameters},
        problem=p,
        factorise=problem.factorises,
        in_fronts=False,
        paired=problem.paired,
        panels=panels(p.elem, target),
        adds=False,
        separate=problem.separate,
        unit=isinstance(p, SolveProblem) and p.unit,
        conj=p.elem.complex and (problem.factorises or p.l.conj),
        p_along=abs(p.l.col) <= abs(p.l.row),
        q_along=abs(v.col) <= abs(v.row),
        by_columns=abs(v.col) <= abs(v.row),
        item_rows=4 if p.elem.complex else 8,
        mma=on_matrix_units(p.elem, target),
    )
    crowded = problem.groups > _CROWDED * target.compute_units
    if not problem.paired or p.elem.itemsize > 4 or not crowded:
        return spec
    limit = target.register_limit(tile_registers(p.elem))
    return replace(spec, options=(*spec.options, *limit))


#: Groups of a factorisation for each compute unit above which two should be resident at a time.
#: Measured: docs/experiments/linalg.md, "Constants".
_CROWDED = 8


def vector_spec(problem: TiledProblem, target: Target) -> Specialization:
    """Render the kernel of solves for few columns."""
    p = problem.whole
    return specialize(
        "factor/vector",
        target,
        {"vector": vector_parameters(p.elem, len(p.batch), problem.separate)},
        problem=p,
        separate=problem.separate,
        along=step(p.l.col, p.n) <= step(p.l.row, p.n),
    )
