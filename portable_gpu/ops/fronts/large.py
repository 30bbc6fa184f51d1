"""A large front by the plans of dense matrices, once it is assembled.

::

        c       u                 L11 = cholesky(A11)
    +-------+                     L21 = A21 L11^-H
  c |  L11  .                     U: three products, of the packed form's triangles and rectangle:
    +-------+---+                    U11 - A A^H,  U21 - B A^H,  U22 - B B^H
    |   A   |11 |
  u +-------+---+---+
    |   B   |21 |22 |
    +-------+---+---+
"""

from __future__ import annotations

from dataclasses import replace

from portable_gpu.ops.factor.packed import aligned
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.factor.recursive import Parts
from portable_gpu.ops.fronts.device import FACTOR, DeviceFronts
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.runtime.plan import Part, Step


def large_steps(device: DeviceFronts, s: int, parts: Parts, precision: str) -> list[Step]:
    """The steps that factorise one assembled front and form its update.

    Args:
        device, s: The front.
        parts: What makes the plans of parts.
        precision: Of the products of float32.
    """
    fronts, elem = device.fronts, device.elem
    c, u = int(fronts.columns[s]), int(fronts.rows[s])
    ld, panel, update = int(device.leading[s]), int(device.panel[s]), int(device.update[s])
    rows = aligned(Operand(elem, ld, 1))
    factor = CholeskyProblem(c, (), rows, rows, in_place=True, precision=precision)
    steps = [Step(parts.cholesky(factor), (Part(FACTOR, panel), Part(device.told, 2 * s)))]
    if not u:
        return steps
    below = panel + c * ld
    across = replace(rows, row=1, col=ld)
    conj = replace(across, conj=elem.complex)
    solve = SolveProblem(
        n=c, m=u, batch=(), l=replace(rows, conj=elem.complex), b=across, precision=precision
    )
    steps.append(Step(parts.solve(solve), (Part(FACTOR, panel), Part(FACTOR, below))))
    w, e = (u + 1) // 2, 1 - u % 2

    def product(m: int, n: int, a: int, b: int, to: int, row: int, col: int) -> None:
        """Of rows a .. a + m and b .. b + n; where a is b, of the lower triangle."""
        start = elem.itemsize * (update + to)
        problem = GemmProblem(
            m=m, n=n, k=c, batch=(), a=rows, b=conj,
            c=aligned(Operand(elem, row, col), start), compute=elem, reads_c=True,
            precision=precision, triangle="lower" if a == b else "",
        )  # fmt: skip
        places = (
            Part(FACTOR, below + a * ld), Part(FACTOR, below + b * ld),
            Part(device.arena, update + to),
        )  # fmt: skip
        steps.append(Step(parts.product(problem), places, scalars=(-1.0, 1.0)))

    product(w, w, 0, 0, e * w, w, 1)
    if u > w:
        product(u - w, w, w, 0, (w + e) * w, w, 1)
        product(u - w, u - w, w, w, 1 - e, 1, w)
    return steps
