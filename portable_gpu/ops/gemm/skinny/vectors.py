"""Products with few rows or columns: by matrix units, or as a gemv of one vector or several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from portable_gpu.ops.gemm.matrix.check import works_on_few_columns
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.skinny import fragments
from portable_gpu.ops.gemm.skinny.fragments import finish
from portable_gpu.ops.gemv import variants as gemv
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.variant import Variant
from portable_gpu.runtime.plan import Plan, Step, Steps
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

#: The most rows, or columns, of C on a GPU: a work-item has registers for the sums of so many.
MOST_VECTORS = 8


def with_few_columns(problem: GemmProblem) -> GemmProblem:
    """The problem or its transpose: at least as many rows as columns."""
    return problem.transpose() if problem.n > problem.m else problem


def is_skinny(problem: GemmProblem, target: Target) -> bool:
    """Whether the product can be taken for a gemv of few vectors; on a CPU, of one.

    Products of bool cannot: gemv adds, and 256 times true is false in a byte.  Its epilogue reads
    arrays by two strides.
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
        and not any(extra.reader for extra in p.extras)
    )


def as_gemv(problem: GemmProblem) -> GemvProblem:
    """A skinny product of at least as many rows as columns: C's columns are the vectors."""
    p = problem
    a_aligned, x_aligned = (
        operand.aligned_bytes if p.aligned else operand.elem.itemsize for operand in (p.a, p.b)
    )
    return GemvProblem(
        elem=p.a.elem, m=p.m, n=p.k, a_out=p.a.row, a_sum=p.a.col, x_step=p.b.row, y_step=p.c.row,
        conj=p.a.conj, a_aligned=a_aligned, x_aligned=x_aligned, vectors=p.n, x_pitch=p.b.col,
        y_pitch=p.c.col, finish=finish(p),
    )  # fmt: skip


def variants(problem: GemmProblem, target: Target, table: TuningTable) -> Iterator[Variant]:
    """Yield the variants of one launch that read the large operand once, without packing it."""
    if problem.triangle:
        return
    few = with_few_columns(problem)
    if fragments.takes(few, target):
        yield _transposing(
            fragments.variant(few, target, table), problem,
            works=partial(works_on_few_columns, problem=few),
        )  # fmt: skip
    if is_skinny(problem, target):
        vectors = as_gemv(few).forwards()
        slowdown = _slowdown(vectors, target)
        for item in gemv.variants(vectors, target, table):
            yield _transposing(replace(item, estimate=item.estimate * slowdown), problem)


def _slowdown(few: GemvProblem, target: Target) -> float:
    """Return the factor of the time for several vectors that are not contiguous along k."""
    if target.is_cpu or few.vectors <= 2 or not few.by_rows or abs(few.x_step) == 1:
        return 1.0
    costs = gemv.GemvCosts.of("gemv", target)
    return costs.interleaved if few.x_pitch == 1 else costs.apart


def _transposing(variant: Variant, problem: GemmProblem, **fields: Any) -> Variant:
    """Return a variant of the problem with swapped operands, for the problem itself."""
    if problem.n <= problem.m:
        return replace(variant, **fields)
    extras = len(problem.extras)
    return replace(variant, bind=lambda engine: transposed(variant.bind(engine), extras), **fields)


def transposed(plan: Plan, extras: int = 0) -> Plan:
    """Return the plan of a product by that of its transpose, with A and B exchanged.

    Operands: a, b, the epilogue's arrays, of which there are ``extras``, and c; scalars: alpha and
    beta.
    """
    return Steps([Step(plan, (1, 0, *range(2, 3 + extras)), takes_scalars=True)])
