"""Products with few rows or columns: by matrix units, or as a gemv of one vector or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.ops.gemm.path import GemmPath
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.skinny_mma import SkinnyMma, finish
from portable_gpu.ops.gemv.plan import GemvPlan
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target

#: The most rows, or columns, of C on a GPU: a work-item has registers for the sums of so many.
MOST_VECTORS = 8


def upright(problem: GemmProblem) -> GemmProblem:
    """The problem or its transpose: at least as many rows as columns."""
    return problem.transpose() if problem.n > problem.m else problem


def is_skinny(problem: GemmProblem, target: Target) -> bool:
    """Whether the product can be taken for a gemv of few vectors; on a CPU, of one.

    Products of bool cannot: gemv adds, and 256 times true is false in a byte.
    """
    p, most = problem, 1 if target.is_cpu else MOST_VECTORS
    few = p.b if p.n <= p.m else p.a
    return (
        min(p.m, p.n) <= most
        and p.k > 0
        and not p.batch
        and not few.conj
        and p.a.elem == p.b.elem == p.c.elem
        and not p.compute.boolean
    )


def is_better_tiled(problem: GemmProblem, target: Target) -> bool:
    """Whether tiles are better for a product that :func:`is_skinny`, on a GPU.

    Where several vectors lie interleaved beside rows along k, lanes would each pick their elements
    out of another line: 8 x 7784 x 2979 TT took ten times as long on an H200.
    """
    few = as_gemv(upright(problem)).forwards()
    return not target.is_cpu and few.vectors > 2 and few.by_rows and abs(few.x_step) != 1


def as_gemv(problem: GemmProblem, aligned: bool = True) -> GemvProblem:
    """A skinny product of at least as many rows as columns: C's columns are the vectors.

    Args:
        problem: The product.
        aligned: Whether buffers start at multiples of 16 bytes.
    """
    p = problem
    a_aligned, x_aligned = (
        operand.aligned_bytes if aligned else operand.elem.itemsize for operand in (p.a, p.b)
    )
    return GemvProblem(
        p.a.elem, p.m, p.k, p.a.row, p.a.col, p.b.row, p.c.row, p.a.conj, a_aligned, x_aligned,
        vectors=p.n, x_pitch=p.b.col, y_pitch=p.c.col, finish=finish(p),
    )  # fmt: skip


class SkinnyGemm:
    """One launch that reads the large operand once.

    Attributes:
        by_units: Whether matrix units multiply.
    """

    def __init__(self, few: GemmPath, exchanged: bool) -> None:
        """A product; ``exchanged`` says whether ``few`` computes its transpose."""
        self._few = few
        self._exchanged = exchanged
        self.by_units = isinstance(few, SkinnyMma)

    @classmethod
    def by_gemv(cls, engine: Engine, problem: GemmProblem) -> SkinnyGemm:
        """A product that :func:`is_skinny`, as a gemv of several vectors."""
        few = as_gemv(upright(problem), not engine.maps_host_memory)
        return cls(GemvPlan(engine, few), problem.n > problem.m)

    @classmethod
    def by_matrix_units(cls, engine: Engine, problem: GemmProblem) -> SkinnyGemm:
        """A product whose upright form :func:`skinny_mma.takes`."""
        return cls(SkinnyMma(engine, upright(problem)), problem.n > problem.m)

    def enqueue(
        self,
        alpha: Any,
        beta: Any,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """Enqueue the product; arguments as for the other paths."""
        if self._exchanged:
            a, b, *out = buffers
            at_a, at_b, *at_out = offsets
            buffers, offsets = (b, a, *out), (at_b, at_a, *at_out)
        return self._few.enqueue(alpha, beta, state, buffers, offsets, wait_for)
