"""Products of parts of k in float32, and the launch that adds them.

If work-groups share a tile, one of them adds the sums of all.  Here all compute units add, so this
is faster if a tile has many parts.
"""

from __future__ import annotations

from dataclasses import replace

from portable_gpu.arguments import MAX_INT
from portable_gpu.codegen.reductions.request import Request
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.ops.gemm.matrix.format import F32
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.reduce.problem import Problem
from portable_gpu.ops.reduce.variants import variants as sum_variants
from portable_gpu.ops.variant import Variant, best_of, bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps, Temporary
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable


def takes_sum_of_parts(p: GemmProblem) -> bool:
    """Whether the sum of parts is all of C: nothing is added to it, and nothing follows.

    The kernel has the ranges of k as 32-bit integers.
    """
    plain = not (p.batch or p.k_parts or p.triangle or p.reads_c or p.epilogue)
    return plain and p.compute == F32 and p.c.reader is None and p.k <= MAX_INT


def in_parts(p: GemmProblem, parts: int, transposed: bool, depth: int) -> GemmProblem:
    """Return the products of parts of k, which are stored one after the other.

    Args:
        p: The product.
        parts: The number of parts, at most that of the steps.
        transposed: Whether the transposed product is computed, whose rows are stored.
        depth: Elements of k of a step of the matrix unit; every part but the last has whole steps.
    """
    steps = -(-p.k // depth)
    share, longer = divmod(steps, parts)
    lengths = [depth * (share + (part < longer)) for part in range(parts)]
    lengths[-1] -= steps * depth - p.k
    row, col = (1, p.m) if transposed else (p.n, 1)
    c = Operand(F32, row, col, (p.m * p.n,), False, 16 if (row * col) % 4 == 0 else 4)
    a, b = (replace(operand, batch=(0,)) for operand in (p.a, p.b))
    return replace(p, a=a, b=b, c=c, batch=(parts,), k_parts=tuple(lengths))


def sum_of_parts(p: GemmProblem, parts: GemmProblem) -> Problem:
    """Return the sum of the products of parts, stored as C is."""
    c = parts.c
    return Problem(
        Request("sum", F32, F32, p.c.elem), (*parts.batch, p.m, p.n), ((*c.batch, c.row, c.col),),
        frozenset((0,)), (p.c.row, p.c.col), 16,
    )  # fmt: skip


def added(
    products: Variant, problem: GemmProblem, parts: GemmProblem, target: Target, table: TuningTable
) -> Variant:
    """Return the variant that computes products of parts of k, and adds them.

    Args:
        products: The variant that computes them.  Its estimate includes the sum.
        problem: The product.
        parts: The products of parts.
        target, table: The target and the tuning table.
    """
    total = sum_of_parts(problem, parts)
    (count,) = parts.batch
    space = Temporary("parts", 4 * count * problem.m * problem.n, 4)

    def bind(engine: Engine) -> Plan:
        adding = bind_best(engine, sum_variants(total, engine.target, engine.table))
        product = Step(products.bind(engine), (0, 1, space), takes_scalars=True)
        return Steps([product, Step(adding, (space, 2))])

    def texts() -> list[Specialization]:
        adding = best_of(sum_variants(total, target, table), target)
        return [*products.texts(), *adding.texts()]

    suffix = f"{count} parts added"
    return replace(
        products,
        name=f"{products.name}, {suffix}",
        kind=f"{products.kind}, parts added",
        launches=products.launches + 1,
        why=f"{products.why}; {count} products of parts of k, which a second launch adds",
        texts=texts,
        bind=bind,
        decision=f"{products.decision}, {suffix}" if products.decision else "",
        details={**products.details, "parts of k": count},
    )
