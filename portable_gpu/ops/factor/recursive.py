"""Recursive factorisations and solves by halves: small blocks on the diagonal, products elsewhere.

::

    +-----+           L = cholesky(A):  L11 = cholesky(A11)        X = L^-1 B:  X1 = L11^-1 B1
    | 11  |                             L21 = A21 L11^-H                        B2 - L21 X1
    +-----+-----+                       A22 - L21 L21^H                         X2 = L22^-1 B2
    | 21  | 22  |                       L22 = cholesky(A22)
    +-----+-----+

Halves are halved again, down to blocks that one launch computes.  The number of blocks of the first
half is the largest power of two, so that the products have few different shapes.

Source: Gustavson, IBM J. Res. Dev. 41(6), 1997; Higham, Accuracy and Stability, 2002, 8.1, 10.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.runtime.plan import Part, Plan, Step, Temporary

#: Positions of operands, in the whole of each kind.
_L, _B = 0, 1


@dataclass(frozen=True)
class SubPlans:
    """The factory of sub-plans, each of which is made once.

    Attributes:
        cholesky, solve, product: Plan a problem of one launch, or any product.
        block: Columns of the largest factorisation that is not halved.
        solved: Rows of the largest solve that is not halved.
    """

    cholesky: Callable[[CholeskyProblem], Plan]
    solve: Callable[[SolveProblem], Plan]
    product: Callable[[GemmProblem], Plan]
    block: int
    solved: int


def half(n: int, block: int) -> int:
    """The columns of the first half of n: the largest power of two of blocks below n."""
    first = block
    while 2 * first < n:
        first *= 2
    return first


def cholesky_steps(problem: CholeskyProblem, parts: SubPlans, origin: int = 0) -> list[Step]:
    """The steps of a factorisation in place; operands: L and the report.

    ``origin`` is the index of the first column in a larger matrix.
    """
    steps: list[Step] = []

    def factorise(first: int, n: int) -> None:
        at = first * (problem.l.row + problem.l.col)
        if n <= block:
            plan = parts.cholesky(replace(problem, n=n))
            steps.append(Step(plan, (Part(_L, at), 1), scalars=(origin + first,)))
            return
        n1 = half(n, block)
        n2 = n - n1
        factorise(first, n1)
        below = at + n1 * problem.l.row
        a21 = problem.l
        solve = SolveProblem(
            n=n1, m=n2, batch=problem.batch, l=_conjugate(problem.l), b=_transposed(a21),
            precision=problem.precision, aligned=problem.aligned,
        )  # fmt: skip
        steps.extend(_within(solve_steps(solve, parts), Part(_L, at), Part(_L, below)))
        update = GemmProblem(
            m=n2, n=n2, k=n1, batch=problem.batch, a=a21, b=_conjugate(_transposed(a21)),
            c=problem.l, compute=problem.elem, reads_c=True, precision=problem.precision,
            aligned=problem.aligned, triangle="lower",
        )  # fmt: skip
        after = at + n1 * (problem.l.row + problem.l.col)
        places = (Part(_L, below), Part(_L, below), Part(_L, after))
        steps.append(Step(parts.product(update), places, scalars=(-1.0, 1.0)))
        factorise(first + n1, n2)

    block = parts.block
    factorise(0, problem.n)
    return steps


def solve_steps(problem: SolveProblem, parts: SubPlans) -> list[Step]:
    """The steps of a solve; operands: L and B."""
    p = problem
    steps: list[Step] = []

    def solve(first: int, n: int) -> None:
        if n <= block:
            forward, at, rows = replace(p, n=n).forwards()
            block_of_l = Part(_L, at + first * diagonal)
            rows_of_b = Part(_B, rows + first * p.b.row)
            steps.append(Step(parts.solve(forward), (block_of_l, rows_of_b)))
            return
        n1 = half(n, block)
        halves = ((first, n1), (first + n1, n - n1))
        known, rest = halves if p.lower else halves[::-1]
        solve(*known)
        update = GemmProblem(
            m=rest[1], n=p.m, k=known[1], batch=p.batch, a=p.l, b=p.b, c=p.b, compute=p.elem,
            reads_c=True, precision=p.precision, aligned=p.aligned,
        )  # fmt: skip
        between = rest[0] * p.l.row + known[0] * p.l.col
        places = (Part(_L, between), Part(_B, known[0] * p.b.row), Part(_B, rest[0] * p.b.row))
        steps.append(Step(parts.product(update), places, scalars=(-1.0, 1.0)))
        solve(*rest)

    block, diagonal = parts.solved, p.l.row + p.l.col
    solve(0, p.n)
    return steps


def inverse_steps(problem: SolveProblem, parts: SubPlans) -> list[Step]:
    """The steps of an inverse; operands: L and X.

    The diagonal blocks of X are initialised with the identity, and the blocks below them with -L:
    see ``cl_kernels/factor/copy``.  Then ``X21 = L22^-1 (-L21) L11^-1``, and the diagonal halves
    are inverted recursively, so that every product is of full blocks: n^3 / 3 flop.
    """
    p = problem
    steps: list[Step] = []

    def invert(first: int, n: int) -> None:
        at, to = first * diagonal, first * (p.b.row + p.b.col)
        if n <= block:
            plan = parts.solve(replace(p, n=n, m=n))
            steps.append(Step(plan, (Part(_L, at), Part(_B, to))))
            return
        n1 = half(n, block)
        n2 = n - n1
        right = replace(p, n=n1, m=n2, l=_transposed(p.l), b=_transposed(p.b), lower=False)
        left = replace(p, n=n2, m=n1)
        below = Part(_B, to + n1 * p.b.row)
        steps.extend(_within(solve_steps(right, parts), Part(_L, at), below))
        steps.extend(_within(solve_steps(left, parts), Part(_L, at + n1 * diagonal), below))
        invert(first, n1)
        invert(first + n1, n2)

    block, diagonal = parts.solved, p.l.row + p.l.col
    invert(0, p.n)
    return steps


def _within(steps: list[Step], *parts: Part) -> list[Step]:
    """Return steps of a solve with its operands replaced by parts of larger ones."""

    def located(operand: int | Temporary | Part) -> int | Temporary | Part:
        if isinstance(operand, Part) and isinstance(operand.of, int):
            part = parts[operand.of]
            return Part(part.of, part.start + operand.start)
        return operand

    return [replace(step, operands=tuple(map(located, step.operands))) for step in steps]


def _transposed(operand: Operand) -> Operand:
    return replace(operand, row=operand.col, col=operand.row)


def _conjugate(operand: Operand) -> Operand:
    return replace(operand, conj=operand.elem.complex and not operand.conj)
