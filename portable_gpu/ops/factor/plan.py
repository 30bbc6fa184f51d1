"""The plans of factorisations, solves and copies that take one launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

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
from portable_gpu.ops.gemm.operands import extents, offsets, strides
from portable_gpu.ops.gemm.problem import Operand, step
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target


class CholeskyPlan(OneLaunch):
    """A factorisation by one work-group for each matrix.

    Operands: A unless L replaces it, L, and the report.  The scalar is the index of the first
    column.
    """

    _scalars = (0,)

    def __init__(self, engine: Engine, problem: CholeskyProblem, policy: CholeskyPolicy) -> None:
        """Build the kernel; matrices have at most ``policy.size`` columns."""
        p = problem
        self.flop, self.bytes = p.flop, p.bytes
        operands = {"l": p.l} if p.in_place else {"a": p.a, "l": p.l}
        constants = {"n": p.n, "count": p.count, **strides(operands), **extents(p.batch)}
        groups, size = -(-p.count // policy.together), policy.group_size
        self._launch = engine.programs.launch(
            cholesky_text(p, policy, engine.target),
            "cholesky",
            constants,
            [*operands, "report"],
            ["first", *offsets([*operands, "report"])],
            (groups * size,),
            (size,),
        )


class SolvePlan(OneLaunch):
    """A solve with small triangles.

    Operands: L, B unless X overwrites it, X, and the report if there is one.
    """

    def __init__(
        self,
        engine: Engine,
        problem: SolveProblem,
        policy: SolvePolicy,
        source: Operand | None = None,
    ) -> None:
        """Build the kernel; triangles have at most ``policy.rows`` columns."""
        p = problem
        self.flop, self.bytes = p.flop, p.bytes
        groups, stacks = -(-p.m // policy.columns), -(-p.count // policy.together)
        size = policy.group_size
        constants = {"n": p.n, "m": p.m, "groups": groups, "count": p.count, **extents(p.batch)}
        operands = {"l": p.l} | ({} if source is None else {"c": source}) | {"b": p.b}
        buffers = [*operands, *(["report"] if p.reports else [])]
        self._launch = engine.programs.launch(
            solve_text(p, policy, engine.target, source=source),
            "solve",
            constants | strides(operands),
            buffers,
            offsets(buffers),
            (groups * stacks * size,),
            (size,),
        )


class TilesPlan(OneLaunch):
    """A factorisation or a solve in one launch with a work-group for each tile.

    Operands and scalar of a factorisation: see :class:`CholeskyPlan`.  Operands of a solve: L, B
    unless X overwrites it, and X; it has no scalar.
    """

    def __init__(self, engine: Engine, problem: TiledProblem) -> None:
        """Build the kernel."""
        p = problem
        self.flop, self.bytes = p.whole.flop, p.whole.bytes
        rows, columns = -(-p.n // TILE), -(-p.m // TILE)
        self._flags = p.tiles * p.whole.count
        operands = p.operands
        report = ["report"] if p.factorises else []
        self._launch = engine.programs.launch(
            tiles_text(p, engine.target),
            "tiles",
            {
                "n": p.n, "m": p.m, "tiles_s": rows, "tiles_f": columns, "count": p.whole.count,
                **strides(operands), **extents(p.whole.batch),
            },
            [*p.order, *report, "counters"],
            [*(["first"] if p.factorises else []), *offsets([*p.order, *report])],
            (p.groups * _TILE_GROUP,),
            (_TILE_GROUP,),
        )  # fmt: skip
        self._scalars = (0,) if p.factorises else ()

    def _buffers(self, state: QueueState, operands: Sequence[Any]) -> Sequence[Any]:
        counters, _ = state.counters_and_partials(2 + self._flags, 0)
        return *operands, counters


class VectorPlan(OneLaunch):
    """A solve for few columns in one launch with a work-group for each 64 rows of each column.

    Operands: see :class:`TilesPlan`.
    """

    def __init__(self, engine: Engine, problem: TiledProblem) -> None:
        """Build the kernel."""
        p = problem
        self.flop, self.bytes = p.whole.flop, p.whole.bytes
        blocks = -(-p.n // TILE)
        groups = blocks * p.m * p.whole.count
        cells = cells_of(groups, p.whole.elem)
        self._counters = 2 + 2 * cells  # ticket, count, and two words for each cell
        self._launch = engine.programs.launch(
            vector_text(p, engine.target),
            "vector",
            {
                "n": p.n, "m": p.m, "blocks": blocks, "groups": groups, "cells": cells,
                **strides(p.operands), **extents(p.whole.batch),
            },
            [*p.order, "counters"],
            offsets(p.order),
            (groups * _TILE_GROUP,),
            (_TILE_GROUP,),
        )  # fmt: skip

    def _buffers(self, state: QueueState, operands: Sequence[Any]) -> Sequence[Any]:
        counters, _ = state.counters_and_partials(self._counters, 0)
        return *operands, counters


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


def cholesky_text(
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


def solve_text(
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


def tiles_text(problem: TiledProblem, target: Target) -> Specialization:
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


def vector_text(problem: TiledProblem, target: Target) -> Specialization:
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
