"""Factorisation of a large, assembled front by plans of factorisations, solves and products."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from portable_gpu.ops.factor.packed import aligned
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.factor.recursive import SubPlans
from portable_gpu.ops.fronts.device import ARENA, FACTOR, PIVOT_STATUS, DeviceFronts
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.runtime.plan import Part, Step


def front_steps(parts: SubPlans, device: DeviceFronts, number: int) -> list[Step]:
    """Return the steps of one front: a factorisation, a solve, and three products.

    ::

            c     w    u - w
        +-----+
     c  | L11 |               L11 = cholesky(F11)      L21 = F21 L11^-H
        +-----+-----+
     w  |     |  A  |         A, B, C: U - L21 L21^H; A and C are triangles, B is a rectangle.  C is
        | L21 +-----+-----+   stored above A and B, transposed.
        |     |  B  |  C  |
        +-----+-----+-----+

    Args:
        parts: The factory of plans.
        device: The fronts.
        number: The number of the front.
    """
    elem, is_aligned = device.elem, not device.engine.maps_host_memory
    c, u = int(device.fronts.columns[number]), int(device.fronts.rows[number])
    panel, update = int(device.panel[number]), int(device.update[number])
    leading = int(device.leading[number])

    def operand(row: int, col: int, start: int) -> Operand:
        return aligned(Operand(elem, row, col), gcd(16, start * elem.itemsize))

    lower = operand(leading, 1, panel)
    factor = CholeskyProblem(c, (), lower, lower, in_place=True, aligned=is_aligned)
    steps = [Step(parts.cholesky(factor), (Part(FACTOR, panel), Part(PIVOT_STATUS, 2 * number)))]
    if not u:
        return steps
    below = panel + c * leading
    conjugate = replace(lower, conj=elem.complex)
    solve = SolveProblem(c, u, (), conjugate, operand(1, leading, below), aligned=is_aligned)
    steps.append(Step(parts.solve(solve), (Part(FACTOR, panel), Part(FACTOR, below))))

    def product(i: int, j: int, rows: int, columns: int, row: int, col: int, start: int) -> None:
        """Append the product for rows from i on and columns from j on, stored from ``start``."""
        if not rows or not columns:
            return
        left, right = below + i * leading, below + j * leading
        a, b = operand(leading, 1, left), operand(1, leading, right)
        problem = GemmProblem(
            m=rows, n=columns, k=c, batch=(), a=a, b=replace(b, conj=elem.complex),
            c=operand(row, col, update + start), compute=elem, reads_c=True, aligned=is_aligned,
            triangle="lower" if i == j else "",
        )  # fmt: skip
        places = (Part(FACTOR, left), Part(FACTOR, right), Part(ARENA, update + start))
        steps.append(Step(parts.product(problem), places, scalars=(-1.0, 1.0)))

    # The update is packed as a rectangle with rows of w elements, and A begins in its row e: see
    # :mod:`portable_gpu.ops.fronts.table`.
    w, e = (u + 1) // 2, 1 - u % 2
    product(0, 0, w, w, w, 1, e * w)
    product(w, 0, u - w, w, w, 1, (w + e) * w)
    product(w, w, u - w, u - w, 1, w, 1 - e)
    return steps
