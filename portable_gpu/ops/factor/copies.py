"""Copies of matrices, and of triangles, between strides."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.factor.kernels import copy_parameters
from portable_gpu.ops.gemm.operands import extents, strides
from portable_gpu.ops.gemm.problem import Operand, step
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target

_COPY_LINES, _COPY_LINE = 8, 64
#: The tile of a copy on CPUs: 64 KiB of float32 are read, and 64 KiB are written.
_CPU_TILE = 256, 64


@dataclass(frozen=True)
class CopyProblem:
    """A stack of (m, n) matrices, copied to other strides.

    Attributes:
        m, n, batch: Extents.
        source, target: Their strides.
        triangle: Whether only the lower triangle is read, and zeros are written above it.
        inverse: Columns of the diagonal blocks of an inverse by halves, for which diagonal blocks
            are the identity and blocks below are negated; else 0.
    """

    m: int
    n: int
    batch: tuple[int, ...]
    source: Operand
    target: Operand
    triangle: bool = False
    inverse: int = 0

    @property
    def by_rows(self) -> bool:
        """Whether the elements of a row of the target are closer than those of a column."""
        return step(self.target.col, self.n) <= step(self.target.row, self.m)


def copy_plan(engine: Engine, problem: CopyProblem) -> OneLaunch:
    """Return the plan of a copy; operands: source and target."""
    p = problem
    length, count = (p.n, p.m) if p.by_rows else (p.m, p.n)
    by_tiles = _by_cpu_tiles(p, engine.target)
    line, lines = _CPU_TILE if by_tiles else (_COPY_LINE, _COPY_LINES)
    pieces, bands = -(-length // line), -(-count // lines)
    size = 1 if by_tiles else _COPY_LINE
    constants = {
        "length": length, "count": count, "pieces": pieces, "bands": bands,
        **({"triangle": p.triangle} if by_tiles else {}),
        **strides({"from": p.source, "to": p.target}), **extents(p.batch),
    }  # fmt: skip
    return OneLaunch(
        engine, copy_spec(p, engine.target), "copy", constants, ["from", "to"],
        (pieces * bands * prod(p.batch) * size,), (size,),
        nbytes=2 * prod(p.batch) * p.m * p.n * p.source.elem.itemsize,
    )  # fmt: skip


def _by_cpu_tiles(problem: CopyProblem, target: Target) -> bool:
    return target.is_cpu and not problem.inverse


def copy_spec(problem: CopyProblem, target: Target) -> Specialization:
    """Render the kernel of copies."""
    by_tiles = _by_cpu_tiles(problem, target)
    kernels = {"copy": copy_parameters(problem.source.elem, len(problem.batch), by_tiles)}
    if by_tiles:
        piece, lines = _CPU_TILE
        return specialize(
            "factor/cpu_copy",
            target,
            kernels,
            source=problem.source,
            by_rows=problem.by_rows,
            rank=len(problem.batch),
            piece=piece,
            lines=lines,
        )
    return specialize(
        "factor/copy",
        target,
        kernels,
        source=problem.source,
        triangle=problem.triangle,
        inverse=problem.inverse,
        by_rows=problem.by_rows,
        rank=len(problem.batch),
        size=_COPY_LINE,
        lines=_COPY_LINES,
    )
